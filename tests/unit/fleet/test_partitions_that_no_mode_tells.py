"""AMD's single strategy under the plain resource: what a device shows of itself tells that it is a part of a card."""

from __future__ import annotations

import pytest
from builders import ANY_IMAGES, Object, decision, fleet, node

from gpujob.vocabulary import Reason, Verdict

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
        assert Reason.LABELS_CONTRADICT in {doubt.reason for doubt in pool.doubts}


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
    said = [doubt.message for doubt in pool.doubts if doubt.reason is Reason.LABELS_CONTRADICT]
    assert (
        "labels say 24Gi and 192Gi of memory for one device; the smaller is used; restart AMD's node labeller" in said
    )
