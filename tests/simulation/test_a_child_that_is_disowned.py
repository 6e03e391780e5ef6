"""A user takes owner references, annotations or labels off a child Job: no second one lives beside it, and none lives unseen."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gpujob.cluster.client.api_errors import Conflict
from tests.simulation.api_server import Object, Program
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Deed, Story, World

OTHER: Final = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "other", "uid": "o", "controller": True}
KEPT: Final[dict[str, dict[str, Any]]] = {
    "no owner": {"ownerReferences": []},
    "another controller": {"ownerReferences": [OTHER]},
    "no annotation": {"annotations": {}},
    "another label": {"labels": {"gpujob.dev/job-uid": "other"}},
}
UNSEEN: Final[dict[str, dict[str, Any]]] = {
    "no label": {"labels": {}},
    "no label and no owner": {"labels": {}, "ownerReferences": []},
    "another label and no owner": {"labels": {"gpujob.dev/job-uid": "other"}, "ownerReferences": []},
}


def disown(**metadata: Any) -> Deed:
    def deed(world: World) -> None:
        def change(job: Object) -> None:
            job["metadata"] |= metadata

        for plural in ("jobs", "services"):
            for key in list(world.server.objects[plural]):
                world.server.change(plural, key, change)

    return deed


def restart(world: World) -> None:
    world.processes[-1].kill()
    world.start()


def submit(world: World) -> None:
    world.submit("j", nodes=2, gpusPerNode=8)


async def play(*deeds: tuple[float, Deed], podless: bool = False) -> World:
    world = World(Story("disowned", ((1.0, submit), *deeds), Program(runs_for=60.0), until=400.0))
    if podless:
        # A quota refuses them.
        world.server._make_pods = lambda uid: None  # type: ignore[method-assign]
    await world.run()
    return world


def status(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.server.objects["gpujobs"][TEAM, "j"]["status"]
    return found


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("second", [1.5, 20.0])
@pytest.mark.parametrize("name", KEPT)
def test_it_goes_on_to_its_end_while_its_name_says_whose_it_is(name: str, second: float, restarted: bool) -> None:
    """Before the status names it, and while it runs."""
    deeds = [(second, disown(**KEPT[name])), *([(second + 0.1, restart)] if restarted else [])]
    world = run(play(*deeds))
    assert (status(world)["state"], status(world)["attempt"]) == ("Succeeded", 1)
    assert len(world.server.ran) == 2
    # Before a status says it, an annotation is all that says the price.
    assert "cost" in status(world) or (name, second) == ("no annotation", 1.5)


def test_without_an_owner_it_ends_with_its_job_all_the_same() -> None:
    world = run(play((20.0, disown(ownerReferences=[])), (30.0, lambda world: world.remove("j"))))
    assert world.left() == {"jobs": {}, "live children": {}, "pods": [], "services": 0}
    assert [ran[4] < 60.0 for ran in world.server.ran] == [True, True]


def test_without_an_owner_it_ends_with_the_suspension_of_its_job() -> None:
    edits = ((30.0, lambda world: world.edit("j", suspend=True)), (60.0, lambda world: world.edit("j", suspend=None)))
    world = run(play((20.0, disown(ownerReferences=[])), *edits))
    assert (status(world)["state"], status(world)["attempt"]) == ("Succeeded", 2)
    assert world.overlap() == 0.0


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("name", UNSEEN)
def test_one_that_the_operator_cannot_follow_any_more_is_ended_and_its_program_goes_on_in_another(
    name: str, restarted: bool
) -> None:
    """At each moment of the end the process may be replaced: what it has deleted is no loss."""
    for later in (0.01, 0.05, 0.06, 0.08, 0.1, 1.0, 8.0) if restarted else (None,):
        world = run(play((20.0, disown(**UNSEEN[name])), *([(20.0 + later, restart)] if later else [])))
        ended, last = status(world)["attempts"]
        assert (ended["reason"], ended["blame"]) == ("ChildLost", "Infrastructure"), later
        assert ended["message"].endswith("-1 lost the label gpujob.dev/job-uid, so the operator deleted it")
        assert ended["from"]
        assert ended["cost"]
        assert (status(world)["state"], last["attempt"]) == ("Succeeded", 2)
        assert status(world)["failures"] == {"infrastructure": 1}
        # They save for five seconds.
        assert [ran[4] < 27.0 for ran in world.server.ran] == [True, True, False, False]
        assert world.overlap() == 0.0


@pytest.mark.parametrize("name", UNSEEN)
def test_it_is_no_loss_although_its_status_is_written_after_it_is_gone(name: str) -> None:
    """It has no pods, which would keep it until they have ended."""

    def conflict(world: World) -> None:
        busy = Conflict(409, "Conflict", "the object has been modified")
        world.processes[-1].trouble = lambda verb, path: (
            busy if verb == "patch" and world.server.loop.time() < 22 else None
        )

    world = run(play((19.0, conflict), (20.0, disown(**UNSEEN[name])), podless=True))
    (ended, *_) = status(world)["attempts"]
    assert (ended["reason"], ended["blame"]) == ("ChildLost", "Infrastructure")
    assert ended["message"].endswith("-1 lost the label gpujob.dev/job-uid, so the operator deleted it")
    assert status(world)["failures"] == {"infrastructure": 1}


@pytest.mark.parametrize("name", UNSEEN)
def test_without_retries_it_ends_the_job_and_the_status_says_why(name: str) -> None:
    edit = (19.0, lambda world: world.edit("j", retries={"infrastructure": 0}))
    world = run(play(edit, (20.0, disown(**UNSEEN[name]))))
    (failed,) = (each for each in status(world)["conditions"] if each["type"] == "Failed")
    assert (status(world)["state"], failed["reason"]) == ("Failed", "ChildLost")
    assert failed["message"].endswith("lost the label gpujob.dev/job-uid, so the operator deleted it")
    assert world.server.objects["jobs"] == {}


def test_a_suspension_that_meets_it_is_no_failure() -> None:
    edits = ((20.0, disown(labels={})), (20.0, lambda world: world.edit("j", suspend=True)))
    world = run(play(*edits, (60.0, lambda world: world.edit("j", suspend=None))))
    assert (status(world)["state"], status(world).get("failures")) == ("Succeeded", None)
    assert world.overlap() == 0.0


def test_one_that_is_deleted_while_the_watch_of_pods_lags_has_its_start_and_its_cost() -> None:
    def lag(world: World) -> None:
        world.processes[0].late = {"pods": 25.0}

    def delete(world: World) -> None:
        for (space, name), job in list(world.server.objects["jobs"].items()):
            world.server.delete(f"/apis/batch/v1/namespaces/{space}/jobs/{name}", job["metadata"]["uid"])

    world = run(play((0.5, lag), (12.0, delete)))
    assert (status(world)["state"], status(world)["display"]["reason"]) == ("Failed", "ChildLost")
    assert status(world)["startTime"] == "2026-01-01T12:00:02Z"
    assert status(world)["cost"]["accrued"]
    assert status(world)["attempts"][0]["cost"]


@pytest.mark.parametrize("podless", [False, True])
@pytest.mark.parametrize("second", [1.2, 1.5])
@pytest.mark.parametrize("name", UNSEEN)
def test_before_a_status_names_it_it_is_ended_too(name: str, second: float, podless: bool) -> None:
    """Then it is made again, or the status names it meanwhile and says that it is lost. Without pods nothing but the Job shows it."""
    world = run(play((second, disown(**UNSEEN[name])), podless=podless))
    assert world.processes[0].writes < 40
    assert world.overlap() == 0.0
    ran_on = max((ran[4] or 400.0 for ran in world.server.ran if ran[2] == "jobs-4"), default=0.0)
    assert ran_on < 27.0
    live = [job["metadata"]["labels"].get("gpujob.dev/job-uid") for job in world.live_children()]
    # One that nothing shows to be the job's is another's.
    assert set(live) <= {"gpujobs-1"} or status(world)["display"]["reason"] == "NameConflict"


@pytest.mark.parametrize("nodes", [1, 2])
def test_one_that_is_deleted_without_its_pods_is_lost_and_the_status_says_what_ends_them(nodes: int) -> None:
    def orphan(world: World) -> None:
        for key in list(world.server.objects["pods"]):
            world.server.change("pods", key, lambda pod: pod["metadata"].update(ownerReferences=[]))
        (key,) = world.server.objects["jobs"]
        world.server.drop("jobs", key)

    async def main() -> World:
        deeds = ((1.0, lambda world: world.submit("j", nodes=nodes, gpusPerNode=8)), (20.0, orphan))
        world = World(Story("orphaned pods", deeds, Program(runs_for=0.0), until=100.0))
        await world.run()
        return world

    world = run(main())
    (failed,) = (each for each in status(world)["conditions"] if each["type"] == "Failed")
    first = min(name for _, name in world.server.objects["pods"])
    pods, them = f"its pod {first} still runs and holds", "it"
    if nodes > 1:
        pods, them = f"its pods {first} and 1 more still run and hold", "them"
    assert failed["message"].endswith(
        f" was deleted by someone else; {pods} GPUs: delete {them} with "
        "`kubectl delete pods -n team -l gpujob.dev/job-uid=gpujobs-1`; create a new GPUJob to run it again"
    )


def test_a_service_that_no_watch_shows_is_made_again_once() -> None:
    def deed(world: World) -> None:
        (key,) = world.server.objects["services"]
        world.server.change("services", key, lambda held: held["metadata"].update(labels={}))

    world = run(play((20.0, deed)))
    assert status(world)["state"] == "Succeeded"
    (service,) = world.server.objects["services"].values()
    assert service["metadata"]["labels"]["gpujob.dev/job-uid"] == "gpujobs-1"
    assert world.processes[0].writes < 20


@pytest.mark.parametrize("deleted", [False, True], ids=["it lives", "somebody deleted it in the background"])
@pytest.mark.parametrize("propagation", ["Orphan", "Background"])
def test_the_pods_of_a_job_that_is_gone_end_though_a_finalizer_keeps_its_child(propagation: str, deleted: bool) -> None:
    async def main() -> World:
        world = World(Story("kept", (), Program(runs_for=0.0), nodes=2, finalizers=("x/y",), until=120.0))
        loop = world.server.loop
        loop.call_at(1.0, lambda: world.submit("j", gpusPerNode=8))
        loop.call_at(30.0, lambda: world.remove("j", propagation))
        if deleted:
            loop.call_at(32.0, delete_in_vain, world)
        await world.run()
        return world

    def delete_in_vain(world: World) -> None:
        (key,) = world.server.objects["jobs"]
        world.server.change("jobs", key, lambda job: job["metadata"].update(deletionTimestamp=world.server.stamp()))

    world = run(main())
    (job,) = world.server.objects["jobs"].values()
    assert "deletionTimestamp" in job["metadata"]
    assert not world.server.objects["pods"]
    (ran,) = world.server.ran
    assert ran[4] <= 30.0 + 35.0
    # What is done is not repeated.
    assert world.processes[0].writes < 20


def test_they_end_though_no_operator_ran_when_the_job_was_deleted() -> None:
    async def main() -> World:
        world = World(Story("kept", (), Program(runs_for=0.0), nodes=2, finalizers=("x/y",), until=150.0))
        loop = world.server.loop
        loop.call_at(1.0, lambda: world.submit("j", gpusPerNode=8))
        loop.call_at(29.0, lambda: world.processes[0].kill())
        loop.call_at(30.0, lambda: world.remove("j"))
        loop.call_at(60.0, world.start)
        await world.run()
        return world

    world = run(main())
    assert not world.server.objects["pods"]
    assert len(world.server.objects["jobs"]) == 1
