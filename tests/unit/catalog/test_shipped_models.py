"""The shapes of models that are shipped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpujob.catalog.files.load import load_catalog, read_catalog

MODELS = list(load_catalog().models.values())


@pytest.mark.parametrize("row", MODELS, ids=lambda row: row.name)
def test_a_shape_has_the_parameters_that_are_published(row: object) -> None:
    shape = load_catalog().model(row.name)  # type: ignore[attr-defined]
    assert shape is not None
    assert shape.counted == pytest.approx(shape.parameters, rel=0.01)
    assert shape.source
    assert shape.checked_on


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b"),
        ("Qwen/Qwen2.5-7B", "qwen2.5-7b"),
        ("google/gemma-2-2b-it", "gemma-2-2b"),
        ("bert-base-cased", "bert-base"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
        ("llama3.1-8b", "llama-3.1-8b"),
        ("llama-3-1-8b", "llama-3.1-8b"),
        ("Llama 3.1 8B", "llama-3.1-8b"),
        ("unsloth/Llama-3.2-3B-Instruct-bnb-4bit", "llama-3.2-3b"),
        ("Qwen/Qwen3-8B-Base", "qwen3-8b"),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "qwen2.5-72b"),
        ("Qwen/Qwen2.5-7B-Instruct-1M", "qwen2.5-7b"),
        ("meta-llama/Meta-Llama-3.1-405B-Instruct-FP8", "llama-3.1-405b"),
        ("microsoft/phi-1_5", "phi-1.5"),
        ("bert-base-uncased", "bert-base"),
        ("FacebookAI/roberta-base", "roberta-base"),
        # Of the same sizes, by their configs.
        ("huggyllama/llama-7b", "llama-7b"),
        ("lmsys/vicuna-13b-v1.5", "vicuna-13b"),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "qwen2.5-coder-7b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "deepseek-r1-distill-llama-8b"),
        ("bigscience/T0_3B", "t0-3b"),
        ("mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo"),
    ],
)
def test_owner_case_and_variant_do_not_matter(written: str, name: str) -> None:
    shape = load_catalog().model(written)
    assert shape is not None
    assert shape.name == name


def test_a_mistyped_name_has_its_nearest() -> None:
    assert load_catalog().model("lama-3.1-9b") is None
    assert load_catalog().nearest_models("lama-3.1-9b")[0] == "llama-3.1-8b"
    assert load_catalog().nearest_models("") == ()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("llama-3", "llama-3-8b llama-3-70b llama-3.1-8b"),
        ("meta-llama/Llama-3-Instruct", "llama-3-8b llama-3-70b llama-3.1-8b"),
        ("llama-3.1", "llama-3.1-8b llama-3.1-70b llama-3.1-405b"),
        ("llama-3-1", "llama-3.1-8b llama-3.1-70b llama-3.1-405b"),
        ("llama-4", "llama-4-scout llama-4-scout-17b-16e"),
        ("llama", "llama-7b llama-13b llama-30b"),
        ("mixtral", "mixtral-8x7b mixtral-8x22b"),
        ("mixtral-8x8b", "mixtral-8x7b mixtral-8x22b"),
        ("deepseek-v4", "deepseek-v3 deepseek-v3.1 deepseek-r1"),
        ("bert", "bert-base bert-large"),
        ("gpt-oss", "gpt-oss-20b gpt-oss-120b"),
        ("llama-65", "llama-65b"),
        ("lama-3", "llama-3-8b llama-3-70b"),
        ("mistrl-7b", "mistral-7b"),
        ("qwen-2.5-7b", "qwen2.5-7b qwen2.5-14b qwen2.5-3b"),
        ("gemma-2-8b", "gemma-2-9b gemma-2-27b gemma-2-2b"),
        # A name without a size is like the whole names of the others, whatever their size.
        ("alcon", "falcon-7b falcon-40b falcon-180b"),
        ("bloxm", "bloom bloom-3b"),
        ("bxoomz", "bloomz bloomz-3b"),
        # Of another version there is none.
        ("llama-5", ""),
        ("gpt-5", ""),
        ("qwen2.6-7b", ""),
        ("l", ""),
    ],
)
def test_the_nearest_models_are_of_the_same_family_and_version(name: str, near: str) -> None:
    assert load_catalog().nearest_models(name) == tuple(near.split())


@pytest.mark.parametrize(
    "name", ["bloom-350m", "whisper-large-v3", "phi-4-multimodal-instruct", "llama-3.1", "-instruct", ""]
)
def test_a_name_of_other_sizes_is_no_ending_of_a_known_one(name: str) -> None:
    assert load_catalog().model(name) is None


def test_what_is_no_language_model_has_none_near() -> None:
    for name in ("openai/whisper-large-v3", "stabilityai/stable-diffusion-xl-base-1.0", "google/vit-base-patch16-224"):
        assert not {"bert-large", "bert-base"} & set(load_catalog().nearest_models(name)), name


def test_other_names_of_a_row_have_its_shape() -> None:
    catalog = load_catalog()
    one, other = catalog.model("qwen2.5-7b"), catalog.model("qwen2.5-math-7b")
    assert one is not None
    assert other == replace(one, name="qwen2.5-math-7b")


def test_a_wrong_row_is_refused_alone() -> None:
    good = "{name: mine, parameters: 1000000000, layers: 10, hidden: 1024, heads: 8, ffn: 4096, vocabulary: 32000}"
    catalog = read_catalog(f"models: [{good}, {{name: bad, parameters: -1}}]")
    assert list(catalog.models) == ["mine"]
    assert ("bad", "model bad: hidden is missing") in catalog.refused
