"""A device that breaks under an attempt moves the job; one that was broken before, or that no agent reports, does not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from test_failed_attempts import BEGAN, child, disrupted, pod

from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.labels.faults import Fault, faults_of
from gpujob.lifecycle.actions import DeleteChild, Schedule, WriteStatus
from gpujob.lifecycle.attempts import newly_failed
from gpujob.lifecycle.failures.causes import failure_of
from gpujob.lifecycle.failures.device_faults import device_faults
from gpujob.lifecycle.failures.failure import Blame
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Moment
from gpujob.status.attempts.progress import FaultSeen, Measured
from gpujob.status.job.telemetry import SILENT, Telemetry
from gpujob.status.observe.child import observe
from gpujob.status.records.device_words import broken_under_program
from gpujob.status.records.objects import ChildRecord, Hint, PodState
from gpujob.status.records.read_objects import read_job, read_pod_record
from gpujob.values.names import child_name
from gpujob.values.vocabulary import Reason, State, Vendor

BEFORE, CREATED, LATER = "2026-01-01T11:00:00Z", "2026-01-01T11:30:00Z", "2026-01-01T11:45:00Z"


def node(*, labels: Any = None, taints: Any = (), **conditions: str) -> tuple[Fault, ...]:
    raw = {
        "metadata": {"name": "n0", "labels": labels or {}},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
        "status": {"conditions": [
            {"type": kind, "status": status, "reason": "Why", "lastTransitionTime": LATER} for kind, status in conditions.items()
        ]},
    }  # fmt: skip
    return faults_of(read_node(raw))


@pytest.mark.parametrize(
    ("kind", "status", "vendor"),
    [("AcceleratedHardwareReady", "False", None), ("XIDErrors", "True", None), ("GPUMissing", "True", None),
     ("SysLogsXIDError", "True", None), ("AMDGPUUnhealthy", "True", Vendor.AMD), ("NebiusGPUError", "True", None),
     ("CperHardwareErrorFatal", "True", None), ("GpuMemWatch", "True", Vendor.NVIDIA)],
)  # fmt: skip
def test_conditions_of_broken_devices(kind: str, status: str, vendor: Vendor | None) -> None:
    assert node(**{kind: status}) == (Fault(f"condition {kind} is {status} (Why)", LATER, vendor),)
    assert node(**{kind: "True" if status == "False" else "False"}) == ()


@pytest.mark.parametrize(
    "kind", ["GPUClockThrottling", "KernelDeadlock", "VMEventScheduled", "CSPMaintenance", "MyGPUProblem"]
)
def test_conditions_that_are_no_broken_device(kind: str) -> None:
    assert node(**{kind: "True"}) == ()


def test_labels_and_taints_of_broken_devices() -> None:
    (label,) = node(labels={"sagemaker.amazonaws.com/node-health-status": "UnschedulablePendingReplacement"})
    assert label.what == "sagemaker.amazonaws.com/node-health-status is UnschedulablePendingReplacement"
    assert node(labels={"sagemaker.amazonaws.com/node-health-status": "Schedulable"}) == ()
    assert [fault.what for fault in node(taints=["amd-gpu-unhealthy", "gpu.health/xid", "amd-dcm", "nvidia.com/gpu"])] == [
        "taint amd-gpu-unhealthy:NoSchedule", "taint gpu.health/xid:NoSchedule",
    ]  # fmt: skip


def running(**status: Any) -> PodState:
    owner = {"kind": "Job", "name": child_name("j", "u", 1), "uid": "c1", "controller": True}
    train = {"name": "train", "state": {"running": {"startedAt": CREATED}}, **status}
    found = read_pod_record(
        {
            "metadata": {"name": "p0", "labels": {"gpujob.dev/job-uid": "u"}, "ownerReferences": [owner]},
            "spec": {"nodeName": "n0"}, "status": {"phase": "Running", "containerStatuses": [train]},
        }
    ).state  # fmt: skip
    assert found is not None
    return found


def sick(health: Any = "Unhealthy") -> PodState:
    devices = [{"resourceID": "GPU-1", "health": "Healthy"}, {"resourceID": "GPU-2", "health": health}]
    return running(allocatedResourcesStatus=[{"name": "nvidia.com/gpu", "resources": devices}])


def on(vendor: str = "NVIDIA") -> ChildRecord:
    return replace(child(ended=""), created=CREATED, hint=Hint({"vendor": vendor}))


XID = Fault("condition XIDErrors is True (Why)", LATER)


def test_what_the_kubelet_says_of_a_pods_devices() -> None:
    (fault,) = device_faults(on(), [sick()], {})
    assert (fault.node, fault.message) == ("n0", "node n0: device nvidia.com/gpu GPU-2 of pod p0 is Unhealthy")
    for health in ("Healthy", "Unknown", None, 7):
        assert list(device_faults(on(), [sick(health)], {})) == []
    assert running(allocatedResourcesStatus="x").unhealthy == ()


@pytest.mark.parametrize(
    ("fault", "counts"),
    [(XID, True), (XID._replace(since=BEFORE), False), (XID._replace(since=""), True), (XID._replace(since="soon"), True),
     (XID._replace(vendor=Vendor.AMD), False), (XID._replace(vendor=Vendor.NVIDIA), True)],
)  # fmt: skip
def test_a_fault_counts_where_it_began_under_the_attempt_and_is_of_its_vendor(fault: Fault, counts: bool) -> None:
    assert bool(list(device_faults(on(), [running()], {"n0": [fault]}))) is counts
    assert list(device_faults(on(), [running()], {"n1": [fault]})) == []


class Watch:
    """A job whose first attempt runs."""

    def __init__(self, **spec: Any) -> None:
        self.spec, self.sightings = spec, Sightings()
        self.status: dict[str, Any] = {"state": "Running", "attempt": 1, "jobName": child_name("j", "u", 1), "startTime": CREATED,
                                       "placement": {"pool": "h100", "vendor": "NVIDIA"}}  # fmt: skip

    def look(self, second: float, pods: list[PodState], faults: Any = None, seen: Any = ()) -> Any:
        job = read_job(
            {"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": self.spec, "status": self.status}
        )
        telemetry = Telemetry(Measured(BEGAN, faults=tuple(seen))) if seen else SILENT
        view = JobView(job, [on()], pods, {"n0": True}, faults=faults or {}, telemetry=telemetry)
        found = next_action(view, self.sightings, Moment(second, BEGAN + timedelta(seconds=second)), Timings())
        self.sightings = found.sightings
        return found

    def state(self, found: Any) -> Any:
        return found.action.status["state"] if isinstance(found.action, WriteStatus) else found.action


@pytest.mark.parametrize(
    ("pods", "faults", "why"),
    [([sick()], None, "node n0: device nvidia.com/gpu GPU-2 of pod p0 is Unhealthy"),
     ([running()], {"n0": [XID]}, f"node n0 reports a device fault since {LATER}: condition XIDErrors is True (Why)")],
)  # fmt: skip
def test_a_fault_that_lasts_moves_the_job(pods: list[PodState], faults: Any, why: str) -> None:
    watch = Watch()
    first = watch.look(0.0, pods, faults)
    assert watch.state(first) == State.RUNNING
    assert first.requeue_after == 30.0
    assert watch.state(watch.look(29.0, pods, faults)) == State.RUNNING
    moved = watch.look(30.0, pods, faults)
    assert watch.state(moved) == State.RESTARTING
    status = moved.action.status
    (placed,) = (c for c in status["conditions"] if c["type"] == "Placed")
    assert (placed["reason"], placed["message"]) == (
        "DeviceFault", f"{why}; attempt 2 follows at 2026-01-01T12:00:40Z, not on n0",
    )  # fmt: skip
    assert "jobName" not in status
    assert status["failures"] == {"infrastructure": 1}
    assert [each["name"] for each in status["excludedNodes"]] == ["n0"]
    assert list(newly_failed(read_job({"status": watch.status}), status)) == [("h100", "Infrastructure", "DeviceFault")]
    assert list(newly_failed(read_job({"status": status}), status)) == []


AT = "2026-01-01T12:00:03Z"


@pytest.mark.parametrize(
    ("fault", "what"),
    [("Xid-79", "Xid 79"), ("Xid-48", "Xid 48"), ("Xid-95", "Xid 95"), ("Xid-119", "Xid 119"),
     ("RAS-umc", "an uncorrectable RAS error in umc"), ("Xid-63", ""), ("Xid-94", ""), ("Xid-31", ""), ("Xid-13", ""),
     ("Xid-", ""), ("Xid-79x", ""), ("xid-79", ""), ("Xid-1079", ""), ("RAS-", ""), ("", "")],
)  # fmt: skip
def test_which_faults_move_a_program_that_runs_on(fault: str, what: str) -> None:
    assert broken_under_program(fault) == what


@pytest.mark.parametrize("pod", ["p0", "another"])
def test_a_device_that_breaks_under_a_program_that_runs_on_moves_the_job(pod: str) -> None:
    """That of an earlier attempt's pod says nothing of this one."""
    watch, seen = Watch(), [FaultSeen(pod, "Xid 79", "GPU-9c1d", AT)]
    assert watch.state(watch.look(0.0, [running()], seen=seen)) == State.RUNNING
    moved = watch.look(30.0, [running()], seen=seen)
    if pod == "another":
        assert watch.state(moved) == State.RUNNING
        return
    status = moved.action.status
    (entry,) = status["attempts"]
    assert (status["state"], entry["reason"], entry["blame"]) == ("Restarting", "DeviceFault", "Infrastructure")
    assert entry["message"] == f"node n0: the driver reports Xid 79 of GPU-9c1d at {AT} to pod p0"
    assert [each["name"] for each in status["excludedNodes"]] == ["n0"]


