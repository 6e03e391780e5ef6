"""What the preflight of a pod found becomes the job's condition; the runner is there before it, and gone after it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpujob.render.runner import Runner
from gpujob.render.runner_files import load_runner
from gpujob.values.vocabulary import Label
from tests.e2e.api_server import JOBS, ApiServer, AuditLog
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e

CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
NO_PYTHON = json.dumps({"gpujob": 1, "findings": [{"reason": "NoInterpreter"}]})
TOO_LITTLE = json.dumps(
    {
        "gpujob": 1,
        "findings": [
            {"reason": "MemBelowRequest", "device": 1, "name": "NVIDIA L4", "free": 4 << 30, "total": 23 << 30,
             "wanted": 20 << 30}
        ],
    }
)  # fmt: skip


def test_a_preflight_that_passes_costs_no_write(
    operator: OperatorProcess, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    fleet(l4=1)
    mark = audit.now()
    team.submit("fine", runs_for="1s")
    team.until("fine", "Succeeded")
    eventually(lambda: team.told("fine")[1:], what="both events")
    passed = team.condition("fine", "PreflightPassed")
    assert (passed["status"], passed["reason"]) == ("True", "PreflightPassed")
    assert (
        passed["message"]
        == "torch is not in the image: devices only, opened the device nodes of 1 GPU; checked in 0.1 seconds"
    )
    assert audit.writes(mark, team.namespace, "fine") == {"jobs": 1, "gpujobs/status": 2, "events": 2}
    assert audit.writes(mark, team.namespace, "gpujob-runner-") == {"configmaps": 1}


def test_a_failed_preflight_is_the_reason_of_the_job(operator: OperatorProcess, fleet: Fleet, team: Team) -> None:
    (node,) = fleet(l4=1)
    uid = team.submit("tight", found=(4, TOO_LITTLE))
    team.until("tight", "Failed")
    (pod,) = team.pods(uid)
    told = (
        f"pod {pod['metadata']['name']} on node {node}: GPU 1 (NVIDIA L4) has 4Gi of 23Gi free, 20Gi are requested: something "
        "else uses the rest; check the node's processes, or lower gpuMemory"
    )
    for kind, status in (("Failed", "True"), ("PreflightPassed", "False")):
        condition = team.condition("tight", kind)
        assert (condition["status"], condition["reason"], condition["message"]) == (status, "MemBelowRequest", told)


def test_a_warning_lets_the_program_run(operator: OperatorProcess, fleet: Fleet, team: Team) -> None:
    fleet(l4=1)
    team.submit("warned", runs_for="1s", preflight="Warn", found=(0, TOO_LITTLE))
    team.until("warned", "Succeeded")
    condition = team.condition("warned", "PreflightPassed")
    assert (condition["status"], condition["reason"]) == ("False", "MemBelowRequest")


def test_an_image_without_python_gets_one_attempt_without_the_preflight(
    operator: OperatorProcess, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    fleet(l4=1)
    mark = audit.now()
    uid = team.submit("bare", runs_for="1s", found=(3, NO_PYTHON))
    status = team.until("bare", "Succeeded")
    assert status["attempt"] == 2
    (pod,) = team.pods(uid)
    assert "initContainers" not in pod["spec"]
    condition = team.condition("bare", "PreflightPassed")
    assert (condition["status"], condition["reason"]) == ("Unknown", "NoInterpreter")
    assert condition["message"] == (
        "the image has no shell, or no Python from 3.9 on: nothing is checked and nothing measured; attempt 2 runs without "
        "a preflight"
    )
    assert audit.writes(mark, team.namespace, "bare")["jobs"] == 3


def test_nothing_is_checked_where_the_job_says_so(operator: OperatorProcess, fleet: Fleet, team: Team) -> None:
    fleet(l4=1)
    uid = team.submit("trusting", runs_for="1s", preflight="Disabled", found=(4, TOO_LITTLE))
    status = team.until("trusting", "Succeeded")
    (pod,) = team.pods(uid)
    assert "initContainers" not in pod["spec"]
    assert "PreflightPassed" not in {condition["type"] for condition in status["conditions"]}


RUNNER = load_runner()
SWAPS: dict[str, dict[str, Any]] = {
    "other code": {"data": {"gpujob_runner-__init__.py": "import evil"}},
    "a file more": {"data": {**RUNNER.data, "gpujob_runner-evil.py": "import os"}, "immutable": True},
    "bytes more": {"data": RUNNER.data, "binaryData": {"gpujob_runner-evil.pyc": "AAAA"}, "immutable": True},
    "nothing, and fixed": {"immutable": True},
    "the code, to be changed later": {"data": RUNNER.data},
}
"""ConfigMaps of the runner's name that a user made before it."""


