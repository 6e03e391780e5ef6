"""Devices that DRA drivers offer: no node lists a resource, ResourceSlices say what there is and claims what is taken."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import (
    ANY_IMAGES,
    H100,
    MI300X,
    Object,
    decision,
    demand,
    device_class,
    fleet,
    gpupool,
    node,
    pod,
    pool_of,
    resource_claim,
    resource_slice,
    taint_rule,
)
from hypothesis import given
from hypothesis import strategies as st

from gpujob.fleet.assembly.reservations import quotas_reserved
from gpujob.fleet.assembly.usage import reservations_of
from gpujob.fleet.dra.claim_request import DeviceRequest, request_for
from gpujob.fleet.dra.device_taints import read_rule
from gpujob.fleet.dra.inventory import read_inventory
from gpujob.fleet.dra.resource_slices import read_class, read_slice
from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.policy.resource_quota import quotas_of, read_quota
from gpujob.fleet.sources.cluster_file import read_cluster
from gpujob.placement.engine.decide import decide
from gpujob.placement.report import summary
from gpujob.placement.scoring import score
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.quantity import parse_bytes as parse
from gpujob.values.vocabulary import Outcome, Reason, Verdict

GPU = "nvidia.com/gpu"
NVIDIA = "gpu.nvidia.com"
AMD = "gpu.amd.com"
WHOLE = f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == 'gpu'"
NVIDIA_CLASS = device_class(NVIDIA, WHOLE, GPU)
AMD_CLASS = device_class(AMD, f'device.driver == "{AMD}"', "amd.com/gpu")


def h100(name: str, **more: Any) -> Object:
    """A device as NVIDIA's driver v0.5 writes it."""
    said = {
        "type": "gpu",
        "productName": "NVIDIA H100 80GB HBM3",
        "architecture": "Hopper",
        "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": "580.126.20"},
    }
    return {"name": name, "memory": "81559Mi", **said, **more}


def mi300x(name: str, **more: Any) -> Object:
    """A device as AMD's driver v1.0 writes it."""
    said = {
        "type": "amdgpu",
        "productName": "AMD_Instinct_MI300X_OAM",
        "deviceID": "0x74a1",
        "driverVersion": {"version": "6.16.13"},
    }
    return {"name": name, "memory": "196592Mi", **said, **more}


def h100s(count: int = 8, **more: Any) -> Object:
    return resource_slice("n", NVIDIA, *(h100(f"gpu-{index}", **more) for index in range(count)))


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1"])
def test_slices_of_every_version_are_read(version: str) -> None:
    devices = [h100(f"gpu-{index}") for index in range(8)]
    pool = pool_of(fleet(node("n"), resource_slice("n", NVIDIA, *devices, version=version), NVIDIA_CLASS), "n")
    assert (pool.accelerator_id, pool.resource, pool.problem, pool.warnings[:0]) == ("H100-SXM", GPU, None, ())
    assert (pool.total, pool.free, pool.driver, pool.kind) == (8, 8, "580.126.20", "Whole")
    assert pool.memory == pool_of(fleet(node("m", H100)), "m").memory


def test_a_job_asks_for_them_by_the_resource_name_of_the_class() -> None:
    found = decision(node("n"), h100s(), NVIDIA_CLASS, gpusPerNode=8)
    assert (found.verdict, found.choice and found.choice.candidate.pool.resource) == (Verdict.PLACED, GPU)


@pytest.mark.parametrize(
    "device",
    [
        mi300x("gpu-0"),
        # v0.1: the id is KFD's, and pciAddr and family are there.
        mi300x("gpu-0", deviceID="7469273492742", pciAddr="0000:1b:00.0", family="AI", partitionProfile="spx_nps1"),
        mi300x("gpu-0", productName="AMD Instinct MI300X OAM", deviceID="", driverVersionFull="6.16.13"),
        mi300x("gpu-0", computePartition="SPX", memoryPartition="NPS1"),
    ],
)
def test_both_generations_of_amd_attributes_name_an_mi300x(device: Object) -> None:
    pool = pool_of(fleet(node("n"), resource_slice("n", AMD, device), AMD_CLASS), "n")
    assert (pool.accelerator_id, pool.resource, pool.kind, pool.driver) == ("MI300X", "amd.com/gpu", "Whole", "6.16.13")
    assert pool.memory == pool_of(fleet(node("m", MI300X)), "m").memory
    assert pool.problem is None


