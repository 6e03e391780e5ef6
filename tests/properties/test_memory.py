"""Less work, more sharding and narrower numbers never make the estimate of memory larger, whatever the job is."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from gpujob.catalog.load import load_catalog
from gpujob.memory import deepspeed, serving, states
from gpujob.memory.estimate import estimate
from gpujob.memory.shapes import usual_shape
from gpujob.memory.workload import ATTENTION_TARGETS, LINEAR_TARGETS, Workload
from gpujob.vocabulary import Checkpointing, Method, Optimizer, Precision, Sharding

ADAPTING = (Method.LORA, Method.QLORA)
LEARNING = (Method.FULL, *ADAPTING)

shapes = st.one_of(
    st.sampled_from(sorted(load_catalog().models.values(), key=lambda shape: shape.name)),
    st.integers(min_value=10**7, max_value=10**12).map(usual_shape),
)


@st.composite
def workloads(draw: st.DrawFn, methods: tuple[Method, ...] = tuple(Method)) -> Workload:
    """Any work with any model, up to 128k tokens a sequence."""
    return Workload(
        shape=draw(shapes),
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


@given(workloads())
def test_components_add_up_and_the_ends_are_in_order(work: Workload) -> None:
    found = estimate(work)
    assert found.components.total == found.expected
    assert 0 <= found.low <= found.expected < found.high
    parts = zip(found.components.named(), found.most.named(), strict=True)
    assert all(0 <= amount <= most for (_, amount), (_, most) in parts)


@given(workloads(), st.integers(min_value=1, max_value=64))
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
    alone = serving.kv_cache(replace(work, gpus=1))
    together = serving.kv_cache(replace(work, tensor_parallel=True))
    heads = work.shape.kv_heads
    assert together * heads == alone * -(-heads // work.gpus)


@given(workloads(LEARNING), st.sampled_from((Checkpointing.LAYERS, Checkpointing.SELECTIVE)))
def test_checkpointing_several_layers_never_takes_more(work: Workload, checkpointing: Checkpointing) -> None:
    assume(work.shape.layers > 1)
    assert_no_more(replace(work, checkpointing=checkpointing), replace(work, checkpointing=Checkpointing.NONE))


@given(workloads(LEARNING))
def test_gradients_that_wait_and_an_optimizer_that_is_not_fused_never_take_less(work: Workload) -> None:
    assert_no_more(replace(work, accumulates=False), replace(work, accumulates=True))
    assert_no_more(replace(work, optimizer=Optimizer.ADAMW), replace(work, optimizer=Optimizer.ADAMW_FOREACH))


def steady(work: Workload) -> int:
    """What stays of weights, gradients and states while a step goes on, with the weights that ZeRO-2 keeps gathered."""
    whole = work.compute_bytes * work.shape.parameters if work.sharding is Sharding.ZERO2 and work.gathers else 0
    return states.weights(work) + states.gradients(work, work.shape.parameters) + states.optimizer(work) + whole


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
    # A softmax of 32 bits is cast for the narrower products: scores are then there twice.
    assume(not work.shape.kind.scores)
    wide, narrow = (estimate(replace(work, precision=p)).expected for p in (Precision.FP32, Precision.BF16))
    assert narrow <= wide


@given(workloads((Method.INFERENCE,)))
def test_weights_of_8_and_4_bits_take_no_more(work: Workload) -> None:
    whole, eight = (replace(work, precision=precision) for precision in (Precision.BF16, Precision.FP8))
    four = replace(whole, four_bit=True)
    assert states.weights(four) <= states.weights(eight) <= states.weights(whole)
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
    assert states.weights(replace(work, precision=Precision.BF16)) <= states.weights(whole)
