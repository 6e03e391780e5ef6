"""Which nodes are one pool, whose pool they are, what is free and what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import (
    A100,
    ANY_IMAGES,
    H100,
    L4,
    MI210,
    MI300X,
    Object,
    decision,
    demand,
    fleet,
    gpupool,
    node,
    pod,
    pool_of,
)

from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.assembly.usage import PodReservation
from gpujob.fleet.kubernetes.objects import Resources, Taint
from gpujob.fleet.kubernetes.parse import read_node, read_pod
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.sources.build import read_fleet
from gpujob.placement.engine.choose import choose
from gpujob.placement.scoring.candidate import best_per_pool
from gpujob.values.vocabulary import Annotation, CapacityType, DeviceKind, Label, Outcome, Reason, Verdict

GPU = "nvidia.com/gpu"
X = {"pool": "x"}


def names(found: Fleet) -> list[str]:
    return [pool.name for pool in found.whole_pools]


def members(pool: Pool) -> list[str]:
    return [member.name for member in pool.nodes]


def test_equal_nodes_are_one_pool_named_after_device_machine_and_capacity() -> None:
    machine = {"node.kubernetes.io/instance-type": "p5.48xlarge", "karpenter.sh/capacity-type": "spot"}
    found = fleet(node("b", H100, labels=machine), node("a", H100, labels=machine), node("c", MI300X))
    assert names(found) == ["h100-sxm-p5-48xlarge-spot", "mi300x-ondemand"]
    assert members(found.pools[0]) == ["a", "b"]
    assert (found.pools[0].discovered, found.pools[0].free, found.pools[0].total) == (True, 16, 16)


@pytest.mark.parametrize(
    "other",
    [
        {"labels": {"nvidia.com/cuda.driver-version.full": "570.10.01"}},
        {"labels": {"kubernetes.io/arch": "arm64"}},
        {"labels": {"topology.kubernetes.io/region": "elsewhere"}},
        {"taints": ["team=x:NoSchedule"]},
        {"price": "3"},
        {"labels": {"nvidia.com/gpu.memory": "70000"}},
    ],
)
def test_nodes_that_differ_in_one_of_these_are_two_pools_of_distinct_names(other: dict[str, Any]) -> None:
    found = fleet(node("a", H100), node("b", H100, **other))
    assert len(set(names(found))) == 2
    assert all(name.startswith("h100-sxm-ondemand-") and len(name) == 24 for name in names(found))
    assert names(found) == names(fleet(node("b", H100, **other), node("a", H100)))


def test_states_that_pass_do_not_split_a_pool() -> None:
    away = node("b", H100, cordoned=True, ready=False, taints=["node.kubernetes.io/unreachable:NoExecute"])
    found = fleet(node("a", H100), away)
    assert [members(pool) for pool in found.pools] == [["a", "b"]]
    assert (found.pools[0].free, found.pools[0].total) == (8, 16)


@pytest.mark.parametrize(
    ("labels", "capacity"),
    [
        ({}, CapacityType.ON_DEMAND),
        ({"karpenter.sh/capacity-type": "spot"}, CapacityType.SPOT),
        ({"karpenter.sh/capacity-type": "reserved"}, CapacityType.RESERVED),
        ({"karpenter.sh/capacity-type": "on-demand"}, CapacityType.ON_DEMAND),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, CapacityType.SPOT),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, CapacityType.ON_DEMAND),
        ({"cloud.google.com/gke-spot": "true"}, CapacityType.SPOT),
        ({"cloud.google.com/gke-preemptible": "true"}, CapacityType.SPOT),
        ({"cloud.google.com/gke-provisioning": "spot"}, CapacityType.SPOT),
        ({"cloud.google.com/gke-provisioning": "standard"}, CapacityType.ON_DEMAND),
        ({"kubernetes.azure.com/priority": "spot"}, CapacityType.SPOT),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, CapacityType.SPOT),
        ({"karpenter.sh/capacity-type": "Spot"}, CapacityType.SPOT),
        ({"eks.amazonaws.com/capacityType": "spot"}, CapacityType.SPOT),
        ({"oci.oraclecloud.com/oke-is-preemptible": "true"}, CapacityType.SPOT),
        ({"node.kubernetes.io/lifecycle": "spot"}, CapacityType.SPOT),
        ({"node.kubernetes.io/lifecycle": "normal"}, CapacityType.ON_DEMAND),
        ({"nebius.com/preemptible": "true"}, CapacityType.SPOT),
        ({"nebius.com/preemptible": "false"}, CapacityType.ON_DEMAND),
        ({"machine.openshift.io/interruptible-instance": ""}, CapacityType.SPOT),
        ({"spotinst.io/node-lifecycle": "spot"}, CapacityType.SPOT),
        ({"spotinst.io/node-lifecycle": "od"}, CapacityType.ON_DEMAND),
        ({"scheduling.cast.ai/spot": "true"}, CapacityType.SPOT),
        ({"lifecycle": "Ec2Spot"}, CapacityType.SPOT),
        ({"lifecycle": "production"}, CapacityType.ON_DEMAND),
        ({"karpenter.sh/capacity-type": "unheard-of"}, CapacityType.ON_DEMAND),
    ],
)
def test_capacity_types_of_every_cloud(labels: dict[str, str], capacity: CapacityType) -> None:
    assert fleet(node("n", H100, labels=labels)).pools[0].capacity_type is capacity


def test_free_devices_are_allocatable_less_what_pods_hold() -> None:
    pods = [
        pod("running", "n", {GPU: 2}),
        pod("pending", "n", {GPU: 1}, phase="Pending"),
        pod("done", "n", {GPU: 4}, phase="Succeeded"),
        pod("failed", "n", {GPU: 4}, phase="Failed"),
        pod("elsewhere", "m", {GPU: 4}),
    ]
    pool = fleet(node("n", H100, allocatable={GPU: "7"}), *pods).pools[0]
    assert (pool.free, pool.total, pool.nodes[0].healthy) == (4, 8, 7)


def test_a_pod_that_is_going_still_holds_its_devices() -> None:
    going = pod("going", "n", {GPU: 8})
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert fleet(node("n", H100), going).pools[0].free == 0


def test_more_pods_than_devices_leave_nothing_and_less() -> None:
    pool = fleet(node("n", H100), pod("p", "n", {GPU: 9})).pools[0]
    assert (pool.free, pool.nodes[0].free) == (0, -1)


def test_shares_are_cut_from_what_pods_without_devices_leave() -> None:
    found = fleet(
        node("n", H100), pod("daemon", "n", memory="24Gi", cpu="8"), pod("job", "n", {GPU: 4}, memory="500Gi")
    )
    one = found.pools[0].nodes[0]
    assert one.share_base.memory == 1000 * 1024**3
    assert one.left.memory == 500 * 1024**3
    assert (one.share_base.millicores, one.left.pods) == (120_000, 108)


def reservation(uid: str, attempt: int = 1) -> PodReservation:
    return PodReservation(uid, "n", GPU, 3, Resources(1000, 1024**3, 0, 1), attempt)


@pytest.mark.parametrize(("uid", "attempt", "free"), [("u", 1, 5), ("u", 2, 2), ("v", 1, 2)])
def test_a_promise_counts_until_a_pod_of_its_attempt_is_there(uid: str, attempt: int, free: int) -> None:
    bound = pod("p", "n", {GPU: 3})
    bound["metadata"]["labels"] = {Label.JOB_UID: uid, Label.ATTEMPT: str(attempt)}
    nodes, pods = [read_node(node("n", H100))], [read_pod(bound)]
    assert read_fleet(nodes, pods, load_catalog(), reservations=[reservation("u")]).pools[0].free == free


@pytest.mark.parametrize(("namespace", "devices"), [("theirs", 3), ("ours", 0)])
def test_a_pod_that_only_wears_a_job_s_labels_keeps_no_promise(namespace: str, devices: int) -> None:
    stranger = pod("p", "n", {GPU: devices})
    stranger["metadata"] |= {"namespace": namespace, "labels": {Label.JOB_UID: "u", Label.ATTEMPT: "1"}}
    ours = replace(reservation("u"), namespace="ours")
    found = read_fleet([read_node(node("n", H100))], [read_pod(stranger)], load_catalog(), reservations=[ours])
    assert found.pools[0].free == 8 - 3 - devices


def test_reserving_takes_devices_of_one_resource_and_room_of_the_node() -> None:
    both = node("n", H100, 8, labels=MI210.labels(1, ""), devices={"amd.com/gpu": "1", GPU: "8"})
    before = fleet(both, node("m", H100))
    after = before.reserve(pool_of(before, "n", GPU), 2, Resources(4000, 1024**3, 0, 1), ["n"])
    nvidia, amd = (pool_of(after, "n", resource).nodes for resource in (GPU, "amd.com/gpu"))
    assert [(one.name, one.free) for one in nvidia] == [("m", 8), ("n", 6)]
    assert [(one.free, one.left.millicores) for one in amd] == [(1, 124_000)]
    assert next(one for one in nvidia if one.name == "m").left == pool_of(before, "m").nodes[0].left


# --- GPUPools of admins


def test_an_admin_s_pool_claims_its_nodes_and_overrides_what_labels_say() -> None:
    admin = gpupool("mine", X, accelerator="MI300X", price={"perGPUHour": "2"}, supplementalGroups=[44, 109])
    found = fleet(node("n", devices={"amd.com/gpu": "8"}, labels=X), node("m", MI300X), admin)
    assert names(found) == ["mi300x-ondemand", "mine"]
    mine = found.pools[1]
    assert (mine.discovered, mine.accelerator_id, mine.problem, members(mine)) == (False, "MI300X", None, ["n"])
    assert (mine.supplemental_groups, mine.price and mine.price.per_gpu_hour) == ((44, 109), 2_000_000)


@pytest.mark.parametrize("names_first", [("a", "b"), ("b", "a")])
def test_of_two_pools_the_older_has_the_node_and_the_other_is_told(names_first: tuple[str, str]) -> None:
    older, younger = names_first
    pools = [
        gpupool(younger, X, "2026-02-01T00:00:00Z"),
        gpupool(older, X, "2026-01-01T00:00:00Z"),
    ]
    found = fleet(node("n", H100, labels=X), *pools)
    assert pool_of(found, "n").name == older
    assert found.overlaps == {younger: (older, "n")}
    empty = found.pool(younger)
    assert empty is not None
    assert empty.problem is not None
    assert empty.problem.reason is Reason.NO_POOL


def test_of_two_pools_of_one_age_the_first_by_name_has_the_node() -> None:
    assert pool_of(fleet(node("n", H100, labels=X), gpupool("b", X), gpupool("a", X)), "n").name == "a"


def test_devices_of_the_other_vendor_are_left_to_others() -> None:
    both = node("n", H100, 8, labels={**MI210.labels(1, ""), **X}, devices={"amd.com/gpu": "1", GPU: "8"})
    found = fleet(both, gpupool("mine", X, resourceName=GPU))
    assert pool_of(found, "n", GPU).name == "mine"
    assert pool_of(found, "n", "amd.com/gpu").name == "mi210-ondemand"
    assert found.overlaps == {}
    unsaid = fleet(both, gpupool("mine", X)).pools[0]
    assert unsaid.problem is not None
    assert unsaid.problem.message == "its nodes offer amd.com/gpu, nvidia.com/gpu; set spec.resourceName to one"


@pytest.mark.parametrize(
    ("spec", "labels", "chosen"),
    [
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1", "b": "1"}}, {"a": "1"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "2"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {"a": "1"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
        ({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}, {"a": "1"}, False),
    ],
)
def test_selectors_are_those_of_kubernetes(spec: Object, labels: dict[str, str], chosen: bool) -> None:
    admin = gpupool("mine", {})
    admin["spec"]["nodeSelector"] = spec
    assert (pool_of(fleet(node("n", H100, labels=labels), admin), "n").name == "mine") is chosen


@pytest.mark.parametrize(
    "word", ["H100-SXM", "h100_sxm", "H100 SXM5", "nvidia-h100-mega-80gb", "NVIDIA H100 80GB HBM3"]
)
def test_an_admin_names_a_model_as_a_job_does(word: str) -> None:
    found = fleet(node("n", H100, labels=X), gpupool("mine", X, accelerator=word)).pool("mine")
    assert found is not None
    assert (found.accelerator_id, found.problem) == ("H100-SXM", None)


@pytest.mark.parametrize(
    ("nodes", "spec", "reason", "says"),
    [
        (
            [],
            {},
            Reason.NO_POOL,
            "GPUPool mine has no GPU node of its own; check spec.nodeSelector",
        ),
        (
            [node("n", H100, labels=X)],
            {"accelerator": "MI300X-HGX"},
            Reason.ACCELERATOR_UNKNOWN,
            "spec.accelerator MI300X-HGX is in no catalog row; the nearest is MI300X",
        ),
        (
            [node("n", H100, labels=X)],
            {"accelerator": "A800"},
            Reason.ACCELERATOR_UNKNOWN,
            "spec.accelerator A800 is in no catalog row; `kubectl gpujob catalog accelerators` lists all",
        ),
        (
            [node("n", H100, labels=X)],
            {"accelerator": "h100"},
            Reason.ACCELERATOR_UNKNOWN,
            "spec.accelerator h100 means H100-NVL, H100-PCIe and H100-SXM; name one of them",
        ),
        (
            [node("n", H100, labels=X)],
            {"accelerator": "MI300X"},
            Reason.LABELS_CONTRADICT,
            "spec.accelerator MI300X is made by AMD, its nodes offer nvidia.com/gpu",
        ),
        (
            [node("n", H100, labels=X), node("m", A100, labels=X)],
            {},
            Reason.MODELS_DIFFER,
            "its nodes have A100-80GB, H100-SXM; narrow spec.nodeSelector",
        ),
    ],
)
def test_what_an_admin_must_mend(nodes: list[Object], spec: Object, reason: Reason, says: str) -> None:
    pool = fleet(*nodes, gpupool("mine", X, **spec)).pool("mine")
    assert pool is not None
    assert pool.problem is not None
    assert (pool.problem.reason, pool.problem.message) == (reason, says)


@pytest.mark.parametrize(
    "labels",
    [
        {"nvidia.com/gpu.replicas": "4"},
        {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"},
        {"nvidia.com/gpu.memory": "9856", "nvidia.com/vgpu.present": "true"},
    ],
)
def test_an_admin_s_accelerator_makes_no_slice_a_whole_device(labels: dict[str, str]) -> None:
    pool = fleet(node("n", H100, labels={**X, **labels}), gpupool("mine", X, accelerator="H100-SXM")).pool("mine")
    assert pool is not None
    assert pool.kind is not DeviceKind.WHOLE
    assert (pool.memory or 0) < 25 * 1024**3


def test_the_worst_node_says_what_an_admin_s_pool_can_do() -> None:
    old = {"nvidia.com/cuda.driver-version.full": "570.10.01"}
    found = fleet(
        node("a", H100, labels=X),
        node("b", H100, labels={**X, **old}),
        node("c", H100, labels={**X, "nvidia.com/gpu.memory": "75000"}),
        gpupool("mine", X),
    ).pools[0]
    assert (found.driver, found.memory) == ("570.10.01", 75000 * 1024**2)


def test_a_known_old_driver_counts_where_others_are_unknown() -> None:
    unsaid = {key: None for key in H100.labels(8, "") if "driver" in key or "cuda.runtime" in key}
    found = fleet(node("a", H100, labels={**X, **unsaid}), node("b", H100, labels=X), gpupool("mine", X)).pools[0]
    assert (found.driver, [warning.reason for warning in found.warnings]) == (
        "580.95.05",
        [Reason.DRIVER_UNKNOWN, Reason.PRICE_INDICATIVE],
    )


def test_one_spot_node_makes_an_admin_s_pool_spot() -> None:
    spot = node("b", H100, labels={**X, "karpenter.sh/capacity-type": "spot"})
    found = fleet(node("a", H100, labels=X), spot, gpupool("mine", X))
    assert found.pools[0].capacity_type is CapacityType.SPOT
    said = fleet(node("a", H100, labels=X), spot, gpupool("mine", X, capacityType="Reserved"))
    assert said.pools[0].capacity_type is CapacityType.RESERVED


def test_a_node_without_its_plugin_does_not_spoil_an_admin_s_pool() -> None:
    down = node("b", H100, labels=X, devices={})
    found = fleet(node("a", H100, labels=X), down, gpupool("mine", X)).pools[0]
    assert (found.problem, found.free, found.accelerator_id) == (None, 8, "H100-SXM")


@pytest.mark.parametrize(
    ("taint", "tolerated"),
    [
        ("nvidia.com/gpu=present:NoSchedule", True),
        ("amd.com/gpu:NoSchedule", True),
        ("cloud.google.com/gke-spot=true:NoSchedule", True),
        ("kubernetes.azure.com/scalesetpriority=spot:NoSchedule", True),
        ("sku=gpu:NoSchedule", True),
        ("oci.oraclecloud.com/oke-is-preemptible=present:NoSchedule", True),
        ("scheduling.cast.ai/spot=true:NoSchedule", True),
        ("node.kubernetes.io/lifecycle=spot:NoSchedule", True),
        ("karpenter.sh/capacity-type=on-demand:NoSchedule", False),
        ("any=thing:PreferNoSchedule", True),
        ("any=thing:NoSchedule", False),
        ("team=x:NoSchedule", True),
        ("team=y:NoSchedule", False),
        ("other=z:NoExecute", True),
        ("other=z:NoSchedule", False),
    ],
)
def test_which_taints_a_pool_tolerates(taint: str, tolerated: bool) -> None:
    tolerations = [
        {"key": "team", "operator": "Equal", "value": "x"},
        {"key": "other", "operator": "Exists", "effect": "NoExecute"},
    ]
    pool = fleet(node("n", H100, labels=X, taints=[taint]), gpupool("mine", X, tolerations=tolerations)).pools[0]
    assert [pool.tolerates(one) for one in pool.nodes[0].taints] == [tolerated]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cordoned": True}, Reason.CORDONED),
        ({"ready": False}, Reason.NOT_READY),
        ({"taints": ["amd-gpu-unhealthy:NoSchedule"]}, Reason.NOT_READY),
        ({"taints": ["karpenter.sh/disrupted:NoSchedule"]}, Reason.NOT_READY),
        ({"taints": ["node.kubernetes.io/disk-pressure:NoSchedule"]}, Reason.NOT_READY),
        ({"taints": ["karpenter.sh/disruption:NoSchedule"]}, Reason.NOT_READY),
        ({"taints": ["node.cilium.io/agent-not-ready:NoExecute"]}, Reason.NOT_READY),
        ({"taints": ["ebs.csi.aws.com/agent-not-ready:NoExecute"]}, Reason.NOT_READY),
        ({"taints": ["startup-taint.cluster-autoscaler.kubernetes.io/x:NoSchedule"]}, Reason.NOT_READY),
        ({"taints": ["kubernetes.io/arch:NoSchedule"]}, None),
        ({"allocatable": {GPU: "0"}}, Reason.NO_ALLOCATABLE),
        ({"taints": ["node.kubernetes.io/odd:PreferNoSchedule"]}, None),
        ({}, None),
    ],
)
def test_why_a_node_is_not_ready(change: dict[str, Any], reason: Reason | None) -> None:
    unready = fleet(node("n", H100, **change)).pools[0].nodes[0].unready
    assert (unready.reason if unready else None) is reason


def test_a_taint_reads_as_kubectl_writes_it() -> None:
    assert str(Taint("a", "b", "NoSchedule")) == "a=b:NoSchedule"
    assert str(Taint("a", "", "NoExecute")) == "a:NoExecute"


# --- Prices


def price(found: Fleet, name: str = "n") -> tuple[int | None, str]:
    pool = pool_of(found, name)
    return (pool.price.per_gpu_hour, pool.price.source) if pool.price else (None, "")


def warnings(found: Fleet, name: str = "n") -> list[Reason]:
    return [warning.reason for warning in pool_of(found, name).warnings]


MACHINE = {
    "node.kubernetes.io/instance-type": "p5.48xlarge",
    "topology.kubernetes.io/region": "us-east-1",
    "pool": "x",
}
ANNOTATION = f"node annotation {Annotation.PRICE_PER_GPU_HOUR}"


def test_an_admin_s_price_then_the_annotation_then_the_list_then_the_model() -> None:
    annotated = node("n", H100, labels=MACHINE, price="3")
    admin = gpupool("mine", X, price={"perGPUHour": "2.5"})
    assert price(fleet(annotated, admin)) == (2_500_000, "GPUPool spec.price.perGPUHour")
    assert price(fleet(annotated, gpupool("mine", X))) == (3_000_000, ANNOTATION)
    assert price(fleet(annotated)) == (3_000_000, ANNOTATION)
    listed = fleet(node("n", H100, labels=MACHINE))
    assert price(listed) == (6_880_000, "list price aws p5.48xlarge us-east-1, 2026-07-20")
    assert warnings(listed) == []
    plain = fleet(node("n", H100))
    assert price(plain)[1].startswith("indicative: median of ")
    assert warnings(plain) == [Reason.PRICE_INDICATIVE]
    assert price(fleet(node("n", devices={GPU: "8"}))) == (None, "")


def test_a_list_price_of_another_region_is_a_warning() -> None:
    found = fleet(node("n", H100, labels={**MACHINE, "topology.kubernetes.io/region": "eu-north-1"}))
    assert price(found)[1] == "list price aws p5.48xlarge us-east-1, 2026-07-20"
    assert warnings(found) == [Reason.PRICE_INDICATIVE]


@pytest.mark.parametrize(
    ("per_node", "count", "each"), [("4.0", 4, 1_000_000), ("16", 8, 2_000_000), ("10", 3, 3_333_333)]
)
def test_a_price_for_a_node_is_divided_by_its_devices(per_node: str, count: int, each: int) -> None:
    found = fleet(node("n", L4, count, labels=X), gpupool("mine", X, price={"perNodeHour": per_node}))
    assert price(found) == (each, f"GPUPool spec.price.perNodeHour / {count} GPUs")


def test_a_price_for_a_node_of_unequal_nodes_is_that_of_the_smallest() -> None:
    nodes = [node("n", L4, 4, labels=X), node("m", L4, 2, labels=X)]
    assert price(fleet(*nodes, gpupool("mine", X, price={"perNodeHour": "4"})))[0] == 2_000_000


def test_a_sick_device_does_not_change_the_price_of_the_others() -> None:
    sick = node("n", L4, 4, labels=X, allocatable={GPU: "1"})
    assert price(fleet(sick, gpupool("mine", X, price={"perNodeHour": "4"})))[0] == 1_000_000


@pytest.mark.parametrize("text", ["-1", "free", "nan", "inf", "1000000", "2.10/h", "$2", "", "1_0", "２", "0x2"])
def test_an_annotation_that_is_no_price_is_said_and_not_used(text: str) -> None:
    found = fleet(node("n", H100, price=text))
    assert price(found)[1].startswith("indicative")
    assert warnings(found) == [Reason.PRICE_INVALID, Reason.PRICE_INDICATIVE]
    assert (
        pool_of(found, "n").warnings[0].message.startswith(f"annotation {Annotation.PRICE_PER_GPU_HOUR} of node n is ")
    )


def test_in_an_admin_s_pool_the_dearest_annotation_counts_and_all_nodes_need_one() -> None:
    dear, cheap, unsaid, wrong = (
        node(name, H100, labels=X, price=text) for name, text in (("n", "4"), ("b", "2"), ("c", None), ("d", "x"))
    )
    assert price(fleet(dear, cheap, gpupool("mine", X))) == (4_000_000, ANNOTATION)
    # The list price of the other node is lower.
    assert price(fleet(dear, unsaid, gpupool("mine", X))) == (4_000_000, ANNOTATION)
    for order in ([dear, wrong, unsaid], [unsaid, wrong, dear]):
        assert warnings(fleet(*order, gpupool("mine", X))) == [Reason.PRICE_INVALID, Reason.PRICE_INDICATIVE]


# --- Several resources of the same cards


def twice() -> Object:
    """A node on which two device plugins offer the same 8 cards, whole and in partitions."""
    return node("n", MI300X, 8, devices={"amd.com/gpu": "8", "amd.com/cpx_nps4": "64"})


def free_of(found: Fleet) -> dict[str, int]:
    return {pool.resource: pool.nodes[0].free for pool in found.pools}


def test_what_a_pod_takes_of_a_card_is_gone_from_every_resource_of_it() -> None:
    assert free_of(fleet(twice())) == {"amd.com/gpu": 8, "amd.com/cpx_nps4": 64}
    assert free_of(fleet(twice(), pod("p", "n", {"amd.com/gpu": 3}))) == {"amd.com/gpu": 5, "amd.com/cpx_nps4": 40}
    assert free_of(fleet(twice(), pod("p", "n", {"amd.com/cpx_nps4": 9}))) == {"amd.com/gpu": 6, "amd.com/cpx_nps4": 55}
    for pool in fleet(twice()).pools:
        assert Reason.LABELS_CONTRADICT in {warning.reason for warning in pool.warnings}
        assert pool.nodes[0].beside == 0


def test_a_reservation_on_one_resource_takes_of_the_others_too() -> None:
    before = fleet(twice())
    needs = Resources(1000, 1024**3, 0, 1)
    assert free_of(before.reserve(pool_of(before, "n", "amd.com/gpu"), 2, needs, ["n"])) == {
        "amd.com/gpu": 6,
        "amd.com/cpx_nps4": 48,
    }
    assert free_of(before.reserve(pool_of(before, "n", "amd.com/cpx_nps4"), 9, needs, ["n"])) == {
        "amd.com/gpu": 6,
        "amd.com/cpx_nps4": 55,
    }


def test_memory_per_gpu_is_the_admin_s_last_word() -> None:
    pool = fleet(node("n", H100, labels=X), gpupool("mine", X, memoryPerGPU="70Gi")).pool("mine")
    assert pool is not None
    assert pool.memory == 70 * 1024**3
    assert Reason.LABELS_CONTRADICT not in {warning.reason for warning in pool.warnings}


def test_more_memory_than_a_card_has_is_believed_with_a_warning() -> None:
    pool = fleet(node("n", H100, labels=X), gpupool("mine", X, memoryPerGPU="200Gi")).pool("mine")
    assert pool is not None
    assert pool.memory == 200 * 1024**3
    said = "spec.memoryPerGPU is 200Gi, a whole H100-SXM has 80Gi by the catalog; the GPUPool counts"
    assert said in [warning.message for warning in pool.warnings]


def test_whole_devices_and_parts_are_no_pool() -> None:
    part = node("m", MI300X, labels=X, devices={"amd.com/gpu": "64"})
    pool = fleet(node("n", MI300X, labels=X), part, gpupool("mine", X)).pool("mine")
    assert pool is not None
    assert pool.problem is not None
    assert pool.problem.message == "its nodes have MI300X, MI300X 1/8; narrow spec.nodeSelector"


@pytest.mark.parametrize(
    ("gpu", "count", "devices", "part"),
    [
        (MI300X, 8, {"amd.com/cpx_nps4": "64"}, 8),
        (A100, 8, {"nvidia.com/mig-1g.10gb": "56"}, 7),
        (H100, 8, {"nvidia.com/mig-3g.40gb": "16"}, 2),
    ],
)
def test_a_part_costs_its_part_of_the_list_price(gpu: Any, count: int, devices: dict[str, str], part: int) -> None:
    whole = fleet(node("n", gpu, count)).pools[0].price
    price = fleet(node("n", gpu, count, devices=devices)).pools[0].price
    assert whole is not None
    assert price is not None
    assert abs(price.per_gpu_hour * part - whole.per_gpu_hour) < part
    assert price.source == f"{whole.source}, 1/{part} of a device"


NEWER = {"nvidia.com/cuda.driver-version.full": "570.10.01"}


def test_a_pool_answers_to_its_plain_name_and_to_the_one_with_a_hash_whoever_joins() -> None:
    alone = fleet(node("a", H100)).pools[0]
    joined = pool_of(fleet(node("a", H100), node("b", H100, labels=NEWER)), "a")
    assert alone.name == "h100-sxm-ondemand"
    assert joined.name in alone.also
    assert alone.name in joined.also
    both = fleet(node("a", H100), node("b", H100, labels=NEWER))
    assert [pool.is_called("h100-sxm-ondemand") for pool in both.whole_pools] == [True, True]
    assert [pool.is_called(joined.name) for pool in both.whole_pools] == [
        pool is pool_of(both, "a") for pool in both.whole_pools
    ]


def test_a_name_that_an_admin_gave_means_the_admins_pool_alone() -> None:
    found = fleet(node("a", H100), node("b", H100, labels=X), gpupool("h100-sxm-ondemand", X))
    assert [members(pool) for pool in found.whole_pools if pool.is_called("h100-sxm-ondemand")] == [["b"]]


def test_partitions_that_only_the_admin_s_model_sizes() -> None:
    admin = gpupool("mine", X, accelerator="MI300X")
    pool = fleet(node("n", labels=X, devices={"amd.com/cpx_nps4": "64"}), admin).pool("mine")
    assert pool is not None
    assert (pool.device, pool.share, pool.problem) == ("MI300X cpx_nps4", (1, 8), None)
    assert pool.memory == pytest.approx(23.96 * 1024**3, rel=1e-3)


def test_warnings_about_a_model_that_the_admin_replaced_are_dropped() -> None:
    labels = {"nvidia.com/gpu.memory": "75000", **X}
    assert len(fleet(node("n", H100, labels=labels)).pools[0].warnings) == 2
    pool = fleet(node("n", H100, labels=labels), gpupool("mine", X, accelerator="A100-80GB")).pool("mine")
    assert pool is not None
    assert [warning.message for warning in pool.warnings if warning.reason is Reason.LABELS_CONTRADICT] == [
        "labels report 73.24Gi for each device where the catalog has 79.34Gi for A100-80GB; the smaller is used",
        "spec.accelerator is A100-80GB, labels of node n say H100-SXM; the GPUPool counts, and of memory the smaller figure",
    ]


@pytest.mark.parametrize("key", ["kubernetes.io/os", "beta.kubernetes.io/os"])
def test_hosts_that_run_windows_take_no_image(key: str) -> None:
    windows = node("w", H100, labels={key: "windows"})
    assert decision(windows).verdict is Verdict.IMPOSSIBLE
    found = decision(windows, node("z", H100, price="99"), node("l", L4, labels={key: "linux"}, price="100"))
    assert found.choice is not None
    assert found.choice.nodes == ("z",)
    (refused,) = [each for each in best_per_pool(found) if each.outcome is Outcome.REJECTED]
    assert [reason.message for reason in refused.reasons] == ["hosts are windows/amd64, image is for amd64"]


@pytest.mark.parametrize("pools", [[], [gpupool("p", {"kubernetes.io/os": "windows"})]])
def test_an_image_of_the_job_s_own_is_for_linux_too(pools: list[Object]) -> None:
    windows = node("w", H100, labels={"kubernetes.io/os": "windows"})
    images = {"cuda": {"image": "registry.example/x:1"}}
    found = decision(windows, *pools, images=images)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert choose(demand(images=images), fleet(windows, *pools), ANY_IMAGES).verdict is Verdict.IMPOSSIBLE
    assert [reason.message for reason in found.candidates[0].reasons] == [
        "hosts are windows/amd64, and every pod of a GPUJob is for Linux"
    ]
    beside = decision(windows, node("z", H100, price="99"), images=images)
    assert beside.choice is not None
    assert beside.choice.nodes == ("z",)


def test_no_device_plugin_is_asked_for_on_windows() -> None:
    labels = {"kubernetes.io/os": "windows", "node.kubernetes.io/instance-type": "Standard_NC4as_T4_v3"}
    assert fleet(node("w", H100, labels=labels, devices={})).pools == ()