def test_partitions_of_amd_are_parts() -> None:
    parts = [
        mi300x(f"p-{index}", type="amdgpu-partition", partitionProfile="cpx_nps4", memory="24574Mi")
        for index in range(64)
    ]
    pool = pool_of(fleet(node("n"), resource_slice("n", AMD, *parts), AMD_CLASS), "n")
    assert (pool.kind, pool.portion.profile, pool.share, pool.total) == ("Partition", "cpx_nps4", (1, 8), 64)


def test_the_size_that_amd_s_driver_falls_back_to_is_a_contradiction_and_the_smaller_counts() -> None:
    pool = pool_of(fleet(node("n"), resource_slice("n", AMD, mi300x("gpu-0", memory="80Gi")), AMD_CLASS), "n")
    assert pool.memory == 80 * 1024**3
    assert Reason.LABELS_CONTRADICT in {warning.reason for warning in pool.warnings}


@pytest.mark.parametrize("kind", [{"type": "amdgpu"}, {"type": "amdgpu-partition", "partitionProfile": "cpx_nps2"}])
def test_memory_that_amd_s_driver_may_have_made_up_never_stands_alone(kind: Object) -> None:
    made_up = "80Gi" if kind["type"] == "amdgpu" else "20Gi"
    unknown = mi300x("gpu-0", memory=made_up, deviceID="0xffff", productName="AMD_Instinct_MI999", **kind)
    objects = [node("n", labels={"rack": "a"}), resource_slice("n", AMD, unknown), AMD_CLASS]
    named = pool_of(fleet(*objects, gpupool("mine", {"rack": "a"}, accelerator="MI300X")), "n")
    read = mi300x("gpu-0", memory=made_up, **kind)
    assert pool_of(fleet(node("n"), resource_slice("n", AMD, read), AMD_CLASS), "n").memory in (None, parse(made_up))
    assert named.memory is None or named.memory <= parse(made_up)


@pytest.mark.parametrize(
    ("classes", "says"),
    [
        ([], "driver gpu.nvidia.com offers gpu devices by DRA, and no DeviceClass is known (a description needs "
             "deviceclasses too); create one that selects device.driver == 'gpu.nvidia.com'"),
        ([device_class("mine", WHOLE + " && device.capacity['x'].memory > quantity('1Gi')", GPU)],
         "driver gpu.nvidia.com offers gpu devices by DRA, and no DeviceClass is known to cover them; "
         "create one that selects device.driver == 'gpu.nvidia.com'"),
        ([device_class("other", f"device.driver == '{AMD}'", GPU)], "no DeviceClass is known to cover them"),
    ],
)  # fmt: skip
def test_devices_that_no_class_covers_are_never_placed(classes: list[Object], says: str) -> None:
    found = decision(node("n", labels=H100.labels(8, "")), h100s(), *classes)
    assert found.verdict is Verdict.MISCONFIGURED
    best = found.candidates[0]
    assert (best.outcome, best.reasons[0].reason) == (Outcome.MISCONFIGURED, Reason.NO_DEVICE_CLASS)
    assert says in best.reasons[0].message
    assert best.pool.accelerator_id == "H100-SXM"


@pytest.mark.parametrize("named", [{}, {"resource": "example.com/gpu"}])
def test_a_class_without_a_resource_name_is_asked_by_a_claim(named: dict[str, str]) -> None:
    found = decision(node("n"), h100s(), device_class(NVIDIA, WHOLE, **named), gpusPerNode=8)
    assert found.choice is not None
    pool = found.choice.candidate.pool
    holder = 'device.attributes["gpu.nvidia.com"]'
    wanted = f'"productName" in {holder} && {holder}.productName == "NVIDIA H100 80GB HBM3"'
    assert (pool.resource, pool.request) == (
        "gpu.nvidia.com/gpu",
        DeviceRequest("resource.k8s.io/v1", NVIDIA, (wanted,)),
    )


@pytest.mark.parametrize(
    "name", ["count/resourceclaimtemplates.resource.k8s.io", "count/resourceclaims.resource.k8s.io"]
)
@pytest.mark.parametrize(("used", "verdict"), [("0", Verdict.PLACED), ("1", Verdict.WAITING)])
def test_claims_and_their_template_count_in_quotas(name: str, used: str, verdict: Verdict) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"},
             "status": {"hard": {name: "1"}, "used": {name: used}}}  # fmt: skip
    by_claim = fleet(node("n"), h100s(), device_class(NVIDIA, WHOLE), quota, catalog=ANY_IMAGES)
    found = decide(demand().but(namespace="default"), by_claim, ANY_IMAGES)
    assert found.verdict is verdict
    if verdict is Verdict.WAITING:
        assert f"{name} needs 1, 0 left of 1" in summary.summary(found)


