"""What a wait says: which nodes of the pool the job cannot take, and what it waits for if the pool is not busy."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ANY_IMAGES, H100, L4, MI300X, Object, demand, fleet, gpupool, node, pod

from gpujob.placement.report import summary
from gpujob.placement.request.demand import Demand
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.vocabulary import Reason, Verdict

ZONE = "topology.kubernetes.io/zone"
GPU = "nvidia.com/gpu"
CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
         "volumeMounts": [{"name": "v", "mountPath": "/d"}]}  # fmt: skip


def said(*objects: Object, asked: Demand | None = None, **spec: Any) -> tuple[str, list[Reason]]:
    """The sentence of a job that waits in namespace default, and the reasons of its pool."""
    job = PendingJob("u", "", asked or demand(**spec), namespace="default")
    decision = next(place_all([job], fleet(*objects, catalog=ANY_IMAGES), ANY_IMAGES)).decision
    assert decision.verdict is Verdict.WAITING, summary.summary(decision)
    return summary.summary(decision), [each.reason for each in decision.candidates[0].reasons]


def volume(zone: str) -> list[Object]:
    rule = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    affinity = {"required": {"nodeSelectorTerms": [rule]}}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "pv"},
            "spec": {"nodeAffinity": affinity},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"volumeName": "pv", "accessModes": ["ReadWriteMany"]},
            "status": {"phase": "Bound"},
        },
    ]


def in_zone(name: str, zone: str, **more: Any) -> Object:
    return node(name, H100, labels={ZONE: zone}, price="2", **more)


BUSY = pod("q", "a", {GPU: 8})
SMALL = {"memory": "64Gi"}


@pytest.mark.parametrize(
    ("objects", "spec", "sentence"),
    [
        ([in_zone("a", "z1"), in_zone("b", "z2"), *volume("z1"), BUSY], CLAIM,
         "needs 1 free GPU on one node, 0 of 8 are free; PersistentVolumeClaim c (topology.kubernetes.io/zone In z1) can be "
         "mounted on 1 of its 2 nodes; use a volume of the pool's zone"),
        ([in_zone("a", "z1"), in_zone("b", "z1"), in_zone("d", "z2"), *volume("z1"), BUSY],
         {"nodes": 2, "gpusPerNode": 8, **CLAIM},
         "needs 8 free GPUs on each of 2 nodes, 8 of 16 are free; 1 node has room; PersistentVolumeClaim c "
         "(topology.kubernetes.io/zone In z1) can be mounted on 2 of its 3 nodes; use a volume of the pool's zone"),
        ([node("a", H100, price="2"), node("b", H100, price="2", allocatable=SMALL), BUSY],
         {"resources": {"memory": "500Gi"}},
         "needs 1 free GPU on one node, 0 of 8 are free; needs 500Gi memory on one node, 1 of 2 nodes have that"),
        ([node("a", H100, price="2"), node("b", H100, price="2", allocatable={"cpu": "8"}), BUSY],
         {"resources": {"cpu": "64", "memory": "10Gi"}},
         "needs 1 free GPU on one node, 0 of 8 are free; needs 64 CPU on one node, 1 of 2 nodes have that"),
        ([node("a", H100, price="2"), node("b", H100, price="2", allocatable={"ephemeral-storage": "90Gi"}), BUSY],
         {"resources": {"ephemeralStorage": "200Gi"}},
         "needs 1 free GPU on one node, 0 of 8 are free; needs 200Gi ephemeral-storage on one node, 1 of 2 nodes have that"),
        ([node("a", H100, price="2"), node("b", H100, price="2", allocatable={"cpu": "8"}),
          node("d", H100, price="2", allocatable=SMALL), BUSY],
         {"resources": {"cpu": "64", "memory": "500Gi"}},
         "needs 1 free GPU on one node, 0 of 8 are free; needs 64 CPU and 500Gi memory on one node, 1 of 3 nodes have that "
         "together"),
        # Where every node can run it there is nothing more to say.
        ([in_zone("a", "z1"), *volume("z1"), BUSY], CLAIM, "needs 1 free GPU on one node, 0 of 8 are free"),
    ],
)  # fmt: skip
def test_a_wait_names_what_keeps_the_job_from_other_nodes_of_the_pool(
    objects: list[Object], spec: dict[str, Any], sentence: str
) -> None:
    assert said(*objects, **spec)[0].partition("; now ")[0] == f"fits pool h100-sxm-ondemand, which is busy: {sentence}"


def quota(resource: str, hard: str, used: str) -> Object:
    amounts = {"hard": {resource: hard}, "used": {resource: used}}
    space = {"name": "q", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": space, "spec": amounts, "status": amounts}


@pytest.mark.parametrize(
    ("limit", "what"),
    [
        (("pods", "1", "1"), "pods needs 1, 0 left of 1"),
        (("requests.amd.com/gpu", "4", "3"), "requests.amd.com/gpu needs 2, 1 left of 4"),
        (("requests.memory", "2000Gi", "1990Gi"), "requests.memory needs 230Gi, 10Gi left of 2000Gi"),
        (("count/pods", "3", "3"), "count/pods needs 1, 0 left of 3"),
    ],
)
def test_a_pool_with_room_is_not_busy_because_a_quota_is_used_up(limit: tuple[str, str, str], what: str) -> None:
    sentence, reasons = said(node("m", MI300X, price="2"), quota(*limit), gpusPerNode=2)
    assert reasons == [Reason.QUOTA_EXCEEDED]
    assert sentence.partition("; now ")[0] == (
        f"fits pool mi300x-ondemand, for which the namespace has too little quota left: ResourceQuota q: {what}"
    )


def test_a_pool_that_is_busy_says_so_before_the_quota() -> None:
    full = pod("p", "m", {"amd.com/gpu": 8})
    sentence, _ = said(node("m", MI300X, price="2"), full, quota("pods", "1", "1"))
    assert sentence == (
        "fits pool mi300x-ondemand, which is busy: needs 1 free GPU on one node, 0 of 8 are free; "
        "ResourceQuota q: pods needs 1, 0 left of 1"
    )


def test_pools_that_are_left_out_or_whose_nodes_did_not_come_are_not_busy() -> None:
    resting = demand().but(pools_resting=(("mi300x-ondemand", "2026-01-01T00:05:00Z", "0/1 nodes are available"),))
    assert said(node("m", MI300X, price="2"), asked=resting)[0].startswith(
        "fits pool mi300x-ondemand, which is left out for now: its nodes did not take the job's pods (0/1 nodes are available)"
    )
    away = demand().but(pools_away=(("burst", "2026-01-01T00:05:00Z"),))
    provision = {"maxNodes": 1, "gpusPerNode": 8, "cpu": "96", "memory": "1000Gi"}
    burst = gpupool("burst", {"pool": "burst"}, accelerator="H100-SXM", price={"perGPUHour": "2"}, provision=provision)
    assert said(burst, asked=away)[0].startswith(
        "fits pool burst, which has no usable node now: nodes that were to be added did not come"
    )


def growing(zone: str, *there: str) -> list[Object]:
    """A GPUPool of a zone that can grow to two nodes, and its nodes by their zones."""
    provision = {"maxNodes": 2, "gpusPerNode": 8, "memory": "1000Gi", "driverVersion": "580.95.05"}
    pool = gpupool(
        "b", {"pool": "b", ZONE: zone}, accelerator="H100-SXM", price={"perGPUHour": "1"}, provision=provision
    )
    return [pool, *(node(f"n{at}", H100, labels={ZONE: at, "pool": "b"}, price="2") for at in there)]


NEVER = (
    "PersistentVolumeClaim c (topology.kubernetes.io/zone In z2) can be mounted on {}; use a volume of the pool's zone"
)


@pytest.mark.parametrize(
    ("objects", "verdict", "where"),
    [
        (growing("z1"), Verdict.IMPOSSIBLE, "no node that can be added"),
        (growing("z1", "z1"), Verdict.IMPOSSIBLE, "none of its 1 nodes, and on none that can be added"),
        (growing("z2"), Verdict.PLACED, None),
        (growing("z2", "z2"), Verdict.PLACED, None),
    ],
)
def test_nodes_to_be_added_are_of_the_zone_that_the_selector_names(
    objects: list[Object], verdict: Verdict, where: str | None
) -> None:
    job = PendingJob("u", "", demand(**CLAIM), namespace="default")
    found = next(place_all([job], fleet(*objects, *volume("z2"), catalog=ANY_IMAGES), ANY_IMAGES)).decision
    assert found.verdict is verdict
    reasons = [each.message for each in found.candidates[0].reasons]
    assert reasons == ([NEVER.format(where)] if where else [])


PLANNED_AT = {"cloud.google.com/scheduled-maintenance-time": "2000000000"}
PLANNED = "; node {}: maintenance is planned for 2033-05-18 03:33 UTC (cloud.google.com/scheduled-maintenance-time is 2000000000)"


def of_nodes(*objects: Object, **spec: Any) -> tuple[str, list[str]]:
    """The sentence of a job that waits, and the nodes of which it is warned."""
    job = PendingJob("u", "", demand(**spec), namespace="default")
    decision = next(place_all([job], fleet(*objects, catalog=ANY_IMAGES), ANY_IMAGES)).decision
    assert decision.verdict is Verdict.WAITING, summary.summary(decision)
    found = summary.of_awaited_nodes(decision)
    assert set(found) <= set(decision.candidates[0].warnings)
    return summary.summary(decision), [str(each.numbers[0]) for each in found]


def due(name: str, gpu: Any = H100, **more: Any) -> Object:
    return node(name, gpu, labels=PLANNED_AT, price="2", **more)


@pytest.mark.parametrize(("objects", "spec", "ends"), [
    ([due("a"), BUSY], {}, "0 of 8 are free" + PLANNED.format("a")),
    ([due("a", cordoned=True)], {}, "node a is cordoned" + PLANNED.format("a")),
    ([due("a", MI300X), pod("q", "a", {"amd.com/gpu": 8})], {}, "0 of 8 are free" + PLANNED.format("a")),
    ([due("a"), node("b", H100, price="2"), BUSY], {"nodes": 2, "gpusPerNode": 8},
     "now nodes: 1 fits pool h100-sxm-ondemand" + PLANNED.format("a")),
    ([due("a"), node("b", L4, price="1"), BUSY], {"gpuMemory": "20G", "placement": {"waitSeconds": 600, "accelerators": {
        "allow": ["H100-SXM"]}}}, "0 of 8 are free" + PLANNED.format("a")),
])  # fmt: skip
def test_a_wait_tells_of_the_maintenance_of_its_nodes(objects: list[Object], spec: dict[str, Any], ends: str) -> None:
    sentence, warned = of_nodes(*objects, **spec)
    assert warned == ["a"]
    assert sentence.endswith(ends)


def test_the_maintenance_of_nodes_that_the_job_may_leave_out_is_not_told() -> None:
    taken = [pod("q", "a", {GPU: 8}), pod("r", "b", {GPU: 8})]
    assert of_nodes(due("a"), node("b", H100, price="2"), *taken)[1] == []
    assert of_nodes(due("a"), node("b", H100, price="2"), *taken, nodes=2)[1] == ["a"]


def test_a_wait_for_a_better_pool_tells_of_its_maintenance_too() -> None:
    objects = [node("l", L4, 1, price="0.5"), node("h", H100, labels=PLANNED_AT, price="0.3"), pod("q", "h", {GPU: 8})]
    sentence, warned = of_nodes(*objects, placement={"waitSeconds": 600, "objective": "Cost"})
    assert warned == ["h"]
    assert sentence.endswith("; pool l4-ondemand has room now" + PLANNED.format("h"))


def test_a_sign_of_trouble_of_the_nodes_is_told_likewise() -> None:
    ill = node("a", H100, price="2")
    ill["status"]["conditions"].append({"type": "XIDErrors", "status": "True", "reason": "Xid79"})
    sentence, warned = of_nodes(ill, BUSY)
    assert warned == ["a"]
    assert sentence.endswith("; node a: condition XIDErrors is True (Xid79); pods may fail or be slow there")