def test_one_that_is_seen_where_no_attempt_is_left_lets_the_program_run_on() -> None:
    watch, seen = Watch(retries={"infrastructure": 0}), [FaultSeen("p0", "Xid 79", "GPU-9c1d", AT)]
    watch.look(0.0, [running()], seen=seen)
    assert watch.state(watch.look(99.0, [running()], seen=seen)) == State.RUNNING


def test_a_program_that_fails_after_a_fault_that_its_reporter_saw_is_not_to_blame() -> None:
    failed = replace(running(), phase="Failed", running=False, exit_code=1)
    faults = list(device_faults(on(), [failed], {}, [FaultSeen("p0", "Xid 79", "GPU-9c1d", AT)]))
    ended = replace(on(), ended="Failed")
    failure = failure_of(ended, [failed], observe(ended, [failed]), faults)
    assert (failure.blame, failure.reason, failure.node) == (Blame.INFRASTRUCTURE, Reason.DEVICE_FAULT, "n0")


def test_one_that_passes_moves_nothing_and_counts_anew() -> None:
    watch = Watch()
    watch.look(0.0, [sick()])
    watch.look(20.0, [running()])
    assert watch.state(watch.look(40.0, [sick()])) == State.RUNNING
    assert watch.state(watch.look(69.0, [sick()])) == State.RUNNING
    assert watch.state(watch.look(70.0, [sick()])) == State.RESTARTING


