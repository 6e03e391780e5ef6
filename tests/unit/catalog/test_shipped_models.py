"""The shapes of models that are shipped."""

from __future__ import annotations

import pytest

from gpujob.catalog.load import load_catalog, read_catalog

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


def test_a_wrong_row_is_refused_alone() -> None:
    good = "{name: mine, parameters: 1000000000, layers: 10, hidden: 1024, heads: 8, ffn: 4096, vocabulary: 32000}"
    catalog = read_catalog(f"models: [{good}, {{name: bad, parameters: -1}}]")
    assert list(catalog.models) == ["mine"]
    assert ("bad", "model bad: hidden is missing") in catalog.refused
