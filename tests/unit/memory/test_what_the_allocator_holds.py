"""Blocks of PyTorch's allocator, and which gradients fit where activations were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.memory.allocator import MIB, Allocator
from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.models.shapes import ModelShape
from gpujob.memory import segment_padding
from gpujob.memory.allocator import block_reuse, fragmentation
from gpujob.memory.estimate import estimate
from gpujob.memory.workload import Workload
from gpujob.values.vocabulary import Checkpointing, Method, Precision


def model(name: str) -> ModelShape:
    shape = load_catalog().model(name)
    assert shape is not None
    return shape


@pytest.mark.parametrize(
    ("size", "held"), [(1, 2), (MIB, 2), (MIB + 1, 20), (9 * MIB, 20), (10 * MIB, 10), (31 * MIB, 32)]
)
def test_a_tensor_has_a_segment_of_its_size(size: int, held: int) -> None:
    allocator = Allocator()
    allocator.make(size)
    assert allocator.held == held * MIB


def test_small_tensors_share_a_segment_and_its_parts_become_one_again() -> None:
    allocator = Allocator()
    blocks = [allocator.make(5 * MIB) for _ in range(4)]
    assert allocator.held == 20 * MIB
    for block in (blocks[1], blocks[3], blocks[0], blocks[2]):
        allocator.drop(block)
    allocator.make(20 * MIB)
    assert (allocator.held, allocator.used) == (20 * MIB, 20 * MIB)


def test_segments_never_become_one() -> None:
    allocator = Allocator()
    for block in [allocator.make(32 * MIB) for _ in range(4)]:
        allocator.drop(block)
    allocator.make(64 * MIB)
    assert allocator.held == 4 * 32 * MIB + 64 * MIB


def test_the_smallest_block_that_is_large_enough_is_taken_and_its_rest_stays_free() -> None:
    allocator = Allocator()
    for block in [allocator.make(64 * MIB), allocator.make(40 * MIB)]:
        allocator.drop(block)
    allocator.make(36 * MIB)
    allocator.make(64 * MIB)
    assert allocator.held == 104 * MIB
    allocator.make(4 * MIB)
    assert allocator.held == 104 * MIB


def test_gradients_twice_as_wide_as_the_activations_find_no_home() -> None:
    """2,048 tokens in 16 bits leave 32 MiB of each width of 8,192; a matrix of 2,048 x 8,192 has a gradient of 64 MiB in 32."""
    pythia = model("pythia-1.4b")
    narrow, mixed = Workload(pythia), Workload(pythia, precision=Precision.MIXED)
    assert block_reuse.found_by(narrow, narrow.tokens)[0] == 0
    fused, up_and_down = 3 * 2048 * 2048, 2 * 2048 * 8192
    assert block_reuse.found_by(mixed, mixed.tokens)[0] == 24 * 4 * (fused + up_and_down)
    assert block_reuse.found_by(mixed, 4096)[0] == 0
    assert set(block_reuse.more_tokens(mixed)) == {3072, 4096}, "where the fused one fits, and where all do"
    assert block_reuse.found_by(mixed, 3071)[0] > block_reuse.found_by(mixed, 3072)[0] > 0


def test_gradients_lie_in_what_autocast_cast_of_wider_weights() -> None:
    """The 16-bit copy of gate and up together, 96 MiB, holds the gradient of the way down, 96 MiB, in each layer."""
    mixed = Workload(model("phi-3-mini"), precision=Precision.MIXED, batch=2, sequence=1024)
    fused, gate_and_up = 3 * 3072 * 3072, 2 * 3072 * 8192
    embedding_and_head = 2 * 32064 * 3072
    assert block_reuse.found_by(mixed, mixed.tokens)[0] == 4 * (32 * (fused + gate_and_up) + embedding_and_head)


def test_the_embedding_has_a_home_where_the_logits_of_so_many_tokens_are_as_large() -> None:
    bloom = Workload(model("bloom-3b"), precision=Precision.MIXED, sequence=1024)
    layers = block_reuse.found_by(bloom, 2560)[0]
    assert block_reuse.found_by(bloom, bloom.tokens)[0] - layers >= 4 * 250880 * 2560
    assert set(block_reuse.more_tokens(bloom)) == {2560}
    assert block_reuse.found_by(bloom, 2559)[0] > layers


def test_one_gradient_in_a_block_of_scores_loses_the_rest_of_it() -> None:
    falcon = Workload(model("falcon-7b"), batch=4, sequence=512)
    assert block_reuse.loses_rests(falcon)
    assert not block_reuse.loses_rests(replace(falcon, batch=2, sequence=1024)), "three of them fill it"
    assert not block_reuse.loses_rests(replace(falcon, batch=3, sequence=448)), "a rest of a thirtieth"
    assert not block_reuse.loses_rests(replace(falcon, shape=model("llama-3.1-8b"))), "a fused kernel makes none"


@pytest.mark.parametrize(
    ("name", "precision", "held"), [("pythia-1.4b", Precision.MIXED, 3.8), ("phi-3-mini", Precision.MIXED, 10.1)]
)
def test_what_has_no_home_is_held_beside_the_peak(name: str, precision: Precision, held: float) -> None:
    """What the models' own steps held, played through the allocator's rules, in GB."""
    found = estimate(Workload(model(name), precision=precision, batch=2, sequence=1024))
    assert (found.high - found.expected) / 1e9 - 0.79 == pytest.approx(held, rel=0.2)


def test_the_end_of_a_segment_stays_with_its_tensor() -> None:
    """2,560 x 2,560 in 32 bits are 25 MiB, in a segment of 26; in 16 bits 12.5, of 14, whose end of 1.5 is split off."""
    opt = Workload(model("opt-2.7b"), precision=Precision.FP32)
    ends_of_attention, end_of_head = 32 * 4 * MIB, -50272 * 2560 * 4 % (2 * MIB)
    assert segment_padding.of_weights(opt) == ends_of_attention + (end_of_head if end_of_head <= MIB else 0)
    assert segment_padding.of_weights(replace(opt, precision=Precision.BF16)) < MIB
    assert segment_padding.of_weights(replace(opt, method=Method.QLORA)) == 0


def test_the_cache_cuts_off_what_the_mlp_has_more_than_a_multiple_of_the_keys() -> None:
    served = Workload(model("qwen1.5-4b"), method=Method.INFERENCE, batch=4, sequence=1536)
    keys_and_values, lost_of_two = 2 * 40 * 2560 * 2 * 4 * 1536, 6912 - 2 * 2560
    assert fragmentation.by_cache(served) == keys_and_values * lost_of_two // (2 * 2560)
    assert fragmentation.by_cache(replace(served, shape=model("pythia-2.8b"))) == 0, "four of them fill the MLP's block"
    assert fragmentation.by_cache(replace(served, concurrency=4)) == 0, "a server's cache is made at once"


@pytest.mark.parametrize(
    ("name", "held"), [("deepseek-r1-distill-qwen-1.5b", 6.7), ("qwen2-1.5b", 4.0), ("pythia-160m", 1.3), ("gpt2", 0.3)]
)
def test_states_break_as_many_blocks_of_the_loss_as_they_need(name: str, held: float) -> None:
    """What an H200 held, in GB: a head of its own makes the gradients that break one block more."""
    work = Workload(model(name), batch=6, sequence=1024, checkpointing=Checkpointing.LAYERS)
    found = estimate(work)
    assert held * 0.8 <= (found.high - found.expected) / 1e9 - 0.79 <= held + 1.3


def test_at_inference_encoders_make_logits_of_all_positions_and_decoders_of_the_last() -> None:
    encoder = Workload(model("xlm-roberta-large"), method=Method.INFERENCE, batch=4, sequence=1536)
    found = estimate(encoder)
    assert found.components.logits == 2 * 4 * 1536 * 250002
    assert found.components.kv_cache == 0
    bart = estimate(replace(encoder, shape=model("bart-base")))
    assert bart.components.logits == 2 * 2 * 4 * 1536 * model("bart-base").vocabulary
    decoder = estimate(replace(encoder, shape=model("pythia-1b")))
    assert decoder.components.logits == 6 * 4 * model("pythia-1b").vocabulary
