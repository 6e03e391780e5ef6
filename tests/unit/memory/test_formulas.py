"""The formulas of memory, each against a figure that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.models.shapes import ModelShape
from gpujob.memory import deepspeed, model_states, serving
from gpujob.memory.activations import at_work, everything
from gpujob.memory.allocator import allocator_overhead
from gpujob.memory.estimate import estimate
from gpujob.memory.model_shape import usual_shape
from gpujob.memory.phases import WORKSPACE
from gpujob.memory.workload import LINEAR_TARGETS, Workload
from gpujob.values.derived import derived
from gpujob.values.vocabulary import Checkpointing, Method, Optimizer, Precision, Sharding


def model(name: str) -> ModelShape:
    shape = load_catalog().model(name)
    assert shape is not None
    return shape


LLAMA = model("llama-3.1-8b")
P = LLAMA.parameters


@pytest.mark.parametrize(
    ("precision", "optimizer", "bytes_per_parameter"),
    [
        (Precision.BF16, Optimizer.ADAMW, 8),
        (Precision.MIXED, Optimizer.ADAMW, 16),
        (Precision.FP32, Optimizer.ADAMW, 16),
        (Precision.FP32, Optimizer.SGD_MOMENTUM, 12),
        (Precision.BF16, Optimizer.ADAMW_8BIT, 6),
        (Precision.BF16, Optimizer.PAGED_ADAMW_8BIT, 4),
    ],
)
def test_states_of_a_training_by_precision_and_optimizer(
    precision: Precision, optimizer: Optimizer, bytes_per_parameter: int
) -> None:
    work = Workload(LLAMA, precision=precision, optimizer=optimizer)
    assert (
        model_states.weights(work) + model_states.gradients(work, P) + model_states.optimizer(work)
        == bytes_per_parameter * P
    )


@pytest.mark.parametrize(
    ("sharding", "expected"),
    [
        (Sharding.NONE, 16 * P),
        (Sharding.ZERO1, 4 * P + 12 * P // 8),
        (Sharding.ZERO3, 16 * P // 8),
        (Sharding.FSDP, 16 * P // 8),
    ],
)
def test_sharding_divides_what_its_stage_says(sharding: Sharding, expected: int) -> None:
    work = Workload(LLAMA, precision=Precision.MIXED, sharding=sharding, gpus=8)
    assert model_states.weights(work) + model_states.gradients(work, P) + model_states.optimizer(work) == pytest.approx(
        expected, abs=8
    )


@pytest.mark.parametrize(
    ("name", "each", "precision"),
    [
        ("llama-3.1-8b", 131_072, Precision.BF16),
        ("llama-3.3-70b", 163_840, Precision.FP8),
        ("qwen3-0.6b", 114_688, Precision.BF16),
    ],
)
def test_the_cache_of_a_token_is_what_vllm_counts(name: str, each: int, precision: Precision) -> None:
    work = Workload(model(name), Method.INFERENCE, precision, cached_tokens=1000, concurrency=3)
    assert serving.kv_cache(work) == each * 3000


@pytest.mark.parametrize(
    ("name", "precision", "pool_gib", "tokens"),
    [
        ("llama-3.1-8b", Precision.BF16, 5.29, 43_296),
        ("llama-3.3-70b", Precision.FP8, 5.11, 33_504),
        ("qwen3-0.6b", Precision.BF16, 54.98, 514_688),
    ],
)
def test_a_pool_of_cache_holds_the_tokens_that_vllm_reported(
    name: str, precision: Precision, pool_gib: float, tokens: int
) -> None:
    work = Workload(model(name), Method.INFERENCE, precision, cached_tokens=tokens)
    assert serving.kv_cache(work) == pytest.approx(pool_gib * 2**30, rel=2e-3)


@pytest.mark.parametrize(("gpus", "heads"), [(1, 8), (2, 4), (3, 3), (8, 1), (16, 1)])
def test_gpus_that_serve_together_divide_the_weights_and_the_kv_heads(gpus: int, heads: int) -> None:
    work = Workload(LLAMA, Method.INFERENCE, gpus=gpus, tensor_parallel=True, cached_tokens=1000)
    assert model_states.weights(work) == 2 * P // gpus
    assert serving.kv_cache(work) == 2 * 32 * heads * 128 * 2 * 1000


def test_a_server_of_several_gpus_leaves_a_tenth_of_each_device_alone() -> None:
    found = estimate(Workload(LLAMA, Method.INFERENCE, gpus=2, tensor_parallel=True))
    assert found.high * 9 // 10 > found.expected + allocator_overhead.CONTEXT + allocator_overhead.COMMUNICATOR


def test_quantised_models_keep_embedding_and_head_in_16_bits() -> None:
    inner = P - 2 * 128256 * 4096
    assert model_states.weights(Workload(LLAMA, Method.QLORA)) == inner * 9 // 16 + 4 * 128256 * 4096


def test_a_quantised_product_keeps_its_input_and_dequantises_one_matrix() -> None:
    frozen, quantised = (everything(Workload(LLAMA, method)) for method in (Method.LORA, Method.QLORA))
    assert quantised - frozen == 2 * LLAMA.ffn + 2 * 2 * LLAMA.hidden
    assert model_states.dequantised(Workload(LLAMA, Method.QLORA)) == 2 * LLAMA.hidden * LLAMA.ffn


def test_scores_of_grouped_queries_in_32_bits_are_there_three_times_while_their_layer_is_computed_backward() -> None:
    work = Workload(LLAMA, precision=Precision.FP32)
    grouped, whole = (replace(work, shape=replace(LLAMA, kv_heads=n)) for n in (8, 32))
    scores = 4 * LLAMA.heads * work.sequence
    assert everything(grouped) - everything(whole) == scores
    assert at_work(grouped, everything(grouped)) - at_work(whole, everything(whole)) == 3 * scores


@pytest.mark.parametrize("stage", [Sharding.ZERO1, Sharding.ZERO2])
def test_deepspeed_on_one_gpu_steps_with_22_bytes_for_each_parameter(stage: Sharding) -> None:
    work = Workload(LLAMA, precision=Precision.MIXED, sharding=stage, checkpointing=Checkpointing.LAYERS)
    assert estimate(work).expected == 22 * P + 2 * WORKSPACE


def test_zero1_frees_the_gradients_that_others_step() -> None:
    work = Workload(LLAMA, precision=Precision.MIXED, sharding=Sharding.ZERO1, gpus=2)
    found = estimate(replace(work, checkpointing=Checkpointing.LAYERS))
    assert found.components.gradients == 2 * (P // 2)
    assert found.most.gradients > found.components.gradients


def test_adafactor_updates_the_embedding_in_32_bits_four_times() -> None:
    work = Workload(LLAMA, optimizer=Optimizer.ADAFACTOR)
    assert model_states.updates(work) == 4 * 4 * LLAMA.embedding_parameters
    assert model_states.updates(replace(work, precision=Precision.FP32)) == 2 * 4 * LLAMA.embedding_parameters
    assert model_states.updates(Workload(LLAMA)) == 0


@pytest.mark.parametrize(("precision", "each"), [(Precision.BF16, 10), (Precision.FP32, 20), (Precision.MIXED, 20)])
def test_adamw_for_each_steps_with_one_state_more(precision: Precision, each: int) -> None:
    work = Workload(LLAMA, precision=precision, optimizer=Optimizer.ADAMW_FOREACH, batch=1, sequence=128)
    assert estimate(work).expected == each * P + 2 * WORKSPACE
    spread = replace(work, sharding=Sharding.FSDP, gpus=8)
    assert model_states.updates(spread) == model_states.updates(work) // 8


def test_adamw_for_each_of_llama_1b_is_what_an_h100_measured() -> None:
    work = Workload(model("llama-3.2-1b"), optimizer=Optimizer.ADAMW_FOREACH, checkpointing=Checkpointing.LAYERS)
    assert estimate(work).expected == pytest.approx(12.43e9, rel=0.002)


def test_deepspeed_steps_with_a_fused_optimizer_of_its_own() -> None:
    work = Workload(LLAMA, precision=Precision.MIXED, sharding=Sharding.ZERO3, gpus=8)
    assert estimate(replace(work, optimizer=Optimizer.ADAMW_FOREACH)) == estimate(work)


def test_a_part_that_is_none_at_the_peak_is_told_for_another_moment() -> None:
    found = estimate(Workload(LLAMA, precision=Precision.MIXED, sharding=Sharding.FSDP, gpus=8, batch=4))
    assert found.components.gradients == 0 < found.most.gradients
    assert found.components.total == found.expected


def test_deepspeed_steps_a_sub_group_at_once_on_any_number_of_gpus() -> None:
    one, eight = (Workload(LLAMA, precision=Precision.MIXED, sharding=Sharding.ZERO3, gpus=n) for n in (1, 8))
    assert deepspeed.stepped(one) == 6 * 10**9
    assert deepspeed.stepped(eight) == 6 * 10**9
    assert deepspeed.stepped(replace(eight, gpus=16)) == 6 * (P // 16)
    assert deepspeed.stepped(replace(one, sharding=Sharding.FSDP)) == 0


@pytest.mark.parametrize(("sharding", "expected"), [(Sharding.ZERO1, 2), (Sharding.ZERO2, 2), (Sharding.ZERO3, 1)])
def test_deepspeed_reduces_adapters_in_buckets_of_half_a_billion(sharding: Sharding, expected: int) -> None:
    assert deepspeed.buckets(Workload(LLAMA, Method.LORA, sharding=sharding)) == expected * 10**9


def test_deepspeed_spreads_the_states_of_adapters_and_zero3_the_adapters() -> None:
    work = Workload(LLAMA, Method.LORA, sharding=Sharding.ZERO2, gpus=4)
    count = work.adapter_parameters
    assert model_states.adapters(work) == 4 * count + 12 * count // 4
    assert model_states.adapters(replace(work, sharding=Sharding.ZERO3)) == 16 * count // 4
    assert model_states.adapters(replace(work, sharding=Sharding.FSDP)) == 16 * count // 4
    assert model_states.adapters(replace(work, sharding=Sharding.NONE)) == 16 * count


def test_wide_adapters_need_room_for_gradients_and_two_copies_beside_the_loss() -> None:
    work = Workload(LLAMA, Method.LORA, checkpointing=Checkpointing.LAYERS, targets=LINEAR_TARGETS)
    narrow, wide = (estimate(replace(work, rank=rank)) for rank in (8, 64))
    more = Workload(LLAMA, rank=64 - 8, targets=LINEAR_TARGETS).adapter_parameters
    assert wide.high - narrow.high == pytest.approx(22 * more, rel=1e-3)


def test_activations_depend_on_tokens_not_on_how_they_are_batched() -> None:
    long = estimate(Workload(LLAMA, Method.LORA, batch=1, sequence=8192))
    wide = estimate(Workload(LLAMA, Method.LORA, batch=16, sequence=512))
    assert long.components.activations == wide.components.activations


def test_a_loss_in_pieces_is_the_low_end() -> None:
    found = estimate(Workload(LLAMA, Method.LORA, checkpointing=Checkpointing.LAYERS, batch=4))
    chunked = estimate(Workload(LLAMA, Method.LORA, checkpointing=Checkpointing.LAYERS, batch=4, chunked_loss=True))
    assert found.low == chunked.expected < found.expected


def test_more_gpus_need_less_on_each_when_sharded() -> None:
    needs = [estimate(Workload(LLAMA, precision=Precision.MIXED, sharding=Sharding.FSDP, gpus=n)) for n in (2, 4, 8)]
    assert [n.high for n in needs] == sorted((n.high for n in needs), reverse=True)


def test_only_the_active_experts_of_a_mixture_have_activations() -> None:
    mixture = model("mixtral-8x7b")
    sparse, dense = (Workload(replace(mixture, active_experts=n), Method.LORA, batch=8) for n in (2, 8))
    assert estimate(dense).components.activations > 2 * estimate(sparse).components.activations


def test_a_size_alone_makes_a_usual_shape_with_a_wider_band() -> None:
    shape = usual_shape(P)
    assert (shape.layers, shape.hidden, shape.parameters) == (34, 3968, P)
    exact, guessed = estimate(Workload(LLAMA)), estimate(Workload(shape, inferred=True))
    assert guessed.expected == pytest.approx(exact.expected, rel=0.05)
    assert guessed.high - guessed.expected > exact.high - exact.expected
    assert guessed.low < guessed.expected


def test_nine_of_ten_usual_shapes_are_within_the_wider_band() -> None:
    ratios = []
    for shape in load_catalog().models.values():
        if shape.gated and shape.experts == 1 and not shape.kind.cross:
            for method in (Method.FULL, Method.LORA, Method.INFERENCE):
                work = Workload(shape, method, checkpointing=Checkpointing.LAYERS)
                usual = replace(work, shape=usual_shape(shape.parameters))
                ratios.append(estimate(usual).expected / estimate(work).expected)
    assert sum(abs(ratio - 1) <= 0.15 for ratio in ratios) / len(ratios) >= 0.90


def test_parameters_of_the_smallest_shape_are_no_trap() -> None:
    assert estimate(Workload(usual_shape(1))).expected > 0


def test_the_low_end_is_widened_by_its_own_share() -> None:
    """Most of the peak are logits that a loss in pieces does not hold: a share of the peak would be more than is left."""
    work = Workload(
        usual_shape(350_000_000),
        Method.QLORA,
        batch=32,
        sequence=4096,
        checkpointing=Checkpointing.LAYERS,
        inferred=True,
    )
    usual, told = estimate(work), estimate(replace(work, inferred=False))
    assert 0 < usual.low == told.low - told.low * 15 // 100
    assert usual.high == told.high + told.expected * 15 // 100


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("sharding", Sharding)
def test_what_is_known_of_a_workload_on_one_number_of_gpus_holds_on_another(
    method: Method, precision: Precision, sharding: Sharding
) -> None:
    named = [name for name, value in vars(Workload).items() if isinstance(value, derived)]
    for tensor_parallel, (before, after) in product((False, True), ((1, 8), (8, 1), (2, 16))):
        work = Workload(LLAMA, method, precision, sharding=sharding, gpus=before, tensor_parallel=tensor_parallel)
        known = [getattr(work, name) for name in named]
        fresh = replace(work, gpus=after)
        assert work.on(after) == fresh
        assert [getattr(work.on(after), name) for name in named] == [getattr(fresh, name) for name in named]
        assert [getattr(work, name) for name in named] == known
