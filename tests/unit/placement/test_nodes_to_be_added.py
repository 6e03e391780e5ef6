"""Nodes that an autoscaler can add: after those that are there at equal cost, and never more than the admin says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import (
    A100,
    ANY_IMAGES,
    H100,
    L4,
    MI300X,
    Object,
    decision,
    demand,
    fleet,
    gpupool,
    images,
    manifest,
    node,
    pod,
)

from gpujob.api.manifest import read_gpujob
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.decision_json import plan
from gpujob.placement.report.summary import summary
from gpujob.placement.report.why_not import why_not
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.suggestions.search import with_fix
from gpujob.render.children import render
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.vocabulary import Outcome, Reason, Verdict

NEW = {"maxNodes": 2, "gpusPerNode": 8, "cpu": "96", "memory": "1000Gi"}


def growing(name: str = "new", accelerator: str = "MI300X", **spec: Any) -> Object:
    """A GPUPool without nodes that an autoscaler can add two to."""
    given = {"accelerator": accelerator, "price": {"perGPUHour": "2"}, "provision": NEW, **spec}
    return gpupool(name, {"karpenter.sh/nodepool": name}, **given)


def decided(*objects: Object, **spec: Any) -> Decision:
    return decision(*objects, catalog=ANY_IMAGES, **spec)


def test_a_pool_without_nodes_is_placed_on() -> None:
    found = decided(growing(), nodes=2, gpusPerNode=8)
    assert found.verdict is Verdict.PLACED
    chosen = plan(found)["chosen"]
    assert (chosen["pool"], chosen["provision"], chosen["nodeNames"]) == ("new", True, [])
    assert summary(found) == "new is the only pool with room at $32.00 an hour; an autoscaler must add nodes first"


def test_nodes_that_are_there_come_first_and_at_equal_cost_for_a_job_that_waits() -> None:
    there = node("there", MI300X, price="2")
    assert plan(decided(growing(), there, gpusPerNode=8))["chosen"]["nodeNames"] == ["there"]
    equal = decided(growing(), there, gpusPerNode=8, placement={"waitSeconds": 600})
    assert plan(equal)["chosen"]["nodeNames"] == ["there"]
    dearer = node("there", MI300X, price="2.01")
    assert plan(decided(growing(), dearer, gpusPerNode=8))["chosen"]["nodeNames"] == ["there"]
    waiting = decided(growing(), dearer, gpusPerNode=8, placement={"waitSeconds": 600})
    assert plan(waiting)["chosen"]["pool"] == "new"
    assert (
        summary(decided(growing(), dearer, gpusPerNode=8))
        == "mi300x-ondemand is the only pool with room at $16.08 an hour"
    )


def test_a_node_that_is_started_for_a_job_is_paid_whole() -> None:
    found = decided(growing(), node("there", MI300X, price="15.99"), gpusPerNode=1)
    assert [(c.pool.name, c.price_per_hour) for c in found.candidates[:2]] == [
        ("mi300x-ondemand", 15_990_000), ("new", 16_000_000)
    ]  # fmt: skip
    assert [(c["pricePerHour"], c["marginalPricePerHour"]) for c in plan(found)["candidates"][:2]] == [
        ("15.99", "15.99"), ("16.00", "2.00")
    ]  # fmt: skip
    capped = decided(growing(), placement={"maxPricePerHour": "15.99"})
    assert [f.message for f in capped.candidates[0].reasons] == [HOSTS]


HOSTS = (
    "hosts that are started for the job cost $16.00 an hour, placement.maxPricePerHour is $15.99; raise it, or wait for room on "
    "other hosts"
)
LABELS = {"karpenter.sh/nodepool": "new"}
TAKEN = [node("there", MI300X, labels=LABELS), pod("p", "there", {MI300X.resource: 8})]


@pytest.mark.parametrize(
    ("there", "spec", "reasons"),
    [
        (TAKEN, {}, ["needs 1 free GPU on one node, 0 of 8 are free", HOSTS]),
        ([node("there", MI300X, labels=LABELS, cordoned=True)], {}, ["node there is cordoned", HOSTS]),
        ([node("there", MI300X, labels=LABELS, ready=False)], {}, ["node there is not Ready", HOSTS]),
        # It fits no node that is there, only hosts that other jobs may start.
        ([node("there", MI300X, 1, labels=LABELS)], {"gpusPerNode": 4}, [HOSTS]),
        ([], {}, [HOSTS]),
    ],
)
def test_a_job_waits_that_only_its_own_hosts_are_too_expensive_for(
    there: list[Object], spec: dict[str, Any], reasons: list[str]
) -> None:
    asked, known = demand(**spec, placement={"maxPricePerHour": "15.99"}), fleet(growing(), *there, catalog=ANY_IMAGES)
    found = with_fix(decide(asked, known, ANY_IMAGES), known, ANY_IMAGES)
    assert found.verdict is choose(asked, known, ANY_IMAGES).verdict is Verdict.WAITING
    assert [finding.message for finding in found.candidates[0].reasons] == reasons
    # Where nothing else is waited for, the limit that would do is said.
    changed = [(change.field, change.after) for change in found.fix.changes] if found.fix else []
    assert changed == ([("spec.placement.maxPricePerHour", "16.00")] if reasons == [HOSTS] else [])


@pytest.mark.parametrize("limit", ["1.99", "2", "15.99", "16"])
@pytest.mark.parametrize("there", [TAKEN, []])
def test_a_pool_that_may_grow_is_no_worse_than_one_that_may_not(there: list[Object], limit: str) -> None:
    asked = demand(placement={"maxPricePerHour": limit})
    order = (Verdict.IMPOSSIBLE, Verdict.MISCONFIGURED, Verdict.WAITING, Verdict.PLACED)
    fixed = gpupool("new", LABELS, accelerator="MI300X", price={"perGPUHour": "2"})
    still, grown = (
        order.index(choose(asked, fleet(pool, *there, catalog=ANY_IMAGES), ANY_IMAGES).verdict)
        for pool in (fixed, growing())
    )
    assert grown >= still
    assert (order[grown] is Verdict.IMPOSSIBLE) == (limit == "1.99")


def test_the_limit_is_the_same_alone_and_behind_a_job_that_starts_the_host() -> None:
    """Alone it waits for such a host, behind that job it is placed on it: it is never impossible."""
    small, large = demand(placement={"maxPricePerHour": "4"}), demand(gpusPerNode=2)
    known = fleet(growing(), catalog=ANY_IMAGES)
    queue = [PendingJob("0", "2026-01-01T00:00:00Z", large), PendingJob("1", "2026-01-02T00:00:00Z", small)]
    together = {placing.job.uid: placing for placing in place_all(queue, known, ANY_IMAGES)}
    assert choose(small, known, ANY_IMAGES).verdict is Verdict.WAITING
    assert together["1"].verdict is Verdict.PLACED


def test_never_more_nodes_than_the_admin_says() -> None:
    found = decided(growing(), nodes=3, gpusPerNode=8)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert found.candidates[0].reasons[0].message == (
        "needs 3 nodes with 8 GPUs each, the pool has none and 2 can be added (spec.provision.maxNodes of its GPUPool)"
    )


@pytest.mark.parametrize(
    ("there", "growth", "spec", "sentence"),
    [
        (0, {}, {"gpusPerNode": 9}, "needs 9 GPUs on one node, a node to be added has 8"),
        (1, {}, {"gpusPerNode": 9}, "needs 9 GPUs on one node, the largest node has 8"),
        (1, {"maxNodes": 4}, {"nodes": 9, "gpusPerNode": 8},
         "needs 9 nodes with 8 GPUs each, the pool has 1 node and 3 can be added (spec.provision.maxNodes of its GPUPool)"),
        (2, {}, {"nodes": 3},
         "needs 3 nodes with 1 GPU each, the pool has 2 nodes and 0 can be added (spec.provision.maxNodes of its GPUPool)"),
        (0, {}, {"nodes": 3, "gpusPerNode": 9},
         "needs 9 GPUs on one node, a node to be added has 8, and 3 such nodes where the pool has none and 2 can be "
         "added (spec.provision.maxNodes of its GPUPool)"),
        (0, {"taints": [{"key": "team", "effect": "NoSchedule"}]}, {},
         "nodes to be added have taint team:NoSchedule; tolerate it in a GPUPool (spec.tolerations) or remove it"),
        (1, {"cpu": "8"}, {"nodes": 2, "resources": {"cpu": "50"}},
         "needs 50 CPU on each of 2 nodes, 1 of 2 (1 of them to be added) have that"),
    ],
)  # fmt: skip
def test_what_is_there_and_what_can_be_added_are_told_apart(
    there: int, growth: Object, spec: Object, sentence: str
) -> None:
    nodes = [node(f"n{number}", MI300X, labels={"karpenter.sh/nodepool": "new"}) for number in range(there)]
    found = decided(growing(provision={**NEW, **growth}), *nodes, **spec)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert found.candidates[0].reasons[0].message == sentence


def test_nodes_that_are_there_count_in_the_most() -> None:
    labels = {"karpenter.sh/nodepool": "new"}
    nodes = [node(name, MI300X, labels=labels) for name in ("a", "b")]
    found = decided(growing(), *nodes, *(pod(f"p-{n}", n, {"amd.com/gpu": 8}) for n in ("a", "b")))
    assert found.verdict is Verdict.WAITING
    assert found.candidates[0].reasons[0].reason is Reason.NOT_ENOUGH_FREE


def test_a_gang_may_take_a_node_that_is_there_and_one_to_be_added() -> None:
    found = decided(growing(), node("a", MI300X, labels={"karpenter.sh/nodepool": "new"}), nodes=2, gpusPerNode=8)
    assert found.choice is not None
    assert found.choice.nodes == ("", "")
    rest = fleet(growing(), node("a", MI300X, labels={"karpenter.sh/nodepool": "new"})).reserve(
        found.choice.candidate.pool, 8, found.choice.needs, found.choice.nodes
    )
    pool = rest.pool("new")
    assert pool is not None
    assert pool.growth is not None
    assert (pool.free, pool.growth.count) == (0, 0)


def test_a_pod_that_waits_for_a_node_is_pinned_to_the_pools_selector() -> None:
    job = read_gpujob(manifest(nodes=2, gpusPerNode=8) | {"metadata": {"name": "train", "uid": "u", "namespace": "n"}})
    found = decided(
        growing(provision={**NEW, "taints": [{"key": "amd.com/gpu", "effect": "NoSchedule"}]}), nodes=2, gpusPerNode=8
    )
    assert found.choice is not None
    pods = render(job, found.choice, 1).job["spec"]["template"]["spec"]
    assert pods["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["new"]},
            ]
        }
    ]
    assert "podAntiAffinity" in pods["affinity"]
    assert pods["tolerations"] == [{"key": "amd.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_a_taint_of_new_nodes_that_is_not_tolerated() -> None:
    found = decided(growing(provision={**NEW, "taints": [{"key": "team", "effect": "NoSchedule"}]}))
    assert [f.reason for f in found.candidates[0].reasons] == [Reason.TAINT_NOT_TOLERATED]


def test_unknown_sizes_of_new_nodes_are_a_warning() -> None:
    found = decided(growing(provision={"maxNodes": 1, "gpusPerNode": 8}), gpusPerNode=2)
    assert found.choice is not None
    warnings = [warning.message for warning in found.choice.candidate.warnings]
    assert (
        "CPU and memory of nodes to be added are unknown; set spec.provision.cpu and spec.provision.memory" in warnings
    )
    assert (found.choice.needs.millicores, found.choice.needs.memory) == (8_000, 32 * 2**30)


NO_DISK = "disk of nodes to be added is unknown; set spec.provision.ephemeralStorage of the GPUPool"


@pytest.mark.parametrize("spec", [
    {"resources": {"ephemeralStorage": "10Gi"}},
    {"resources": {"ephemeralStorage": "10Gi", "cpu": "8", "memory": "64Gi"}, "gpusPerNode": 8},
    {"resources": {"ephemeralStorage": "5Ti"}},
])  # fmt: skip
@pytest.mark.parametrize("sizes", [{"cpu": "96", "memory": "1000Gi"}, {"cpu": "96"}, {"memory": "1000Gi"}, {}])
def test_an_unknown_disk_of_new_nodes_is_a_warning_and_no_disk_of_nothing(
    spec: dict[str, Any], sizes: dict[str, str]
) -> None:
    found = decided(growing(provision={"maxNodes": 1, "gpusPerNode": 8, **sizes}), **spec)
    assert found.verdict is Verdict.PLACED
    assert NO_DISK in [warning.message for warning in found.candidates[0].warnings]
    unasked = decided(growing(provision={"maxNodes": 1, "gpusPerNode": 8, **sizes}))
    assert NO_DISK not in [warning.message for warning in unasked.candidates[0].warnings]


def test_the_disk_of_new_nodes_can_be_said() -> None:
    pool = growing(provision={**NEW, "ephemeralStorage": "500Gi"})
    found = decided(pool, resources={"ephemeralStorage": "400Gi"})
    assert (
        found.verdict,
        [warning.message for warning in found.candidates[0].warnings if warning.reason is Reason.NODE_UNKNOWN],
    ) == (
        Verdict.PLACED,
        [],
    )
    found = decided(pool, resources={"ephemeralStorage": "600Gi"})
    assert found.verdict is Verdict.IMPOSSIBLE
    assert (
        "needs 600Gi ephemeral-storage on one node, the largest node has 500Gi"
        in found.candidates[0].reasons[0].message
    )


def test_a_driver_of_new_nodes_that_is_too_old() -> None:
    new = images({"name": "cu130", "backend": "CUDA", "architectures": ["9.0"], "minDriver": "580.65"})
    pool = growing(accelerator="H100-SXM", provision={**NEW, "driverVersion": "470.10"})
    found = decision(pool, catalog=new)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert [f.message for f in found.candidates[0].reasons] == ["has driver 470.10, needs 580.65"]


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("karpenter.sh/nodepool", "Karpenter node pool gpu"),
        ("eks.amazonaws.com/nodegroup", "EKS node group gpu"),
        ("cloud.google.com/gke-nodepool", "GKE node pool gpu"),
        ("kubernetes.azure.com/agentpool", "AKS node pool gpu"),
        ("agentpool", "AKS node pool gpu"),
        ("alpha.eksctl.io/nodegroup-name", "EKS node group gpu"),
        ("oke.oraclecloud.com/pool.name", "OKE node pool gpu"),
        ("ibm-cloud.kubernetes.io/worker-pool-name", "IBM Cloud worker pool gpu"),
        ("worker.gardener.cloud/pool", "Gardener worker pool gpu"),
        ("doks.digitalocean.com/node-pool-id", "DigitalOcean node pool gpu"),
        ("nebius.com/node-group-id", "Nebius node group gpu"),
        ("sagemaker.amazonaws.com/instance-group-name", "HyperPod instance group gpu"),
    ],
)
def test_a_node_pool_that_nobody_described_may_grow(label: str, words: str) -> None:
    found = decided(node("n", H100, labels={label: "gpu"}), nodes=2, gpusPerNode=8)
    assert found.verdict is Verdict.WAITING
    assert summary(found) == (
        f"pool {found.candidates[0].pool.name} has too few nodes: needs 1 more node (2 with 8 GPUs each, the pool has 1); "
        f"{words} may grow: an admin can add a GPUPool with spec.provision"
    )


def test_more_gpus_than_a_node_has_do_not_come_by_growing() -> None:
    found = decided(node("n", H100, labels={"karpenter.sh/nodepool": "gpu"}), gpusPerNode=16)
    assert found.verdict is Verdict.IMPOSSIBLE


def three_of_each() -> list[Object]:
    """Three nodes of H100, three of A100 and two of MI300X, each kind in a node pool of its own."""
    kinds = (("h", H100, 3, "3.4"), ("a", A100, 3, "2"), ("m", MI300X, 2, "6"))
    return [
        node(f"{name}{number}", gpu, price=price, labels={"karpenter.sh/nodepool": name})
        for name, gpu, count, price in kinds
        for number in range(count)
    ]


def test_nodes_that_nobody_promised_are_no_fix() -> None:
    objects = three_of_each()
    known = fleet(*objects)
    found = with_fix(decide(demand(model={"name": "llama-3.1-405b"}), known, ANY_IMAGES), known, ANY_IMAGES)
    assert found.fix is not None
    # Layers alone would need more nodes than there are.
    changed = [(change.field, change.after) for change in found.fix.changes]
    assert changed == [("spec.model.gradientCheckpointing", "Layers"), ("spec.model.method", "LoRA")]
    assert choose(found.fix.demand, known, ANY_IMAGES).verdict is Verdict.PLACED


def test_a_fix_for_another_pool_asks_only_for_the_nodes_that_it_has() -> None:
    wish = {"accelerators": {"allow": ["H100-SXM"]}, "vendors": ["AMD"]}
    known = fleet(*three_of_each())
    found = decide(demand(nodes=3, gpusPerNode=8, placement=wish), known, ANY_IMAGES)
    assert why_not(found, "mi300x-ondemand", known, ANY_IMAGES).change == (
        "with spec.placement.accelerators.allow [H100-SXM, MI300X] instead of [H100-SXM] and spec.nodes 2 instead of 3 it "
        "would fit pool mi300x-ondemand and be chosen"
    )


def test_where_only_nodes_are_missing_their_number_is_told() -> None:
    known = fleet(node("l", L4, labels={"karpenter.sh/nodepool": "l"}))
    model = {"name": "llama-3.1-405b", "sharding": "FSDP", "method": "QLoRA", "sequenceLength": 512, "batchPerGPU": 1,
             "gradientCheckpointing": "Layers"}  # fmt: skip
    found = with_fix(decide(demand(model=model, placement={"vendors": ["AMD"]}), known, ANY_IMAGES), known, ANY_IMAGES)
    assert (found.fix, found.hopeless) == (
        None,
        "no change of the job was found that makes it fit on the nodes that are there; with spec.placement.vendors "
        "[AMD, NVIDIA] instead of [AMD] pool l4-ondemand needs 5 more nodes (6 with 8 GPUs each, the pool has 1); Karpenter "
        "node pool l may grow: an admin can add a "
        "GPUPool with spec.provision",
    )


def test_of_pools_that_lack_only_memory_the_nearest_lacks_least() -> None:
    found = decided(node("l", L4, price="1"), node("h", H100, price="3"), gpuMemory="90Gi")
    assert "nearest is h100-sxm-ondemand: needs 90Gi usable per GPU" in summary(found)


def test_what_only_has_to_become_free_is_nearer_than_what_may_grow() -> None:
    busy = [node(n, MI300X, price="9", allocatable={"amd.com/gpu": "0"}) for n in ("a", "b")]
    found = decided(node("n", H100, price="1", labels={"karpenter.sh/nodepool": "g"}), *busy, nodes=2, gpusPerNode=8)
    assert [c.pool.accelerator_id for c in found.candidates if c.outcome is Outcome.BUSY] == ["MI300X", "H100-SXM"]


def test_the_same_pool_twice_decides_the_same() -> None:
    found = fleet(growing("b"), growing("a"))
    assert decide(demand(), found, ANY_IMAGES).candidates[0].pool.name == "a"


def test_a_pool_whose_nodes_did_not_come_is_left_for_the_next() -> None:
    late = replace(demand(), pools_away=(("new", "2026-11-28T12:00:00Z"),))
    dear = node("there", MI300X, price="9")
    found = decide(late, fleet(growing(), dear, catalog=ANY_IMAGES), ANY_IMAGES)
    assert plan(found)["chosen"]["nodeNames"] == ["there"]
    alone = decide(late, fleet(growing(), catalog=ANY_IMAGES), ANY_IMAGES)
    assert alone.verdict is Verdict.WAITING
    assert alone.candidates[0].reasons[0].message == (
        "nodes that were to be added did not come; tried again at 2026-11-28T12:00:00Z"
    )


def test_new_nodes_may_have_the_devices_taint_and_those_that_the_admin_tolerates() -> None:
    found = decided(growing(tolerations=[{"key": "team", "operator": "Equal", "value": "a"}, {"key": "soon"}]))
    assert found.choice is not None
    job = read_gpujob(manifest() | {"metadata": {"name": "train", "uid": "u", "namespace": "n"}})
    assert render(job, found.choice, 1).job["spec"]["template"]["spec"]["tolerations"] == [
        {"key": "amd.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "a"},
        {"key": "soon", "operator": "Exists"},
    ]


def test_what_is_added_is_like_the_nodes_that_are_there() -> None:
    pool = gpupool("mine", {"pool": "mine"}, provision={"maxNodes": 3}, price={"perGPUHour": "2"})
    there = node("there", MI300X, labels={"pool": "mine"})
    found = decided(pool, there, nodes=3, gpusPerNode=8)
    assert (found.verdict, plan(found)["chosen"]["accelerator"]) == (Verdict.PLACED, "MI300X")
    assert decided(pool, there, nodes=4, gpusPerNode=8).verdict is Verdict.IMPOSSIBLE


def test_what_is_free_is_counted_apart_from_what_can_be_added() -> None:
    pool = gpupool("mine", {"pool": "mine"}, accelerator="MI300X", provision=NEW | {"maxNodes": 3})
    nodes = [node(name, MI300X, labels={"pool": "mine"}) for name in ("a", "b")]
    taken = [pod("p", "a", {"amd.com/gpu": 4}), pod("q", "b", {"amd.com/gpu": 4})]
    found = decided(pool, *nodes, *taken, nodes=3, gpusPerNode=8)
    assert [reason.message for reason in found.candidates[0].reasons] == [
        "needs 8 free GPUs on each of 3 nodes, 8 of 16 are free, 1 node with 8 GPUs can be added; 1 node has room"
    ]


@pytest.mark.parametrize(
    ("labels", "spec", "device", "gib"),
    [
        ({}, {"resourceName": "amd.com/cpx_nps4"}, "MI300X cpx_nps4", 23.9),
        ({}, {"resourceName": "amd.com/dpx_nps2"}, "MI300X dpx_nps2", 95.8),
        ({}, {"resourceName": "amd.com/spx_nps1"}, "MI300X", 191.6),
        ({}, {"accelerator": "MI300A"}, "MI300A", None),
        ({}, {"accelerator": "H100-SXM", "resourceName": "nvidia.com/mig-1g.10gb"}, "H100-SXM 1g.10gb", 9.6),
        ({}, {"accelerator": "H100-SXM", "resourceName": "nvidia.com/gpu.shared"}, "H100-SXM shared", None),
        (
            {"cloud.google.com/gke-gpu-partition-size": "3g.40gb"},
            {"accelerator": "A100-80GB"},
            "A100-80GB 3g.40gb",
            38.8,
        ),
        (
            {"node.kubernetes.io/instance-type": "g6f.xlarge"},
            {"accelerator": "L4", "provision": {"maxNodes": 2}},
            "L4 1/8",
            2.8,
        ),
        ({"node.kubernetes.io/instance-type": "p5.48xlarge"}, {"accelerator": None}, "H100-SXM", 79.1),
        ({"cloud.google.com/gke-accelerator": "nvidia-l4"}, {"accelerator": None}, "L4", 22.2),
        ({"cloud.google.com/gke-accelerator": "nvidia-l4"}, {"accelerator": "MI300X"}, "MI300X", 191.6),
    ],
)
def test_what_selector_and_resource_say_of_nodes_that_are_not_there(
    labels: dict[str, str], spec: dict[str, Any], device: str, gib: float | None
) -> None:
    made = gpupool("new", labels or {"pool": "new"}, **{"accelerator": "MI300X", "provision": NEW, **spec})
    made["spec"] = {key: value for key, value in made["spec"].items() if value is not None}
    (pool,) = fleet(made).pools
    assert (pool.device, pool.problem) == (device, None)
    assert pool.memory == pytest.approx(gib * 2**30, rel=0.02) if gib else pool.memory is None
    assert pool.kind == ("Integrated" if device == "MI300A" else pool.portion.kind)


def test_a_resource_that_nobody_knows_is_told_before_a_node_comes() -> None:
    (pool,) = fleet(growing(resourceName="example.com/gpu")).pools
    assert pool.problem is not None
    assert pool.problem.message == "resource example.com/gpu is not known"


def test_a_pool_that_says_too_little_of_nodes_to_be_added_must_be_mended_for_any_job() -> None:
    found = decided(gpupool("new", {"node.kubernetes.io/instance-type": "m5.large"}, provision={"maxNodes": 2}))
    assert found.verdict is Verdict.MISCONFIGURED


def test_a_resource_of_the_other_vendor_is_told_before_a_node_comes() -> None:
    (pool,) = fleet(growing(resourceName="nvidia.com/gpu")).pools
    assert pool.problem is not None
    assert pool.problem.message == "spec.accelerator MI300X is made by AMD, its nodes offer nvidia.com/gpu"


def test_the_selected_machine_says_how_many_gpus_a_new_node_has() -> None:
    made = gpupool("new", {"node.kubernetes.io/instance-type": "p5.48xlarge"}, provision={"maxNodes": 1})
    assert decided(made, gpusPerNode=8).verdict is Verdict.PLACED
    assert decided(made, gpusPerNode=9).verdict is Verdict.IMPOSSIBLE


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"accelerator": None, "provision": {"maxNodes": 3}}, "spec.accelerator and spec.provision.gpusPerNode"),
        ({"provision": {"maxNodes": 3}}, "spec.provision.gpusPerNode"),
        ({"accelerator": None}, "spec.accelerator"),
    ],
)
def test_without_a_node_the_pool_asks_for_what_nobody_says(spec: dict[str, Any], fields: str) -> None:
    made = growing(**spec)
    made["spec"] = {key: value for key, value in made["spec"].items() if value is not None}
    found = decided(made, placement={"pools": {"allow": ["new"]}})
    assert found.verdict is Verdict.MISCONFIGURED
    assert [reason.message for reason in found.candidates[0].reasons] == [
        f"no existing node shows what spec.provision adds; set {fields}"
    ]


@pytest.mark.parametrize(
    ("sizes", "asked", "reason"),
    [
        ({"cpu": "96"}, {"cpu": "200"}, "needs 200 CPU on one node, the largest node has 96"),
        ({"memory": "200Gi"}, {"memory": "900Gi"}, "needs 900Gi memory on one node, the largest node has 200Gi"),
        ({"ephemeralStorage": "50Gi"}, {"ephemeralStorage": "100Gi"},
         "needs 100Gi ephemeral-storage on one node, the largest node has 50Gi"),
        ({"cpu": "8", "ephemeralStorage": "500Gi"}, {"cpu": "9", "memory": "900Gi"},
         "needs 9 CPU on one node, the largest node has 8"),
    ],
)  # fmt: skip
def test_one_known_size_of_new_nodes_counts_whatever_the_others_are(
    sizes: dict[str, str], asked: dict[str, str], reason: str
) -> None:
    grows = growing(provision={"maxNodes": 1, "gpusPerNode": 8, **sizes})
    found = decided(grows, resources=asked)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert [each.message for each in found.candidates[0].reasons] == [reason]
    within = {name: "4" if name == "cpu" else "40Gi" for name in asked}
    assert decided(grows, resources=within).verdict is Verdict.PLACED


@pytest.mark.parametrize(
    ("sizes", "warning"),
    [
        ({"cpu": "96"}, "memory of nodes to be added is unknown; set spec.provision.memory"),
        ({"memory": "900Gi"}, "CPU of nodes to be added is unknown; set spec.provision.cpu"),
        ({"cpu": "96", "memory": "900Gi"}, None),
    ],
)
def test_the_warning_names_the_sizes_that_are_unknown(sizes: dict[str, str], warning: str | None) -> None:
    found = decided(growing(provision={"maxNodes": 1, "gpusPerNode": 8, **sizes}))
    warnings = [warning.message for warning in found.candidates[0].warnings if warning.reason is Reason.NODE_UNKNOWN]
    assert warnings == ([warning] if warning else [])


def test_two_jobs_share_the_known_cpu_of_one_new_node() -> None:
    known = fleet(growing(provision={"maxNodes": 1, "gpusPerNode": 8, "cpu": "8"}), catalog=ANY_IMAGES)
    wishes = [demand(resources={"cpu": "5"}) for _ in range(2)]
    placed = place_all([PendingJob(str(i), "", wish) for i, wish in enumerate(wishes)], known, ANY_IMAGES)
    assert [each.verdict for each in placed] == [Verdict.PLACED, Verdict.WAITING]
