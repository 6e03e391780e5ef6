"""What a model takes for each parameter, in the one line of the plan."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, decision, node

from gpujob.placement.report import decision_json
from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Precision


def decided(**model: Any) -> Decision:
    return decision(node("n", H100), node("m", H100), gpusPerNode=2, model={"name": "llama-3.2-1b", **model})


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (
            {},
            "Full, Mixed: 16 bytes a parameter (weight 4, gradient 4, AdamW 8) + activations of 2048 tokens; "
            "whole on each GPU",
        ),
        (
            {"precision": "BF16", "optimizer": "SGD", "batchPerGPU": 2, "gradientCheckpointing": "Layers"},
            "Full, BF16: 4 bytes a parameter (weight 2, gradient 2) + activations of 4096 tokens, layers computed again; "
            "whole on each GPU",
        ),
        (
            {"sharding": "ZeRO3"},
            "Full, Mixed: 16 bytes a parameter (weight 2, gradient 2, 32-bit weight 4, AdamW 8) + activations of 2048 "
            "tokens; ZeRO3 over 2 GPUs",
        ),
        (
            {"method": "LoRA", "sharding": "FSDP", "lora": {"rank": 8}},
            "LoRA, BF16: 2 bytes a parameter, frozen, + 16 bytes for each of 851,968 parameters of adapters "
            "(weight 4, gradient 4, AdamW 8) + activations of 2048 tokens; FSDP over 2 GPUs",
        ),
        (
            {"method": "QLoRA"},
            "QLoRA, BF16: 0.562 bytes a parameter in 4 bits, 2 of embedding and head, frozen, + 16 bytes for each of "
            "1,703,936 parameters of adapters (weight 4, gradient 4, AdamW 8) + activations of 2048 tokens; "
            "whole on each GPU",
        ),
        (
            {"method": "Inference", "inference": {"concurrency": 16, "maxTokens": 4096}},
            "Inference, BF16: 2 bytes a parameter + KV cache in 16 bits of 16 sequences of 4096 tokens; tensor parallel over 2 GPUs",
        ),
        (
            {"method": "Inference", "precision": "FP8"},
            "Inference, FP8: 1 byte a parameter, 2 of embedding and head + KV cache in 8 bits of 1 sequence of 2048 tokens; "
            "tensor parallel over 2 GPUs",
        ),
    ],
)
def test_the_line(model: dict[str, Any], line: str) -> None:
    assert decision_json.plan(decided(**model))["recipe"] == line


def test_without_a_model_there_is_none() -> None:
    assert decision_json.plan(decision(node("n", H100), gpuMemory="8G"))["recipe"] is None


@pytest.mark.parametrize(
    ("method", "precision"), [("Full", "Mixed"), ("LoRA", "BF16"), ("QLoRA", "BF16"), ("Inference", "BF16")]
)
def test_the_usual_number_format_is_that_of_the_method(method: str, precision: str) -> None:
    found = decided(method=method)
    assert decision_json.plan(found)["work"]["precision"] == precision
    assert found.demand.model is not None
    assert found.demand.model.precision is Precision(precision)
    # The job does not say it, so it refuses no card.
    assert found.demand.precision is None


def test_full_training_takes_as_many_bytes_as_its_line_says() -> None:
    alone = decision(node("n", H100), gpusPerNode=1, model={"name": "llama-3.2-1b"})
    need = alone.candidates[0].gang.memory
    assert need is not None
    states = need.most.weights + need.most.gradients + need.most.optimizer
    assert states == 16 * need.work.shape.parameters
