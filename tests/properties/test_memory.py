"""Less work, more sharding and narrower numbers never make the estimate of memory larger, whatever the job is."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.models.shapes import ModelShape
from gpujob.memory import deepspeed, model_states, serving
from gpujob.memory.estimate import Estimates, estimate
from gpujob.memory.model_shape import known_shape, usual_shape
from gpujob.memory.workload import ATTENTION_TARGETS, LINEAR_TARGETS, Workload
from gpujob.values.vocabulary import Checkpointing, Method, Optimizer, Precision, Sharding

ADAPTING = (Method.LORA, Method.QLORA)
LEARNING = (Method.FULL, *ADAPTING)

known = st.sampled_from(sorted(load_catalog().models.values(), key=lambda shape: shape.name))
parameters = st.integers(min_value=10**7, max_value=10**12)
shapes = st.one_of(known, parameters.map(usual_shape))
COUNT, WIDTH = 4096, 1_048_576
"""The most that a job may say of layers, heads and experts, and of widths."""
overrides = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            ("layers", "heads", "kv_heads", "head_dim", "experts", "active_experts"), st.integers(1, COUNT)
        ),
        **dict.fromkeys(("hidden", "ffn"), st.integers(1, WIDTH)),
        "vocabulary": st.integers(1, 4 * WIDTH),
        "tied": st.booleans(),
    },
)
"""What a job may say of a model's shape, however odd."""
odd_shapes = st.one_of(
    st.builds(lambda shape, said: known_shape(shape, **said), known, overrides),
    st.builds(lambda count, said: usual_shape(count, **said), parameters, overrides),
)


@st.composite
def workloads(draw: st.DrawFn, methods: tuple[Method, ...] = tuple(Method), odd: bool = False) -> Workload:
    """Any work with any model, up to 128k tokens a sequence; `odd`: of any shape that a job may say."""
    return Workload(
        shape=draw(odd_shapes if odd else shapes),
        method=draw(st.sampled_from(methods)),
        precision=draw(st.sampled_from(Precision)),
        optimizer=draw(st.sampled_from(Optimizer)),
        batch=draw(st.integers(min_value=1, max_value=64)),
        sequence=draw(st.sampled_from((1, 128, 512, 2048, 8192, 131_072))),
        checkpointing=draw(st.sampled_from(Checkpointing)),
        sharding=draw(st.sampled_from(Sharding)),
        gpus=draw(st.sampled_from((1, 2, 3, 8, 64))),
        rank=draw(st.sampled_from((1, 8, 64, 256))),
        targets=draw(st.sampled_from((ATTENTION_TARGETS, LINEAR_TARGETS))),
        accumulates=draw(st.booleans()),
        tensor_parallel=draw(st.booleans()),
        inferred=draw(st.booleans()),
    )


def ends(work: Workload) -> tuple[int, int, int]:
    found = estimate(work)
    return found.low, found.expected, found.high


def assert_no_more(less: Workload, more: Workload) -> None:
    assert all(a <= b for a, b in zip(ends(less), ends(more), strict=True)), (ends(less), ends(more))


@given(workloads() | workloads(odd=True))
def test_components_add_up_and_the_ends_are_in_order(work: Workload) -> None:
    found = estimate(work)
    assert found.components.total == found.expected
    assert 0 <= found.low <= found.expected < found.high
    assert all(0 <= amount <= most for amount, most in zip(found.components, found.most, strict=True))
    bands = zip(found.least, found.components, found.greatest, strict=True)
    assert all(0 <= low <= expected <= high for low, expected, high in bands)
    assert all(amount >= 0 for amount in found.reserve)
    assert found.least.total + found.reserve[0] == found.low
    assert found.greatest.total + found.reserve[1] == found.high


@given(workloads() | workloads(odd=True), st.integers(min_value=1, max_value=64))
def test_a_larger_batch_or_a_longer_sequence_never_takes_less(work: Workload, more: int) -> None:
    assert_no_more(work, replace(work, batch=work.batch + more))
    assert_no_more(work, replace(work, sequence=work.sequence + more))


