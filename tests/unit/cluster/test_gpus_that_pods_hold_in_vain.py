"""Pods that the scheduler binds to none of their nodes give the GPUs back after a while; nothing that starts is disturbed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.controller.job_reconciler import JobReconciler
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.status.records.objects import ChildRecord, JobRecord
from gpujob.status.records.read_objects import read_job
from gpujob.values.names import child_name
from gpujob.values.vocabulary import Annotation, Label

MADE = datetime(2026, 1, 1, 12, tzinfo=UTC)
HINT = {
    "pool": "h100",
    "vendor": "NVIDIA",
    "accelerator": "H100-SXM",
    "nodes": 2,
    "gpusPerNode": 8,
    "image": "i",
    "runtime": "own",
}
REFUSED = {
    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
    "message": "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
}  # fmt: skip
JOB = {"name": "j", "namespace": "team", "uid": "u", "generation": 1}
CHILD = child_name("j", "u", 1)


class Gang:
    """A gang of two pods, so many seconds after its child was made; it stands for the steps too."""

    def __init__(self, *, nodes: tuple[str, ...] = ("n0", "n1"), suspend: bool = False) -> None:
        self.seconds, self.written = 0.0, list[Any]()
        self.job = read_job({"metadata": JOB, "spec": {}})
        self.cache = ObjectCache(mirrored("gpujob-runner-x"))
        wall = lambda: MADE + timedelta(seconds=self.seconds)  # noqa: E731
        self.work = ControllerState(ClusterIndex(self.cache, load_catalog()), clock=lambda: self.seconds, wall=wall)
        self.reconciler = JobReconciler(self.work, self)  # type: ignore[arg-type]
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        child = {
            "metadata": {
                "name": CHILD, "namespace": "team", "uid": "c", "creationTimestamp": "2026-01-01T12:00:00Z",
                "labels": {Label.ATTEMPT: "1", Label.JOB_UID: "u"},
                "ownerReferences": [{"kind": "GPUJob", "name": "j", "uid": "u", "controller": True}],
                "annotations": {Annotation.PLACEMENT: orjson.dumps(HINT).decode()},
            },
            "spec": {"completions": 2, "suspend": suspend, "template": {"spec": {"affinity": {"nodeAffinity": required}}}},
        }  # fmt: skip
        self.cache.replace("gpujobs", [{"metadata": JOB, "spec": {}}], "7")
        self.child = child
        self.cache.replace("jobs", [child], "7")
        owners = {"ownerReferences": child["metadata"]["ownerReferences"]}
        self.cache.replace("services", [{"metadata": {"name": CHILD, "namespace": "team", "uid": "s"} | owners}], "7")

    def pods(self, *nodes: str) -> None:
        """Its pods, each on a node, or refused by the scheduler where that is empty."""
        owner = {"kind": "Job", "name": CHILD, "uid": "c", "controller": True}
        found = [
            {
                "metadata": {
                    "name": f"{CHILD}-{number}", "namespace": "team", "uid": f"p{number}", "ownerReferences": [owner],
                    "labels": {Label.JOB_UID: "u", Label.ATTEMPT: "1"},
                },
                "spec": {"nodeName": node, "containers": [{"name": "train"}]},
                "status": {"phase": "Pending", "conditions": [] if node else [REFUSED]},
            }
            for number, node in enumerate(nodes)
        ]  # fmt: skip
        self.cache.replace("pods", found, "7")
        self.work.index.take(self.cache.take_changes())

    def report(self, job: JobRecord, status: Any, *, moved: bool = False) -> None:
        self.written.append(status)

    def give_back(self, job: JobRecord, child: ChildRecord, status: Any) -> Any:
        """The status that is written if the API server shows the pods unbound too."""
        return status

    def start(self, job: JobRecord, step: Any) -> None:
        self.written.append(step)

    def look(self, seconds: float, **status: Any) -> Any:
        """What is written after a look; None where nothing is."""
        self.seconds, self.written = seconds, []
        held = {"jobName": CHILD, "attempt": 1, "placement": HINT, "state": "Placed", **status}
        self.job = read_job({"metadata": JOB, "spec": {}, "status": held})
        self.reconciler.reconcile(self.job)
        return self.written[-1] if self.written else None


def placed(status: Any) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in status["conditions"] if c["type"] == "Placed")
    return found


def test_the_attempt_is_given_up_and_the_pool_rests() -> None:
    gang = Gang()
    gang.pods("n0", "")
    gang.look(0.0)
    gang.work.due.clear()
    assert gang.look(59.0)["jobName"] == CHILD
    assert gang.work.due["u"] == 60.0
    status = gang.look(60.0)
    assert (status["state"], "jobName" in status, "placement" in status, status["attempt"]) == (
        "Queued",
        False,
        False,
        1,
    )
    (rest,) = status["excludedPools"]
    assert rest.pop("message") in placed(status)["message"]
    assert rest == {"name": "h100", "until": "2026-01-01T12:04:00Z", "reason": "Unschedulable"}
    assert (placed(status)["status"], placed(status)["reason"]) == ("False", "Unschedulable")
    assert placed(status)["message"] == (
        f"after 60 seconds pod {CHILD}-1 is bound to no node: 0/3 nodes are available: pod has unbound immediate "
        "PersistentVolumeClaims. not found (see `kubectl describe pvc`: a claim needs a StorageClass of `kubectl get "
        "storageclass`, or a PersistentVolume); the job gave the GPUs of pool h100 back, other pools are tried, this one at "
        "2026-01-01T12:04:00Z"
    )


def test_until_then_the_status_says_how_long_the_gpus_are_held() -> None:
    gang = Gang()
    gang.pods("", "")
    gang.look(0.0)
    status = gang.look(20.0)
    running = next(c for c in status["conditions"] if c["type"] == "Running")
    assert (status["state"], status["display"]["reason"], running["reason"]) == (
        "Placed",
        "Unschedulable",
        "Unschedulable",
    )
    assert running["message"].endswith("; the job gives its GPUs back at 2026-01-01T12:01:00Z if that stays so")


def test_pods_that_are_not_made_hold_no_longer() -> None:
    gang = Gang()
    gang.pods("n0")
    gang.look(0.0)
    assert "1 of 2 pods are there; if a quota or a policy refuses the others" in placed(gang.look(60.0))["message"]


def test_a_child_that_somebody_suspends_while_it_runs_is_told_at_once_and_starts_anew_when_it_is_resumed() -> None:
    running = {"state": "Running", "startTime": "2026-01-01T12:00:00Z"}
    gang = Gang(suspend=True)
    gang.pods()
    status = gang.look(3600.0, **running)
    said = next(c for c in status["conditions"] if c["type"] == "Running")
    assert (status["state"], status["display"]["reason"]) == ("Placed", "ChildSuspended")
    assert (said["status"], said["reason"]) == ("False", "ChildSuspended")
    assert f"child Job {CHILD} is suspended" in said["message"]
    assert (status["startTime"], placed(status)["status"]) == (running["startTime"], "True")
    resumed = Gang()
    resumed.pods("n0", "n1")
    again = resumed.look(3601.0, **status)
    assert (again["state"], again["display"]["reason"], again["startTime"]) == (
        "Placed",
        "Placed",
        running["startTime"],
    )


def test_a_child_that_is_created_suspended_is_told_once_it_has_lasted_and_stays_told_after_a_restart() -> None:
    gang = Gang(suspend=True)
    gang.pods()
    assert gang.look(0.0)["display"]["reason"] == "Placed"
    told = gang.look(20.0)
    assert told["display"]["reason"] == "ChildSuspended"
    restarted = Gang(suspend=True)
    restarted.pods()
    assert restarted.look(21.0, **told)["display"]["reason"] == "ChildSuspended"


@pytest.mark.parametrize(
    ("made", "pods", "held"),
    [
        ({}, ("n0", "n1"), {}),
        # A pod of a job that ran is gone: the child Job says what becomes of it.
        ({}, ("n0", ""), {"startTime": "2026-01-01T12:01:00Z"}),
        # Nodes to be added have a wait of their own.
        ({"nodes": ()}, ("", ""), {}),
        # Admission suspended it, and admission resumes it.
        ({"suspend": True}, (), {}),
    ],
)
def test_what_is_no_hold_in_vain(made: dict[str, Any], pods: tuple[str, ...], held: dict[str, Any]) -> None:
    gang = Gang(**made)
    gang.pods(*pods)
    gang.look(0.0, **held)
    assert gang.look(3000.0, **held)["jobName"] == CHILD
