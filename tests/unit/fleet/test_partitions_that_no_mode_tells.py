"""AMD's single strategy under the plain resource, and cards of unknown memory: the figures say that a device is a part of a card."""

from __future__ import annotations

import pytest
from builders import ANY_IMAGES, Object, decision, fleet, gpupool, node

from gpujob.values.vocabulary import Reason, Verdict

ID = {"amd.com/gpu.device-id": "74a1", "amd.com/gpu.driver-version": "6.16.13"}


def amd(count: int, **labels: str) -> Object:
    """A node with so many amd.com/gpu and these labels (dashes for underscores)."""
    named = {f"amd.com/gpu.{key.replace('_', '-')}": value for key, value in labels.items()}
    return node("a", None, labels={**ID, **named}, devices={"amd.com/gpu": str(count)})


@pytest.mark.parametrize(
    ("one", "kind"),
    [
        (amd(8), "Whole"),
        (amd(8, cu_count="304"), "Whole"),
        (amd(8, vram="192G"), "Whole"),
        (amd(64), "Partition"),
        (amd(64, cu_count="38"), "Partition"),
        (amd(8, cu_count="38"), "Partition"),
        (amd(64, cu_count="38", vram="192G"), "Partition"),
        (amd(64, product_name="AMD_Instinct_MI300X_OAM"), "Partition"),
    ],
)
def test_parts_are_never_taken_for_whole_cards(one: Object, kind: str) -> None:
    (pool,) = fleet(one, catalog=ANY_IMAGES).pools
    assert pool.kind == kind
    found = decision(one, catalog=ANY_IMAGES, gpuMemory="100G", placement={"devices": ["Whole", "Partition"]})
    assert found.verdict is (Verdict.PLACED if kind == "Whole" else Verdict.IMPOSSIBLE)
    if kind == "Partition":
        assert pool.memory is not None
        assert pool.memory < 24 * 2**30
        assert Reason.LABELS_CONTRADICT in {warning.reason for warning in pool.warnings}


@pytest.mark.parametrize(
    "more",
    [
        {"amd.com/gpu.vram": "24G", "beta.amd.com/gpu.vram": "192G"},
        {"amd.com/gpu.vram": "192G", "beta.amd.com/gpu.vram": "24G"},
        {"amd.com/gpu.vram": "192G", "amd.com/gpu.vram.24G": "8"},
    ],
)
def test_of_two_sizes_the_smaller_counts_and_is_told(more: dict[str, str]) -> None:
    one = node("a", None, labels={**ID, **more}, devices={"amd.com/gpu": "8"})
    (pool,) = fleet(one, catalog=ANY_IMAGES).pools
    assert pool.memory is not None
    assert pool.memory < 24 * 2**30
    said = [warning.message for warning in pool.warnings if warning.reason is Reason.LABELS_CONTRADICT]
    assert (
        "labels say 24Gi and 192Gi of memory for one device; the smaller is used; restart AMD's node labeller" in said
    )


@pytest.mark.parametrize(
    ("count", "counted", "instance_type", "gib"),
    [
        (64, {}, "", 24),  # Sixteen cards in DPX make 32.
        (64, {"beta.amd.com/gpu.vram.96G": "16"}, "", 24),
        (32, {"beta.amd.com/gpu.vram.96G": "16"}, "", 48),
        (64, {}, "BM.GPU.MI300X.8", 24),
        (32, {}, "Standard_ND96isr_MI300X_v5", 48),
        (17, {"beta.amd.com/gpu.vram.96G": "16"}, "", 24),  # In no even number: the smallest part there is.
        (16, {"beta.amd.com/gpu.vram.96G": "16"}, "", 96),
        (16, {}, "", 96),
    ],
)
def test_partitions_made_after_the_label_of_a_mode(
    count: int, counted: dict[str, str], instance_type: str, gib: int
) -> None:
    labels = {"amd.com/gpu.vram": "96G", "amd.com/gpu.compute-memory-partition": "dpx_nps2", **counted}
    machine = {"node.kubernetes.io/instance-type": instance_type} if instance_type else {}
    one = node("a", None, labels={**ID, **labels, **machine}, devices={"amd.com/gpu": str(count)})
    (pool,) = fleet(one, catalog=ANY_IMAGES).pools
    assert pool.kind == "Partition"
    assert pool.memory is not None
    assert 0.99 * gib < pool.memory / 2**30 < gib
    said = f"labels say dpx_nps2 and amd.com/gpu shows {count} devices, more than that leaves room for"
    assert any(warning.message.startswith(said) for warning in pool.warnings) is (gib < 96)