@given(workloads(), st.integers(min_value=1, max_value=16))
def test_more_layers_never_take_less(work: Workload, more: int) -> None:
    shape = work.shape
    longer = replace(
        shape, layers=shape.layers + more, parameters=shape.parameters + more * max(shape.layer_parameters, 1)
    )
    assert_no_more(work, replace(work, shape=longer))


@given(workloads(ADAPTING), st.integers(min_value=1, max_value=64))
def test_a_larger_rank_never_takes_less(work: Workload, more: int) -> None:
    assert_no_more(work, replace(work, rank=work.rank + more))


@given(workloads(LEARNING), st.sampled_from((Sharding.ZERO1, Sharding.ZERO2, Sharding.ZERO3, Sharding.FSDP)))
def test_more_gpus_under_sharding_never_take_more_of_each(work: Workload, sharding: Sharding) -> None:
    assume(work.gpus > 1)
    spread = replace(work, sharding=sharding)
    fewer, more = ends(spread), ends(replace(spread, gpus=2 * work.gpus))
    assert more[:2] <= fewer[:2]
    assert more[1] <= fewer[1]
    # What the allocator holds besides is the smaller of two uses, of which sharding makes but one smaller.
    assert more[2] <= fewer[2] * 1.02


@given(workloads((Method.INFERENCE,)))
def test_more_gpus_that_serve_together_never_take_more_of_each(work: Workload) -> None:
    together = replace(work, sharding=Sharding.NONE, tensor_parallel=True)
    assert estimate(replace(together, gpus=2 * work.gpus)).expected <= estimate(together).expected
    if work.gpus > 1:
        assert_no_more(replace(together, gpus=2 * work.gpus), together)


