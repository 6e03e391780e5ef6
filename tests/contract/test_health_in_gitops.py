"""The health of a GPUJob in Argo CD (Lua, run by a Lua interpreter), kstatus and Flux: every state has one, as the page says it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import lupa
import pytest
import yaml

from gpujob.values.vocabulary import API_VERSION, State
from tests.e2e.cluster.binaries import GITOPS, build

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "gitops.md").read_text()
(LUA,) = re.findall(r"```lua\n(.*?)```", PAGE, re.DOTALL)
HEALTH = {
    State.QUEUED: "Progressing", State.PLACED: "Progressing", State.STARTING: "Progressing", State.RUNNING: "Progressing",
    State.RESTARTING: "Progressing", State.SUSPENDED: "Suspended", State.SUCCEEDED: "Healthy", State.FAILED: "Degraded",
    State.MISCONFIGURED: "Degraded", State.IMPOSSIBLE: "Degraded",
}  # fmt: skip
"""Of each state, as Argo CD has it of a Job that waits, runs or ended."""
ABOUT = {State.SUCCEEDED: "Complete", State.FAILED: "Failed", State.SUSPENDED: "Suspended", State.RUNNING: "Running"}


def health(status: Any, generation: int = 3) -> tuple[str, str]:
    """Status and message that the Lua of the page gives; without libraries, as Argo CD runs it."""
    runtime = lupa.LuaRuntime(unpack_returned_tuples=True)
    for name in ("os", "io", "require", "package", "debug"):
        runtime.globals()[name] = None
    found: Any = runtime.execute(
        "obj = ...\n" + LUA, _table(runtime, {"metadata": {"generation": generation}, "status": status})
    )
    return found["status"], found["message"]


def _table(runtime: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return runtime.table_from({key: _table(runtime, each) for key, each in value.items() if each is not None})
    return runtime.table_from([_table(runtime, each) for each in value]) if isinstance(value, list) else value


def condition(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "message": f"what {kind} says"}


CONDITIONS = [condition(kind) for kind in ("Placed", "Running", "Complete", "Failed", "Suspended", "PreflightPassed")]


@pytest.mark.parametrize("state", State)
def test_every_state_has_its_health_and_its_sentence(state: State) -> None:
    status = {"state": str(state), "observedGeneration": 3, "conditions": CONDITIONS}
    assert health(status) == (HEALTH[state], f"what {ABOUT.get(state, 'Placed')} says")
    assert health({"state": str(state), "observedGeneration": 3}) == (HEALTH[state], str(state))


@pytest.mark.parametrize("status", [None, {}, {"conditions": []}, {"observedGeneration": 3}])
def test_a_job_without_a_state_waits_for_an_operator(status: Any) -> None:
    assert health(status) == ("Progressing", "no operator has looked at it yet")


def test_a_status_of_an_earlier_generation_says_nothing_of_this_one() -> None:
    status = {"state": "Failed", "observedGeneration": 2, "conditions": CONDITIONS}
    assert health(status) == ("Progressing", "the operator has not looked at the last change yet")


def test_a_state_that_a_later_version_adds_is_no_failure() -> None:
    assert health({"state": "Paused", "observedGeneration": 3})[0] == "Progressing"


def read_by_tools(*statuses: Any) -> list[dict[str, str]]:
    """What kstatus and the expressions of the page make of a GPUJob of generation 3 with each status; None: it has none yet."""
    (text,) = re.findall(r"^```\n(spec:\n.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (check,) = yaml.safe_load(text)["spec"]["healthCheckExprs"]
    kind = {name: check[name] for name in ("apiVersion", "kind")}
    assert kind == {"apiVersion": API_VERSION, "kind": "GPUJob"}
    metadata = {"name": "job", "namespace": "team", "generation": 3}
    objects = [{**kind, "metadata": metadata, **({} if each is None else {"status": each})} for each in statuses]
    asked = {"objects": objects, "expressions": {name: check[name] for name in ("inProgress", "failed", "current")}}
    done = subprocess.run(
        [build(GITOPS) / "gitops"], input=json.dumps(asked), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


MEANT = {"Progressing": "InProgress", "Suspended": "Current", "Healthy": "Current", "Degraded": "Failed"}
"""Flux's word for each of Argo CD's: a suspended job is waited for no longer."""


def test_flux_reads_each_state_as_argo_does() -> None:
    read = read_by_tools(*({"state": str(state), "observedGeneration": 3, "conditions": CONDITIONS} for state in State))
    assert {state: each["flux"] for state, each in zip(State, read, strict=True)} == {
        state: MEANT[HEALTH[state]] for state in State
    }
    # It has no value before there is a status: Flux asks again.
    assert [each["flux"] for each in read_by_tools(None, {"observedGeneration": 3}, {"state": "Paused"})] == [
        "error", "InProgress", "InProgress",
    ]  # fmt: skip


def test_kstatus_knows_a_job_that_was_not_seen_since_its_change_and_one_that_stalls() -> None:
    seen = [{"state": str(state), "observedGeneration": 3, "conditions": CONDITIONS} for state in State]
    assert {each["kstatus"] for each in read_by_tools(None, *seen)} == {"Current"}
    stalled = {"state": "Running", "observedGeneration": 3, "conditions": [condition("Stalled")]}
    before = {"state": "Running", "observedGeneration": 2, "conditions": CONDITIONS}
    assert [each["kstatus"] for each in read_by_tools(before, stalled)] == ["InProgress", "Failed"]
