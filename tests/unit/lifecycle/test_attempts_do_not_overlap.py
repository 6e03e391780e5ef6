"""The next attempt waits for the pods of earlier ones, and for no others; and says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpujob.lifecycle.actions import DeleteChild, Nothing, Numbers, Schedule, WriteStatus
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Moment
from gpujob.status.job.status_patch import patch
from gpujob.status.records.objects import PodState
from gpujob.status.records.read_objects import read_child, read_job
from gpujob.values.names import child_name

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIMINGS = Timings(restarting=2.0, node_lost=300.0, cascade=10.0)
RESUMED = {"attempt": 1, "state": "Suspended"}


def pod(number: int = 0, attempt: int = 1, **changes: Any) -> PodState:
    child = child_name("j", "u", attempt)
    known = {
        "node": "n",
        "phase": "Running",
        "running": True,
        "leaving": True,
        "child_name": child,
        "namespace": "team",
    }
    return PodState(f"{child}-{number}", f"c{attempt}", **{**known, **changes})


class Watch:
    """One job that is looked at again and again; both clocks begin at BEGAN."""

    def __init__(self) -> None:
        self.sightings = Sightings()

    def look(
        self, second: float, *pods: PodState, ready: dict[str, bool] | None = None, children: Any = (), **status: Any
    ) -> Any:
        metadata = {"name": "j", "namespace": "team", "uid": "u", "generation": 1}
        job = read_job({"metadata": metadata, "spec": status.pop("spec", {}), "status": status or RESUMED})
        nodes = {"n": True} if ready is None else ready
        view = JobView(job, children, pods, nodes)
        found = next_action(view, self.sightings, Moment(second, BEGAN + timedelta(seconds=second)), TIMINGS)
        self.sightings = found.sightings
        return found


def test_the_next_attempt_waits_and_says_for_what() -> None:
    watch = Watch()
    first = watch.look(0.0, pod(), pod(1))
    assert (first.action, first.requeue_after, first.watches_nodes) == (Nothing(), 2.0, True)
    told = watch.look(2.0, pod(), pod(1)).action
    assert isinstance(told, WriteStatus)
    (placed,) = (c for c in told.status["conditions"] if c["type"] == "Placed")
    assert (told.status["state"], placed["reason"]) == ("Restarting", "EarlierAttemptEnding")
    name = f"{child_name('j', 'u', 1)}-0"
    assert placed["message"] == (
        f"attempt 2 waits until pod {name} of attempt 1 on node n and 1 more has ended; where its node is dead, "
        f"`kubectl delete pod {name} --force` or the deletion of the node ends the wait"
    )
    assert watch.look(3.0, **told.status).action == Schedule()


@pytest.mark.parametrize(
    ("changes", "ready"),
    [
        ({"phase": "Succeeded", "running": False}, {"n": True}),
        ({"phase": "Failed", "running": False}, {"n": True}),
        ({"node": "gone"}, {"n": True}),
        ({"child_name": "another-1"}, {"n": True}),
        ({"child_name": ""}, {"n": True}),
    ],
)
def test_what_is_not_waited_for(changes: dict[str, Any], ready: dict[str, bool]) -> None:
    assert Watch().look(0.0, pod(**changes), ready=ready).action == Schedule()


def test_a_pod_that_no_node_has_yet_is_waited_for() -> None:
    assert Watch().look(0.0, pod(node="", phase="Pending", running=False, leaving=False)).action == Nothing()


def test_a_pod_that_was_asked_to_end_before_it_had_a_node_never_runs() -> None:
    """The API server binds no pod with a deletionTimestamp, however long a finalizer holds the object."""
    assert Watch().look(0.0, pod(node="", phase="Pending", running=False)).action == Schedule()


END = "2026-01-01T12:00:30Z"
NAME = f"{child_name('j', 'u', 1)}-0"
WAITS = f"attempt 2 waits until pod {NAME} of attempt 1 on node n has ended; "


def told(watch: Watch, second: float, *pods: PodState, ready: bool = True) -> tuple[str, float | None]:
    """What the status says of the wait at a second, and when it is looked at again."""
    watch.look(0.0, *pods, ready={"n": ready})
    found = watch.look(second, *pods, ready={"n": ready})
    assert isinstance(found.action, WriteStatus)
    (placed,) = (c for c in found.action.status["conditions"] if c["type"] == "Placed")
    return placed["message"], found.requeue_after


def test_a_pod_has_its_grace_and_is_looked_at_when_it_is_over() -> None:
    assert told(Watch(), 10.0, pod(gone_at=END)) == (f"{WAITS}it has until {END} to save and end", 20.0)


@pytest.mark.parametrize("second", [30.0, 3600.0])
def test_a_pod_that_hangs_on_a_ready_node_is_told_with_what_ends_it(second: float) -> None:
    said, again = told(Watch(), second, pod(gone_at=END))
    assert said == (
        f"{WAITS}it was to end by {END} and its node is Ready, so a process of it may hang in a driver or on a network disk: `kubectl "
        f"describe pod {NAME}` shows its last events, a restart of the node ends it. `kubectl delete pod {NAME} --force` ends only "
        "this wait: use it where nothing of the pod runs"
    )
    assert again is None


def test_a_sentence_that_is_another_one_by_now_is_written_soon_and_once() -> None:
    """State and reason are the same: by itself that is no reason to write."""
    watch = Watch()
    watch.look(0.0, pod(gone_at=END))
    first = watch.look(2.0, pod(gone_at=END)).action
    assert first.numbers is Numbers.NEWS
    again = watch.look(3.0, pod(gone_at=END), **first.status).action
    assert again.numbers is Numbers.SAME
    assert patch(first.status, again.status) is None
    hangs = watch.look(31.0, pod(gone_at=END), **first.status).action
    assert hangs.numbers is Numbers.NEWS
    assert f"it was to end by {END}" in str(patch(first.status, hangs.status, moved=True))


def test_of_several_pods_the_one_that_hangs_is_named() -> None:
    first, second = pod(gone_at="2026-01-01T12:30:00Z"), pod(1, gone_at=END)
    said, again = told(Watch(), 60.0, first, second)
    assert said.startswith(
        f"attempt 2 waits until pod {second.name} of attempt 1 on node n and 1 more has ended; it was to end by"
    )
    assert again == 1740.0


def test_a_pod_on_a_node_that_is_not_ready_and_one_that_was_not_asked_to_end() -> None:
    dead = f"where its node is dead, `kubectl delete pod {NAME} --force` or the deletion of the node ends the wait"
    assert told(Watch(), 60.0, pod(gone_at=END), ready=False)[0] == WAITS + dead
    asked = f"nothing has asked it to end: `kubectl delete pod {NAME}` does"
    assert told(Watch(), 60.0, pod(leaving=False))[0] == WAITS + asked
    # A time that cannot be read is none.
    assert told(Watch(), 60.0, pod(gone_at="soon"))[0] == WAITS + dead


def test_a_node_that_is_not_ready_is_waited_for_so_long_by_the_own_clock() -> None:
    watch = Watch()
    assert watch.look(0.0, pod(), ready={"n": False}).action == Nothing()
    before = watch.look(299.0, pod(), ready={"n": False})
    assert isinstance(before.action, WriteStatus)
    assert before.requeue_after == 1.0
    assert watch.look(300.0, pod(), ready={"n": False}).action == Schedule()
    # One that was ready in between begins again.
    watch = Watch()
    watch.look(0.0, pod(), ready={"n": False})
    watch.look(200.0, pod(), ready={"n": True})
    assert isinstance(watch.look(301.0, pod(), ready={"n": False}).action, WriteStatus)


def test_a_plan_waits_for_nothing() -> None:
    assert Watch().look(0.0, pod(), spec={"suspend": True}, attempt=1, state="Suspended").action == Schedule()


def child(attempt: int, **metadata: Any) -> Any:
    owner = {"kind": "GPUJob", "name": "j", "uid": "u", "controller": True}
    head = {
        "name": child_name("j", "u", attempt),
        "namespace": "team",
        "uid": f"c{attempt}",
        "ownerReferences": [owner],
    }
    return read_child({"metadata": {**head, **metadata}, "spec": {}})


RECORDED = {"attempt": 2, "jobName": child_name("j", "u", 2), "jobUID": "c2"}


@pytest.mark.parametrize("state", ["Placed", "Running", "Succeeded", "Failed"])
@pytest.mark.parametrize("extra", [1, 3])
def test_a_live_child_that_is_not_the_recorded_one_is_deleted(state: str, extra: int) -> None:
    found = Watch().look(0.0, children=(child(2), child(extra)), state=state, **RECORDED)
    assert found.action == DeleteChild(child(extra))


@pytest.mark.parametrize("last", [0, 1, 5])
def test_where_none_is_recorded_the_next_attempt_is_the_child(last: int) -> None:
    following = child(last + 1)
    found = Watch().look(0.0, children=(following, *([child(last)] if last else [])), attempt=last, state="Queued")
    if last:
        assert found.action == DeleteChild(child(last))
    alone = Watch().look(0.0, children=(following,), attempt=last, state="Queued")
    assert isinstance(alone.action, WriteStatus)
    assert alone.action.status["attempt"] == last + 1


def test_pods_of_a_deleted_child_that_stays_are_deleted_after_a_while_and_again_later() -> None:
    watch, leaving = Watch(), child(1, deletionTimestamp="2026-01-01T12:00:00Z")
    running = pod(leaving=False)
    first = watch.look(0.0, running, children=(leaving,))
    assert first.requeue_after is not None
    assert first.action == Nothing()
    assert watch.look(10.0, running, children=(leaving,)).action == DeleteChild(leaving, pods_first=True)
    assert watch.look(15.0, running, children=(leaving,)).action != DeleteChild(leaving, pods_first=True)
    assert watch.look(20.0, running, children=(leaving,)).action == DeleteChild(leaving, pods_first=True)
    assert watch.look(31.0, pod(leaving=True), children=(leaving,)).action != DeleteChild(leaving, pods_first=True)
