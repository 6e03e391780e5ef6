"""The health of a GPUJob in Argo CD (Lua, run by a Lua interpreter) and in Flux: every state has one, as the page says it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lupa
import pytest
import yaml

from gpujob.values.vocabulary import State

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


def test_flux_reads_each_state_once() -> None:
    (text,) = re.findall(r"^```\n(spec:\n.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (check,) = yaml.safe_load(text)["spec"]["healthCheckExprs"]
    said = {name: set(re.findall(r"'(\w+)'", check[name])) for name in ("inProgress", "failed", "current")}
    meant = {"inProgress": {"Progressing"}, "failed": {"Degraded"}, "current": {"Healthy", "Suspended"}}
    assert said == {name: {str(state) for state in State if HEALTH[state] in meant[name]} for name in meant}
