"""What is said of jobs that nothing helps is true: that no change helps only where the cluster keeps every job off its pools."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, ANY_IMAGES, H100, L4, MI300X, Object, decision, demand, fleet, gpupool, node, pod

from gpujob.placement.filters.closed_pools import is_closed
from gpujob.placement.report.summary import summary
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.suggestions.search import HOPELESS, NOT_FOUND
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.vocabulary import Reason, Verdict

TAINT = "team=a:NoSchedule"


def decided(*objects: Object, **spec: Any) -> Decision:
    """The decision for a job in the namespace `default`, with its nearest fix."""
    known = fleet(*objects, catalog=ANY_IMAGES)
    return next(place_all([PendingJob("", "", demand(**spec), namespace="default")], known, ANY_IMAGES)).decision


def of_namespace(kind: str, **spec: Any) -> Object:
    """An object of the job's namespace."""
    found = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "team", "namespace": "default"}, "spec": spec}
    return found | ({"status": {"hard": spec["hard"], "used": {}}} if kind == "ResourceQuota" else {})


def quota(**hard: str) -> Object:
    """A ResourceQuota, of which nothing is used."""
    return of_namespace("ResourceQuota", hard=hard)


def limit(**most: str) -> Object:
    """A LimitRange for containers."""
    return of_namespace("LimitRange", limits=[{"type": "Container", "max": most}])


@pytest.mark.parametrize("objects", [
    [node("a", H100, taints=[TAINT])],
    [node("a", H100, taints=[TAINT]), node("b", MI300X, taints=[TAINT])],
    [node("a", H100), quota(**{"requests.nvidia.com/gpu": "0"})],
    [node("a", H100), node("b", MI300X), quota(pods="0")],
    [node("a", H100), quota(**{"count/jobs.batch": "0"})],
    [node("a", H100), limit(**{"nvidia.com/gpu": "0"})],
    [node("a", H100, taints=[TAINT]), node("b", MI300X), quota(**{"requests.amd.com/gpu": "0"})],
])  # fmt: skip
@pytest.mark.parametrize("spec", [{}, {"nodes": 2}, {"model": {"name": "llama-3.1-405b", "method": "Full"}}])
def test_no_change_helps_where_the_cluster_keeps_every_job_off(objects: list[Object], spec: dict[str, Any]) -> None:
    found = decided(*objects, **spec)
    assert (found.verdict, found.fix) == (Verdict.IMPOSSIBLE, None)
    assert found.hopeless.startswith(HOPELESS)


@pytest.mark.parametrize(("objects", "spec"), [
    # Dropping a volume would help, which is not looked at.
    ([node("a", H100), quota(persistentvolumeclaims="0")], {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}]}),
    # So would another model.
    ([node("a", L4, 1)], {"gpusPerNode": 1, "model": {"name": "llama-3.1-405b", "method": "QLoRA", "sequenceLength": 512,
                                                      "batchPerGPU": 1, "gradientCheckpointing": "Layers"}}),
    # A quota with a scope counts no pod of another priority.
    ([node("a", H100), of_namespace("ResourceQuota", hard={"pods": "0"}, scopes=["NotTerminating"])], {}),
])  # fmt: skip
def test_where_not_everything_was_looked_at_none_was_found(objects: list[Object], spec: dict[str, Any]) -> None:
    found = decided(*objects, **spec)
    assert (found.verdict, found.fix) == (Verdict.IMPOSSIBLE, None)
    assert found.hopeless.startswith(NOT_FOUND)


def test_a_pool_is_open_if_one_node_takes_a_job() -> None:
    nodes = node("a", H100, taints=[TAINT], labels={"team": "lab"}), node("b", H100, labels={"team": "lab"})
    half = fleet(gpupool("lab", {"team": "lab"}), *nodes)
    assert not is_closed(demand(nodes=2), half.pools[0], half)


def nodes_of(count: int, kind: Any, gpus: int) -> list[Object]:
    """Equal nodes."""
    return [node(f"n{number:02}", kind, gpus, price="2") for number in range(count)]


LARGE = {"name": "llama-3.1-405b", "method": "Full", "gradientCheckpointing": "Layers", "sharding": "FSDP"}


