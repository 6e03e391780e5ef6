"""An attempt that fails: who is to blame, whether another one follows and when, and what the status lists of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpujob.api.kinds.gpujob_status import GPUJobStatus
from gpujob.lifecycle.actions import Finish, Nothing, Schedule, WriteStatus
from gpujob.lifecycle.failures.causes import DISRUPTIONS, POD_REASONS, failure_of
from gpujob.lifecycle.failures.failure import Blame
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Moment
from gpujob.placement.request.demand import Demand
from gpujob.status.attempts.progress import Measured
from gpujob.status.attempts.waits import timely
from gpujob.status.job.telemetry import SILENT, Telemetry
from gpujob.status.observe.child import observe
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.status.records.preflight import Check
from gpujob.status.records.read_objects import TRACKING, read_child, read_job, read_pod_record
from gpujob.values.names import child_name
from gpujob.values.vocabulary import Reason

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIMINGS = Timings(retry_first=10.0, retry_longest=60.0, failed_pods=5.0)
PLACEMENT = {"pool": "h100", "vendor": "NVIDIA", "accelerator": "H100-SXM", "pricePerHour": "36.00", "image": "i",
             "nodes": 1, "gpusPerNode": 8, "runtime": "r"}  # fmt: skip


def child(attempt: int = 1, pods: int = 1, ended: str = "Failed", **end: str) -> ChildRecord:
    owner = {"kind": "GPUJob", "name": "j", "uid": "u", "controller": True}
    conditions = (
        [{"type": ended, "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z", **end}] if ended else []
    )
    fields = [{"key": "metadata.name", "operator": "In", "values": [f"n{n}"]} for n in range(pods)]
    terms = [{"matchFields": [one]} for one in fields]
    pod = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }
    return read_child(
        {
            "metadata": {"name": child_name("j", "u", attempt), "uid": f"c{attempt}", "ownerReferences": [owner]},
            "spec": {"completions": pods, "template": {"spec": pod}},
            "status": {"conditions": conditions},
        }
    )


def pod(
    number: int = 0, attempt: int = 1, code: int = 0, *, leaving: bool = False, train: Any = None, **status: Any
) -> PodState:
    owner = {"kind": "Job", "name": child_name("j", "u", attempt), "uid": f"c{attempt}", "controller": True}
    ended = {"terminated": {"exitCode": code, "startedAt": "2026-01-01T11:30:00Z", **(train or {})}}
    raw = {
        "metadata": {
            "name": f"p{number}", "labels": {"gpujob.dev/job-uid": "u"}, "ownerReferences": [owner], "finalizers": [TRACKING],
            **({"deletionTimestamp": "2026-01-01T12:00:00Z"} if leaving else {}),
        },
        "spec": {"nodeName": f"n{number}"},
        "status": {"phase": "Failed", "containerStatuses": [{"name": "train", "state": ended}], **status},
    }  # fmt: skip
    found = read_pod_record(raw).state
    assert found is not None
    return found


def disrupted(reason: str, **more: Any) -> dict[str, Any]:
    return {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason, **more}]}


def blamed(pods: list[PodState], *, of: int | None = None, **end: str) -> tuple[Blame, Reason, str]:
    failed = child(pods=of or len(pods), **end)
    found = failure_of(failed, pods, observe(failed, pods, ran=True))
    return found.blame, found.reason, found.node


@pytest.mark.parametrize("word", [*DISRUPTIONS, "SomethingNew"])
def test_a_pod_that_is_taken_away_is_no_failure_of_the_program(word: str) -> None:
    # The other pod of the gang fails with an error of its own, since it lost its peer.
    blame, reason, _ = blamed([pod(0, code=1), pod(1, code=143, **disrupted(word))])
    assert (blame, reason) == (Blame.INFRASTRUCTURE, DISRUPTIONS.get(word, Reason.EVICTED))


@pytest.mark.parametrize("word", [*POD_REASONS, "OutOfexample.com/part"])
def test_what_the_kubelet_says_of_a_whole_pod(word: str) -> None:
    assert blamed([pod(0, code=137, reason=word)])[0] is Blame.INFRASTRUCTURE


@pytest.mark.parametrize(
    "message",
    [
        'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ',
        'Container train exceeded its local ephemeral storage limit "1Gi". ',
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
    ],
)
def test_an_eviction_for_a_limit_of_its_own_is_the_jobs_fault(message: str) -> None:
    assert blamed([pod(code=137, reason="Evicted", message=message)])[0] is Blame.USER


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", Reason.DEVICE_FAULT),
        ("torch.AcceleratorError: hipErrorECCNotCorrectable", Reason.DEVICE_FAULT),
        ("NVRM: Xid (PCI:0000:07:00): 79, GPU has fallen off the bus.", Reason.DEVICE_FAULT),
        ("HW Exception by GPU node-4 (Agent handle: 0x55d) reason :GPU Hang", Reason.DEVICE_FAULT),
        ("amdgpu 0000:03:00.0: amdgpu: RAS poison consumption handling", Reason.DEVICE_FAULT),
        ("torch.AcceleratorError: CUDA error: cudaErrorNvlinkUncorrectable", Reason.DEVICE_FAULT),
        ("Memory access fault by GPU node-4 on address 0x7f. Reason: Page not present", Reason.POD_FAILED),
        ("NVRM: Xid (PCI:0000:07:00): 13, Graphics SM Warp Exception", Reason.POD_FAILED),
        ("torch.OutOfMemoryError: CUDA out of memory.", Reason.GPU_OUT_OF_MEMORY),
        ("ValueError: 79", Reason.POD_FAILED),
    ],
)
def test_last_words(text: str, reason: Reason) -> None:
    blame, found, node = blamed([pod(code=1, train={"message": text})])
    assert found is reason
    assert (blame, node) == ((Blame.INFRASTRUCTURE, "n0") if reason is Reason.DEVICE_FAULT else (Blame.USER, ""))


@pytest.mark.parametrize(
    ("pods", "blame"),
    [
        ([pod(code=137, leaving=True)], Blame.INFRASTRUCTURE),
        ([pod(code=143, leaving=True)], Blame.INFRASTRUCTURE),
        ([pod(code=137)], Blame.USER),
        ([pod(code=137, leaving=True, train={"reason": "OOMKilled"})], Blame.USER),
        ([pod(0, code=1), pod(1, code=143, leaving=True)], Blame.USER),
        ([pod(0, code=2)], Blame.USER),
    ],
)
def test_a_pod_that_is_told_to_end(pods: list[PodState], blame: Blame) -> None:
    assert blamed(pods)[0] is blame


def test_a_pod_that_is_gone_names_its_node() -> None:
    left = replace(pod(0), phase="Running", running=True, exit_code=None)
    assert blamed([left], of=2, reason="BackoffLimitExceeded") == (Blame.INFRASTRUCTURE, Reason.POD_DELETED, "n1")
    # A user deleted it, or its node: neither is a reason to leave the node out.
    failed = child(pods=2, reason="BackoffLimitExceeded")
    assert failure_of(failed, [left], observe(failed, [left], ran=True)).nodes == ()


@pytest.mark.parametrize(
    ("word", "blame"),
    [("DeviceUnusable", Blame.INFRASTRUCTURE), ("DeviceCountMismatch", Blame.INFRASTRUCTURE),
     ("ImageBackendMismatch", Blame.USER), ("CommandNotFound", Blame.USER)],
)  # fmt: skip
def test_what_the_preflight_finds(word: str, blame: Blame) -> None:
    seen = pod()
    checked = observe(child(), [seen])
    reason = Reason(word)
    check = Check(True, False, reason, "what it says")
    failed = replace(seen, check=check, started="", exit_code=None)
    observed = replace(checked, reason=reason, message="what it says", checked=check)
    found = failure_of(child(), [failed], observed)
    assert (found.blame, found.reason) == (blame, reason)
    assert found.node == ("n0" if blame is Blame.INFRASTRUCTURE else "")


def test_the_words_of_a_broken_device_are_in_the_message_once() -> None:
    words = "torch.AcceleratorError: hipErrorECCNotCorrectable"
    first, second = pod(0, code=1, train={"message": "it lost its peer"}), pod(1, code=1, train={"message": words})
    for pods in ([second], [first, second]):
        failed = child(pods=len(pods))
        seen = observe(failed, pods, ran=True)
        assert failure_of(failed, pods, seen).message.count("hipErrorECCNotCorrectable") == 1, seen.message


@pytest.mark.parametrize(
    "said", ["CUDA error: uncorrectable ECC error encountered", "GPU is lost", "NVRM: Xid (PCI:0000:07:00): 95"]
)
def test_a_preflight_that_meets_a_broken_device_says_so_by_the_same_word(said: str) -> None:
    check = Check(
        True, False, Reason.DEVICE_UNUSABLE, f"GPU 0 does not compute: {said}; cordon the node and check the device"
    )
    failed = replace(pod(), check=check, started="", exit_code=None)
    observed = replace(observe(child(), [failed]), reason=Reason.DEVICE_UNUSABLE, message=check.message, checked=check)
    found = failure_of(child(), [failed], observed)
    assert (found.blame, found.reason, found.nodes) == (Blame.INFRASTRUCTURE, Reason.DEVICE_FAULT, ("n0",))


class Watch:
    """One job that is looked at again and again, with what the operator writes of it."""

    def __init__(self, **spec: Any) -> None:
        self.sightings, self.spec = Sightings(), spec
        self.status: dict[str, Any] = {}

    def runs(self, attempt: int) -> None:
        """An attempt that has run since 11:30."""
        self.status = {key: value for key, value in self.status.items() if key not in ("completionTime",)} | {
            "state": "Running", "attempt": attempt, "jobName": child_name("j", "u", attempt), "jobUID": f"c{attempt}",
            "placement": PLACEMENT, "startTime": "2026-01-01T11:30:00Z",
        }  # fmt: skip

    def look(
        self,
        second: float,
        children: Any = (),
        pods: Any = (),
        telemetry: Telemetry = SILENT,
        departed: Any = (),
        faults: Any = None,
        **job: Any,
    ) -> Any:
        metadata = {"name": "j", "namespace": "team", "uid": "u", "generation": 1, **job}
        record = read_job({"metadata": metadata, "spec": self.spec, "status": self.status})
        view = JobView(record, children, pods, {}, faults=faults or {}, departed=departed, telemetry=telemetry)
        found = next_action(view, self.sightings, Moment(second, BEGAN + timedelta(seconds=second)), TIMINGS)
        self.sightings = found.sightings
        if isinstance(found.action, (WriteStatus, Finish)):
            self.status = dict(found.action.status)
            GPUJobStatus.model_validate(self.status)
        return found

    def placed(self) -> dict[str, Any]:
        (condition,) = (c for c in self.status["conditions"] if c["type"] == "Placed")
        return condition


EVICTED = pod(code=137, reason="Evicted", **disrupted("TerminationByKubelet", message="low on memory"))


def test_an_eviction_makes_a_new_attempt_after_a_pause_and_is_listed() -> None:
    watch = Watch()
    watch.runs(1)
    assert isinstance(watch.look(0.0, (child(),), (EVICTED,)).action, WriteStatus)
    assert (watch.status["state"], watch.status["failures"], "jobName" in watch.status) == (
        "Restarting", {"infrastructure": 1}, False,
    )  # fmt: skip
    sentence = "pod p0 on node n0 was taken away (TerminationByKubelet): low on memory"
    assert watch.placed()["reason"] == "Evicted"
    assert watch.placed()["message"] == f"{sentence}; attempt 2 follows at 2026-01-01T12:00:10Z, not on n0"
    assert watch.status["excludedNodes"] == [
        {"name": "n0", "until": "2026-01-01T12:10:00Z", "attempt": 1, "reason": "Evicted"}
    ]
    assert watch.status["attempts"] == [
        {
            "attempt": 1, "pool": "h100", "vendor": "NVIDIA", "nodes": ["n0"], "gpus": 8, "from": "2026-01-01T11:30:00Z",
            "to": "2026-01-01T12:00:00Z", "cost": "18.00", "reason": "Evicted", "blame": "Infrastructure",
            "message": sentence,
        }
    ]  # fmt: skip
    waiting = watch.look(4.0, (child(),), (EVICTED,))
    assert (waiting.action, waiting.requeue_after) == (Nothing(), 6.0)
    assert watch.look(10.0, (child(),), (EVICTED,)).action == Schedule()


def test_pauses_grow_to_a_limit_and_the_last_failure_is_final() -> None:
    watch, ends = Watch(), []
    for attempt in range(1, 7):
        watch.runs(attempt)
        taken = replace(EVICTED, child_uid=f"c{attempt}")
        watch.look(0.0, (child(attempt),), (taken,))
        if watch.status["state"] == "Restarting":
            ends.append(watch.placed()["message"].removesuffix(", not on n0")[-9:])
    assert ends == ["12:00:10Z", "12:00:20Z", "12:00:40Z", "12:01:00Z", "12:01:00Z"]
    failed = next(c for c in watch.status["conditions"] if c["type"] == "Failed")
    assert (watch.status["state"], failed["reason"], watch.status["failures"]) == (
        "Failed",
        "Evicted",
        {"infrastructure": 5},
    )
    assert failed["message"].endswith("low on memory; it was tried again 5 times (retries.infrastructure)")
    assert [entry["attempt"] for entry in watch.status["attempts"]] == [2, 3, 4, 5, 6]
    # Failed stays failed.
    assert watch.look(900.0, (child(6),), ()).action == Nothing()


@pytest.mark.parametrize(
    ("retries", "state"),
    [(None, "Failed"), ({"infrastructure": 9}, "Failed"), ({"user": 1}, "Restarting"), ({"user": 0}, "Failed"),
     ({"user": "x"}, "Failed"), ("x", "Failed"), ({"user": -1}, "Failed")],
)  # fmt: skip
def test_the_two_counts_are_not_mixed(retries: Any, state: str) -> None:
    watch = Watch(**({"retries": retries} if retries is not None else {}))
    watch.runs(1)
    watch.look(0.0, (child(),), (pod(code=3),))
    assert watch.status["state"] == state
    assert watch.status["attempts"][0]["blame"] == "User"
    assert "excludedNodes" not in watch.status


def test_all_nodes_that_went_away_together_are_left_out_and_those_of_others_are_not() -> None:
    lost = disrupted("DeletionByTaintManager")
    pods = [pod(0, code=137, **lost), pod(1, code=137, **lost), pod(2, code=137, **disrupted("PreemptionByScheduler")),
            pod(3, code=1, train={"message": "CUDA error: uncorrectable ECC error encountered"})]  # fmt: skip
    watch = Watch()
    watch.runs(1)
    watch.look(0.0, (child(pods=4),), pods)
    assert watch.status["attempts"][0]["reason"] == "NodeLost"
    assert [entry["name"] for entry in watch.status["excludedNodes"]] == ["n0", "n1"]
    assert watch.placed()["message"].endswith("follows at 2026-01-01T12:00:10Z, not on n0 and n1")


def test_who_is_preempted_may_come_back_to_the_node() -> None:
    watch = Watch()
    watch.runs(1)
    watch.look(0.0, (child(),), (pod(code=137, **disrupted("PreemptionByScheduler")),))
    assert (watch.status["state"], "excludedNodes" in watch.status) == ("Restarting", False)


@pytest.mark.parametrize(
    "held",
    [{"failures": "x"}, {"failures": {"infrastructure": "many"}}, {"attempts": "x"}, {"attempts": [7, {"attempt": []}]},
     {"attempts": [{"attempt": 1, "to": 7, "blame": {}}]}],
)  # fmt: skip
def test_a_status_that_somebody_wrote_stops_nothing(held: dict[str, Any]) -> None:
    watch = Watch()
    watch.runs(1)
    watch.status |= held
    found = watch.look(0.0, (child(),), (EVICTED,)).action
    assert isinstance(found, WriteStatus)
    assert found.status["state"] == "Restarting"


def test_a_pause_that_another_clock_wrote_is_no_longer_than_it_may_be() -> None:
    watch = Watch()
    watch.status = {
        "state": "Restarting", "attempt": 1, "failures": {"infrastructure": 1},
        "attempts": [{"attempt": 1, "to": "2096-01-01T00:00:00Z", "reason": "Evicted", "blame": "Infrastructure"}],
    }  # fmt: skip
    assert watch.look(0.0).requeue_after == 10.0


def test_a_failed_job_whose_pods_are_not_seen_to_have_failed_is_judged_later() -> None:
    watch = Watch()
    watch.runs(1)
    runs = replace(pod(), phase="Running", running=True, exit_code=None)
    assert watch.look(0.0, (child(),), (runs,)).action == Nothing()
    assert isinstance(watch.look(2.0, (child(),), (EVICTED,)).action, WriteStatus)
    assert watch.status["state"] == "Restarting"
    late = Watch()
    late.runs(1)
    late.look(0.0, (child(),), (runs,))
    assert isinstance(late.look(5.0, (child(),), (runs,)).action, Finish)


def test_a_deleted_job_is_not_tried_again() -> None:
    watch = Watch()
    watch.runs(1)
    watch.look(0.0, (child(),), (EVICTED,), deletionTimestamp="2026-01-01T12:00:00Z")
    assert watch.status["state"] == "Failed"


def test_a_success_is_listed_too() -> None:
    watch = Watch()
    watch.runs(2)
    well = replace(pod(attempt=2), phase="Succeeded")
    assert isinstance(watch.look(0.0, (child(2, ended="Complete"),), (well,)).action, Finish)
    (entry,) = watch.status["attempts"]
    assert (entry["attempt"], entry["reason"], "blame" in entry) == (2, "Succeeded", False)


def test_the_newest_attempt_that_ran_is_listed_however_many_follow_it() -> None:
    watch = Watch(retries={"infrastructure": 20})
    watch.runs(1)
    watch.look(0.0, (child(1),), (EVICTED,))
    for attempt in range(2, 9):
        watch.status = watch.status | {"jobName": child_name("j", "u", attempt), "attempt": attempt}
        taken = pod(attempt=attempt, code=0, train={"startedAt": None}, reason="NodeAffinity")
        watch.look(0.0, (child(attempt),), (taken,))
    assert [entry["attempt"] for entry in watch.status["attempts"]] == [1, 5, 6, 7, 8]


def test_lost_steps_are_counted_once_for_each_failed_attempt() -> None:
    read = Telemetry(Measured(at=BEGAN, counters={"steps": 120.0}, checkpoint=100, unsaved=20), ())
    watch = Watch(retries={"infrastructure": 1}, checkpoint={})
    watch.runs(1)
    watch.look(0.0, (child(1),), (EVICTED,), read)
    assert watch.status["checkpoint"] == {"step": 100, "lostSteps": 20}
    assert isinstance(watch.look(1.0, (child(1),), (EVICTED,), read).action, Nothing)
    watch.runs(2)
    final = watch.look(60.0, (child(2),), (replace(EVICTED, child_uid="c2"),), read).action
    assert isinstance(final, Finish)
    assert watch.status["checkpoint"] == {"step": 100, "lostSteps": 40}


POD = "Pod team/j-1-1-abcde has condition DisruptionTarget matching FailJob rule at index 0"
EXIT = "Container train for pod team/j-1-1-abcde failed with exit code {} matching FailJob rule at index 2"


@pytest.mark.parametrize(
    ("message", "blame", "reason", "said"),
    [
        (POD, Blame.INFRASTRUCTURE, Reason.EVICTED, "pod j-1-1-abcde was taken away (DisruptionTarget) and is gone"),
        (EXIT.format(143), Blame.INFRASTRUCTURE, Reason.POD_DELETED,
         "the pod on node n1 is gone: the node or the pod was deleted, which is no fault of the program"),
        (EXIT.format(3), Blame.INFRASTRUCTURE, Reason.POD_DELETED,
         "container train of pod j-1-1-abcde failed with exit code 3, and the pod is gone"),
        (f"x {POD}", Blame.USER, Reason.POD_FAILED, None),
    ],
)  # fmt: skip
def test_the_job_keeps_the_cause_of_a_pod_that_is_gone(
    message: str, blame: Blame, reason: Reason, said: str | None
) -> None:
    failed = child(pods=2, reason="PodFailurePolicy", message=message)
    left = replace(pod(0), phase="Running", running=True, exit_code=None)
    seen = observe(failed, [left], ran=True)
    found = failure_of(failed, [left], seen)
    assert (found.blame, found.reason) == (blame, reason)
    assert found.node == ("n1" if reason is Reason.POD_DELETED else "")
    assert said is None or found.message == said


OUT = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.25 GiB of which "
    "5.25 GiB is free. Including non-PyTorch memory, this process has 74.00 GiB memory in use. Of the allocated memory 70.00 GiB "
    "is allocated by PyTorch, and 3.00 GiB is reserved by PyTorch but unallocated."
)
SAID = (
    "pod p0 on node n0 ran out of GPU memory: it asked for 20Gi more with 71Gi of 79.25Gi in use; 98G would have held this much: set "
    "gpuMemory to more than that, or lower the batch size"
)


def test_a_gpu_that_ran_out_of_memory_says_how_much_would_have_held_the_program() -> None:
    watch = Watch()
    watch.runs(1)
    watch.look(0.0, (child(),), (pod(code=1, train={"message": OUT}),))
    (failed,) = (c for c in watch.status["conditions"] if c["type"] == "Failed")
    assert (watch.status["state"], failed["reason"], failed["message"]) == ("Failed", "GPUOutOfMemory", SAID)


def test_with_a_factor_the_next_attempt_asks_for_more_and_may_go_to_another_pool() -> None:
    watch = Watch(retries={"user": 1, "memoryFactor": "1.2"})
    watch.runs(1)
    watch.look(0.0, (child(),), (pod(code=1, train={"message": OUT}),))
    assert watch.status["gpuMemory"] == "117253M"
    assert (
        watch.placed()["message"]
        == f"{SAID}; attempt 2 follows at 2026-01-01T12:00:10Z and asks for 117253M on each GPU"
    )
    asked = timely(Demand(), "", watch.status, BEGAN)
    assert (asked.memory_floor, asked.stays_on) == (117253 * 10**6, "")
    # The next failure is another one: the job stays where it then is, and still asks for as much.
    watch.runs(2)
    watch.spec["retries"]["user"] = 2
    watch.look(20.0, (child(2),), (replace(pod(attempt=2, code=3), child_uid="c2"),))
    asked = timely(Demand(), "", watch.status, BEGAN)
    assert (asked.memory_floor, asked.stays_on) == (117253 * 10**6, "h100")


@pytest.mark.parametrize("factor", [None, "0.5", "9", "x", [], "1e9", 10**20])
def test_without_a_factor_it_asks_for_no_more_and_stays_on_its_pool(factor: Any) -> None:
    watch = Watch(retries={"user": 1, "memoryFactor": factor})
    watch.runs(1)
    watch.look(0.0, (child(),), (pod(code=1, train={"message": OUT}),))
    assert "gpuMemory" not in watch.status
    asked = timely(Demand(), "", watch.status, BEGAN)
    assert (asked.memory_floor, asked.stays_on) == (None, "h100")


@pytest.mark.parametrize("said", ["much", 7, {}, "1" * 25, "-1G"])
def test_a_size_that_somebody_wrote_into_the_status_is_read_as_none(said: Any) -> None:
    assert timely(Demand(), "", {"gpuMemory": said}, BEGAN).memory_floor is None


def test_the_first_of_a_gang_that_ran_out_is_the_cause() -> None:
    pods = [
        pod(0, code=1, train={"message": "RuntimeError: NCCL connection reset"}),
        pod(1, code=1, train={"message": OUT}),
    ]
    assert blamed(pods)[1] is Reason.GPU_OUT_OF_MEMORY


def test_what_the_kubelet_says_of_a_disrupted_pod_is_taken() -> None:
    for word, reason in (("Terminated", Reason.NODE_LOST), ("Preempting", Reason.PREEMPTED), ("", Reason.EVICTED)):
        assert blamed([pod(code=137, reason=word, **disrupted("TerminationByKubelet"))])[1] is reason


def test_retries_end_with_their_time() -> None:
    watch = Watch(retries={"infrastructure": 9, "withinSeconds": 100})
    for attempt, second in ((1, 0.0), (2, 99.0)):
        watch.runs(attempt)
        watch.look(second, (child(attempt),), (replace(EVICTED, child_uid=f"c{attempt}"),))
        assert (watch.status["state"], watch.status["failingSince"]) == ("Restarting", "2026-01-01T12:00:00Z")
    watch.runs(3)
    watch.look(100.0, (child(3),), (replace(EVICTED, child_uid="c3"),))
    (failed,) = (c for c in watch.status["conditions"] if c["type"] == "Failed")
    assert watch.status["state"] == "Failed"
    assert failed["message"].endswith(
        "it was tried again 2 times (retries.infrastructure); retries.withinSeconds is over"
    )


@pytest.mark.parametrize("held", ["soon", 7, None, {}])
def test_a_beginning_that_is_no_time_is_set_anew(held: Any) -> None:
    watch = Watch(retries={"withinSeconds": 100})
    watch.runs(1)
    watch.status["failingSince"] = held
    watch.look(50.0, (child(),), (EVICTED,))
    assert (watch.status["state"], watch.status["failingSince"]) == ("Restarting", "2026-01-01T12:00:50Z")


def in_a_gang(
    failed_at: str, deleted_at: str = "2026-01-01T12:00:00Z", grace: int = 30, **train: Any
) -> list[PodState]:
    """A pod that fails by itself, and one that is deleted: by a user before that, or by the Job controller after it."""
    failed = pod(0, code=1, train={"finishedAt": failed_at, **train})
    gone_at = (datetime.fromisoformat(deleted_at) + timedelta(seconds=grace)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [failed, replace(pod(1, code=143, leaving=True), gone_at=gone_at, grace=grace)]


@pytest.mark.parametrize(
    ("pods", "blame"),
    [
        (in_a_gang("2026-01-01T12:00:02Z"), Blame.INFRASTRUCTURE),
        (in_a_gang("2026-01-01T12:00:29Z"), Blame.INFRASTRUCTURE),
        (in_a_gang("2026-01-01T11:59:59Z"), Blame.USER),
        (in_a_gang("2026-01-01T12:00:00Z"), Blame.INFRASTRUCTURE),
        (in_a_gang("soon"), Blame.USER),
        (in_a_gang(""), Blame.USER),
        (in_a_gang("2026-01-01T12:00:02Z", reason="OOMKilled"), Blame.USER),
    ],
)
def test_pods_that_fail_since_a_peer_was_deleted_are_not_to_blame(pods: list[PodState], blame: Blame) -> None:
    assert blamed(pods)[:2] == (blame, Reason.POD_DELETED if blame is Blame.INFRASTRUCTURE else blamed(pods)[1])


@pytest.mark.parametrize(
    ("ended", "code", "blame"),
    [("2026-01-01T12:00:01Z", 1, Blame.INFRASTRUCTURE), ("2026-01-01T12:00:00Z", 1, Blame.INFRASTRUCTURE),
     ("2026-01-01T11:59:59Z", 1, Blame.USER), ("", 1, Blame.USER), ("2026-01-01T12:00:01Z", 143, Blame.INFRASTRUCTURE)],
)  # fmt: skip
def test_a_program_that_ends_on_sigterm_in_its_own_way_is_not_to_blame(ended: str, code: int, blame: Blame) -> None:
    deleted = replace(
        pod(code=code, leaving=True, train={"finishedAt": ended}), gone_at="2026-01-01T12:00:30Z", grace=30
    )
    assert blamed([deleted])[0] is blame


@pytest.mark.parametrize(
    ("gone_at", "blame"),
    [("2026-01-01T12:00:00Z", Blame.INFRASTRUCTURE), ("2026-01-01T12:00:30Z", Blame.INFRASTRUCTURE),
     ("2026-01-01T12:00:31Z", Blame.USER)],
)  # fmt: skip
def test_the_kubelets_last_deletion_is_no_later_request(gone_at: str, blame: Blame) -> None:
    """An operator that was off sees only that one: it follows the end of the containers at once, and has no grace."""
    deleted = pod(code=1, leaving=True, train={"finishedAt": "2026-01-01T12:00:00Z"})
    assert blamed([replace(deleted, gone_at=gone_at, grace=0)])[0] is blame


def test_a_program_that_was_seen_to_fail_first_is_to_blame_whoever_deletes_its_pod_then() -> None:
    watch = Watch()
    watch.runs(1)
    failed = pod(code=1, train={"finishedAt": "2026-01-01T12:00:00Z"})
    watch.look(20.0, (child(ended=""),), (failed,))
    deleted = replace(failed, leaving=True, gone_at="2026-01-01T12:00:01Z", grace=0)
    watch.look(21.0, (child(),), (deleted,))
    assert (watch.status["state"], watch.status["attempts"][-1]["blame"]) == ("Failed", "User")


def test_the_deletion_of_a_pod_is_read_with_its_grace() -> None:
    assert (pod(leaving=True).gone_at, pod(leaving=True).grace) == ("2026-01-01T12:00:00Z", 0)
    assert (pod().gone_at, pod(train={"finishedAt": "x"}).ended) == ("", "x")
