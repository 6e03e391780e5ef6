"""Fixes of jobs that no quota or LimitRange of their namespace ever allows: they name every field that must change, and help."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, ANY_IMAGES, H100, Object, demand, fleet, node, runtime_class

from gpujob.placement.engine.choose import choose
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.vocabulary import Verdict

STORAGE_OF_FIRST = "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests.storage"
STORAGE_OF_SECOND = STORAGE_OF_FIRST.replace("[0]", "[1]")


def quota(**hard: str) -> Object:
    """A ResourceQuota of the job's namespace, of which nothing is used."""
    return {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "default"},
        "spec": {"hard": hard}, "status": {"hard": hard, "used": {}},
    }  # fmt: skip


def claim_limits(**bounds: str) -> Object:
    """A LimitRange of the job's namespace for the storage of volume claims."""
    limit = {"type": "PersistentVolumeClaim", **{key: {"storage": size} for key, size in bounds.items()}}
    metadata = {"name": "claims", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [limit]}}


def volumes(*sizes: str, storage_class: str = "fast") -> dict[str, Any]:
    """The volumes of a job whose pods create a claim of each size."""
    return {"volumes": [
        {"name": f"v{number}", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, "resources": {"requests": {"storage": size}},
        }}}}
        for number, size in enumerate(sizes)
    ]}  # fmt: skip


def changes(*objects: Object, **spec: Any) -> list[tuple[str, object, object]]:
    """The changes of the nearest fix of an impossible job on four nodes, by field; they are verified to help."""
    nodes = [node(name, H100, price="2") for name in "abcd"]
    known = fleet(*nodes, *objects)
    decided = next(place_all([PendingJob("", "", demand(**spec), namespace="default")], known, ANY_IMAGES)).decision
    assert decided.verdict is Verdict.IMPOSSIBLE
    assert decided.fix is not None, decided.hopeless
    assert choose(decided.fix.demand, known, ANY_IMAGES).verdict is Verdict.PLACED
    return sorted((change.field, change.before, change.after) for change in decided.fix.changes)


@pytest.mark.parametrize(("nodes", "gpus", "most", "after"), [
    (2, 2, 1, {"spec.gpusPerNode": 1, "spec.nodes": 1}),
    (3, 2, 1, {"spec.gpusPerNode": 1, "spec.nodes": 1}),
    (4, 6, 3, {"spec.gpusPerNode": 1, "spec.nodes": 3}),
    (4, 4, 2, {"spec.gpusPerNode": 1, "spec.nodes": 2}),
    # One field is enough.
    (2, 2, 2, {"spec.gpusPerNode": 1}),
    (4, 1, 3, {"spec.nodes": 3}),
    (4, 3, 5, {"spec.gpusPerNode": 1}),
    (3, 2, 4, {"spec.nodes": 2}),
])  # fmt: skip
def test_gpus_and_nodes_fall_together_where_neither_alone_suffices(
    nodes: int, gpus: int, most: int, after: dict[str, int]
) -> None:
    limit = quota(**{"requests.nvidia.com/gpu": str(most)})
    found = changes(limit, nodes=nodes, gpusPerNode=gpus)
    assert {field: now for field, _, now in found} == after


def test_two_quotas_are_kept_at_once() -> None:
    limits = quota(**{"requests.nvidia.com/gpu": "6", "pods": "1"})
    assert changes(limits, nodes=2, gpusPerNode=8) == [("spec.gpusPerNode", 8, 6), ("spec.nodes", 2, 1)]


@pytest.mark.parametrize(("hard", "nodes", "left"), [
    ({"requests.storage": "50Gi"}, 3, 2),
    ({"fast.storageclass.storage.k8s.io/requests.storage": "45Gi"}, 4, 2),
    ({"persistentvolumeclaims": "2"}, 3, 2),
    ({"count/persistentvolumeclaims": "1"}, 3, 1),
    ({"fast.storageclass.storage.k8s.io/persistentvolumeclaims": "3"}, 4, 3),
    ({"count/services": "0"}, 2, 1),
    ({"services": "0"}, 3, 1),
])  # fmt: skip
def test_claims_and_services_leave_fewer_nodes(hard: dict[str, str], nodes: int, left: int) -> None:
    assert changes(quota(**hard), nodes=nodes, **volumes("20Gi")) == [("spec.nodes", nodes, left)]


def test_cpu_that_is_as_small_as_may_be_leaves_fewer_nodes() -> None:
    least = {"type": "Container", "min": {"cpu": "4"}}
    smallest = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "least", "namespace": "default"},
                "spec": {"limits": [least]}}  # fmt: skip
    found = changes(quota(**{"requests.cpu": "9"}), smallest, nodes=3, resources={"cpu": "4"})
    assert found == [("spec.nodes", 3, 2)]


@pytest.mark.parametrize(("bounds", "size", "fits"), [
    ({"max": "10Gi"}, "20Gi", "10Gi"), ({"min": "10Gi"}, "5Gi", "10Gi"), ({"max": "1500Mi"}, "2Gi", "1Gi"),
    ({"max": "3Ti", "min": "1Ti"}, "4Ti", "3072Gi"), ({"min": "100G"}, "20480Mi", "100G"),
])  # fmt: skip
def test_a_claim_is_made_as_large_as_a_limit_range_allows(bounds: dict[str, str], size: str, fits: str) -> None:
    assert changes(claim_limits(**bounds), **volumes(size)) == [(STORAGE_OF_FIRST, size, fits)]


