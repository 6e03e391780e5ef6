"""The same job gets the same choice whether it names its number of GPUs or leaves it to the model."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, A100_40, ANY_IMAGES, H100, H200, L4, MI210, MI300X, Object, decision, fleet, node

from gpujob.cli.output.cells import memory_line
from gpujob.placement.report.behind import behind
from gpujob.placement.report.why_not import why_not
from gpujob.placement.scoring.candidate import Decision, best_per_pool
from gpujob.values.vocabulary import Outcome, Reason, Verdict
from tests.e2e.cluster.nodes import Amd, Nvidia

LORA_72B = {
    "name": "qwen2.5-72b",
    "method": "LoRA",
    "batchPerGPU": 2,
    "sequenceLength": 512,
    "gradientCheckpointing": "Layers",
}
ADAPTED_8B = {"name": "llama-3.1-8b", "method": "LoRA"}
FULL_8B = {"name": "llama-3.1-8b", "precision": "Mixed"}
MIXTRAL_FP32 = {"name": "mixtral-8x7b", "method": "LoRA", "precision": "FP32", "batchPerGPU": 2, "sequenceLength": 512}
ASSUMED = "the model is taken as sharded over {} GPUs (FSDP, or tensor parallel), and these as no faster than one; set model.sharding"


def decided(*objects: Object, **spec: Any) -> Decision:
    return decision(*objects, catalog=ANY_IMAGES, **spec)


def warnings(found: Decision) -> dict[Reason, str]:
    assert found.choice is not None
    return {warning.reason: warning.message for warning in found.choice.candidate.warnings}


@pytest.mark.parametrize(
    ("model", "pools", "shape"),
    [
        (LORA_72B, [node("a", A100)], "1x3"),
        (FULL_8B, [node("h", H100)], "1x3"),
        (MIXTRAL_FP32, [node("h", H200)], "1x2"),
        (ADAPTED_8B, [node("a", L4, 1), node("b", L4, 1), node("c", L4, 1)], "3x1"),
        (LORA_72B, [node("m", MI210)], "1x3"),
        # Of two vendors, and of pools of which one holds the whole model on one GPU.
        (LORA_72B, [node("a", A100, price="1"), node("m", MI300X, price="9")], "1x3"),
        (LORA_72B, [node("a", A100, price="4"), node("m", MI300X, price="2")], "1x1"),
        (FULL_8B, [node("a", A100_40, price="1"), node("h", H100, price="3"), node("m", MI300X, price="20")], "1x3"),
    ],
)  # fmt: skip
def test_the_number_that_the_model_gives_can_be_written_down(
    model: dict[str, Any], pools: list[Object], shape: str
) -> None:
    computed = decided(*pools, model=model)
    assert computed.choice is not None
    gang = computed.choice.candidate.gang
    assert gang.shape == shape
    said = decided(*pools, model=model, nodes=gang.nodes, gpusPerNode=gang.gpus_per_node)
    assert said.choice is not None
    assert (said.choice.candidate.pool.name, said.choice.nodes) == (
        computed.choice.candidate.pool.name,
        computed.choice.nodes,
    )
    assert warnings(said) == warnings(computed)
    assert (said.choice.candidate.price_of_work, said.choice.candidate.gang.memory) == (
        computed.choice.candidate.price_of_work,
        gang.memory,
    )
    if gang.gpus > 1:
        assert warnings(said)[Reason.SHARDING_ASSUMED] == ASSUMED.format(gang.gpus)
    # As one of several shapes it is the same too.
    shaped = decided(*pools, model=model, shapes=[{"nodes": gang.nodes, "gpusPerNode": gang.gpus_per_node}])
    assert shaped.choice is not None
    assert (shaped.choice.candidate.pool.name, warnings(shaped)) == (
        computed.choice.candidate.pool.name,
        warnings(computed),
    )


@pytest.mark.parametrize(("gpu", "count"), [(H100, 2), (H100, 8), (A100, 4), (MI300X, 8)])
def test_gpus_that_each_hold_the_whole_model_are_data_parallel_and_count_all(gpu: Amd | Nvidia, count: int) -> None:
    found = decided(node("n", gpu), model=ADAPTED_8B, gpusPerNode=count)
    assert Reason.SHARDING_ASSUMED not in warnings(found)
    assert found.candidates[0].scales
    one = decided(node("n", gpu), model=ADAPTED_8B).candidates[0]
    assert found.candidates[0].speed_of_job == count * (one.speed_of_job or 0)


def test_each_pool_has_the_model_whole_or_sharded() -> None:
    """Eight GPUs that hold the model each are eight times as fast; those that must share it are taken for one."""
    pools = [node("a", A100, price="1"), node("m", MI300X, price="4")]
    found = decided(*pools, model=LORA_72B, gpusPerNode=8)
    whole, sharded = best_per_pool(found)
    assert (whole.pool.accelerator_id, whole.scales, whole.gang.sharded) == ("MI300X", True, False)
    assert (sharded.pool.accelerator_id, sharded.scales, sharded.gang.sharded) == ("A100-80GB", False, True)
    line = memory_line([whole, sharded])
    assert " expected on each GPU as 1x8 (" in line
    assert line.endswith(" as 1x8 sharded")


def test_a_model_that_is_said_to_be_whole_on_each_gpu_is_not_sharded() -> None:
    found = decided(node("h", H100), model={**FULL_8B, "sharding": "None"}, gpusPerNode=8)
    assert found.verdict is Verdict.IMPOSSIBLE


def test_alternatives_in_shapes_compete_by_the_price_of_the_work() -> None:
    """Unlike the sizes that a model gives, of which a pool runs the smallest: the job is as fast on both, the first costs less."""
    shapes = [{"gpusPerNode": 4, "accelerator": "A100"}, {"gpusPerNode": 3}]
    cheap = decided(node("a", A100, price="1"), node("m", MI300X, price="9"), model=LORA_72B, shapes=shapes)
    dear = decided(node("a", A100, price="9"), node("m", MI300X, price="1"), model=LORA_72B, shapes=shapes)
    assert cheap.choice is not None
    assert dear.choice is not None
    assert (cheap.candidates[0].pool.accelerator_id, cheap.candidates[0].gang.shape) == ("A100-80GB", "1x3")
    assert (dear.candidates[0].pool.accelerator_id, dear.candidates[0].gang.shape) == ("MI300X", "1x3")
    fitting = {(each.pool.accelerator_id, each.gang.shape) for each in cheap.candidates if each.outcome is Outcome.FITS}
    assert fitting == {("A100-80GB", "1x4"), ("MI300X", "1x3")}


AS_ONE = "GPUs count as one without model.sharding"


@pytest.mark.parametrize("spec", [{}, {"gpusPerNode": 8}, {"placement": {"objective": "Speed"}}])
def test_the_reason_why_gpus_count_as_one_is_said_beside_the_price_of_the_work(spec: dict[str, Any]) -> None:
    pools = [node("a", A100, price="2"), node("m", MI300X, price="2")]
    found = decided(*pools, model=LORA_72B, **spec)
    chosen, other = best_per_pool(found)
    assert (chosen.pool.accelerator_id, chosen.counts_as_one, other.counts_as_one) == ("MI300X", False, True)
    assert behind(other, found).endswith(f", its {other.gang.gpus} {AS_ONE}")
    known = fleet(*pools, catalog=ANY_IMAGES)
    change = why_not(found, other.pool.name, known, ANY_IMAGES).change
    assert change.startswith("it fits too, and would ")
    assert change.endswith(f"; its {other.gang.gpus} {AS_ONE}")


@pytest.mark.parametrize("spec", [{"model": {**LORA_72B, "sharding": "FSDP"}}, {"model": ADAPTED_8B, "gpusPerNode": 4}])
def test_gpus_that_count_all_need_no_word(spec: dict[str, Any]) -> None:
    found = decided(node("a", A100, price="9"), node("m", MI300X, price="2"), **spec)
    other = best_per_pool(found)[1]
    assert "for the same work" in behind(other, found)
    assert AS_ONE not in behind(other, found)


@pytest.mark.parametrize(
    ("name", "serving", "pools", "shape"),
    [
        # Five GPUs hold 405B too, but do not divide its 128 heads.
        ("llama-3.1-405b", {}, [node("h0", H100), node("h1", H100), node("m", MI300X)], "1x8"),
        # 64 heads: three of 80 GB would do.
        ("qwen2.5-72b", {"maxTokens": 32768, "concurrency": 4}, [node("a", A100)], "1x4"),
        # 28 heads, 4 of the cache: three or five are none of theirs.
        ("qwen2.5-7b", {"maxTokens": 8192, "concurrency": 64}, [node("l", L4)], "1x4"),
        # 40 heads, 8 of the cache.
        ("qwen2.5-32b", {"maxTokens": 4096, "concurrency": 4}, [node("l", L4)], "1x4"),
    ],
)
def test_tensor_parallel_said_is_tensor_parallel_assumed(
    name: str, serving: dict[str, int], pools: list[Object], shape: str
) -> None:
    """The heads divide the GPUs of both; all that the word changes is the warning that it is assumed."""
    model = {"name": name, "method": "Inference", **({"inference": serving} if serving else {})}
    assumed, said = (decided(*pools, model=each) for each in (model, {**model, "sharding": "TensorParallel"}))
    assert said.choice is not None
    assert said.choice.candidate.gang.shape == shape
    assert Reason.HEADS_NOT_DIVIDED not in warnings(said)
    found, expected = (
        [(each.pool.name, each.gang.shape, each.outcome, each.price_of_work) for each in best_per_pool(decision)]
        for decision in (said, assumed)
    )
    assert found == expected
    assert warnings(assumed).keys() - warnings(said).keys() == {Reason.SHARDING_ASSUMED}
