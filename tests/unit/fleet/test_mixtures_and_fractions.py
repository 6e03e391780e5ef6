"""Devices that are not what their number or name suggests: several models on one node, fractions of a card."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import A100, H100, L4, L40S, MI300X, V100, Object, decision, fleet, gpupool, node, pool_of

from gpujob.values.vocabulary import DeviceKind, Outcome, Reason, Verdict
from tests.e2e.cluster.nodes import Nvidia

X = {"pool": "x"}
GIB = 1024**3


@pytest.mark.parametrize(("count", "offered"), [(4, 8), (1, 2), (2, 6), (4, 6)])
def test_more_devices_than_unshared_ones_are_of_several_models(count: int, offered: int) -> None:
    raw = node("n", A100, count, devices={"nvidia.com/gpu": str(offered)})
    found = decision(raw)
    assert found.verdict is Verdict.MISCONFIGURED
    assert [finding.reason for finding in found.candidates[0].reasons] == [Reason.LABELS_CONTRADICT]
    shared = decision(raw, placement={"devices": ["Shared"]})
    assert shared.verdict is Verdict.MISCONFIGURED


def test_the_admin_s_word_for_the_smallest_model_mends_it() -> None:
    raw = node("n", V100, 4, devices={"nvidia.com/gpu": "8"}, labels=X)
    pool = gpupool("lab", X, accelerator="V100-16GB")
    assert decision(raw, pool, gpuMemory="15G").verdict is Verdict.PLACED
    assert decision(raw, pool, gpuMemory="24Gi").verdict is Verdict.IMPOSSIBLE


@pytest.mark.parametrize("devices", [{"nvidia.com/gpu": "0"}, {"nvidia.com/gpu": "8"}, {}])
@pytest.mark.parametrize("spec", [{}, {"gpuMemory": "40Gi"}, {"placement": {"devices": ["Partition"]}}])
def test_a_broken_mig_layout_must_be_mended(devices: dict[str, str], spec: dict[str, Any]) -> None:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-INVALID",
        "nvidia.com/gpu.count": "0",
        "nvidia.com/gpu.memory": "0",
    }
    assert decision(node("n", A100, labels=labels, devices=devices), **spec).verdict is Verdict.MISCONFIGURED


def test_a_pool_of_two_models_shows_both_and_is_mended_before_anything_is_impossible() -> None:
    nodes = node("a", A100, labels=X), node("b", L4, 4, labels=X)
    pool = fleet(*nodes, gpupool("mine", X)).pool("mine")
    assert pool is not None
    assert (pool.accelerator_id, pool.device, pool.memory, pool.price) == ("A100-80GB, L4", "A100-80GB, L4", None, None)
    for spec in ({"gpuMemory": "40Gi"}, {"placement": {"accelerators": {"allow": ["L4"]}}}, {"requires": ["BF16"]}):
        assert decision(*nodes, gpupool("mine", X), **spec).verdict is Verdict.MISCONFIGURED
    for spec in ({"gpuMemory": "100Gi"}, {"placement": {"accelerators": {"deny": ["A100-80GB", "L4"]}}}):
        assert decision(*nodes, gpupool("mine", X), **spec).verdict is Verdict.IMPOSSIBLE


def test_two_pools_that_claim_the_same_mixed_nodes_both_say_it() -> None:
    nodes = node("a", A100, labels=X), node("b", L4, 4, labels=X)
    found = fleet(*nodes, gpupool("older", X), gpupool("younger", X, created="2026-02-01T00:00:00Z"))
    assert found.overlaps == {"younger": ("older", "a")}
    older = found.pool("older")
    assert older is not None
    assert older.problem is not None
    assert older.problem.reason is Reason.MODELS_DIFFER
    assert older.accelerator_id == "A100-80GB, L4"


def test_models_of_two_architectures_stay_a_mixture_whatever_the_admin_calls_them() -> None:
    labels = {"amd.com/gpu.device-id.740f": "4", "amd.com/gpu.device-id.74a1": "4", **X}
    raw, admin = node("n", MI300X, labels=labels), gpupool("mine", X, accelerator="MI210")
    pool = pool_of(fleet(raw, admin), "n")
    assert (pool.accelerator_id, pool.models) == ("MI210, MI300X", ("MI210", "MI300X"))
    for spec in ({}, {"gpuMemory": "40Gi"}, {"gpuMemory": "150Gi"}):
        assert decision(raw, admin, **spec).verdict is Verdict.MISCONFIGURED


def test_the_graphics_of_an_unknown_processor_need_a_row_before_anything_is_said_of_them() -> None:
    labels = {"amd.com/gpu.product-name": "AMD_Ryzen_9_Processor_Graphics", "amd.com/gpu.vram": "2G"}
    raw = node("n", labels=labels, devices={"amd.com/gpu": "1"})
    found = decision(raw)
    assert found.verdict is Verdict.MISCONFIGURED
    assert (
        "add to the catalog's accelerators: {id: Ryzen_9_Processor_Graphics" in found.candidates[0].reasons[0].message
    )
    small = decision(raw, gpuMemory="24Gi")
    assert small.verdict is Verdict.IMPOSSIBLE
    assert small.candidates[0].outcome is Outcome.REJECTED


# --- fractions of a card under the name of whole ones


def virtual(device: str, vram: str | None, **more: str) -> dict[str, Any]:
    labels = {"amd.com/gpu.device-id": device, **more} | ({"amd.com/gpu.vram": vram} if vram else {})
    return node("n", labels=labels, devices={"amd.com/gpu": "1"})


@pytest.mark.parametrize(
    ("device", "vram", "kind", "share"),
    [
        ("7461", "28G", "Whole", (1, 1)),
        ("7461", "27G", "Whole", (1, 1)),
        ("7461", "14G", "Partition", (1, 2)),
        ("7461", "5G", "Partition", (5, 28)),
        ("7461", None, "Partition", None),
        ("73ae", "32G", "Whole", (1, 1)),
        ("73ae", "8G", "Partition", (1, 4)),
        ("7460", "7G", "Partition", (1, 4)),
        ("74b5", "192G", "Whole", (1, 1)),
        ("74b5", "24G", "Partition", (1, 8)),
        ("7410", "32G", "Partition", (1, 2)),
    ],
)
def test_of_an_amd_virtual_function_the_memory_says_how_much_of_a_card_it_is(
    device: str, vram: str | None, kind: str, share: Any
) -> None:
    pool = pool_of(fleet(virtual(device, vram)), "n")
    assert (pool.kind, pool.share) == (kind, share)


def test_a_fraction_of_a_card_costs_that_fraction() -> None:
    whole = pool_of(fleet(virtual("7461", "28G")), "n").price
    part = pool_of(fleet(virtual("7461", "14G")), "n").price
    assert whole is not None
    assert part is not None
    assert part.per_gpu_hour * 2 == whole.per_gpu_hour
    assert pool_of(fleet(virtual("7461", None)), "n").price is None


@pytest.mark.parametrize(
    ("product", "mebibytes", "kind", "name", "share"),
    [
        ("NVIDIA-A10-4Q", "4096", "Partition", "A10", (1024, 5757)),
        ("NVIDIA-A10-24Q", "23028", "Whole", "A10", (1, 1)),
        ("NVIDIA-L40S-12C", "12288", "Partition", "L40S", None),
        ("GRID-T4-8C", "8192", "Partition", "T4", None),
        ("GRID-A100-1-5CME", "4864", "Partition", "GRID-A100-1-5CME", None),
        ("NVIDIA-L4", "5600", "Whole", "L4", (1, 1)),
    ],
)
def test_of_an_nvidia_virtual_gpu_too(product: str, mebibytes: str, kind: str, name: str, share: Any) -> None:
    labels = {
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.memory": mebibytes,
        "nvidia.com/gpu.count": "1",
        "nvidia.com/gpu.compute.major": "8",
        "nvidia.com/gpu.compute.minor": "6",
    }
    pool = pool_of(fleet(node("n", labels=labels, devices={"nvidia.com/gpu": "1"})), "n")
    assert (pool.kind, pool.accelerator_id) == (kind, name)
    assert share in (None, pool.share)
    assert pool.memory is not None
    assert pool.memory <= int(mebibytes) * 1024**2


def test_no_machine_has_sixty_four_cards_whatever_old_labels_say_of_their_memory() -> None:
    pool = pool_of(fleet(node("n", MI300X, 64)), "n")
    assert (pool.kind, pool.share) == ("Partition", (1, 8))
    assert pool.memory is not None
    assert pool.memory < 24 * GIB
    assert Reason.LABELS_CONTRADICT in {warning.reason for warning in pool.warnings}


def test_an_accelerator_of_the_other_vendor_is_the_admin_s_to_mend() -> None:
    admin = gpupool("mine", X, accelerator="MI300X")
    assert decision(node("n", A100, labels=X), admin).verdict is Verdict.MISCONFIGURED


@pytest.mark.parametrize(
    ("gpu", "count", "machine", "has"),
    [
        (H100, 4, "p5.4xlarge", 1),
        (L4, 6, "g6.12xlarge", 4),
        (A100, 4, "Standard_NC48ads_A100_v4", 2),
        (L4, 2, "g6.xlarge", 1),
    ],
)
def test_devices_that_the_labeller_counts_as_unshared_go_before_the_instance_type(
    gpu: Nvidia, count: int, machine: str, has: int
) -> None:
    unshared = {"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none"}
    labels = {"node.kubernetes.io/instance-type": machine}
    found = decision(node("n", gpu, count, labels=labels | unshared, price="1"), gpusPerNode=count)
    assert found.verdict is Verdict.PLACED
    said = (
        f"labels count {count} devices of which none is shared, instance type {machine} says {has}: the former counts"
    )
    assert said in [warning.message for warning in found.candidates[0].warnings]
    # A labeller that says nothing of sharing counts no more than the machine.
    older = decision(node("n", gpu, count, labels=labels | dict.fromkeys(unshared)), gpusPerNode=count)
    assert (older.verdict, older.candidates[0].reasons[0].reason) == (Verdict.MISCONFIGURED, Reason.DEVICE_UNKNOWN)


def test_more_devices_than_the_labeller_counts_are_not_explained_by_it() -> None:
    labels = {"node.kubernetes.io/instance-type": "g6.12xlarge", "nvidia.com/gpu.replicas": "1"}
    found = decision(node("n", L4, 6, labels=labels, devices={"nvidia.com/gpu": "8"}))
    assert (found.verdict, found.candidates[0].reasons[0].reason) == (Verdict.MISCONFIGURED, Reason.DEVICE_UNKNOWN)


@pytest.mark.parametrize(
    ("machine", "gpus", "has"),
    [("g6.12xlarge", 6, 4), ("g6.12xlarge", 8, 4), ("p5.4xlarge", 8, 1), ("Standard_NC24ads_A100_v4", 2, 1)],
)
def test_a_new_node_never_has_more_gpus_than_the_selected_machine(machine: str, gpus: int, has: int) -> None:
    selected = {"node.kubernetes.io/instance-type": machine}
    provision = {"maxNodes": 2, "gpusPerNode": gpus}
    found = decision(gpupool("p", selected, provision=provision))
    gpu = "1 GPU" if has == 1 else f"{has} GPUs"
    assert (found.verdict, found.candidates[0].reasons[0].message) == (
        Verdict.MISCONFIGURED,
        f"spec.provision.gpusPerNode is {gpus}, instance type {machine} has {gpu}; set it to {has}, or select the label that says "
        "how pods share them",
    )
    shared = {**selected, "nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "8"}
    known = fleet(gpupool("p", shared, provision=provision)).pool("p")
    assert known is not None
    assert (known.problem, known.kind) == (None, DeviceKind.SHARED)


def test_where_nodes_are_there_new_ones_have_no_more_gpus_than_the_selected_machine() -> None:
    selected = {"node.kubernetes.io/instance-type": "g6.12xlarge"}
    pool = gpupool("p", selected, provision={"maxNodes": 2, "gpusPerNode": 6})
    there = node("n", L4, 4, labels=selected)
    assert decision(pool, there, gpusPerNode=6).candidates[0].reasons[0].message == (
        "needs 6 GPUs on one node, the largest node has 4"
    )
    said = "spec.provision.gpusPerNode is 6, instance type g6.12xlarge has 4 GPUs: new nodes count with 4"
    assert said in [warning.message for warning in decision(pool, there).candidates[0].warnings]
    # Another selector may select larger machines too.
    other = gpupool("p", {"team": "x"}, provision={"maxNodes": 2, "gpusPerNode": 6})
    assert decision(other, node("n", L4, 4, labels=selected | {"team": "x"}), gpusPerNode=6).verdict is Verdict.PLACED


def registers(count: Any, cards: int, form: str = "json", key: str = "hami.io/node-nvidia-register") -> dict[str, str]:
    """The annotation of a scheduler that lets so many pods share each card, as its versions write it."""
    if form == "json":
        each = [
            {"id": f"GPU-{card}", "count": count, "devmem": 46068, "devcore": 100, "health": True}
            for card in range(cards)
        ]
        return {key: json.dumps(each)}
    return {key: "".join(f"GPU-{card},{count},46068,100,NVIDIA-NVIDIA L40S,0,true:" for card in range(cards))}


def split(offered: int, annotations: dict[str, str], cards: int = 4, labels: dict[str, str] | None = None) -> Object:
    raw = node("n", L40S, cards, devices={"nvidia.com/gpu": str(offered)}, labels=labels)
    raw["metadata"]["annotations"] = annotations
    return raw


@pytest.mark.parametrize("admin", [(), (gpupool("lab", X, accelerator="L40S"),)])
@pytest.mark.parametrize(
    ("offered", "annotations", "replicas"),
    [
        (8, registers(2, 4), 2),
        (12, registers(3, 4), 3),
        (12, registers(3, 4, "text"), 3),
        (8, registers(2, 4, "text", "volcano.sh/node-vgpu-register"), 2),
        (16, registers(4, 4, key="4pd.io/node-nvidia-register"), 4),
        # A card that is not healthy offers none.
        (6, registers(2, 4), 2),
    ],
)
def test_cards_that_an_annotation_says_to_be_split_are_shared(
    admin: tuple[Object, ...], offered: int, annotations: dict[str, str], replicas: int
) -> None:
    raw = split(offered, annotations, labels=X)
    pool = pool_of(fleet(raw, *admin), "n")
    assert (pool.kind, pool.portion.replicas, pool.problem) == (DeviceKind.SHARED, replicas, None)
    assert pool.memory is not None
    assert pool.memory * replicas <= 46068 * 2**20
    assert decision(raw, *admin, gpuMemory="40G", gpusPerNode=4).verdict is Verdict.IMPOSSIBLE
    shared = decision(raw, *admin, gpuMemory="8G", placement={"devices": ["Shared"]})
    assert shared.verdict is Verdict.PLACED


@pytest.mark.parametrize(
    "annotations",
    [
        registers(1, 4),
        registers(0, 4),
        registers(-3, 4),
        registers("x", 4),
        registers(10**12, 4),
        registers(None, 4),
        {"hami.io/node-nvidia-register": "[[[["},
        {"hami.io/node-nvidia-register": "[" * 70_000},
        {"hami.io/node-nvidia-register": "{}"},
        {"hami.io/node-nvidia-register": ""},
        {"hami.io/node-nvidia-register": ",,,:::"},
        {"hami.io/node-nvidia-register": "[1, null, \"a\"]"},
    ],
)  # fmt: skip
def test_an_annotation_that_says_nothing_of_splits_changes_nothing(annotations: dict[str, str]) -> None:
    whole = pool_of(fleet(split(4, annotations)), "n")
    assert (whole.kind, whole.total, whole.problem) == (DeviceKind.WHOLE, 4, None)
    assert decision(split(8, annotations)).verdict is Verdict.MISCONFIGURED


def test_whole_devices_by_an_admin_s_word_contradict_the_labels_in_a_warning() -> None:
    """Nothing says that the cards are split, and a second model is possible."""
    found = decision(split(8, {}, labels=X), gpupool("lab", X, accelerator="L40S"), gpusPerNode=8)
    assert found.verdict is Verdict.PLACED
    assert "labels count 4 devices, nvidia.com/gpu shows 8: all are taken as whole, as the GPUPool says" in {
        warning.message for warning in found.candidates[0].warnings
    }


@pytest.mark.parametrize(
    ("offered", "named"),
    [
        ({"volcano.sh/vgpu-number": "40", "volcano.sh/vgpu-memory": "180000"}, "volcano.sh/vgpu-number"),
        ({"volcano.sh/gpu-memory": "180000"}, "volcano.sh/gpu-memory"),
        ({"aliyun.com/gpu-mem": "180", "aliyun.com/gpu-count": "4"}, "aliyun.com/gpu-mem"),
        ({"tencent.com/vcuda-core": "400"}, "tencent.com/vcuda-core"),
    ],
)
def test_cards_that_another_scheduler_splits_are_named_by_its_resource(offered: dict[str, str], named: str) -> None:
    pool = pool_of(fleet(node("n", L40S, 4, devices=offered)), "n")
    assert pool.problem is not None
    assert (pool.problem.reason, pool.problem.message) == (
        Reason.NO_DEVICE_PLUGIN,
        f"labels of node n show NVIDIA devices and it offers {named} in place of nvidia.com/gpu: another scheduler splits its "
        "cards; give the node to NVIDIA's device plugin, or leave it to that scheduler",
    )
    # Beside NVIDIA's own plugin the same cards are offered twice.
    both = pool_of(fleet(node("n", L40S, 4, devices={"nvidia.com/gpu": "4", **offered})), "n")
    assert (both.problem, both.kind, both.total) == (None, "Shared", 4)


def test_a_resource_that_splits_no_card_changes_nothing() -> None:
    others = {"nvidia.com/gpu": "4", "volcano.sh/numa": "2", "aliyun.com/eni": "8", "volcano.sh/vgpu-number": "0"}
    pool = pool_of(fleet(node("n", L40S, 4, devices=others)), "n")
    assert (pool.problem, pool.kind, pool.free) == (None, "Whole", 4)
