"""What others wrote into nodes, pools, children and GPUJobs, readable or not, stops no other job and misleads none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.api_server import CRDS, GPUPOOLS, JOBS, NODES, PODS, SERVICES, ApiServer, Refused
from tests.e2e.cluster import eventually, simulated_nodes
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team, pinned_nodes

pytestmark = pytest.mark.e2e


def test_one_object_that_nobody_can_read_stops_no_other(operator: OperatorProcess, fleet: Fleet, team: Team) -> None:
    odd = [*simulated_nodes({"h100": 1, "mi300x": 1, "l4": 1})]
    for number, node in enumerate(odd):
        node["metadata"]["name"] = node["metadata"]["labels"]["kubernetes.io/hostname"] = (
            f"{team.namespace}-odd-{number}"
        )
    labels = odd[0]["metadata"]["labels"]
    labels |= {key: "-".join(["x"] * 30) for key in labels if key.startswith("nvidia.com/")}
    odd[0]["metadata"]["annotations"]["gpujob.dev/price-per-gpu-hour"] = "1e309; DROP TABLE"
    for key in [key for key in odd[1]["metadata"]["labels"] if "amd.com" in key]:
        odd[1]["metadata"]["labels"][key] = "99999999999999999999G" if key.endswith("vram") else "0"
    odd[1]["status"]["allocatable"]["amd.com/gpu"] = "9223372036854775807"
    odd[2]["status"]["allocatable"] |= {"cpu": "1e3", "memory": "123456789123456789123E", "pods": "0"}
    pool = {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPUPool",
        "metadata": {"name": f"{team.namespace}-odd"},
        "spec": {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "nowhere"}}, "accelerator": "QUANTUM9000"},
    }
    good = fleet(a100=1)
    try:
        for node in odd:
            team.api.create(NODES, node)
        team.api.create(GPUPOOLS, pool)
        pod = {"containers": [{"name": "main", "image": "none"}], "nodeName": good[0], "schedulerName": "x" * 63}
        lies = {"gpujob.dev/job-uid": "nobody", "gpujob.dev/attempt": "many"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd", "labels": lies}, "spec": pod}
        team.api.create(PODS.format(team.namespace), body)
        child = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "odd", "labels": lies, "annotations": {"gpujob.dev/placement": "[" * 2000}},
            "spec": {"suspend": True, "template": {"spec": {**pod, "restartPolicy": "Never"}}},
        }
        team.api.create(JOBS.format(team.namespace), child)
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "odd", "labels": lies}}
        team.api.create(SERVICES.format(team.namespace), {**service, "spec": {"clusterIP": "None"}})
        team.submit("asks-too-much", nodes=1024, gpusPerNode=64, gpuMemory="1Pi")
        team.submit("odd-name" + ".x" * 60, requires=["QuantumTunnelling"], args=["ü" * 5000] * 10)
        team.submit("odd-pool", placement={"pools": {"allow": [f"{team.namespace}-odd"]}})
        allow = {"accelerators": {"allow": ["A100-80GB"]}}
        uid = team.submit("good", runs_for="0s", placement=allow)
        team.until("good", "Succeeded")
        assert pinned_nodes(team.jobs(uid)[0]["spec"]["template"]["spec"]) == good
        # What an admin's unreadable pool might be is unknown; but no device has that much memory.
        team.until("asks-too-much", "Impossible")
        team.until("odd-name" + ".x" * 60, "Misconfigured")
        team.until("odd-pool", "Misconfigured")
    finally:
        team.api.delete(PODS.format(team.namespace), "odd")
        team.api.delete(GPUPOOLS, f"{team.namespace}-odd")
        for node in odd:
            team.api.delete(NODES, node["metadata"]["name"])


def test_a_stored_job_that_no_schema_would_take_now_stops_no_other(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team
) -> None:
    fleet(l4=1)
    operator.may_fail_on = "odd-"
    with loosened(api, "gpujobs.gpujob.dev"):
        odd = {"nodes": "many", "gpusPerNode": -3, "command": {"a": 1}, "suspend": "perhaps", "unheard": [None]}
        eventually(lambda: stored(team, "odd-spec", odd, {}), what="a schema that takes anything")
        status = {
            "state": 7,
            "attempt": "x",
            "conditions": "none",
            "placement": [],
            "display": 1,
            "candidates": {"a": 1},
        }
        assert stored(team, "odd-status", {"command": ["x"], "gpusPerNode": 1}, status)
        assert stored(team, "odd-child", {"command": ["x"]}, {"jobName": "../../nodes", "attempt": -1})
    team.submit("good", runs_for="0s")
    team.until("good", "Succeeded")
    operator.restart_after_kill()
    team.submit("better", runs_for="0s")
    team.until("better", "Succeeded")


@contextmanager
def loosened(api: ApiServer, name: str) -> Iterator[None]:
    """A CRD without a schema for a while, as if an older one had let in what the present one refuses."""
    crd = api.get(CRDS, name)
    schemas = [version["schema"] for version in crd["spec"]["versions"]]
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    for version in crd["spec"]["versions"]:
        version["schema"] = anything
    api.replace(CRDS, name, crd)
    try:
        yield
    finally:
        crd = api.get(CRDS, name)
        for version, schema in zip(crd["spec"]["versions"], schemas, strict=True):
            version["schema"] = schema
        api.replace(CRDS, name, crd)


def stored(team: Team, name: str, spec: dict[str, Any], status: dict[str, Any]) -> bool:
    """Whether the API server took a job with this status; False while it still knows the schema."""
    body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": name}, "spec": spec}
    try:
        team.api.create(team.path, body)
        if status:
            team.api.patch(team.path, name, {"status": status}, "status")
    except Refused:
        return False
    return True


def test_a_final_status_that_somebody_else_wrote_is_corrected_while_the_job_runs(
    hasty: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(h100=1)
    uid = team.submit("forged")
    team.until("forged", "Running")
    pods = [pod["metadata"]["uid"] for pod in team.pods(uid)]
    forged = {"state": "Succeeded", "attempt": 7, "jobName": "bogus", "placement": None}
    team.api.patch(team.path, "forged", {"status": forged}, subresource="status")
    assert team.state("forged") == "Succeeded"
    status = team.until("forged", "Running", timeout=60)
    assert status["jobName"] != "bogus"
    assert [pod["metadata"]["uid"] for pod in team.pods(uid)] == pods
