"""Cards that the catalog has no row for, and boards, belong to the families that a job allows, denies or gives a shape."""

from __future__ import annotations

from typing import Any, Final

import pytest
from builders import ANY_IMAGES, H200, Object, decision, node

from gpujob.values.vocabulary import Reason, Verdict
from tests.e2e.cluster.nodes import Nvidia

H100_96: Final = Nvidia("NVIDIA-H100-96GB-HBM3", 97871, "hopper", (9, 0), mig=True)
H100_64: Final = Nvidia("NVIDIA-H100-64GB-HBM2", 65247, "hopper", (9, 0), mig=True)
H200_NVL: Final = Nvidia("NVIDIA-H200-NVL", 143771, "hopper", (9, 0), mig=True)
A100_PCIE: Final = Nvidia("NVIDIA-A100-80GB-PCIe", 81920, "ampere", (8, 0), mig=True)


def card(name: str, gigabytes: int = 80) -> Nvidia:
    """A card by its label."""
    return Nvidia(name, gigabytes * 1024, "ampere", (8, 0), mig=True)


BOARDS: Final = [
    ("V100", card("Tesla-V100-FHHL-16GB", 16)),
    ("V100", card("Tesla-V100-DGXS-32GB", 32)),
    ("H100", card("NVIDIA-H100-CNX-80GB")),
    ("A100", card("NVIDIA-A100-PG509-200", 40)),
    ("A100-SXM", card("NVIDIA-A100-SXM-64GB", 64)),
    ("NVIDIA-A100-SXM-64GB", card("NVIDIA-A100-SXM-64GB", 64)),
    ("a100-sxm-64gb", card("NVIDIA-A100-SXM-64GB", 64)),
    ("H800", card("NVIDIA-H800-PCIe")),
    ("A800", card("NVIDIA-A800-40GB-Active", 40)),
]
MEMBERS: Final = [
    ("H100", H100_96),
    ("h100", H100_64),
    ("H200", H200_NVL),
    ("H200", H200),
    ("A100-PCIe", A100_PCIE),
    *BOARDS,
]


def cards(of: Nvidia) -> Object:
    return node("a", of, price="1")


@pytest.mark.parametrize(("word", "card"), MEMBERS)
def test_a_family_is_allowed_with_each_of_its_cards(word: str, card: Nvidia) -> None:
    asked: list[dict[str, Any]] = [
        {"placement": {"accelerators": {"allow": [word]}}},
        {"shapes": [{"accelerator": word, "gpusPerNode": 2}]},
    ]
    for spec in asked:
        assert decision(cards(card), catalog=ANY_IMAGES, **spec).verdict is Verdict.PLACED


@pytest.mark.parametrize(("word", "card"), MEMBERS)
def test_a_family_is_denied_with_each_of_its_cards(word: str, card: Nvidia) -> None:
    found = decision(cards(card), catalog=ANY_IMAGES, placement={"accelerators": {"deny": [word]}})
    assert found.verdict is Verdict.IMPOSSIBLE
    assert [each.reason for each in found.candidates[0].reasons] == [Reason.ACCELERATOR_EXCLUDED]


@pytest.mark.parametrize(
    ("word", "card"),
    [("H100-SXM", H100_96), ("H200-NVL", H200), ("H200-SXM", H200_NVL), ("H200", H100_96), ("H100-PCIe", card("NVIDIA-H100-CNX-80GB")),
     ("A100", card("NVIDIA-A100X")), ("RTX-4090", card("NVIDIA-GeForce-RTX-4090-D", 24)), ("A10", card("NVIDIA-A10M", 20))],
)  # fmt: skip
def test_one_board_is_no_other(word: str, card: Nvidia) -> None:
    allowed = decision(cards(card), catalog=ANY_IMAGES, placement={"accelerators": {"allow": [word]}})
    denied = decision(cards(card), catalog=ANY_IMAGES, placement={"accelerators": {"deny": [word]}})
    assert (allowed.verdict, denied.verdict) == (Verdict.IMPOSSIBLE, Verdict.PLACED)


def test_a_slice_of_a_card_without_a_row_is_of_its_family() -> None:
    part = node(
        "a", card("NVIDIA-H100-96GB-HBM3-MIG-1g.12gb", 11), 7, price="1", labels={"nvidia.com/mig.strategy": "single"}
    )
    for kind, right in (("allow", Verdict.PLACED), ("deny", Verdict.IMPOSSIBLE)):
        placement = {"devices": ["Partition"], "accelerators": {kind: ["H100"]}}
        assert decision([part], catalog=ANY_IMAGES, placement=placement).verdict is right
