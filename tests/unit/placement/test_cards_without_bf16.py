"""A card without BF16: the warning, the recipe and the speed say in which format the job runs there."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ANY_IMAGES, H100, MI210, T4, V100, decision, node

from gpujob.placement.report.decision_json import recipe
from gpujob.placement.scoring.candidate import Candidate, Decision
from gpujob.values.vocabulary import Reason
from tests.e2e.cluster.nodes import Amd, Nvidia

SMALL = {"name": "qwen2.5-0.5b", "sequenceLength": 512}


def decided(gpu: Amd | Nvidia, **model: Any) -> Decision:
    return decision(node("n", gpu), catalog=ANY_IMAGES, model={**SMALL, **model}, gpusPerNode=1)


def first(found: Decision) -> Candidate:
    assert found.choice is not None
    return found.choice.candidate


def warnings(found: Decision) -> list[str]:
    return [warning.message for warning in first(found).warnings if warning.reason is Reason.BF16_EMULATED]


def speed(found: Decision) -> int:
    given = first(found).speed
    assert given is not None
    return given.millionths


@pytest.mark.parametrize(("gpu", "name"), [(T4, "T4"), (V100, "V100-32GB")])
@pytest.mark.parametrize("model", [{"method": "Full"}, {"method": "Full", "precision": "Mixed"}, {}])
def test_mixed_precision_is_fp16_there(gpu: Nvidia, name: str, model: dict[str, Any]) -> None:
    found = decided(gpu, **model)
    assert warnings(found) == [f"{name} has no native BF16, so Mixed is taken as FP16 there"]
    assert recipe(found).startswith("Full, Mixed (FP16): 16 bytes a parameter (")
    assert speed(found) == speed(decided(gpu, **{**model, "precision": "FP16"}))


@pytest.mark.parametrize("gpu", [T4, V100])
@pytest.mark.parametrize("method", ["LoRA", "Inference"])
def test_bf16_is_emulated_there(gpu: Nvidia, method: str) -> None:
    """Adapters and served weights are BF16 where the job does not say: the speed is that of BF16, and the warning is about it."""
    found = decided(gpu, method=method)
    assert warnings(found)[0].endswith(" has no native BF16")
    assert recipe(found).startswith(f"{method}, BF16: ")
    assert speed(found) < speed(decided(gpu, method=method, precision="FP16"))


@pytest.mark.parametrize("gpu", [T4, V100])
@pytest.mark.parametrize("precision", ["FP16", "FP32"])
@pytest.mark.parametrize("method", ["Full", "LoRA", "Inference"])
def test_a_job_in_another_format_has_no_warning_about_bf16(gpu: Nvidia, precision: str, method: str) -> None:
    found = decided(gpu, method=method, precision=precision)
    assert warnings(found) == []
    assert recipe(found).startswith(f"{method}, {precision}: ")


@pytest.mark.parametrize("gpu", [H100, MI210])
def test_cards_with_bf16_leave_mixed_open(gpu: Amd | Nvidia) -> None:
    found = decided(gpu, method="Full")
    assert warnings(found) == []
    assert recipe(found).startswith("Full, Mixed: ")


def test_a_program_of_which_nothing_is_known_may_use_bf16() -> None:
    found = decision(node("n", T4), catalog=ANY_IMAGES, gpuMemory="8G")
    assert warnings(found) == ["T4 has no native BF16"]
