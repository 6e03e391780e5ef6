"""Jobs with one PersistentVolumeClaim in virtual time: one waits while another node has it, and starts at the end of that pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.builders import Object, pod
from tests.simulation.api_server import Program
from tests.simulation.operator_process import OperatorProcess
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Story, World

ENDS = 100.0


class Noting(World):
    """A world that notes what the statuses of jobs said, and when."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self.said: list[tuple[str, float, str, str]] = []
        self.on: dict[str, str] = {}
        """The node of each job's pod, by the job's name."""
        self.server.on_change.append(self._note)

    def _note(self, plural: str, _: str, obj: Any) -> None:
        if plural == "gpujobs" and (status := obj.get("status")):
            name, now = obj["metadata"]["name"], self.server.loop.time()
            self.said.append((name, now, status["state"], status["display"]["reason"]))
        if plural == "pods" and "nodeName" in obj["spec"] and (labels := obj["metadata"].get("labels")):
            self.on[self.names[labels["gpujob.dev/job-uid"]]] = obj["spec"]["nodeName"]

    @property
    def names(self) -> dict[str, str]:
        """The jobs' names by their uid."""
        return {job["metadata"]["uid"]: job["metadata"]["name"] for job in self.server.objects["gpujobs"].values()}

    def waits(self, name: str) -> set[str]:
        """Why a job was in the queue."""
        return {reason for of, _, state, reason in self.said if of == name and state == "Queued"}

    def spans(self) -> dict[str, tuple[float, float]]:
        """From when until when each job's pod ran."""
        return {self.names[uid]: (began, ended) for uid, _, _, began, ended, _ in self.server.ran}


def claim(mode: str, name: str = "c") -> Any:
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": TEAM, "uid": name},
            "spec": {"accessModes": [mode], "volumeName": "pv"}, "status": {"phase": "Bound"}}  # fmt: skip
    return lambda world: world.server.put("persistentvolumeclaims", "ADDED", body)


def job(name: str, gpus: int, claimed: str = "c") -> Any:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claimed}}
    mounts = [{"name": "v", "mountPath": "/v"}]
    return lambda world: world.submit(name, gpusPerNode=gpus, volumes=[volume], volumeMounts=mounts)


def reader(world: World) -> None:
    """A pod on a node without GPUs mounts the claim."""
    name: Object = {"metadata": {"name": "cpu", "uid": "cpu", "creationTimestamp": "2025-12-01T00:00:00Z"}}
    state = {
        "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "9"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    world.server.put("nodes", "ADDED", {"apiVersion": "v1", "kind": "Node", **name, "spec": {}, "status": state})
    raw = pod("reader", "cpu", cpu="1")
    raw["metadata"] |= {"namespace": TEAM, "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "r"}]}
    raw["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    world.server.put("pods", "ADDED", raw)


def play(*deeds: Any, faults: Callable[[World], None] = lambda _: None) -> Noting:
    async def main() -> Noting:
        world = Noting(Story("claims", deeds, Program(runs_for=60.0), until=600.0))
        await world.run(faults)
        return world

    return run(main())  # type: ignore[no-any-return]


@pytest.mark.parametrize("later", [0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.1, 0.5, 2.0])
@pytest.mark.parametrize(("mode", "gpus"), [("ReadWriteOnce", 8), ("ReadWriteOncePod", 2)])
def test_the_second_of_two_jobs_with_one_claim_starts_at_the_end_of_the_first(
    mode: str, gpus: int, later: float
) -> None:
    world = play((0.5, claim(mode)), (1.0, job("j", gpus)), (1.0 + later, job("k", gpus)))
    spans = world.spans()
    first, second = sorted(spans, key=lambda name: spans[name])
    assert (world.waits(first), world.waits(second)) == (set(), {"AccessMode"})
    assert spans[first][1] <= spans[second][0] <= spans[first][1] + 30.0
    assert {each["status"]["state"] for each in world.server.objects["gpujobs"].values()} == {"Succeeded"}


def test_a_placement_whose_child_is_being_created_mounts_its_claims() -> None:
    async def slow(_: OperatorProcess, call: Callable[[], Object]) -> Object:
        await asyncio.sleep(5.0)
        return call()

    def slow_at_first(world: World) -> None:
        world.processes[-1].faults = dict.fromkeys(range(1, 4), slow)

    later = (3.0, job("k", 8))
    world = play((0.5, claim("ReadWriteOnce")), (1.0, job("j", 8)), later, faults=slow_at_first)
    assert world.waits("k") == {"AccessMode"}
    assert world.spans()["j"][1] <= world.spans()["k"][0]


def test_two_small_jobs_with_one_claim_run_at_once_on_one_node() -> None:
    world = play((0.5, claim("ReadWriteOnce")), (1.0, job("j", 4)), (2.0, job("k", 2)))
    spans = world.spans()
    assert not world.waits("k")
    assert spans["k"][0] < spans["j"][1]
    assert world.on["k"] == world.on["j"]


def test_a_job_goes_to_the_node_of_its_claim_and_not_to_the_fuller_one() -> None:
    world = play((0.5, claim("ReadWriteOnce")), (0.5, claim("ReadWriteOnce", "d")), (1.0, job("j", 2)), (2.0, job("fuller", 7, "d")),
                 (3.0, job("k", 1)))  # fmt: skip
    assert world.on["k"] == world.on["j"] != world.on["fuller"]


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
def test_a_job_starts_at_the_end_of_a_pod_that_frees_no_device(mode: str) -> None:
    def ends(world: World) -> None:
        world.server.drop("pods", (TEAM, "reader"))

    world = play((0.5, claim(mode)), (0.6, reader), (1.0, job("j", 8)), (ENDS, ends))
    assert world.waits("j") == {"AccessMode"}
    assert ENDS <= world.spans()["j"][0] <= ENDS + 30.0


def test_a_job_with_a_claim_of_many_nodes_does_not_wait() -> None:
    world = play((0.5, claim("ReadWriteMany")), (0.6, reader), (1.0, job("j", 8)), (2.0, job("k", 8)))
    spans = world.spans()
    assert spans["k"][0] < spans["j"][1]
    assert not world.waits("j")