def test_a_model_that_more_nodes_hold_than_are_tried_is_told_their_number() -> None:
    found = decided(*nodes_of(40, A100, 8), model=LARGE)
    assert found.fix is not None
    (change,) = found.fix.changes
    assert (change.field, change.before) == ("spec.nodes", None)
    assert isinstance(change.after, int)
    assert change.after > 8
    assert summary(found).startswith(
        "the only pool, a100-80gb-ondemand, cannot run it on up to 8 nodes: the model needs "
    )
    assert summary(found).endswith(
        f"; with spec.nodes {change.after} it would fit pool a100-80gb-ondemand, where the model may need more memory (MemTight)"
    )
    assert decided(*nodes_of(40, A100, 8), model=LARGE, nodes=change.after).verdict is Verdict.PLACED
    # One node fewer holds it not at all, or only with the warning MemTight.
    fewer = decided(*nodes_of(40, A100, 8), model=LARGE, nodes=change.after - 1)
    assert fewer.choice is None or "MemTight" in {warning.reason for warning in fewer.choice.candidate.warnings}


def test_a_pool_of_few_nodes_can_never_run_a_model_that_is_too_large() -> None:
    said = summary(decided(*nodes_of(2, A100, 8), model=LARGE))
    assert said.startswith("the only pool, a100-80gb-ondemand, can never run it: ")
    both = summary(decided(*nodes_of(2, A100, 8), node("h", H100, price="2"), model=LARGE))
    assert both.startswith("none of 2 pools can ever run it; nearest is ")
    many = summary(decided(*nodes_of(40, A100, 8), node("h", H100, price="2"), model=LARGE))
    assert many.startswith("none of 2 pools can run it on up to 8 nodes; nearest is a100-80gb-ondemand: ")


BURST = {"accelerator": "H100-SXM", "price": {"perGPUHour": "2"}}
NEW = {"maxNodes": 2, "gpusPerNode": 8, "cpu": "96", "memory": "1000Gi", "driverVersion": "580.95.05"}


