"""What the code of each kind of model keeps for the backward pass, by hand: bytes for each token of a layer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.models.code_kinds import KINDS
from gpujob.catalog.models.shapes import ModelShape
from gpujob.memory import serving
from gpujob.memory.activations import everything, forward_only
from gpujob.memory.estimate import estimate
from gpujob.memory.workload import LINEAR_TARGETS, Workload
from gpujob.values.vocabulary import Method, Precision

H = 2048
PLAIN = ModelShape("mine", 10**9, 24, H, heads=16, kv_heads=16, head_dim=128, ffn=4 * H, vocabulary=50_000)


def kept(kind: str, precision: Precision = Precision.BF16) -> float:
    """In hidden widths."""
    return everything(Workload(replace(PLAIN, kind=KINDS[kind]), precision=precision)) / H


@pytest.mark.parametrize(
    ("kind", "precision", "widths"),
    [
        # Norms, what products read of them, queries with keys, values and output, MLP, masks.
        ("llama", Precision.BF16, 2 * (4 + 2) + 4 + 8 + 4 * 8),
        ("plain", Precision.BF16, 4 + 4 + 8 + 2 * 8),
        ("gpt2", Precision.BF16, 4 + 4 + 8 + 5 * 8 + 2),
        ("gpt2", Precision.MIXED, 8 + 2 * 2 + 8 + 16 * 4 + 2),
        ("opt", Precision.BF16, 4 + 4 + 8 + 8 + 2),
        ("opt", Precision.MIXED, 8 + 4 * 2 + 8 + 8 + 2),
        ("falcon", Precision.BF16, 2 + 2 + 8 + 2 * 8),
        ("neox", Precision.BF16, 2 + 4 + 12 + 2 * 8),
        ("neox", Precision.MIXED, 4 + 4 + 12 + 2 * 8),
        ("gemma3", Precision.BF16, 4 * 8 + 4 + 2 * 8 + 8 + 4 * 8),
        ("olmo2", Precision.BF16, 2 * 8 + 4 + 2 * 8 + 8 + 4 * 8),
        ("phi3", Precision.BF16, 2 * 6 + 4 + 12 + 4 * 8),
        # Every second layer has another attention, with its norm; of 16 heads and 2,048 tokens two of three attentions keep 4
        # bytes, a mask and 2 bytes, the third 4, and all a second layout of queries and keys.
        ("t5", Precision.BF16, 2.5 * 8 + 5 + 1.5 * (8 + 4 + (2 * 7 + 4) / 3 * 16) + (2 + 2 + 1) * 4 + 2.5),
    ],
)
def test_a_layer_of_each_kind(kind: str, precision: Precision, widths: float) -> None:
    assert kept(kind, precision) == widths


def test_one_head_of_keys_that_is_broadcast_is_computed_in_32_bits() -> None:
    """Norm and product, queries and output with a sixteenth of them for each of keys and values, three copies in 32 bits, the
    scores of 16 heads and 2,048 tokens, the MLP: an H100 measured 73.5 GB for Falcon-7B, 2 x 1024, where 56.6 were expected.
    """
    shape = replace(PLAIN, kind=KINDS["falcon"], kv_heads=1)
    assert everything(Workload(shape)) / H == 2 + 2 + (4 + 4 / 16) + 3 * 4 + 4 * 16 + 2 * 8


def test_a_bias_keeps_the_fused_kernel_where_there_is_no_dropout() -> None:
    dry = replace(KINDS["t5"], dropout=False, inner_dropout=False)
    less = everything(Workload(replace(PLAIN, kind=dry))) / H
    assert less == pytest.approx(2.5 * 8 + 5 + 1.5 * (8 + 4 + 4 / 3 * 2 * 16) + 2 * 4, abs=0.01)


@pytest.mark.parametrize(
    ("kind", "precision", "each"),
    [
        ("bloom", Precision.BF16, 4 + 2),
        ("bloom", Precision.FP32, 4),
        ("gemma2", Precision.BF16, 0),
        ("gptj", Precision.BF16, 4 + 2),
        ("gpt-oss", Precision.BF16, 2),
        ("gpt-oss", Precision.MIXED, 4 + 2),
        ("llama", Precision.BF16, 0),
    ],
)
def test_scores_are_kept_where_no_fused_kernel_computes_them(kind: str, precision: Precision, each: int) -> None:
    work = Workload(replace(PLAIN, kind=KINDS[kind]), precision=precision)
    assert everything(replace(work, sequence=4096)) - everything(work) == each * PLAIN.heads * 2048


def test_a_loss_of_an_encoders_own_is_as_narrow_as_its_logits() -> None:
    wide, narrow = (estimate(Workload(replace(PLAIN, kind=KINDS[k]), batch=8)) for k in ("plain", "bert"))
    assert narrow.components.logits * 2 == wide.components.logits


def test_each_expert_has_adapters_of_its_own_and_a_token_passes_the_active_ones() -> None:
    mixture = replace(PLAIN, experts=8, active_experts=2)
    works = [Workload(shape, Method.LORA, targets=LINEAR_TARGETS) for shape in (PLAIN, mixture)]
    one, eight = (work.adapter_parameters for work in works)
    mlp = 16 * PLAIN.layers * 3 * (H + 4 * H)
    assert eight - one == 7 * mlp
    assert list(works[1].inputs(("down_proj",))) == [2 * 4 * H]


def test_windows_bound_the_cache_and_latent_attention_compresses_it() -> None:
    work = Workload(replace(PLAIN, window=1024, windowed_layers=20), Method.INFERENCE, cached_tokens=8192)
    assert serving.kv_cache(work) == 2 * 2 * H * (4 * 8192 + 20 * 1024)
    assert serving.kv_cache(replace(work, cached_tokens=512)) == 2 * 2 * H * 24 * 512
    latent = Workload(replace(PLAIN, latent=576), Method.INFERENCE, cached_tokens=8192, gpus=8, tensor_parallel=True)
    assert serving.kv_cache(latent) == 2 * 576 * 24 * 8192


def test_gradients_of_earlier_micro_batches_wait_beside_the_loss() -> None:
    once = estimate(Workload(PLAIN, batch=8))
    again = estimate(Workload(PLAIN, batch=8, accumulates=True))
    assert once.components.logits == again.components.logits > 0
    assert again.expected - once.expected == 2 * PLAIN.parameters


def test_scales_that_are_quantised_too_are_the_low_end() -> None:
    work = Workload(PLAIN, Method.QLORA, chunked_loss=True)
    found, narrow = estimate(work), estimate(replace(work, double_quantised=True))
    assert found.low == narrow.expected < found.expected


@pytest.mark.parametrize(
    ("model", "each", "beside"),
    [
        # On an H100, 2 x 2,048 tokens: 3.51, 5.07 and 19.68 GB; without scores 1.66, 3.87 and 14.43 would be expected.
        ("bloom-560m", 14, 6 * 1024 * 2), ("gpt-neo-1.3b", 12, 6 * 2048 * 2), ("llama-3.2-1b", 0, 0),
        ("falcon-7b", 10, 3 * 4 * 4544 + (2 * 4544 + 2 * (4544 + 64)) * 2),
    ],
)  # fmt: skip
def test_scores_pass_at_inference_too(model: str, each: int, beside: int) -> None:
    shape = load_catalog().model(model)
    assert shape is not None
    long, short = (forward_only(Workload(shape, Method.INFERENCE, sequence=tokens)) for tokens in (65_536, 32_768))
    assert long - short == each * shape.heads * 32_768
    assert not each or short == each * shape.heads * 32_768 + beside
