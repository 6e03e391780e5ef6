"""What a row leaves out has a value that a reader can work out, and figures of data sheets become rates in the right direction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpujob.catalog.devices.pricelist import OwnPrice
from gpujob.catalog.devices.roofline import has_roofline, peak, share_of
from gpujob.catalog.devices.throughput import Speeds, work_of
from gpujob.catalog.entities import Accelerator
from gpujob.catalog.files.load import load_catalog, read_catalog
from gpujob.catalog.models.code_kinds import KINDS
from gpujob.catalog.models.shapes import ModelShape
from gpujob.values.vocabulary import CapacityType, Method, Precision, RunFormat

CATALOG = load_catalog()
LEAST = (
    "name: mine, parameters: 1000000, layers: 2, hidden: 64, heads: 4, ffn: 256, vocabulary: 100, "
    "source: a, checkedOn: 2026-01-01"
)


def row(more: str = "") -> ModelShape:
    """The model of a row with the fewest fields and some more."""
    catalog = read_catalog(f"models: [{{{LEAST}{more and ', '}{more}}}]")
    assert catalog.refused == ()
    found = catalog.model("mine")
    assert found is not None
    return found


def device(name: str) -> Accelerator:
    found = CATALOG.accelerator(name)
    assert found is not None
    return found


def test_a_model_that_says_only_its_sizes_is_a_dense_llama() -> None:
    said = ("name", "parameters", "layers", "hidden", "heads", "ffn", "vocabulary", "source", "checked_on")
    least = row()
    assert [getattr(least, each) for each in said] == ["mine", 10**6, 2, 64, 4, 256, 100, "a", "2026-01-01"]
    assert (least.kv_heads, least.head_dim, least.kind, least.tied) == (4, 16, KINDS["llama"], False)
    assert (least.positions, least.experts, least.active_experts, least.latent, least.window) == (0, 1, 1, 0, 0)
    assert (least.dense_layers, least.dense_ffn, least.attention_parameters, least.windowed_layers) == (0, 0, 0, 0)
    assert least.published == ""


def test_a_model_s_own_figures_replace_each_of_these() -> None:
    figures = {
        "kvHeads": ("kv_heads", 2), "headDim": ("head_dim", 24), "positions": ("positions", 512), "experts": ("experts", 8),
        "activeExperts": ("active_experts", 2), "denseLayers": ("dense_layers", 1), "denseFfn": ("dense_ffn", 512),
        "attentionParameters": ("attention_parameters", 1000), "latent": ("latent", 32), "window": ("window", 128),
        "windowedLayers": ("windowed_layers", 1),
    }  # fmt: skip
    for written, (name, value) in figures.items():
        assert row(f"{written}: {value}") == replace(row(), **{name: value}), written
    assert row("tied: true").tied
    assert row("kind: gpt2").kind == KINDS["gpt2"]
    assert row("published: FP8").published == "FP8"


def test_more_heads_than_the_hidden_width_are_one_wide() -> None:
    wide = read_catalog(f"models: [{{{LEAST.replace('heads: 4', 'heads: 100')}}}]").model("mine")
    assert wide is not None
    assert wide.head_dim == 1


def test_a_model_of_ten_trillion_parameters_is_the_largest() -> None:
    def refused(parameters: int) -> bool:
        text = LEAST.replace("parameters: 1000000", f"parameters: {parameters}")
        return bool(read_catalog(f"models: [{{{text}}}]").refused)

    assert not refused(10**13)
    assert refused(10**13 + 1)


def test_other_names_of_a_model_are_the_same_model() -> None:
    catalog = read_catalog(f"models: [{{{LEAST}, aliases: [Other-Name, third]}}]")
    assert {catalog.model(name) for name in ("other-name", "third")} == {
        replace(row(), name="other-name"),
        replace(row(), name="third"),
    }


@pytest.mark.parametrize(
    ("trait", "kinds"),
    [
        ("fused", {"phi3", "gpt2", "gpt-bigcode", "mpt", "neox", "falcon", "bloom"}),
        ("scores", {"gpt-oss", "gpt-neo", "mpt", "gptj", "bloom"}),
        ("parallel", {"gptj", "neox", "phi", "falcon"}),
        ("unrotated", {"phi3", "neox"}),
        ("wide_norms", {"gemma", "gemma2", "gemma3", "olmo2", "t5", "t5-gated"}),
        ("head_norms", {"qwen3", "gemma3", "olmo2"}),
        ("capped", {"gemma2"}),
        ("narrow_scores", {"gpt-oss"}),
        ("broadcasts", {"falcon"}),
        ("relu", {"opt", "t5"}),
        ("stepwise", {"gpt-oss", "gpt2", "gpt-neo", "gptj", "phi", "t5-gated"}),
        ("dropout", {"gpt2", "gpt-bigcode", "phi", "opt", "starcoder2", "bert", "bart", "t5", "t5-gated"}),
        ("inner_dropout", {"t5", "t5-gated"}),
        ("biased", {"t5", "t5-gated"}),
        ("own_loss", {"bert", "bart", "t5", "t5-gated"}),
        ("biased_logits", {"bart"}),
        ("cross", {"bart", "t5", "t5-gated"}),
        ("gated", {"llama", "qwen3", "phi3", "gemma", "gemma2", "gemma3", "gpt-oss", "olmo2", "t5-gated"}),
        ("layer_norm", {"plain", "gpt2", "gpt-neo", "gpt-bigcode", "mpt", "gptj", "neox", "phi", "falcon", "bloom",
                        "opt", "starcoder2", "bert", "vit", "bart"}),
    ],
)  # fmt: skip
def test_the_kinds_of_models_whose_code_has_a_trait(trait: str, kinds: set[str]) -> None:
    assert {name for name, kind in KINDS.items() if getattr(kind, trait)} == kinds


def test_the_parameters_of_two_layers_are_counted_by_hand() -> None:
    # Four products of 64 by 64 and three of 64 by 256 a layer; embedding and head.
    assert row().counted == 2 * (4 * 64 * 64 + 3 * 64 * 256) + 2 * 100 * 64
    assert row("tied: true").counted == row().counted - 100 * 64
    # Two of 64 by 256; nine biases of 64 and one of 256; one matrix that ends in positions.
    assert row("kind: plain, positions: 10").counted == 2 * (4 * 64**2 + 2 * 64 * 256 + 9 * 64 + 256) + 210 * 64
    # Eight experts in one of two layers, and a dense MLP of 32 in the other.
    mixed = row("experts: 8, denseLayers: 1, denseFfn: 32")
    assert mixed.counted == 2 * 4 * 64**2 + 3 * 64 * (8 * 256 + 32) + 2 * 100 * 64
    # With an encoder the second layer has two attentions.
    assert row("kind: t5").counted == 3 * 4 * 64**2 + 2 * 2 * 64 * 256 + 2 * 100 * 64


@pytest.mark.parametrize(
    ("name", "run", "of_16_bits"),
    [
        ("T4", RunFormat.BF16, 1 / 8),
        ("T4", RunFormat.FP16, 1),
        ("T4", RunFormat.FP32, 1 / 8),
        ("T4", RunFormat.INT8, 2),
        ("T4", RunFormat.FP8, 1),
        ("A100-80GB", RunFormat.BF16, 1),
        ("A100-80GB", RunFormat.FP32, 1 / 2),
        ("A100-80GB", RunFormat.FP8, 1),
        ("A100-80GB", RunFormat.INT8, 2),
        ("H100-SXM", RunFormat.FP8, 2),
        ("H100-SXM", RunFormat.FP4, 1),
        ("MI300X", RunFormat.FP8, 2),
        ("MI300X", RunFormat.FP32, 1 / 2),
        ("MI210", RunFormat.FP32, 1 / 4),
        ("MI100", RunFormat.FP32, 1 / 4),
        ("MI355X", RunFormat.FP32, 1 / 16),
        ("MI355X", RunFormat.FP4, 4),
        ("B200", RunFormat.FP4, 4),
        ("MI300X", None, 1),
    ],
)
def test_the_rate_of_a_format_beside_that_of_16_bits(name: str, run: RunFormat | None, of_16_bits: float) -> None:
    found = device(name)
    wide = found.bf16_tflops or found.fp16_tflops
    assert wide is not None
    assert peak(found, run) == pytest.approx(of_16_bits * wide, rel=0.01)


def test_what_says_no_tflops_or_no_bandwidth_has_no_roofline() -> None:
    whole = device("H100-SXM")
    assert has_roofline(whole)
    for missing in ({"bf16_tflops": None, "fp16_tflops": None}, {"bandwidth_gb_s": None}):
        part = replace(whole, **missing)
        assert not has_roofline(part)
        speeds = Speeds({}, [part])
        assert speeds.of(whole.id, work_of(Method.FULL, Precision.BF16, None)) is None
    assert CATALOG.speed(whole.id, work_of(Method.FULL, Precision.BF16, None)) is not None


def test_one_sequence_is_bound_by_memory_and_a_hundred_by_what_was_measured() -> None:
    # The reference computes as long as it reads at about 150 sequences.
    assert [round(100 * share_of(sequences)) for sequences in (1, 16, 98, 10_000)] == [1, 10, 40, 40]


def test_a_runtime_that_is_added_replaces_the_one_of_its_name_alone() -> None:
    first, *rest = CATALOG.runtimes
    changed = replace(first, preference=first.preference + 1)
    assert {*CATALOG.with_runtimes([changed]).runtimes} == {changed, *rest}
    other = replace(first, name="other")
    assert {*CATALOG.with_runtimes([other]).runtimes} == {other, *CATALOG.runtimes}


@pytest.mark.parametrize(
    ("amount", "of_node", "devices", "parts", "expected"),
    [
        (8_000_000, False, 8, 1, 8_000_000),
        (8_000_000, True, 8, 1, 1_000_000),
        (8_000_001, True, 8, 1, 1_000_000),
        (8_000_008, True, 8, 1, 1_000_001),
        (8_000_007, True, 8, 1, 1_000_000),
        # A node with a sixth of a card costs 500,000: six of them make a card.
        (500_000, True, 1, 6, 3_000_000),
        (500_000, True, 2, 6, 1_500_000),
        (0, True, 8, 1, 0),
    ],
)
def test_an_own_price_of_a_node_is_divided_by_its_devices(
    amount: int, of_node: bool, devices: int, parts: int, expected: int
) -> None:
    price = OwnPrice("p5.48xlarge", {CapacityType.SPOT: amount}, of_node)
    assert price.per_gpu_hour(CapacityType.SPOT, devices, parts) == expected
    assert price.per_gpu_hour(CapacityType.ON_DEMAND, devices, parts) is None


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("FP8", ("FP8FNUZ", "FP8OCP")),
        ("TransformerEngin", ("TransformerEngine",)),
        ("FlashAtention", ("FlashAttention",)),
        ("Xformers", ("XFormers",)),
        ("quantum", ()),
    ],
)
def test_the_features_that_a_word_may_mean(word: str, near: tuple[str, ...]) -> None:
    assert CATALOG.nearest_features(word) == near