def test_no_template_is_made_for_a_resource_s_name() -> None:
    name = "count/resourceclaimtemplates.resource.k8s.io"
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"},
             "status": {"hard": {name: "0"}}}  # fmt: skip
    by_name = fleet(node("n"), h100s(), NVIDIA_CLASS, quota, catalog=ANY_IMAGES)
    assert decide(demand().but(namespace="default"), by_name, ANY_IMAGES).verdict is Verdict.PLACED


def test_what_the_class_does_not_say_the_claim_says() -> None:
    """A class of a whole driver covers partitions and whole cards: a claim must not get the other."""
    parts = [mi300x(f"p-{i}", type="amdgpu-partition", partitionProfile="cpx_nps4", memory="24574Mi") for i in range(8)]
    everything = device_class(AMD, f"device.driver == '{AMD}'")
    found = fleet(node("n"), resource_slice("n", AMD, mi300x("gpu-0"), *parts), everything)
    asked = {pool.resource: pool.request and pool.request.selectors[0] for pool in found.pools}
    assert asked.keys() == {"gpu.amd.com/amdgpu", "gpu.amd.com/amdgpu-partition-cpx_nps4"}
    assert asked["gpu.amd.com/amdgpu"] is not None
    assert '.type == "amdgpu" &&' in asked["gpu.amd.com/amdgpu"]
    assert str(asked["gpu.amd.com/amdgpu-partition-cpx_nps4"]).endswith('.partitionProfile == "cpx_nps4"')


@given(said=st.text(min_size=1, max_size=40))
def test_no_attribute_can_write_the_expression(said: str) -> None:
    device = read_slice(resource_slice("n", NVIDIA, h100("gpu-0", productName=said))).devices[0]
    request = request_for(device, [read_class(device_class(NVIDIA, WHOLE))], "resource.k8s.io/v1")
    assert request is not None
    before, _, text = request.selectors[0].rpartition(".productName == ")
    assert (json.loads(text), before.count('"')) == (said, 6)