@given(workloads((Method.INFERENCE,)))
def test_a_gpu_that_serves_with_others_has_its_part_of_the_heads_and_at_least_one(work: Workload) -> None:
    assume(not work.shape.latent)  # What is compressed for all heads is whole on each GPU.
    alone = serving.kv_cache(replace(work, gpus=1))
    together = serving.kv_cache(replace(work, tensor_parallel=True))
    heads = work.shape.kv_heads
    assert together * heads == alone * -(-heads // work.gpus)


@given(workloads(LEARNING) | workloads(LEARNING, odd=True))
def test_the_more_is_checkpointed_the_less_is_taken(work: Workload) -> None:
    layers, selective, none = (
        replace(work, checkpointing=each)
        for each in (Checkpointing.LAYERS, Checkpointing.SELECTIVE, Checkpointing.NONE)
    )
    assert_no_more(layers, none)
    assert_no_more(selective, none)
    assert estimate(layers).expected <= estimate(selective).expected


@given(known, overrides)
def test_a_shape_follows_what_is_said_of_it(shape: ModelShape, said: dict[str, Any]) -> None:
    changed = known_shape(shape, **said)
    assert all(getattr(changed, field) == value for field, value in said.items() if field != "active_experts")
    assert changed.active_experts <= changed.experts
    assert "kv_heads" in said or changed.kv_heads <= changed.heads
    assert changed.windowed_layers <= changed.layers >= changed.dense_layers
    assert changed.counted > 0 < changed.parameters


@given(parameters, st.integers(1, 200), st.integers(7, 140).map(lambda squares: 128 * squares))
def test_a_usual_shape_has_the_parameters_that_are_said(count: int, layers: int, hidden: int) -> None:
    made = (usual_shape(count), usual_shape(count, layers=layers), usual_shape(count, hidden=hidden))
    for shape in (each for each in made if 1 < each.layers < COUNT):
        assert shape.parameters == count
        each = shape.counted - replace(shape, layers=shape.layers - 1).counted
        # As near as whole layers come, or, where their number is said, as widths that are not below the hidden one do.
        near = abs(shape.counted - count) <= max(each / 2 + 1, 3 * shape.layers * shape.hidden)
        assert near or shape.ffn == shape.hidden


@given(workloads(LEARNING))
def test_gradients_that_wait_and_an_optimizer_that_is_not_fused_never_take_less(work: Workload) -> None:
    assert_no_more(replace(work, accumulates=False), replace(work, accumulates=True))
    assert_no_more(replace(work, optimizer=Optimizer.ADAMW), replace(work, optimizer=Optimizer.ADAMW_FOREACH))


def steady(work: Workload) -> int:
    """What stays of weights, gradients and states while a step goes on, with the weights that ZeRO-2 keeps gathered."""
    whole = work.compute_bytes * work.shape.parameters if work.sharding is Sharding.ZERO2 and work.gathers else 0
    return (
        model_states.weights(work)
        + model_states.gradients(work, work.shape.parameters)
        + model_states.optimizer(work)
        + whole
    )


STAGES = (Sharding.NONE, Sharding.ZERO1, Sharding.ZERO2, Sharding.ZERO3)


@given(workloads((Method.FULL,)))
def test_each_stage_of_zero_keeps_no_more_than_the_one_before(work: Workload) -> None:
    assume(work.gpus > 1)
    sizes = [steady(replace(work, sharding=stage)) for stage in STAGES]
    assert all(more + 8 * work.gpus >= less for more, less in pairwise(sizes)), sizes


@given(workloads((Method.FULL,)))
def test_each_stage_of_zero_is_expected_to_take_no_more_than_the_one_before(work: Workload) -> None:
    assume(work.gpus > 1)
    sizes = [estimate(replace(work, sharding=stage)).expected for stage in STAGES]
    # DeepSpeed's buffers and its casts at the step, which PyTorch's own stages do not have.
    of_its_own = [replace(work, sharding=stage) for stage in STAGES]
    buffers = max(deepspeed.buckets(each) + deepspeed.stepped(each) for each in of_its_own)
    assert all(more + buffers >= less for more, less in pairwise(sizes)), sizes


@given(workloads())
def test_narrower_numbers_never_take_more(work: Workload) -> None:
    # A softmax of 32 bits is cast for the narrower products: scores are then there twice. Adafactor casts a 16-bit matrix
    # to 32 bits, and the embedding may be most of a model.
    assume(not work.shape.kind.scores and work.optimizer is not Optimizer.ADAFACTOR)
    wide, narrow = (estimate(replace(work, precision=p)).expected for p in (Precision.FP32, Precision.BF16))
    assert narrow <= wide


@given(workloads((Method.INFERENCE,)))
def test_weights_of_8_and_4_bits_take_no_more(work: Workload) -> None:
    whole, eight = (replace(work, precision=precision) for precision in (Precision.BF16, Precision.FP8))
    four = replace(whole, four_bit=True)
    assert model_states.weights(four) <= model_states.weights(eight) <= model_states.weights(whole)
    assert estimate(eight).expected <= estimate(whole).expected


@given(workloads(LEARNING))
def test_an_optimizer_of_8_bits_takes_no_more(work: Workload) -> None:
    whole, narrow, paged = (
        replace(work, optimizer=optimizer)
        for optimizer in (Optimizer.ADAMW, Optimizer.ADAMW_8BIT, Optimizer.PAGED_ADAMW_8BIT)
    )
    assert estimate(paged).expected <= estimate(narrow).expected <= estimate(whole).expected


@given(workloads((Method.QLORA,)))
def test_frozen_weights_of_4_bits_take_less_than_those_of_16(work: Workload) -> None:
    whole = replace(work, method=Method.LORA, precision=Precision.BF16)
    assert model_states.weights(replace(work, precision=Precision.BF16)) <= model_states.weights(whole)


@given(workloads(odd=True), st.lists(st.sampled_from((1, 2, 3, 8, 64)), min_size=2, max_size=6))
def test_estimates_on_one_number_of_gpus_after_the_other_are_those_made_anew(work: Workload, counts: list[int]) -> None:
    many = Estimates(work)
    for count in counts:
        found, fresh = many.on(count), estimate(replace(work, gpus=count))
        assert found == fresh
        assert found.work == fresh.work
        assert (found.low, found.least, found.greatest) == (fresh.low, fresh.least, fresh.greatest)


@given(workloads(odd=True))
def test_on_one_gpu_a_model_that_is_spread_takes_what_it_takes_as_a_whole(work: Workload) -> None:
    """So that one workload serves all gangs of a job that names no number of GPUs."""
    whole = replace(work, gpus=1, sharding=Sharding.NONE, tensor_parallel=False)
    spread = replace(whole, sharding=Sharding.FSDP)
    assert estimate(spread) == estimate(replace(whole, tensor_parallel=True)) == estimate(whole)
