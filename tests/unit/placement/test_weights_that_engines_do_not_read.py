"""Weights as they are published, on devices on which vLLM does not read this format: a warning, and no word elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ANY_IMAGES, H100, MI210, MI300X, MI355X, T4, V100, decision, node

from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Reason
from tests.e2e.cluster.nodes import Amd, Nvidia

QWEN = "Qwen/Qwen2.5-7B-Instruct"
GPT_OSS = "openai/gpt-oss-20b"


def decided(gpu: Amd | Nvidia, name: str, **model: Any) -> Decision:
    return decision(
        node("n", gpu), catalog=ANY_IMAGES, model={"name": name, "method": "Inference", **model}, gpusPerNode=1
    )


def warned(found: Decision) -> list[str]:
    assert found.choice is not None
    every = found.choice.candidate.warnings
    return [warning.message for warning in every if warning.reason is Reason.PRECISION_UNSUPPORTED]


@pytest.mark.parametrize(("gpu", "name", "says"), [
    (V100, f"{QWEN}-AWQ", "AWQ, which vLLM does not read on V100-32GB (compute capability 7.0, it needs 7.5)"),
    (V100, f"{QWEN}-FP8-dynamic", "FP8, which vLLM does not read on V100-32GB (compute capability 7.0, it needs 7.5)"),
    (V100, "nvidia/Qwen2.5-7B-NVFP4", "FP4, which vLLM does not read on V100-32GB (compute capability 7.0, it needs 7.5)"),
    (V100, GPT_OSS, "MXFP4, which vLLM does not read on V100-32GB (compute capability 7.0, it needs 7.5)"),
    (MI210, f"{QWEN}-FP8-dynamic", "FP8, which vLLM does not read on MI210 (it has no FP8)"),
])  # fmt: skip
def test_weights_that_the_device_does_not_read(gpu: Amd | Nvidia, name: str, says: str) -> None:
    assert warned(decided(gpu, name)) == [
        f"{name} is published in {says}; name other weights, or allow another accelerator"
    ]


@pytest.mark.parametrize(("gpu", "name"), [
    (V100, f"{QWEN}-GPTQ-Int4"),
    (V100, "unsloth/Qwen2.5-7B-Instruct-bnb-4bit"),
    (V100, QWEN),
    (T4, f"{QWEN}-AWQ"),
    (T4, f"{QWEN}-FP8-dynamic"),
    (H100, f"{QWEN}-FP8-dynamic"),
    (MI300X, f"{QWEN}-FP8-dynamic"),
    (MI355X, GPT_OSS),
    # Neither page is clear about these.
    (MI210, f"{QWEN}-AWQ"),
    (MI210, GPT_OSS),
])  # fmt: skip
def test_no_word_where_it_does_or_may(gpu: Amd | Nvidia, name: str) -> None:
    assert warned(decided(gpu, name)) == []


@pytest.mark.parametrize("model", [{"precision": "FP16"}, {"method": "LoRA"}])
def test_no_word_where_the_job_loads_no_such_weights(model: dict[str, Any]) -> None:
    assert warned(decided(V100, f"{QWEN}-AWQ", **model)) == []
