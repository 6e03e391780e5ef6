"""The RuntimeClass `nvidia` is used where the cluster has it, and no job needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpujob.lifecycle.failures.failure import Blame
from gpujob.lifecycle.failures.start_failures import start_failure
from gpujob.status.records.objects import PodState
from gpujob.status.records.read_objects import read_pod_record
from gpujob.status.records.refused_pods import unready_of
from gpujob.values.vocabulary import Label, Reason
from tests.e2e.api_server import EVENTS, PODS, RUNTIME_CLASSES, ApiServer, Refused
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
    message = team.condition("nowhere", "Placed")["message"]
    assert (
        "RuntimeClass nope of GPUPool all-nvidia does not exist; create it or remove spec.runtimeClassName" in message
    )
    assert team.jobs() == []


@pytest.fixture
def odd_class(api: ApiServer) -> Iterator[str]:
    """A RuntimeClass whose handler no node's containerd knows."""
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "odd"}, "handler": "oddity"}
    api.create(RUNTIME_CLASSES, body)
    yield "odd"
    api.delete(RUNTIME_CLASSES, "odd")


def test_a_pool_whose_class_has_a_handler_that_its_nodes_lack_holds_no_gpu(
    operator: OperatorProcess, team: Trainers, pools: Callable[..., None], odd_class: str
) -> None:
    """The status of a node lists the handlers of its container runtime, so that no pod needs to wait for one."""
    pools("nvidia", runtimeClassName=odd_class)
    uid = team.run("nowhere", "python3", "-c", "pass", placement=NVIDIA)
    team.until("nowhere", "Misconfigured")
    placed = team.condition("nowhere", "Placed")
    assert (placed["status"], placed["reason"]) == ("False", "RuntimeHandlerMissing")
    assert "handler oddity, which RuntimeClass odd requires" in placed["message"]
    assert "install it there" in placed["message"]
    assert (team.jobs(uid), team.pods(uid)) == ([], [])


def test_what_the_kubelet_says_of_a_handler_that_it_lacks_is_a_failure_to_start(team: Trainers, odd_class: str) -> None:
    """Where the status of a node lists no handlers, the events and the condition of the pod are all there is."""
    eventually(
        lambda: team.api.create(
            PODS.format(team.namespace),
            look(team.namespace, "odd", "nvidia-0", runtimeClassName=odd_class, **restricted()),
        ),
        5,
    )
    selector = "?fieldSelector=type=Warning,regarding.kind=Pod,regarding.name=odd"

    def words() -> str:
        return unready_of(team.api.items(EVENTS.format(team.namespace) + selector))

    message = str(eventually(words, 60, what="the kubelet's words"))
    assert "oddity" in message
    held = eventually(lambda: unready_pod(team), 30, what="a pod that cannot start containers")
    failure = start_failure([held], 300.0, message)
    assert failure is not None
    assert (failure.reason, failure.blame) == (Reason.CONTAINER_NOT_STARTED, Blame.INFRASTRUCTURE)
    assert message.removesuffix(".") in failure.message
    assert "RuntimeClass handler" in failure.message


def restricted() -> dict[str, Any]:
    """What a namespace that enforces "restricted" asks of a pod."""
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "container": {"securityContext": security},
        "security": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }


def unready_pod(team: Trainers) -> PodState | None:
    """The pod as the operator reads it, once its condition says that it cannot start containers."""
    pod = team.api.get(PODS.format(team.namespace), "odd")
    pod["metadata"]["labels"] = {Label.JOB_UID: "of-a-job"}
    state = read_pod_record(pod).state
    return state if state is not None and state.unready else None


def test_kubernetes_itself_refuses_a_pod_whose_class_is_missing(team: Trainers) -> None:
    pod = look(team.namespace, "refused", "nvidia-0", runtimeClassName="nope")
    with pytest.raises(Refused, match='RuntimeClass "nope" not found'):
        eventually(lambda: team.api.create(PODS.format(team.namespace), pod), 5)