def test_where_no_attempt_is_left_the_job_runs_on() -> None:
    watch = Watch(retries={"infrastructure": 0})
    watch.look(0.0, [sick()])
    assert watch.state(watch.look(99.0, [sick()])) == State.RUNNING


@pytest.mark.parametrize(
    ("dead", "blame", "reason"),
    [(pod(code=1), Blame.INFRASTRUCTURE, Reason.DEVICE_FAULT),
     (pod(code=137, **disrupted("DeletionByTaintManager")), Blame.INFRASTRUCTURE, Reason.DEVICE_FAULT),
     (pod(code=137, **disrupted("PreemptionByScheduler")), Blame.INFRASTRUCTURE, Reason.PREEMPTED)],
)  # fmt: skip
def test_a_program_that_fails_on_a_broken_device_is_not_to_blame(dead: PodState, blame: Blame, reason: Reason) -> None:
    failed = replace(child(), created=CREATED)
    faults = list(device_faults(failed, [dead], {"n0": [XID]}))
    found = failure_of(failed, [dead], observe(failed, [dead], ran=True), faults)
    assert (found.blame, found.reason) == (blame, reason)
    assert found.nodes == (("n0",) if reason is Reason.DEVICE_FAULT else ())


def test_an_eviction_by_a_device_taint_is_a_device_fault() -> None:
    failed, dead = child(), pod(code=137, **disrupted("DeletionByDeviceTaintManager"))
    found = failure_of(failed, [dead], observe(failed, [dead], ran=True))
    assert (found.reason, found.nodes) == (Reason.DEVICE_FAULT, ("n0",))


def evicted(**more: Any) -> PodState:
    return replace(running(), **{"leaving": True, "disruption": "DeletionByTaintManager", **more})


def dead(watch: Watch, second: float, pods: list[PodState], ready: dict[str, bool], children: Any = None) -> Any:
    job = read_job(
        {"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": watch.spec, "status": watch.status}
    )
    children = [on()] if children is None else children
    found = next_action(
        JobView(job, children, pods, ready),
        watch.sightings,
        Moment(second, BEGAN + timedelta(seconds=second)),
        Timings(),
    )
    watch.sightings = found.sightings
    return found


def test_an_attempt_on_a_dead_node_is_lost_at_once_and_the_next_one_does_not_wait_for_its_pod() -> None:
    watch = Watch()
    found = dead(watch, 0.0, [evicted()], {"n0": False})
    assert watch.state(found) == State.RESTARTING
    watch.status = dict(found.action.status)
    (entry,) = watch.status["attempts"]
    assert (entry["reason"], entry["blame"]) == ("NodeLost", "Infrastructure")
    assert [each["name"] for each in watch.status["excludedNodes"]] == ["n0"]
    # Its child goes, and after the pause the next attempt is placed although the pod stays Terminating.
    assert dead(watch, 1.0, [evicted()], {"n0": False}).action == DeleteChild(on())
    assert dead(watch, 11.0, [evicted()], {"n0": False}, []).action == Schedule()


@pytest.mark.parametrize(
    ("pods", "ready"),
    [([evicted()], {"n0": True}), ([replace(evicted(), leaving=False)], {"n0": False}), ([running()], {"n0": False}),
     ([evicted(disruption="EvictionByEvictionAPI")], {"n0": False})],
)  # fmt: skip
def test_a_pod_that_a_kubelet_still_ends_is_waited_for(pods: list[PodState], ready: dict[str, bool]) -> None:
    watch = Watch()
    assert watch.state(dead(watch, 0.0, pods, ready)) == State.RUNNING
