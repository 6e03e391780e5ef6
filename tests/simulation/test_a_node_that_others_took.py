"""Pods of others take the node of a job before its own are bound, or the node is lost: the job goes to another one of its pool soon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import pytest

from tests.simulation.api_server import Object, Program
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Story, World

ENDS_AT_ONCE: Final = Program(runs_for=0.0)


class Watched(World):
    """A world that notes when a job runs, and does something when a child Job was made."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self.ran_at = list[float]()
        self.server.on_change.append(self._note)

    def _note(self, plural: str, event: str, obj: Object) -> None:
        if (plural, event) == ("jobs", "ADDED"):
            self.made(obj)
        if plural == "gpujobs" and (obj.get("status") or {}).get("state") == "Running":
            self.ran_at.append(self.server.loop.time())

    def made(self, child: Object) -> None:
        """What happens when a child Job was made."""
        raise AssertionError(f"{type(self).__name__} does nothing")


W = TypeVar("W", bound=Watched)


def played(make: Callable[[Story], W], nodes: int, more: int, program: Program = ENDS_AT_ONCE) -> tuple[W, Object]:
    """A world in which a gang of 8 GPUs on each of so many nodes was submitted to a pool of `more` nodes, and the gang's status."""

    async def main() -> W:
        deeds = ((1.0, lambda world: world.submit("a", gpusPerNode=8, nodes=nodes)),)
        world = make(Story("a node is lost", deeds, program, nodes=more, until=400.0))
        await world.run()
        return world

    world = run(main())
    return world, world.server.objects["gpujobs"][TEAM, "a"]["status"]


class Overtaken(Watched):
    """A world in which a pod of something else is bound to the node of the first child Job as soon as that exists."""

    def __init__(self, story: Story, labels: dict[str, str]) -> None:
        super().__init__(story)
        self.labels = labels

    def made(self, child: Object) -> None:
        if not self.server.objects["pods"]:
            self.server.put("pods", "ADDED", _bound("n0", self.labels))


def _bound(node: str, labels: dict[str, str]) -> Object:
    owner = {"kind": "Job", "name": "other-1", "uid": "other-1", "controller": True}
    container: Any = {"name": "train", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "other-0", "namespace": "others", "uid": "other-0", "labels": labels, "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": [container]}, "status": {"phase": "Running"},
    }  # fmt: skip


@pytest.mark.parametrize(
    "labels", [{"gpujob.dev/job-uid": "other", "gpujob.dev/attempt": "1"}, {}], ids=["a GPUJob's", "a plain pod"]
)
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_job_whose_node_others_took_is_placed_again_and_leaves_nothing_out(
    labels: dict[str, str], nodes: int
) -> None:
    world, status = played(lambda story: Overtaken(story, labels), nodes, 3)
    assert world.ran_at[0] <= 15.0
    assert not {"excludedPools", "excludedNodes", "failures"} & status.keys()
    pods = world.server.objects["pods"].values()
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == [f"n{number}" for number in range(nodes + 1)]


def _nodes_of(job: Object) -> list[str]:
    affinity = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    return [node for term in affinity["nodeSelectorTerms"] for each in term["matchFields"] for node in each["values"]]


class Lost(Watched):
    """A world in which something becomes of a node of a child Job (the first, the second, …) before its pods are bound."""

    def __init__(self, story: Story, becomes: str, child: int = 1) -> None:
        super().__init__(story)
        self.becomes, self.left = becomes, child
        room = self.server._has_room
        self.server._has_room = lambda node, pod: self._accepts(node) and room(node, pod)  # type: ignore[method-assign]

    def _accepts(self, name: str) -> bool:
        node = self.server.objects["nodes"].get(("", name), {"spec": {}, "status": {}})
        ready = all(
            each["status"] == "True" for each in node["status"].get("conditions", []) if each["type"] == "Ready"
        )
        return ready and not node["spec"].get("unschedulable") and not node["spec"].get("taints")

    def made(self, child: Object) -> None:
        self.left -= 1
        if self.left == 0:
            self.server.loop.call_later(0.05, self._lose, *_nodes_of(child)[:1])

    def _lose(self, node: str) -> None:
        if self.becomes == "gone":
            self.server.drop("nodes", ("", node))
        else:
            self.server.change("nodes", ("", node), self._change)

    def _change(self, node: Object) -> None:
        match self.becomes:
            case "cordoned":
                node["spec"] = {**node["spec"], "unschedulable": True}
            case "tainted":
                node["spec"] = {**node["spec"], "taints": [{"key": "x", "effect": "NoSchedule"}]}
            case "not ready":
                node["status"] = {**node["status"], "conditions": [{"type": "Ready", "status": "False"}]}
            case "without devices":
                node["status"] = {
                    **node["status"],
                    "allocatable": node["status"]["allocatable"] | {"nvidia.com/gpu": "0"},
                }


@pytest.mark.parametrize(
    ("becomes", "within"),
    [("gone", 15.0), ("cordoned", 15.0), ("tainted", 30.0), ("not ready", 30.0), ("without devices", 30.0)],
)
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_job_whose_node_is_lost_before_its_pods_are_bound_leaves_nothing_out(
    becomes: str, within: float, nodes: int
) -> None:
    world, status = played(lambda story: Lost(story, becomes), nodes, 4)
    assert world.ran_at[0] <= within
    assert not {"excludedPools", "excludedNodes", "failures"} & status.keys()
    live = [
        pod["spec"]["nodeName"] for pod in world.server.objects["pods"].values() if pod["status"]["phase"] == "Running"
    ]
    assert sorted(live) == [f"n{number}" for number in range(1, nodes + 1)]
    assert world.overlap() == 0.0


@pytest.mark.parametrize("becomes", ["gone", "cordoned"])
@pytest.mark.parametrize("nodes", [1, 2])
def test_the_same_after_an_attempt_that_failed_and_whose_pods_stay_for_their_logs(becomes: str, nodes: int) -> None:
    program = Program(runs_for=40.0, evicted=1)
    world, status = played(lambda story: Lost(story, becomes, child=2), nodes, 6, program)
    assert (status["state"], status["attempt"]) == ("Succeeded", 3)
    assert world.ran_at[-1] <= 100.0
    assert "excludedPools" not in status