def test_an_mi350p_is_four_compute_dies() -> None:
    labels = {"amd.com/gpu.device-id": "75a8", "amd.com/gpu.vram": "144G"}
    one = node("a", None, labels=labels, devices={"amd.com/cpx_nps1": "32"})
    (pool,) = fleet(one, catalog=ANY_IMAGES).pools
    assert pool.memory is not None
    assert 35 < pool.memory / 2**30 < 36


def test_of_a_part_that_reports_a_whole_card_nobody_knows_the_memory() -> None:
    labels = {"amd.com/gpu.device-id": "7448", "amd.com/gpu.vram": "48G"}
    one = node("a", None, labels=labels, devices={"amd.com/cpx_nps1": "4"})
    (pool,) = fleet(one, catalog=ANY_IMAGES).pools
    assert (pool.kind, pool.memory) == ("Partition", None)
    assert Reason.MEM_UNKNOWN in {warning.reason for warning in pool.warnings}


@pytest.mark.parametrize(
    ("resource", "count", "accelerator", "kind", "gib"),
    [
        ("amd.com/gpu", 64, "MI300X", "Partition", 24),
        ("amd.com/gpu", 16, "MI300X", "Whole", 192),
        ("nvidia.com/gpu", 56, "H100-SXM", "Shared", None),
        ("nvidia.com/gpu", 16, "H100-SXM", "Whole", 79.2),
    ],
)
def test_more_unlabelled_devices_than_any_machine_has_are_no_whole_ones_whatever_an_admin_names_them(
    resource: str, count: int, accelerator: str, kind: str, gib: float | None
) -> None:
    one = node("a", None, labels={"pool": "mine"}, devices={resource: str(count)})
    (pool,) = fleet(one, gpupool("mine", {"pool": "mine"}, accelerator=accelerator), catalog=ANY_IMAGES).pools
    assert pool.kind == kind
    assert pool.memory == pytest.approx(gib * 2**30, rel=0.01) if gib else pool.memory is None


def part_of_mi308x(mode: str, vram: str, count: int, *, plain: bool = False) -> Object:
    """A node with partitions of a card whose memory no catalog row has, named by their resource or by a label."""
    labels = {**ID, "amd.com/gpu.device-id": "74a2", "amd.com/gpu.vram": vram}
    if plain:
        labels["amd.com/gpu.compute-memory-partition"] = mode
    return node("a", None, labels=labels, devices={"amd.com/gpu" if plain else f"amd.com/{mode}": str(count)})


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(("mode", "vram", "count", "known"), [
    ("cpx_nps4", "192G", 32, False),
    ("cpx_nps1", "192G", 32, False),
    ("dpx_nps1", "192G", 16, False),
    ("cpx_nps4", "128G", 32, False),
    ("qpx_nps4", "128G", 32, False),
    ("cpx_nps4", "24G", 64, True),
    ("cpx_nps4", "48G", 32, True),
    ("qpx_nps1", "48G", 32, True),
    ("dpx_nps1", "96G", 16, True),
    ("spx_nps1", "192G", 8, True),
])  # fmt: skip
def test_the_label_of_a_card_of_unknown_memory_is_not_that_of_its_part(
    mode: str, vram: str, count: int, known: bool, plain: bool
) -> None:
    one = part_of_mi308x(mode, vram, count, plain=plain)
    (pool,) = fleet(one, catalog=ANY_IMAGES).pools
    assert pool.accelerator_id == "MI308X"
    assert (pool.memory is not None) is known
    job = {"gpuMemory": "100Gi", "placement": {"devices": ["Whole", "Partition"]}}
    found = decision(one, catalog=ANY_IMAGES, **job)
    if known:
        assert found.verdict is (Verdict.PLACED if mode == "spx_nps1" else Verdict.IMPOSSIBLE)
        return
    assert (found.verdict, found.candidates[0].reasons[0].reason) == (Verdict.MISCONFIGURED, Reason.MEM_UNKNOWN)
    assert Reason.LABELS_CONTRADICT in {warning.reason for warning in pool.warnings}
    (pool,) = fleet(one, gpupool("p", {"amd.com/gpu.vram": vram}, memoryPerGPU="20Gi"), catalog=ANY_IMAGES).pools
    assert pool.memory == 20 * 2**30
