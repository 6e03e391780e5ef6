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

MEMBERS: Final = [("H100", H100_96), ("h100", H100_64), ("H200", H200_NVL), ("H200", H200), ("A100-PCIe", A100_PCIE)]


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
    ("word", "card"), [("H100-SXM", H100_96), ("H200-NVL", H200), ("H200-SXM", H200_NVL), ("H200", H100_96)]
)
def test_one_board_is_no_other(word: str, card: Nvidia) -> None:
    allowed = decision(cards(card), catalog=ANY_IMAGES, placement={"accelerators": {"allow": [word]}})
    denied = decision(cards(card), catalog=ANY_IMAGES, placement={"accelerators": {"deny": [word]}})
    assert (allowed.verdict, denied.verdict) == (Verdict.IMPOSSIBLE, Verdict.PLACED)