def test_free_devices_are_slices_less_allocated_claims() -> None:
    claim = resource_claim("c", NVIDIA, "n", "gpu-0", "gpu-5")
    watching = resource_claim("w", NVIDIA, "n", "gpu-1")
    watching["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    elsewhere = resource_claim("e", NVIDIA, "m", "gpu-2")
    pool = pool_of(fleet(node("n"), h100s(), NVIDIA_CLASS, claim, watching, elsewhere), "n")
    assert (pool.total, pool.free) == (8, 6)


def test_the_claim_of_an_extended_resource_is_counted_once() -> None:
    asking = pod("p", "n", {GPU: 3})
    claim = resource_claim("c", NVIDIA, "n", "gpu-0", "gpu-1", "gpu-2", pod_uid="uid-of-p", extended=True)
    left_behind = resource_claim("d", NVIDIA, "n", "gpu-3", pod_uid="uid-of-q", extended=True)
    assert pool_of(fleet(node("n"), h100s(), NVIDIA_CLASS, asking, claim), "n").free == 5
    assert pool_of(fleet(node("n"), h100s(), NVIDIA_CLASS, asking), "n").free == 5
    assert pool_of(fleet(node("n"), h100s(), NVIDIA_CLASS, asking, claim, left_behind), "n").free == 4


def test_a_claim_that_a_pod_s_status_names_is_counted_with_the_pod() -> None:
    """The scheduler writes both: the status of the pod, and an annotation of the claim that others can take away."""
    asking = pod("p", "n", {GPU: 3})
    asking["metadata"]["namespace"] = "default"
    asking["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "c", "requestMappings": []}
    claim = resource_claim("c", NVIDIA, "n", "gpu-0", "gpu-1", "gpu-2", pod_uid="uid-of-p")
    assert pool_of(fleet(node("n"), h100s(), NVIDIA_CLASS, asking, claim), "n").free == 5
    other = resource_claim("d", NVIDIA, "n", "gpu-3", pod_uid="uid-of-p")
    assert pool_of(fleet(node("n"), h100s(), NVIDIA_CLASS, asking, claim, other), "n").free == 4


def test_devices_of_a_class_asked_for_by_its_own_name_are_taken() -> None:
    """Each class has a resource name without any field of it; no node and no class lists that."""
    asking = pod("p", "n", {f"deviceclass.resource.kubernetes.io/{NVIDIA}": 2})
    claim = resource_claim("c", NVIDIA, "n", "gpu-0", "gpu-1", pod_uid="uid-of-p", extended=True)
    assert pool_of(fleet(node("n"), h100s(), NVIDIA_CLASS, asking, claim), "n").free == 6


@pytest.mark.parametrize("status", [None, [], {"resourceClaimName": None}, {"resourceClaimName": ["c"]}, {"x": 1}])
def test_a_status_that_names_no_claim_changes_nothing(status: Any) -> None:
    asking = pod("p", "n", {GPU: 3})
    asking["status"]["extendedResourceClaimStatus"] = status
    claim = resource_claim("c", NVIDIA, "n", "gpu-0", pod_uid="uid-of-p")
    assert pool_of(fleet(node("n"), h100s(), NVIDIA_CLASS, asking, claim), "n").free == 4


def test_tainted_devices_and_incomplete_pools_are_not_healthy() -> None:
    sick = resource_slice("n", NVIDIA, h100("gpu-0", taints=[{"key": "xid", "effect": "NoSchedule"}]), h100("gpu-1"))
    pool = pool_of(fleet(node("n"), sick, NVIDIA_CLASS), "n")
    assert (pool.total, pool.nodes[0].healthy, pool.free) == (2, 1, 1)
    partly = resource_slice("n", NVIDIA, h100("gpu-0"), resourceSliceCount=2)
    assert pool_of(fleet(node("n"), partly, NVIDIA_CLASS), "n").free == 0


@pytest.mark.parametrize(
    ("rule", "free"),
    [
        (taint_rule("r"), 0),
        (taint_rule("r", "NoExecute"), 0),
        (taint_rule("r", "None"), 2),
        (taint_rule("r", "Sometimes"), 2),
        (taint_rule("r", device="gpu-1"), 1),
        (taint_rule("r", driver=NVIDIA, pool="n", device="gpu-1"), 1),
        (taint_rule("r", driver=AMD), 2),
        (taint_rule("r", pool="m"), 2),
        (taint_rule("r") | {"spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}, 2),
        (taint_rule("r") | {"spec": []}, 2),
        (taint_rule("r", device=7), 0),  # type: ignore[arg-type]
        # Which of the devices an expression means is unknown here: none of them counts as free.
        (taint_rule("r", selectors=[{"cel": {"expression": "x"}}]), 0),  # type: ignore[arg-type]
    ],
)
def test_devices_that_a_rule_taints_are_not_free(rule: Object, free: int) -> None:
    both = resource_slice("n", NVIDIA, h100("gpu-0"), h100("gpu-1"))
    pool = pool_of(fleet(node("n"), both, NVIDIA_CLASS, rule), "n")
    assert (pool.total, pool.free) == (2, free)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (taint_rule("r", device="gpu-1"), "1 device of node n has the device taint {}, of which {}: a pod may get it"),
        (taint_rule("r"), "2 devices of node n have the device taint {}, of which {}: a pod may get one"),
        (taint_rule("r", driver=AMD), None),
    ],
)
def test_a_taint_of_which_a_device_plugin_does_not_know_is_told(rule: Object, says: str | None) -> None:
    both = resource_slice("n", NVIDIA, h100("gpu-0"), h100("gpu-1"))
    found = decision(node("n", H100, 2), both, NVIDIA_CLASS, rule)
    taint = "example.com/broken=yes:NoSchedule (ResourceSlice or DeviceTaintRule)"
    expected = [says.format(taint, "its device plugin does not know")] if says else []
    assert found.verdict is Verdict.PLACED
    assert [
        warning.message for warning in found.candidates[0].warnings if warning.reason is Reason.DEVICE_TAINTED
    ] == expected


def test_a_taint_of_devices_is_told_and_ranks_no_pool_lower() -> None:
    sick = resource_slice("n", NVIDIA, h100("gpu-0", taints=[{"key": "xid", "effect": "NoSchedule"}]), h100("gpu-1"))
    found = decision(node("n"), sick, NVIDIA_CLASS)
    (warning,) = [warning for warning in found.candidates[0].warnings if warning.reason is Reason.DEVICE_TAINTED]
    assert warning.message == (
        "1 of 2 devices of node n has the device taint xid:NoSchedule (ResourceSlice or DeviceTaintRule) and no pod gets them"
    )
    assert score.telling([warning]) == 0
    every = decision(node("n"), sick, NVIDIA_CLASS, taint_rule("all"))
    assert (every.verdict, summary.reason(every)) == (Verdict.WAITING, Reason.DEVICE_TAINTED)
    assert summary.summary(every).endswith(
        "the devices of node n have the device taint xid:NoSchedule (ResourceSlice or DeviceTaintRule)"
    )


def test_a_rule_that_comes_and_goes_touches_the_nodes_with_devices() -> None:
    inventory = read_inventory([resource_slice("n", NVIDIA, h100("gpu-0"))])
    inventory.take_touched()
    rule = read_rule(taint_rule("r"))
    for found, touched, healthy in (
        (rule, {"n"}, False),
        (rule, set(), False),
        (None, {"n"}, True),
        (None, set(), True),
    ):
        inventory.put_rule(("", "r"), found)
        assert inventory.take_touched() == touched
        assert [device.healthy for device in inventory.devices("n")] == [healthy]


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    old = resource_slice("n", NVIDIA, *(h100(f"gpu-{index}") for index in range(8)))
    new = resource_slice("n", NVIDIA, h100("gpu-0"), generation=2)
    assert pool_of(fleet(node("n"), old, new, NVIDIA_CLASS), "n").total == 1


def test_whole_cards_and_slices_of_the_same_silicon_are_not_added_up() -> None:
    def takes(amount: int) -> list[Object]:
        return [{"counterSet": "gpu-0", "counters": {"memory": {"value": str(amount)}}}]

    mig = {"type": "mig", "profile": "1g.10gb", "memory": "9984Mi"}
    slices = [h100(f"mig-{index}", consumesCounters=takes(1), **mig) for index in range(7)]
    published = resource_slice("n", NVIDIA, h100("gpu-0", consumesCounters=takes(8)), *slices)
    published["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"memory": {"value": "8"}}}]
    free = {pool.resource: pool.free for pool in fleet(node("n"), published, NVIDIA_CLASS).pools}
    assert free == {GPU: 1, "gpu.nvidia.com/mig-1g.10gb": 7}
    taken = resource_claim("c", NVIDIA, "n", "mig-3")
    free = {pool.resource: pool.free for pool in fleet(node("n"), published, NVIDIA_CLASS, taken).pools}
    assert free == {GPU: 0, "gpu.nvidia.com/mig-1g.10gb": 6}


def test_two_models_under_one_name_are_told_apart_by_claims() -> None:
    a100 = {"productName": "NVIDIA A100-SXM4-80GB", "cudaComputeCapability": {"version": "8.0.0"}, "memory": "80Gi"}
    both = resource_slice("n", NVIDIA, h100("gpu-0"), h100("gpu-1", **a100))
    pools = fleet(node("n"), both, NVIDIA_CLASS, resource_claim("c", NVIDIA, "n", "gpu-1")).pools
    assert [(pool.resource, pool.free, pool.problem) for pool in pools] == [
        ("gpu.nvidia.com/gpu-a100-80gb", 0, None),
        ("gpu.nvidia.com/gpu-h100-sxm", 1, None),
    ]
    asked = [pool.request.selectors[0].rpartition(" == ")[2] for pool in pools if pool.request]
    assert asked == ['"NVIDIA A100-SXM4-80GB"', '"NVIDIA H100 80GB HBM3"']


def test_a_device_plugin_beside_the_slices_offers_the_same_devices() -> None:
    pool = pool_of(fleet(node("n", H100), h100s(), NVIDIA_CLASS, resource_claim("c", NVIDIA, "n", "gpu-0")), "n")
    assert (pool.total, pool.free, pool.problem) == (8, 7, None)
    assert Reason.LABELS_CONTRADICT in {warning.reason for warning in pool.warnings}


def test_devices_for_virtual_machines_and_of_other_drivers_are_passed_over() -> None:
    vfio = resource_slice("n", NVIDIA, h100("gpu-0", type="vfio"))
    network = resource_slice("n", "dra.net", {"name": "eth0", "type": "nic"})
    assert fleet(node("n"), vfio, network, NVIDIA_CLASS).pools == ()


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@given(part=st.sampled_from(["spec", "status", "metadata"]), member=st.text(max_size=12), value=junk, data=st.data())
def test_whatever_objects_of_dra_say_nothing_raises_and_nothing_unknown_fits(
    part: str, member: str, value: Any, data: st.DataObject
) -> None:
    objects = [h100s(2), NVIDIA_CLASS, resource_claim("c", NVIDIA, "n", "gpu-0")]
    odd = dict(data.draw(st.sampled_from(objects)))
    holder = dict(odd.get(part) or {})
    names = [member, *holder]
    odd[part] = data.draw(st.just(value) | st.just({**holder, data.draw(st.sampled_from(names)): value}))
    odd["metadata"] = {"name": "odd"}
    read_inventory([odd])
    read_cluster([node("n"), odd])
    for pool in fleet(node("n"), *objects, odd).pools:
        assert 0 <= pool.free <= pool.total
        assert pool.problem is not None or pool.accelerator is not None


def test_a_quota_on_the_devices_of_a_class_counts_claims() -> None:
    space = {"name": "q", "namespace": "default"}
    named = f"{NVIDIA}.deviceclass.resource.k8s.io/devices"
    status = {"hard": {named: "4"}, "used": {named: "1"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": space, "spec": {}, "status": status}
    objects = fleet(node("n"), h100s(), device_class(NVIDIA, WHOLE), quota, catalog=ANY_IMAGES)
    waiting = [PendingJob(str(gpus), "", demand(gpusPerNode=gpus), namespace="default") for gpus in (5, 4, 2, 1)]
    found = {placing.job.uid: placing for placing in place_all(waiting, objects, ANY_IMAGES)}
    verdicts = {gpus: placing.verdict for gpus, placing in found.items()}
    assert verdicts == {
        "1": Verdict.PLACED, "2": Verdict.PLACED, "4": Verdict.WAITING, "5": Verdict.IMPOSSIBLE,
    }  # fmt: skip
    (reason,) = found["4"].decision.candidates[0].reasons
    assert reason.message == f"ResourceQuota q: {named} needs 4, 0 left of 4"


@pytest.mark.parametrize(("resource", "left"), [(None, [5, 5, 8, 7]), (GPU, [5, 5, 5, 7])])
def test_claims_of_pods_to_come_count_as_the_devices_of_their_class(resource: str | None, left: list[int]) -> None:
    names = (f"{NVIDIA}.deviceclass.resource.k8s.io/devices", f"requests.deviceclass.resource.kubernetes.io/{NVIDIA}",
             f"requests.{GPU}", "count/resourceclaims.resource.k8s.io")  # fmt: skip
    hard = dict.fromkeys(names, "8")
    quota = quotas_of([("team", read_quota({"metadata": {"name": "q"}, "status": {"hard": hard, "used": {}}}))])
    known = fleet(node("n"), h100s(), device_class(NVIDIA, WHOLE, resource), catalog=ANY_IMAGES)
    (pool,) = known.pools
    child = reservations_of("u", 1, "team", ("n",), pool.family, pool.resource, 3, Resources())
    (after,) = quotas_reserved(quota, child, [], {}, known.pools)["team"]
    assert [after.left[name] for name in names] == left


EXTENDED = resource_claim("c", NVIDIA, "n", "gpu-0", "gpu-1", pod_uid="uid-of-p", extended=True)
PART_OF_IT = resource_claim("c", NVIDIA, "n", "gpu-0", pod_uid="uid-of-p", extended=True)
OWN_CLAIM = resource_claim("own", NVIDIA, "n", "gpu-7", pod_uid="uid-of-p")


@pytest.mark.parametrize(
    ("objects", "free"),
    [
        # A finished pod's devices are taken while its claim is allocated.
        ([pod("p", "n", {GPU: 2}, "Succeeded"), EXTENDED], 6),
        ([pod("p", "n", {GPU: 2}, "Succeeded")], 8),
        # A second pod whose claim is not made yet.
        ([pod("p", "n", {GPU: 2}), EXTENDED, pod("q", "n", {GPU: 3})], 3),
        # A claim of fewer devices than the pod asks for is not complete.
        ([pod("p", "n", {GPU: 2}), PART_OF_IT], 6),
        # A pod may have devices of both ways of asking.
        ([pod("p", "n", {GPU: 2}), EXTENDED, OWN_CLAIM], 5),
    ],
)
def test_an_extended_resource_and_its_claim_are_the_same_devices(objects: list[Object], free: int) -> None:
    assert pool_of(fleet(node("n"), h100s(), NVIDIA_CLASS, *objects), "n").free == free


def test_a_rule_for_the_pool_of_one_node_leaves_the_others() -> None:
    slices = [resource_slice(name, NVIDIA, h100("gpu-0")) for name in "nm"]
    pool = pool_of(fleet(node("n"), node("m"), *slices, NVIDIA_CLASS, taint_rule("r", pool="n")), "n")
    assert {each.name: each.free for each in pool.nodes} == {"m": 1, "n": 0}
