"""How much a status says: it is written with every change, and the API server reads, checks and stores all of it each time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from builders import ANY_IMAGES, H100, MI300X, decision, demand, fleet, node

from gpujob.api.kinds.gpujob_status import GPUJobStatus
from gpujob.placement.scoring.candidate import Decision
from gpujob.schedule.answers import Answer
from gpujob.status.job import job_status
from gpujob.status.observe.child import Observation, observe
from gpujob.status.records.objects import ChildRecord, Hint, JobRecord
from gpujob.status.records.read_objects import read_child, read_job, read_pod_record
from gpujob.values.vocabulary import PREFLIGHT, Annotation, Label, Reason, State

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
MOST = 1024
RUNNING = 250
"""What a job that runs says besides: a condition, when it began and what it has cost."""
UID = "0a1b2c3d-0a1b-2c3d-4e5f-0a1b2c3d4e5f"
LONG = "a-training-job-with-a-name-that-is-as-long-as-many-teams-make-it"

ONE = decision(node("gpu-worker-0001.region-1.example.com", H100, price="2.10"))
GANG = decision(*(node(f"node-{number}", MI300X, price="2.10") for number in range(8)), nodes=8, gpusPerNode=8)
AMONG_MANY = decision(
    node("a", MI300X, price="2.10"),
    *(node(f"n{number}", H100, price=f"{number + 9}") for number in range(9)),
)
UNPRICED = decision(node("a", MI300X))


def job(name: str = "j", spec: dict[str, Any] | None = None, **status: Any) -> JobRecord:
    return read_job({"metadata": {"name": name, "uid": UID, "generation": 3}, "spec": spec or {}, "status": status})


def child(name: str = "j-1", preflight: bool = True, hint: dict[str, Any] | None = None) -> ChildRecord:
    init = [{"name": PREFLIGHT}] if preflight else []
    annotations = {Annotation.PLACEMENT: orjson.dumps(hint).decode()} if hint else {}
    metadata = {"name": name, "uid": UID, "labels": {Label.ATTEMPT: "1"}, "annotations": annotations}
    return read_child({"metadata": metadata, "spec": {"template": {"spec": {"initContainers": init}}}})


def placed(
    found: Decision | None, held: JobRecord, its: ChildRecord, seen: Observation, now: str = NOW
) -> dict[str, Any]:
    made = replace(its, hint=Hint(job_status.hint(found))) if found else its
    status = job_status.placed(held, made, seen, now)
    GPUJobStatus.model_validate(status)
    return status


def just_placed(its: ChildRecord) -> Observation:
    return Observation(State.PLACED, Reason.PLACED, f"child Job {its.name} is created")


def running(node_name: str) -> Observation:
    return Observation(State.RUNNING, Reason.RUNNING, f"the pod runs on node {node_name}", started=NOW)


def size(status: dict[str, Any]) -> int:
    return len(orjson.dumps(status))


@pytest.mark.parametrize("found", [ONE, GANG, AMONG_MANY, UNPRICED], ids=["one", "gang", "among many", "unpriced"])
@pytest.mark.parametrize("preflight", ["Required", "Disabled"])
@pytest.mark.parametrize("name", ["j", LONG[:63]])
def test_a_placed_job_has_a_status_of_a_kilobyte(found: Decision, preflight: str, name: str) -> None:
    held, its = job(name, {"preflight": preflight}), child(f"{name[:52]}-0a1b2c3d-1", preflight == "Required")
    status = placed(found, held, its, just_placed(its))
    assert size(status) <= MOST, status
    begun = placed(None, job(name, dict(held.spec), **status), its, running("gpu-worker-0001.region-1.example.com"))
    assert size(begun) <= MOST + RUNNING, begun


EKS = "ip-10-0-123-45.eu-central-1.compute.internal"
GKE = "gke-training-cluster-h100-pool-1-0a1b2c3d-abcd-wxyz0"


@pytest.mark.parametrize("name", [EKS, GKE])
def test_a_job_that_runs_on_a_node_of_a_cloud_has_a_status_of_a_kilobyte(name: str) -> None:
    """Its node is said once, and of a price from the catalog the kind of its source."""
    found = decision(node(name, H100))
    on = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": [name]}]}]}}}  # fmt: skip
    spec = {"template": {"spec": {"affinity": on, "initContainers": [{"name": PREFLIGHT}]}}}
    its = read_child({"metadata": {"name": f"{'j' * 40}-0a1b2c3d-1", "uid": UID}, "spec": spec})
    pod = {
        "metadata": {"name": "p", "labels": {Label.JOB_UID: UID}, "ownerReferences": [{"uid": UID, "controller": True}]}
    }
    ran = {"name": "train", "state": {"running": {"startedAt": NOW}}}
    state = read_pod_record(
        {**pod, "spec": {"nodeName": name}, "status": {"phase": "Running", "containerStatuses": [ran]}}
    ).state
    assert state is not None
    begun = placed(found, job(LONG[:63]), its, observe(its, [state]))
    assert begun["state"] == "Running"
    assert orjson.dumps(begun).decode().count(name) == 1
    assert begun["placement"]["priceSource"] == "indicative"
    assert size(begun) <= MOST, begun


@pytest.mark.parametrize("nodes", [2, 8, 64])
def test_of_the_status_of_a_gang_the_names_of_its_nodes_alone_grow_with_it(nodes: int) -> None:
    """The operator reads them: they say on which nodes a child that is changed later may reserve devices."""
    names = [EKS.replace("45", f"{number:03}") for number in range(nodes)]
    found = decision(*(node(name, H100) for name in names), nodes=nodes, gpusPerNode=8)
    its = replace(child(f"{LONG[:52]}-0a1b2c3d-1"), pods=nodes, nodes=tuple(names))
    status = placed(found, job(LONG[:63]), its, just_placed(its))
    seen = Observation(State.RUNNING, Reason.RUNNING, f"all {nodes} pods run", started=NOW)
    begun = placed(None, job(LONG[:63], **status), its, seen)
    for each in (status, begun):
        assert each["placement"]["nodeNames"] == sorted(names)
        assert size(each) - size({"nodeNames": names}) <= MOST
        assert orjson.dumps(each).decode().count(names[0]) == 1


def test_a_waiting_job_names_what_would_start_now_within_a_kilobyte() -> None:
    nodes = [node("a", MI300X), node("b", MI300X, cordoned=True)]
    known, asked = fleet(*nodes, catalog=ANY_IMAGES), demand(nodes=2, gpusPerNode=8)
    status = job_status.refused(job(), Answer(asked, known, ANY_IMAGES).decision, NOW)
    assert next(each["message"] for each in status["conditions"] if each["type"] == "Placed") == (
        "fits pool mi300x-ondemand, which is busy: needs 8 free GPUs on each of 2 nodes, 8 of 16 are free, 8 cannot be used (node b is "
        "cordoned); 1 node has room; now nodes: 1 fits pool mi300x-ondemand"
    )
    assert size(status) <= MOST, status


def test_a_queued_job_that_is_placed_keeps_nothing_of_its_wait() -> None:
    waiting = job_status.refused(job(), decision(node("a", H100, cordoned=True)), NOW)
    assert waiting["candidates"]
    its = child()
    status = placed(ONE, job(**waiting), its, just_placed(its))
    assert "candidates" not in status
    assert size(status) <= MOST, status


def test_the_candidates_of_the_wait_are_taken_off() -> None:
    its = child()
    status = placed(ONE, job(), its, just_placed(its))
    candidates = [{"pool": "a", "runtime": "r", "shape": "1x1", "outcome": "Fits"}]
    now = placed(None, job(**status, candidates=candidates), its, running("a"), LATER)
    assert "candidates" not in now
    assert "message" not in now["placement"]
    sentences = [next(c["message"] for c in each["conditions"] if c["type"] == "Placed") for each in (status, now)]
    assert sentences[0] == sentences[1]


def test_the_sentence_survives_a_crash_before_the_status() -> None:
    its = child(hint=job_status.hint(ONE))
    status = placed(None, job(), its, just_placed(its))
    assert status == placed(ONE, job(), its, just_placed(its))


def test_the_sentence_stays_with_each_later_status() -> None:
    its = child(hint=dict(job_status.hint(ONE)))
    first = placed(ONE, job(), its, just_placed(its))
    second = placed(None, job(**first), its, running("a"), LATER)
    third = placed(None, job(**second), its, Observation(State.SUCCEEDED, Reason.SUCCEEDED, "x", NOW, LATER), LATER)
    told = [next(c for c in each["conditions"] if c["type"] == "Placed") for each in (first, second, third)]
    assert told[0] == told[1] == told[2]


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


def test_what_a_status_says_depends_on_the_state_and_not_on_what_was_written_before() -> None:
    plan = job_status.planned(job(), ONE, NOW)
    assert conditions(plan)["Suspended"] == ("True", "PlanOnly")
    its = child()
    status = placed(ONE, job(**plan), its, just_placed(its), LATER)
    assert conditions(status) == conditions(placed(ONE, job(), its, just_placed(its), LATER))
    assert "Suspended" not in conditions(status)
    begun = placed(None, job(**status), its, running("a"), LATER)
    again = job_status.refused(job(**begun), decision(node("a", H100, cordoned=True)), LATER)
    assert conditions(again) == {
        "Placed": ("False", "Cordoned"),
        "Running": ("False", "NotStarted"),
        "Suspended": ("False", "NotSuspended"),
    }