def test_a_claim_is_made_as_small_as_a_quota_leaves_it() -> None:
    assert changes(quota(**{"requests.storage": "15Gi"}), **volumes("20Gi")) == [(STORAGE_OF_FIRST, "20Gi", "15Gi")]
    # What the other claim of the pod leaves.
    found = changes(quota(**{"requests.storage": "50Gi"}), **volumes("20Gi", "40Gi"))
    assert found in ([(STORAGE_OF_SECOND, "40Gi", "30Gi")], [(STORAGE_OF_FIRST, "20Gi", "10Gi")])


def test_claims_that_are_each_too_large_are_all_made_smaller() -> None:
    of_class = quota(**{"fast.storageclass.storage.k8s.io/requests.storage": "30Gi"})
    found = changes(of_class, **volumes("100Gi", "100Gi"))
    assert found == [(STORAGE_OF_FIRST, "100Gi", "15Gi"), (STORAGE_OF_SECOND, "100Gi", "15Gi")]


def test_the_field_is_that_of_the_volume_and_not_of_the_claim() -> None:
    spec = volumes("1Gi", "20Gi")
    spec["volumes"][0] = {"name": "v0", "emptyDir": {}}
    assert changes(claim_limits(max="10Gi"), **spec) == [(STORAGE_OF_SECOND, "20Gi", "10Gi")]


def test_what_the_runtime_class_adds_counts_in_a_quota() -> None:
    handler = runtime_class("nvidia", "nvidia", overhead={"podFixed": {"cpu": "500m"}})
    a100 = node("x", A100, price="1")
    found = changes(quota(**{"requests.cpu": "8"}), handler, a100, nodes=2, resources={"cpu": "16"})
    assert found == [("spec.resources.cpu", "16", "3")]


def scoped(operator: str, *values: str, **hard: str) -> Object:
    """A ResourceQuota for pods by their PriorityClass."""
    made = quota(**hard)
    selector = {"scopeName": "PriorityClass", "operator": operator, **({"values": list(values)} if values else {})}
    made["spec"]["scopeSelector"] = {"matchExpressions": [selector]}
    return made


def priority(name: str, **more: Any) -> Object:
    """A PriorityClass."""
    metadata = {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": 100, **more}


CLASSES = (priority("high"), priority("low"))
WITHOUT = [("spec.priorityClassName", "high", None)]


@pytest.mark.parametrize(
    "found",
    [
        scoped("In", "high", pods="0"),
        scoped("In", "high", "low", **{"requests.cpu": "0"}),
        scoped("Exists", **{"requests.nvidia.com/gpu": "0"}),
    ],
)
def test_a_class_of_which_a_quota_leaves_nothing_is_left_out(found: Object) -> None:
    assert changes(*CLASSES, found, priorityClassName="high") == WITHOUT


def test_a_class_stays_where_the_quota_counts_pods_without_one_too() -> None:
    known = fleet(node("a", H100, price="2"), *CLASSES, scoped("NotIn", "low", pods="0"))
    asks = demand(priorityClassName="high")
    decided = next(place_all([PendingJob("", "", asks, namespace="default")], known, ANY_IMAGES)).decision
    assert decided.verdict is Verdict.IMPOSSIBLE
    assert decided.fix is None


def test_a_quota_of_all_pods_leaves_the_class_alone() -> None:
    found = changes(*CLASSES, quota(**{"requests.nvidia.com/gpu": "2"}), priorityClassName="high", gpusPerNode=4)
    assert found == [("spec.gpusPerNode", 4, 2)]


@pytest.mark.parametrize("forgotten", ["64", "6", "0.5M"])
@pytest.mark.parametrize(("resource", "spec"), [
    ("requests.memory", {"resources": {"memory": "64Gi"}}),
    ("requests.memory", {"resources": {"sharedMemory": "2Gi"}}),
    ("limits.memory", {}),
    ("requests.ephemeral-storage", {"resources": {"ephemeralStorage": "20Gi"}}),
    ("requests.storage", volumes("64Gi")),
])  # fmt: skip
def test_no_fix_asks_less_than_a_job_may_write(resource: str, spec: dict[str, Any], forgotten: str) -> None:
    known = fleet(node("a", H100, price="2"), quota(**{resource: forgotten}))
    decided = next(place_all([PendingJob("", "", demand(**spec), namespace="default")], known, ANY_IMAGES)).decision
    assert (decided.verdict, decided.fix) == (Verdict.IMPOSSIBLE, None)


def test_a_quota_without_its_unit_is_shown_as_it_is_written() -> None:
    known = fleet(node("a", H100, price="2"), quota(**{"requests.memory": "64"}))
    wish = demand(resources={"memory": "64Gi"})
    decided = next(place_all([PendingJob("", "", wish, namespace="default")], known, ANY_IMAGES)).decision
    assert "requests.memory needs 64Gi, 64 bytes left of 64 bytes" in decided.candidates[0].reasons[0].message