@pytest.mark.parametrize(("said", "runs"), [
    ({}, False), ({"taints": []}, True), ({"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}, False),
    ({"taints": [{"key": "team", "value": "a", "effect": "PreferNoSchedule"}]}, True),
])  # fmt: skip
def test_what_a_gpupool_says_of_taints_goes_before_those_of_its_nodes(said: dict[str, Any], runs: bool) -> None:
    there = node("b0", H100, taints=[TAINT], labels={"pool": "burst"})
    found = decided(gpupool("burst", {"pool": "burst"}, provision={**NEW, **said}, **BURST), there, gpusPerNode=8)
    assert (found.verdict is Verdict.PLACED) is runs
    if not runs:
        assert found.candidates[0].reasons[0].message == (
            "its node has taint team=a:NoSchedule; tolerate it in a GPUPool (spec.tolerations), remove it, or set "
            "spec.provision.taints to those of nodes to be added ([] if none)"
        )


def test_where_no_node_can_be_added_only_the_taint_is_told() -> None:
    found = decided(node("a", H100, taints=[TAINT]))
    assert summary(found) == (
        "the only pool, h100-sxm-ondemand, can never run it: its node has taint team=a:NoSchedule; tolerate it in a GPUPool "
        "(spec.tolerations) or remove it; no change of the job makes it fit"
    )


HOSTS = gpupool("lab", {"pool": "lab"}, deviceMode="HostDevices", accelerator="H100-SXM")
IN_LAB = [node(name, H100, labels={"pool": "lab"}) for name in "ab"]
UNKNOWN = (
    "the labels of namespace default decide here and are not known; a description of the cluster needs namespaces too"
)


@pytest.mark.parametrize(("objects", "spec", "said"), [
    ([HOSTS, *IN_LAB], {"gpusPerNode": 1}, f"with spec.gpusPerNode 8 instead of 1 pool lab must be fixed first: {UNKNOWN}"),
    ([HOSTS, *IN_LAB], {"gpusPerNode": 9}, f"with spec.gpusPerNode 8 instead of 9 pool lab must be fixed first: {UNKNOWN}"),
    ([HOSTS, *IN_LAB], {"gpusPerNode": 8, "nodes": 3}, f"with spec.nodes 2 instead of 3 pool lab must be fixed first: {UNKNOWN}"),
])  # fmt: skip
def test_a_change_after_which_something_must_be_fixed_is_said_and_no_fix(
    objects: list[Object], spec: dict[str, Any], said: str
) -> None:
    """Never both that a field is to be set and that no change was found."""
    found = decided(*objects, **spec)
    assert (found.verdict, found.fix, found.hopeless) == (Verdict.IMPOSSIBLE, None, said)
    assert summary(found).endswith(f"; {said}")


CAP = {"placement": {"maxPricePerHour": "1"}}
TAINTED = "its node has taint team=a:NoSchedule; tolerate it in a GPUPool (spec.tolerations) or remove it"


@pytest.mark.parametrize(
    ("objects", "spec", "first", "second"),
    [
        ([node("a", H100, price="2", taints=[TAINT])], CAP,
         TAINTED, "costs $2.00 an hour, placement.maxPricePerHour is $1.00"),
        ([node("a", H100, price="2", taints=[TAINT])], {"gpusPerNode": 16},
         "needs 16 GPUs on one node, the largest node has 8", TAINTED),
        ([node("a", MI300X, price="2", taints=[TAINT])], {"placement": {"vendors": ["NVIDIA"]}},
         "placement.vendors names only NVIDIA", TAINTED),
        ([node("a", H100, price="2"), quota(**{"requests.nvidia.com/gpu": "0"})], CAP,
         "ResourceQuota team: requests.nvidia.com/gpu needs 1, 0 left of 0",
         "costs $2.00 an hour, placement.maxPricePerHour is $1.00"),
    ],
)  # fmt: skip
def test_a_reason_that_a_change_of_the_job_answers_hides_none_of_the_cluster(
    objects: list[Object], spec: dict[str, Any], first: str, second: str
) -> None:
    found = decided(*objects, **spec)
    assert found.hopeless == HOPELESS
    assert summary(found).endswith(f"can never run it: {first}; {second}; {HOPELESS}")


def takes_none(name: str, **more: Any) -> Object:
    """A node whose kubelet takes no pods."""
    return node(name, H100, 8, allocatable={"pods": "0"}, **more)


def test_a_node_that_takes_no_pods_is_never_waited_for() -> None:
    found = decision(takes_none("a"), gpusPerNode=1)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert found.candidates[0].reasons[0].reason is Reason.NODE_TOO_SMALL
    assert found.candidates[0].reasons[0].message == (
        "its node has 0 pods as allocatable (node a); raise maxPods of its kubelet, or use another pool"
    )
    assert decision(takes_none("a"), node("b", H100, 8), gpusPerNode=1).choice is not None


SELECTS = {
    "apiVersion": "v1", "kind": "Namespace",
    "metadata": {"name": "default", "annotations": {"openshift.io/node-selector": "team=a"}},
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "more", "hopeless"), [
    ([takes_none("a")], [], True),
    ([takes_none("a"), takes_none("b")], [], True),
    ([takes_none("a"), node("b", L4, taints=[TAINT])], [], True),
    ([takes_none("a"), node("b", H100, labels={"team": "b"})], [SELECTS], True),
    ([takes_none("a", labels={"team": "a"}), node("b", H100, labels={"team": "a"})], [SELECTS], False),
    ([takes_none("a"), node("b", H100)], [], False),
])  # fmt: skip
def test_no_change_helps_where_no_node_takes_pods(nodes: list[Object], more: list[Object], hopeless: bool) -> None:
    found = decided(*nodes, *more, gpuMemory="900Gi")
    assert (found.verdict, found.hopeless.startswith(HOPELESS)) == (Verdict.IMPOSSIBLE, hopeless)


def test_nodes_to_be_added_are_not_counted_among_those_that_take_no_pods() -> None:
    grown = gpupool("p", {"pool": "p"}, provision={"maxNodes": 3, "gpusPerNode": 8})
    found = decision(takes_none("a", labels={"pool": "p"}), grown, gpusPerNode=1)
    assert found.candidates[0].reasons[0].message.startswith("its node has 0 pods as allocatable (node a)")


def test_what_no_change_helps_has_no_change_in_its_sentence() -> None:
    """What the nearest changes leave is no advice where the namespace's selector closes every pool."""
    shared = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    nodes = [node(name, H100, 4, labels={"team": "b", **shared}) for name in "ab"]
    wanted = {"capacityTypes": ["Spot"], "devices": ["Shared"]}
    found = decided(*nodes, SELECTS, nodes=2, gpusPerNode=6, placement=wanted)
    assert (found.verdict, found.hopeless) == (Verdict.IMPOSSIBLE, HOPELESS)


def test_a_gang_counts_only_nodes_that_take_pods() -> None:
    found = decision(takes_none("a"), node("b", H100, 8), nodes=2, gpusPerNode=8)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert any(
        "1 of 2 nodes has 0 pods as allocatable (node a)" in each.message for each in found.candidates[0].reasons
    )
    busy = pod("p", "b", {"nvidia.com/gpu": 8})
    waits = decision(takes_none("a"), node("b", H100, 8), busy, gpusPerNode=8)
    assert waits.verdict is Verdict.WAITING
