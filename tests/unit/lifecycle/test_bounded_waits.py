"""What an attempt waits for before it runs has a bound, to the second: the scheduler, new nodes, a gang's Service."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpujob.fleet.assembly.node_state import LostRoom
from gpujob.fleet.pools.arriving import Arriving
from gpujob.lifecycle.actions import CreateService, GiveBack, Next, WriteStatus
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Moment
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.status.records.read_objects import read_child, read_job
from gpujob.values.names import child_name
from gpujob.values.vocabulary import Annotation

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAME = child_name("j", "u", 1)
TIMINGS = Timings(unbound=300.0, unbound_gang=60.0, rest_factor=3, provision=900.0, service=2.0)
PLACEMENT = {"pool": "h100", "vendor": "NVIDIA", "accelerator": "H100-SXM", "pricePerHour": "36.00", "image": "i",
             "nodes": 2, "gpusPerNode": 8, "runtime": "r"}  # fmt: skip


def child(pods: int = 1, *, new_nodes: bool = False, uid: str = "c") -> ChildRecord:
    """A child Job on existing nodes, or on nodes that an autoscaler must add."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [f"n{number}"]} for number in range(pods)]
    terms = {"nodeSelectorTerms": [{"matchFields": [one]} for one in fields]}
    affinity = {} if new_nodes else {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    hint = PLACEMENT | {"nodes": pods} | ({"provision": True} if new_nodes else {})
    metadata = {
        "name": NAME, "namespace": "team", "uid": uid, "creationTimestamp": "2026-01-01T12:00:00Z",
        "ownerReferences": [{"kind": "GPUJob", "name": "j", "uid": "u", "controller": True}],
        "annotations": {Annotation.PLACEMENT: json.dumps(hint)},
    }  # fmt: skip
    return read_child(
        {"metadata": metadata, "spec": {"completions": pods, "template": {"spec": {"affinity": affinity}}}}
    )


def pod(number: int = 0, node: str = "", uid: str = "c") -> PodState:
    """A pod; the scheduler has found no place for one without a node."""
    known = {"child_name": NAME, "namespace": "team", "waiting_reason": "" if node else "Unschedulable"}
    return PodState(f"p{number}", uid, node, "Pending", running=False, leaving=False, **known)


class Watch:
    """One job whose status names the child, as it is seen again and again by two clocks that begin together."""

    def __init__(self, **status: Any) -> None:
        self.sightings = Sightings()
        self.status = {
            "state": "Placed",
            "attempt": 1,
            "jobName": NAME,
            "jobUID": "c",
            "placement": PLACEMENT,
            **status,
        }

    def look(self, second: float, its: ChildRecord, *pods: PodState, leaving: bool = False, **view: Any) -> Next:
        metadata = {"name": "j", "namespace": "team", "uid": "u", "generation": 1}
        if leaving:
            metadata |= {"deletionTimestamp": "2026-01-01T12:00:00Z"}
        job = read_job({"metadata": metadata, "spec": {}, "status": self.status})
        moment = Moment(second, BEGAN + timedelta(seconds=second))
        found = next_action(JobView(job, (its,), pods, {}, **view), self.sightings, moment, TIMINGS)
        self.sightings = found.sightings
        return found


GANG, ALONE = child(2), child()


@pytest.mark.parametrize(("its", "bound", "rest"), [(GANG, 60.0, "12:04:00"), (ALONE, 300.0, "12:20:00")])
def test_pods_that_are_not_bound_give_their_gpus_back_at_the_bound_and_not_before(
    its: ChildRecord, bound: float, rest: str
) -> None:
    watch, pods = Watch(), [pod(number) for number in range(its.pods)]
    first = watch.look(0.0, its, *pods)
    assert not isinstance(first.action, GiveBack)
    assert first.requeue_after is not None
    assert first.requeue_after <= bound
    almost = watch.look(bound - 0.5, its, *pods)
    assert not isinstance(almost.action, GiveBack)
    assert almost.requeue_after == 0.5
    done = watch.look(bound, its, *pods).action
    assert isinstance(done, GiveBack)
    assert (done.status["state"], "jobName" in done.status) == ("Queued", False)
    (away,) = done.status["excludedPools"]
    assert (away["name"], away["reason"], away["until"]) == ("h100", "Unschedulable", f"2026-01-01T{rest}Z")
    (placed,) = (each for each in done.status["conditions"] if each["type"] == "Placed")
    assert f"after {bound:g} seconds" in placed["message"]


def test_a_gang_of_which_one_pod_is_not_bound_gives_all_back() -> None:
    watch = Watch()
    watch.look(0.0, GANG, pod(0, "n0"), pod(1))
    assert isinstance(watch.look(60.0, GANG, pod(0, "n0"), pod(1)).action, GiveBack)


def test_the_wait_begins_again_once_all_pods_were_bound() -> None:
    watch = Watch()
    watch.look(0.0, GANG, pod(0), pod(1))
    watch.look(30.0, GANG, pod(0, "n0"), pod(1, "n1"))
    assert watch.sightings.unbound == ("", 0.0)
    watch.look(50.0, GANG, pod(0, "n0"), pod(1))
    assert not isinstance(watch.look(109.0, GANG, pod(0, "n0"), pod(1)).action, GiveBack)
    assert isinstance(watch.look(110.0, GANG, pod(0, "n0"), pod(1)).action, GiveBack)


def test_another_child_has_a_wait_of_its_own() -> None:
    watch, other = Watch(jobUID="d"), child(2, uid="d")
    watch.look(0.0, GANG, pod(0), pod(1))
    watch.look(50.0, other, pod(0, uid="d"), pod(1, uid="d"))
    assert not isinstance(watch.look(100.0, other, pod(0, uid="d"), pod(1, uid="d")).action, GiveBack)
    assert isinstance(watch.look(110.0, other, pod(0, uid="d"), pod(1, uid="d")).action, GiveBack)


@pytest.mark.parametrize("status", [{"startTime": "2026-01-01T12:00:00Z", "state": "Running"}])
def test_a_job_that_ran_does_not_give_back(status: dict[str, Any]) -> None:
    watch = Watch(**status)
    watch.look(0.0, GANG, pod(0, "n0"), pod(1))
    assert not isinstance(watch.look(1000.0, GANG, pod(0, "n0"), pod(1)).action, GiveBack)


NEW = child(2, new_nodes=True)


def test_nodes_that_do_not_come_end_the_attempt_at_the_bound_and_not_before() -> None:
    watch = Watch()
    first = watch.look(0.0, NEW, pod(0), pod(1))
    assert first.watches_nodes
    almost = watch.look(899.5, NEW, pod(0), pod(1))
    assert almost.requeue_after == 0.5
    assert not (isinstance(almost.action, WriteStatus) and "excludedPools" in almost.action.status)
    done = watch.look(900.0, NEW, pod(0), pod(1)).action
    assert isinstance(done, WriteStatus)
    (away,) = done.status["excludedPools"]
    assert (away["name"], done.status["state"], "jobName" in done.status) == ("h100", "Queued", False)
    (placed,) = (each for each in done.status["conditions"] if each["type"] == "Placed")
    assert placed["message"].startswith("no nodes came to pool h100 within 900 seconds; other pools are tried")


@pytest.mark.parametrize(
    "pods", [[pod(0, "n0")], [pod(0, "n0"), pod(1)], []], ids=["one is missing", "one waits", "none"]
)
def test_one_pod_without_a_node_is_enough(pods: list[PodState]) -> None:
    watch = Watch()
    watch.look(0.0, NEW, *pods)
    done = watch.look(900.0, NEW, *pods).action
    assert isinstance(done, WriteStatus)
    assert done.status["excludedPools"][0]["reason"] == "NodesDidNotCome"


def test_pods_that_are_all_on_new_nodes_wait_no_longer_and_watch_no_nodes() -> None:
    watch = Watch()
    assert watch.look(0.0, NEW, pod(0), pod(1)).watches_nodes
    found = watch.look(900.0, NEW, pod(0, "n0"), pod(1, "n1"))
    assert not found.watches_nodes
    assert not (isinstance(found.action, WriteStatus) and "excludedPools" in found.action.status)


def test_a_new_node_without_devices_has_a_wait_of_its_own_and_is_named() -> None:
    watch = Watch()
    bare = Arriving("n9", "2026-01-01T12:10:00Z", "2026-01-01T12:25:00Z")
    watch.look(0.0, NEW, pod(0), pod(1))
    waits = watch.look(900.0, NEW, pod(0), pod(1), bare_node=bare)
    assert not (isinstance(waits.action, WriteStatus) and "excludedPools" in waits.action.status)
    assert waits.requeue_after == 600.0, "a quarter of an hour since the node came"
    done = watch.look(1500.0, NEW, pod(0), pod(1), bare_node=bare).action
    assert isinstance(done, WriteStatus)
    (placed,) = (each for each in done.status["conditions"] if each["type"] == "Placed")
    assert "node n9 came to pool h100 at 2026-01-01T12:10:00Z and offers no GPUs" in placed["message"]


def test_a_new_node_keeps_its_wait_when_its_devices_come_because_the_scheduler_binds_pods_only_then() -> None:
    watch = Watch()
    bare = Arriving("n9", "2026-01-01T12:10:00Z", "2026-01-01T12:25:00Z")
    watch.look(0.0, NEW, pod(0), pod(1))
    watch.look(700.0, NEW, pod(0), pod(1), bare_node=bare)
    offers = watch.look(901.0, NEW, pod(0), pod(1))
    assert not (isinstance(offers.action, WriteStatus) and "excludedPools" in offers.action.status)
    assert offers.requeue_after == 599.0
    done = watch.look(1500.0, NEW, pod(0, "n9"), pod(1)).action
    assert isinstance(done, WriteStatus)
    (placed,) = (each for each in done.status["conditions"] if each["type"] == "Placed")
    said = "node n9 came to pool h100 at 2026-01-01T12:10:00Z and the scheduler did not bind all pods; other pools are tried"
    assert placed["message"].startswith(said)


def test_a_service_that_is_missing_is_created_after_two_seconds_and_again_after_two_more() -> None:
    watch, pods = Watch(startTime="2026-01-01T12:00:00Z", state="Running"), (pod(0, "n0"), pod(1, "n1"))
    assert not isinstance(watch.look(0.0, GANG, *pods, lacks_service=True).action, CreateService)
    almost = watch.look(1.5, GANG, *pods, lacks_service=True)
    assert (isinstance(almost.action, CreateService), almost.requeue_after) == (False, 0.5)
    assert watch.look(2.0, GANG, *pods, lacks_service=True).action == CreateService(GANG)
    assert not isinstance(watch.look(3.0, GANG, *pods, lacks_service=True).action, CreateService)
    assert watch.look(5.0, GANG, *pods, lacks_service=True).action == CreateService(GANG)


def test_a_service_that_came_back_is_not_created() -> None:
    watch, pods = Watch(startTime="2026-01-01T12:00:00Z", state="Running"), (pod(0, "n0"), pod(1, "n1"))
    watch.look(0.0, GANG, *pods, lacks_service=True)
    watch.look(1.0, GANG, *pods)
    assert not isinstance(watch.look(2.5, GANG, *pods, lacks_service=True).action, CreateService)
    assert watch.look(4.5, GANG, *pods, lacks_service=True).action == CreateService(GANG)


def test_no_service_is_created_for_a_job_that_is_being_deleted() -> None:
    watch, pods = Watch(startTime="2026-01-01T12:00:00Z", state="Running"), (pod(0, "n0"), pod(1, "n1"))
    watch.look(0.0, GANG, *pods, lacks_service=True, leaving=True)
    assert not isinstance(watch.look(9.0, GANG, *pods, lacks_service=True, leaving=True).action, CreateService)


def test_a_suspended_child_is_not_unbound() -> None:
    watch, paused = Watch(), replace(GANG, paused=True)
    watch.look(0.0, paused)
    assert not isinstance(watch.look(1000.0, paused).action, GiveBack)


TAKEN = {"n1": LostRoom()}


def test_pods_of_others_that_took_the_room_of_a_gang_leave_out_no_pool() -> None:
    watch, pods = Watch(), (pod(0, "n0"), pod(1))
    assert not isinstance(watch.look(0.0, GANG, *pods).action, GiveBack)
    first = watch.look(5.0, GANG, *pods, lost_rooms=TAKEN)
    assert not isinstance(first.action, GiveBack)
    assert not isinstance(watch.look(9.9, GANG, *pods, lost_rooms=TAKEN).action, GiveBack)
    done = watch.look(10.0, GANG, *pods, lost_rooms=TAKEN).action
    assert isinstance(done, GiveBack)
    assert (done.status["state"], done.status["display"]["reason"]) == ("Queued", "NodeTaken")
    assert not {"jobName", "excludedPools", "excludedNodes"} & done.status.keys()
    (placed,) = (each for each in done.status["conditions"] if each["type"] == "Placed")
    assert placed["message"] == (
        "other pods took its room on node n1; the job gave the GPUs of pool h100 back and is placed again"
    )


def test_room_that_is_free_again_begins_the_wait_anew() -> None:
    """Pods of others on their way out, as after a preemption."""
    watch = Watch()
    watch.look(0.0, ALONE, pod(), lost_rooms={"n0": LostRoom()})
    watch.look(4.0, ALONE, pod())
    assert not isinstance(watch.look(6.0, ALONE, pod(), lost_rooms={"n0": LostRoom()}).action, GiveBack)
    assert isinstance(watch.look(11.0, ALONE, pod(), lost_rooms={"n0": LostRoom()}).action, GiveBack)


def test_the_bound_of_the_scheduler_still_counts_where_room_is_taken_at_its_end() -> None:
    watch, pods = Watch(), (pod(0, "n0"), pod(1))
    watch.look(0.0, GANG, *pods)
    done = watch.look(60.0, GANG, *pods, lost_rooms=TAKEN).action
    assert isinstance(done, GiveBack)
    assert done.status["display"]["reason"] == "NodeTaken"


def test_pods_that_are_missing_are_no_matter_of_room() -> None:
    watch = Watch()
    watch.look(0.0, GANG, pod(0, "n0"), lost_rooms=TAKEN)
    assert not isinstance(watch.look(59.0, GANG, pod(0, "n0"), lost_rooms=TAKEN).action, GiveBack)
    done = watch.look(60.0, GANG, pod(0, "n0"), lost_rooms=TAKEN).action
    assert isinstance(done, GiveBack)
    assert done.status["display"]["reason"] == "Unschedulable"


def test_a_node_that_takes_no_pod_any_more_gets_longer_to_come_back() -> None:
    watch, gone = Watch(), {"n0": LostRoom("has taint x:NoSchedule", passes=True)}
    watch.look(0.0, ALONE, pod())
    assert not isinstance(watch.look(5.0, ALONE, pod(), lost_rooms=gone).action, GiveBack)
    assert not isinstance(watch.look(20.0, ALONE, pod()).action, GiveBack), "it came back"
    assert not isinstance(watch.look(21.0, ALONE, pod(), lost_rooms=gone).action, GiveBack)
    assert not isinstance(watch.look(40.9, ALONE, pod(), lost_rooms=gone).action, GiveBack)
    done = watch.look(41.0, ALONE, pod(), lost_rooms=gone).action
    assert isinstance(done, GiveBack)
    assert done.status["display"]["reason"] == "NodeTaken"
    assert not {"jobName", "excludedPools", "excludedNodes"} & done.status.keys()
    (placed,) = (each for each in done.status["conditions"] if each["type"] == "Placed")
    assert (
        placed["message"]
        == "node n0 has taint x:NoSchedule; the job gave the GPUs of pool h100 back and is placed again"
    )


def test_room_that_others_took_is_given_back_sooner_than_a_node_that_may_come_back() -> None:
    watch, pods, both = Watch(), (pod(0), pod(1)), {"n0": LostRoom("is not Ready", passes=True), "n1": LostRoom()}
    watch.look(0.0, GANG, *pods, lost_rooms=both)
    done = watch.look(5.0, GANG, *pods, lost_rooms=both).action
    assert isinstance(done, GiveBack)
    (placed,) = (each for each in done.status["conditions"] if each["type"] == "Placed")
    assert placed["message"].startswith("other pods took its room on node n1 and node n0 is not Ready; ")


def test_a_node_that_is_gone_does_not_come_back() -> None:
    watch, gone = Watch(), {"n0": LostRoom("is gone"), "n1": LostRoom("is gone"), "n2": LostRoom("is cordoned")}
    watch.look(0.0, GANG, pod(0), pod(1), lost_rooms=gone)
    assert not isinstance(watch.look(4.9, GANG, pod(0), pod(1), lost_rooms=gone).action, GiveBack)
    done = watch.look(5.0, GANG, pod(0), pod(1), lost_rooms=gone).action
    assert isinstance(done, GiveBack)
    (placed,) = (each for each in done.status["conditions"] if each["type"] == "Placed")
    assert placed["message"].startswith("node n0 is gone (and 2 more nodes); the job gave the GPUs")


def test_the_wait_for_a_taken_node_is_twice_as_long_after_each_attempt_that_lost_one() -> None:
    lost = [{"attempt": number, "reason": "NodeTaken"} for number in range(1, 6)]
    for attempts, seconds in (
        ((), 5.0),
        (lost[:1], 10.0),
        (lost[:2], 20.0),
        (lost[:3], 40.0),
        (lost, 60.0),
        ([*lost, {"attempt": 6, "reason": "Evicted", "from": "2026-01-01T12:00:00Z"}], 5.0),
    ):
        watch, taken = Watch(attempts=list(attempts)), {"n0": LostRoom()}
        watch.look(0.0, ALONE, pod(), lost_rooms=taken)
        assert not isinstance(watch.look(seconds - 0.1, ALONE, pod(), lost_rooms=taken).action, GiveBack)
        assert isinstance(watch.look(seconds, ALONE, pod(), lost_rooms=taken).action, GiveBack)


def test_the_sentence_counts_the_attempts_that_lost_their_node() -> None:
    watch, taken = Watch(attempts=[{"attempt": 1, "reason": "NodeTaken"}]), {"n0": LostRoom()}
    watch.look(0.0, ALONE, pod(), lost_rooms=taken)
    done = watch.look(10.0, ALONE, pod(), lost_rooms=taken).action
    assert isinstance(done, GiveBack)
    (placed,) = (each for each in done.status["conditions"] if each["type"] == "Placed")
    assert placed["message"] == (
        "other pods took its room on node n0; the job gave the GPUs of pool h100 back and is placed again "
        "(attempt 2 in a row that loses its node, each waits longer for it)"
    )
