"""Pods of others take the node of a job before its own are bound: the job goes to another node of the same pool, and soon."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.api_server import Object, Program
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Story, World


class Overtaken(World):
    """A world in which a pod of something else is bound to the node of the first child Job as soon as that exists."""

    def __init__(self, story: Story, labels: dict[str, str]) -> None:
        super().__init__(story)
        self.labels, self.ran_at = labels, list[float]()
        self.server.on_change.append(self._note)

    def _note(self, plural: str, event: str, obj: Object) -> None:
        if (plural, event) == ("jobs", "ADDED") and not self.server.objects["pods"]:
            self.server.put("pods", "ADDED", _bound("n0", self.labels))
        if plural == "gpujobs" and (obj.get("status") or {}).get("state") == "Running":
            self.ran_at.append(self.server.loop.time())


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
    async def main() -> World:
        deeds = ((1.0, lambda world: world.submit("a", gpusPerNode=8, nodes=nodes)),)
        world = Overtaken(Story("overtaken", deeds, Program(runs_for=0.0), nodes=3, until=400.0), labels)
        await world.run()
        return world

    world = run(main())
    assert world.ran_at[0] <= 15.0
    status = world.server.objects["gpujobs"][TEAM, "a"]["status"]
    assert not {"excludedPools", "excludedNodes", "failures"} & status.keys()
    pods = world.server.objects["pods"].values()
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == [f"n{number}" for number in range(nodes + 1)]