@pytest.mark.parametrize("swap", SWAPS)
def test_nothing_is_run_of_a_config_map_that_is_anothers(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, swap: str
) -> None:
    fleet(l4=1)
    name, path = RUNNER.name, CONFIG_MAPS.format(team.namespace)
    api.create(path, {"metadata": {"name": name}, **SWAPS[swap]})
    operator.may_fail_on = "careful"
    team.submit("careful", runs_for="1s")
    status = team.until("careful", "Misconfigured")
    placed = team.condition("careful", "Placed")
    assert (placed["reason"], placed["message"]) == (
        "NameConflict",
        f"a ConfigMap {name} exists in namespace {team.namespace} whose content is not this operator's; nothing of it is "
        "run: delete it, the operator makes its own",
    )
    assert "jobName" not in status
    api.delete(path, name)
    team.until("careful", "Succeeded")
    assert api.get(path, name)["data"] == RUNNER.data


def test_the_runner_goes_when_no_child_needs_it(
    hasty: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team
) -> None:
    fleet(l4=1)
    name, path = load_runner().name, CONFIG_MAPS.format(team.namespace)
    team.submit("short")
    team.until("short", "Running")
    held = api.get(path, name)
    assert held["immutable"] is True
    assert {key for key in held["data"] if not key.endswith((".py", ".sh"))} == set()
    # A user deletes it under a job that runs: its pods may start again on another node, so it is made again.
    api.delete(path, name)
    eventually(lambda: api.find(path, name), 20, what="the runner again")
    team.change("short", suspend=True)
    team.until("short", "Suspended")
    eventually(lambda: api.find(path, name) is None, 90, what="no runner")


def test_the_runner_of_an_earlier_version_goes_when_its_last_child_has_ended(
    operator: OperatorProcess, api: ApiServer, team: Team
) -> None:
    earlier, path = Runner({"gpujob_runner/__init__.py": "version = 'earlier'"}), CONFIG_MAPS.format(team.namespace)
    # As `helm upgrade` leaves the role; it stays so, for the test that compares rights with calls.
    role = api.get(ROLES, "gpujob-operator")
    kept = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [earlier.name], "verbs": ["delete", "get"]}
    api.replace(ROLES, "gpujob-operator", {**role, "rules": [*role["rules"], kept]})
    api.create(path, earlier.config_map(team.namespace))
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {"no": "node"},
        "containers": [{"name": "main", "image": "none"}],
        "volumes": [{"name": "runner", "configMap": {"name": earlier.name}}],
    }
    child = {"name": "of-an-earlier-version", "labels": {Label.JOB_UID: "00000000-0000-4000-8000-000000000000"}}
    spec = {"activeDeadlineSeconds": 1, "backoffLimit": 0, "template": {"spec": pod}}
    api.create(JOBS.format(team.namespace), {"metadata": child, "spec": spec})
    eventually(lambda: api.find(path, earlier.name) is None, 60, what="no earlier runner")
    job = api.get(JOBS.format(team.namespace), "of-an-earlier-version")
    assert {condition["type"] for condition in job["status"]["conditions"]} >= {"Failed"}
