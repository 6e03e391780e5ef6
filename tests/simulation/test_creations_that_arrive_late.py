"""A creation without an answer is performed after another request of it was refused, which ended its reservation: the job keeps
the node, or moves if others have taken it, and disturbs none of them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gpujob.cluster.client.api_errors import ApiError, Forbidden
from tests.simulation.api_server import Program
from tests.simulation.test_creations_without_an_answer import Seen, Unheard
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Deed, Story, World

REFUSED: Final = (70.0, 140.0)
"""The seconds in which a quota refuses the job's child: the third request and those after it, which are decided again."""

WAITS: Final = 15.0
"""The longest wait for another try, in which a job is not looked at."""

NEVER: Final = 1000.0
OTHERS: Final = "/apis/gpujob.dev/v1alpha1/namespaces/others/gpujobs"
QUOTA: Final = Forbidden(
    403, "Forbidden", 'jobs.batch "a" is forbidden: exceeded quota: jobs, requested: 1, used: 4, limited: 4'
)


def others_submit(world: World) -> None:
    body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": "b"}}
    world.server.create(OTHERS, {**body, "spec": {"gpusPerNode": 8}})


def play(late: float, *deeds: tuple[float, Deed], nodes: int, repeated: float = NEVER) -> Seen:
    """`late`: the second in which the first request of a's child is performed; `repeated`: seconds after which the second one is."""

    def faults(world: World) -> None:
        process = world.processes[0]
        Unheard(process, {"a": [late - 1.0, repeated]})

        def trouble(verb: str, path: str) -> ApiError | None:
            theirs = verb == "create" and path.endswith(f"/namespaces/{TEAM}/jobs")
            return QUOTA if theirs and REFUSED[0] <= world.server.loop.time() < REFUSED[1] else None

        process.trouble = trouble

    async def main() -> Seen:
        submits = (1.0, lambda world: world.submit("a", gpusPerNode=8))
        world = Seen(Story("late", (submits, *deeds), Program(runs_for=0.0), nodes=nodes, until=400.0))
        await world.run(faults)
        return world

    return run(main())  # type: ignore[no-any-return]


def status(world: Seen) -> dict[str, Any]:
    found: dict[str, Any] = world.server.objects["gpujobs"][TEAM, "a"]["status"]
    return found


def runs_alone(world: Seen) -> bool:
    """Whether no two pods ran on one node at a time; each needs all of its GPUs."""
    pods = [pod for pod in world.server.objects["pods"].values() if pod["status"]["phase"] == "Running"]
    return len({pod["spec"]["nodeName"] for pod in pods}) == len(pods) and world.overlap() == 0.0


@pytest.mark.parametrize("late", [72.0, 100.0, 139.0])
def test_a_child_that_comes_to_a_free_node_stays_there(late: float) -> None:
    world = play(late, nodes=2)
    assert world.states["a", "Running"] <= late + WAITS + 2.0
    assert (status(world)["state"], status(world)["attempt"]) == ("Running", 1)
    assert len(world.live_children()) == 1


@pytest.mark.parametrize("late", [95.0, 110.0, 139.0])
def test_a_child_that_comes_to_a_node_that_others_took_moves_and_leaves_nothing_out(late: float) -> None:
    """The second node is free from the first second on; b is there before the child of a is."""
    world = play(late, (90.0, others_submit), nodes=2)
    assert world.states["b", "Running"] <= 100.0
    assert world.states["a", "Running"] <= REFUSED[1] + WAITS + 10.0
    assert runs_alone(world)
    assert not {"excludedPools", "excludedNodes", "failures"} & status(world).keys()
    assert len(world.live_children()) == 2


def test_a_child_that_comes_to_the_only_node_after_others_took_it_is_taken_back() -> None:
    world = play(100.0, (90.0, others_submit), nodes=1)
    assert world.states["b", "Running"] <= 100.0
    assert any(100.0 < when <= 100.0 + WAITS + 10.0 for when in world.deleted)
    assert (status(world)["state"], "jobName" in status(world)) == ("Queued", False)
    assert runs_alone(world)
    (left,) = world.live_children()
    assert left["metadata"]["namespace"] == "others"


@pytest.mark.parametrize("first", [30.0, 60.0, 100.0, NEVER])
@pytest.mark.parametrize("second", [0.5, 30.0, 70.0])
def test_of_two_requests_of_one_child_one_is_performed_whichever_comes_first(first: float, second: float) -> None:
    """The second one is sent at 41 s, 40 s after the first."""
    world = play(first, (90.0, others_submit), nodes=2, repeated=second)
    assert runs_alone(world)
    assert {job["status"]["state"] for job in world.server.objects["gpujobs"].values()} == {"Running"}
    assert len(world.live_children()) == 2
    assert not {"excludedPools", "excludedNodes", "failures"} & status(world).keys()
