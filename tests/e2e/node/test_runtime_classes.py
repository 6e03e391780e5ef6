"""The RuntimeClass `nvidia` is used where the cluster has it, and no job needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.api_server import PODS, RUNTIME_CLASSES, ApiServer, Refused
from tests.e2e.cluster import eventually
from tests.e2e.node.test_who_may_open_devices import look
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

pytestmark = [pytest.mark.e2e, pytest.mark.node]

NVIDIA = {"vendors": ["NVIDIA"]}


@pytest.fixture
def runtime_class(api: ApiServer) -> Iterator[str]:
    """A RuntimeClass whose handler the nodes' containerd has."""
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"}
    api.create(RUNTIME_CLASSES, body)
    yield "nvidia"
    api.delete(RUNTIME_CLASSES, "nvidia")


def test_without_the_class_a_job_runs_under_the_default_runtime(operator: OperatorProcess, team: Trainers) -> None:
    uid = team.run("plain", "python3", "-c", "pass", placement=NVIDIA)
    assert team.result("plain", uid) == ("Succeeded", [""])
    assert "runtimeClassName" not in team.pods(uid)[0]["spec"]


def test_with_the_class_a_job_runs_under_it(operator: OperatorProcess, team: Trainers, runtime_class: str) -> None:
    uid = team.run("classed", "python3", "-c", "pass", placement=NVIDIA)
    assert team.result("classed", uid) == ("Succeeded", [""])
    assert team.pods(uid)[0]["spec"]["runtimeClassName"] == runtime_class


def test_a_pool_whose_class_is_missing_is_told_before_a_pod_is_refused(
    operator: OperatorProcess, team: Trainers, pools: Callable[..., None]
) -> None:
    pools("nvidia", runtimeClassName="nope")
    team.run("nowhere", "python3", "-c", "pass", placement=NVIDIA)
    team.until("nowhere", "Misconfigured")
    told = team.condition("nowhere", "Placed")["message"]
    assert "RuntimeClass nope of GPUPool all-nvidia does not exist; create it or remove spec.runtimeClassName" in told
    assert team.jobs() == []


def test_kubernetes_itself_refuses_a_pod_whose_class_is_missing(team: Trainers) -> None:
    pod = look(team.namespace, "refused", "nvidia-0", runtimeClassName="nope")
    with pytest.raises(Refused, match='RuntimeClass "nope" not found'):
        eventually(lambda: team.api.create(PODS.format(team.namespace), pod), 5)
