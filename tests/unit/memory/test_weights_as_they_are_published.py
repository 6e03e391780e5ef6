"""Weights of fewer than 16 bits at inference: by the catalog's row, by the words of a name, and what stays in 16 bits."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.api.kinds.model import Model
from gpujob.catalog.files.load import load_catalog
from gpujob.memory.recipe import recipe
from gpujob.placement.request.model_requirements import estimates_of, model_demand, workload_of

GI = 1024**3
CATALOG = load_catalog()


def weights(name: str, gpus: int = 1, **more: Any) -> float:
    """GiB of the weights of one GPU."""
    work = workload_of(model_demand(Model.model_validate({"name": name, "method": "Inference", **more})), CATALOG)
    assert work is not None
    return estimates_of(work).on(gpus).components.weights / GI


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        # vLLM reports 64 GiB of gpt-oss-120b on an H100 (vllm-project/vllm issue 27508), and its checkpoint has 60.8 GiB.
        ("openai/gpt-oss-120b", 61.0, 65.0),
        ("openai/gpt-oss-20b", 12.8, 13.8),
        ("unsloth/gpt-oss-20b-BF16", 38.9, 39.0),
        ("deepseek-ai/DeepSeek-V3", 625.0, 630.0),
        ("Qwen/Qwen2.5-7B-Instruct", 14.1, 14.3),
        # Sizes of the checkpoints on Hugging Face: 5.2, 5.2, 8.1 and 70.6 GB.
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", 5.0, 5.4),
        ("Qwen2.5-7B-Instruct-GPTQ-Int4", 5.0, 5.4),
        ("Qwen2.5-7B-Instruct-GPTQ-Int8", 7.8, 8.5),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8", 67.0, 68.5),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", 36.0, 38.5),
        ("unsloth/llama-3-8b-bnb-4bit", 5.2, 5.8),
        ("nvidia/Llama-3.1-8B-Instruct-FP4", 5.2, 5.8),
    ],
)
def test_weights_have_the_width_of_the_checkpoint(name: str, least: float, most: float) -> None:
    assert least <= weights(name) <= most


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Qwen2.5-7B-Instruct-GPTQ-Int8", "(INT8): 1 byte"),
        ("RedHatAI/Qwen2.5-7B-Instruct-quantized.w8a8", "(INT8): 1 byte"),
        ("mlx-community/Meta-Llama-3.1-8B-Instruct-8bit", "(INT8): 1 byte"),
        ("bartowski/Qwen2.5-7B-Instruct-Q8_0-GGUF", "(INT8): 1 byte"),
        ("unsloth/llama-3-8b-bnb-4bit", "(NF4): 0.562 bytes"),
        ("Qwen2.5-7B-nf4", "(NF4): 0.562 bytes"),
        ("nvidia/Llama-3.1-8B-Instruct-NVFP4", "(FP4): 0.562 bytes"),
        ("amd/Llama-3.3-70B-Instruct-MXFP4-Preview", "(MXFP4): 0.531 bytes"),
        ("amd/Llama-3.1-8B-Instruct-FP8-KV", "(FP8): 1 byte"),
        ("Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "(FP8): 1 byte"),
        ("casperhansen/llama-3-8b-instruct-awq", "(INT4): 0.52 bytes"),
        ("Intel/Qwen2.5-7B-Instruct-int4-AutoRound", "(INT4): 0.52 bytes"),
        ("Meta-Llama-3.1-8B-Instruct-GGUF-Q4_K_M", "(INT4): 0.52 bytes"),
    ],
)
def test_the_recipe_names_the_format_of_the_name(name: str, told: str) -> None:
    work = workload_of(model_demand(Model.model_validate({"name": name, "method": "Inference"})), CATALOG)
    assert work is not None
    assert recipe(work).startswith(
        f"Inference, BF16: weights as published {told} a parameter, 2 of embedding and head + KV"
    )


def test_a_name_that_goes_on_after_a_known_model_is_near_it() -> None:
    assert CATALOG.nearest_models("ISTA-DASLab/Meta-Llama-3.1-8B-Instruct-AQLM-2Bit") == ("llama-3.1-8b",)
    assert CATALOG.nearest_models("qwen2.5-72b-instruct-exl2-3.0bpw") == ("qwen2.5-72b",)


def test_a_format_that_the_job_names_counts() -> None:
    assert weights("openai/gpt-oss-120b", precision="BF16") == pytest.approx(217.6, abs=0.1)


def test_training_reads_16_bits() -> None:
    assert weights("openai/gpt-oss-20b", method="LoRA") == pytest.approx(38.95, abs=0.1)


def test_the_cache_of_narrow_weights_has_16_bits() -> None:
    load = {"method": "Inference", "inference": {"maxTokens": 131_072, "concurrency": 1}}
    for name, gib in (
        ("openai/gpt-oss-120b", 4.5),
        ("deepseek-ai/DeepSeek-V3", 8.58),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", 7.0),
    ):
        work = workload_of(model_demand(Model.model_validate({"name": name, **load})), CATALOG)
        assert work is not None
        assert estimates_of(work).on(1).components.kv_cache / GI == pytest.approx(gib, abs=0.01), name


def test_narrow_weights_are_cut_over_gpus() -> None:
    assert weights("openai/gpt-oss-120b", 2, sharding="FSDP") <= weights("openai/gpt-oss-120b")


def test_the_recipe_tells_how_weights_are_published() -> None:
    work = workload_of(model_demand(Model.model_validate({"name": "gpt-oss-20b", "method": "Inference"})), CATALOG)
    assert work is not None
    assert recipe(work) == (
        "Inference, BF16: weights as published (MXFP4): 0.531 bytes a parameter of experts, 2 of all others + KV cache in 16 bits of "
        "1 sequence of 2048 tokens"
    )
