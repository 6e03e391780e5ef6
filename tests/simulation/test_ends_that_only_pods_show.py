"""The watch of pods lags behind that of Jobs, and only the pods show why the Job ended: the API server itself is asked."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.simulation.api_server import Object, Program
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Story, World

BACKOFF: Final = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
FAILURES: Final[dict[str, tuple[dict[str, Any], dict[str, Any], str]]] = {
    "a broken device": ({}, {"exitCode": 1, "message": "CUDA error: uncorrectable ECC error encountered"}, "DeviceFault"),
    "a shutdown of the node": ({"reason": "Terminated", "message": "imminent node shutdown"}, {"exitCode": 143}, "NodeLost"),
    "an admission": ({"reason": "UnexpectedAdmissionError", "message": "Allocate failed"}, {"exitCode": 1}, "PodNotAdmitted"),
    "a fault of the node": ({}, {"exitCode": 1}, "DeviceFault"),
}  # fmt: skip
"""What the pod's status says, and its container's end; the reason that this is."""


@pytest.mark.parametrize("lag", [0.0, 8.0, 60.0])
@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_of_the_infrastructure_is_no_failure_of_the_program(kind: str, lag: float) -> None:
    said, ended, reason = FAILURES[kind]

    async def main() -> World:
        deeds = ((1.0, lambda world: world.submit("a", gpusPerNode=8)), (30.0, fail))
        world = World(Story("lag", deeds, Program(runs_for=1e6), nodes=3, until=200.0))
        await world.run()
        return world

    def fail(world: World) -> None:
        server = world.server
        world.processes[0].late.update(pods=server.loop.time() + lag)
        ((key, pod),) = server.objects["pods"].items()
        if kind == "a fault of the node":
            server.change("nodes", ("", pod["spec"]["nodeName"]), lambda node: _lose_a_device(node, server.stamp()))
        state = {"terminated": {"reason": "Error", "startedAt": server._started(key), **ended}}
        status = {"phase": "Failed", **said, "containerStatuses": [{"name": "train", "state": state}]}
        server.change("pods", key, lambda pod: pod.update(status=status))
        server._note_end(key)
        server.loop.call_later(0.3, server._fail_job, pod["metadata"]["ownerReferences"][0]["uid"], *BACKOFF)

    status = run(main()).server.objects["gpujobs"][TEAM, "a"]["status"]
    assert (status["state"], status["attempt"], status["failures"]) == ("Running", 2, {"infrastructure": 1})
    assert [entry["reason"] for entry in status["attempts"]] == [reason]


def _lose_a_device(node: Object, now: str) -> None:
    fault = {
        "type": "GPUMissing",
        "status": "True",
        "reason": "GPUMissing",
        "message": "7 of 8",
        "lastTransitionTime": now,
    }
    node["status"]["conditions"] = [*node["status"].get("conditions", []), fault]


def test_pods_of_which_none_failed_are_asked_for_a_few_times_alone() -> None:
    """The Job ends by its deadline while the watch shows nothing of its pod."""
    lists = list[str]()

    def end(world: World) -> None:
        server = world.server
        ((key, pod),) = server.objects["pods"].items()
        state = {"terminated": {"reason": "Completed", "startedAt": server._started(key), "exitCode": 0}}
        status = {"phase": "Succeeded", "containerStatuses": [{"name": "train", "state": state}]}
        server.change("pods", key, lambda pod: pod.update(status=status))
        server._note_end(key)
        uid = pod["metadata"]["ownerReferences"][0]["uid"]
        server.loop.call_later(
            0.3, server._fail_job, uid, "DeadlineExceeded", "Job was active longer than specified deadline"
        )

    def freeze(world: World) -> None:
        process = world.processes[0]
        process.late.update(pods=50.0)
        asked = process.reconciler._steps.confirm_end

        async def confirm(job: Any, child: Any) -> None:
            lists.append(job.name)
            await asked(job, child)

        process.reconciler._steps.confirm_end = confirm

    async def main() -> World:
        deeds = ((0.9, freeze), (1.0, lambda world: world.submit("a", gpusPerNode=8)), (30.0, end))
        world = World(Story("lag", deeds, Program(runs_for=1e6), nodes=3, until=200.0))
        await world.run()
        return world

    assert run(main()).server.objects["gpujobs"][TEAM, "a"]["status"]["state"] == "Failed"
    assert 1 <= len(lists) <= 10
