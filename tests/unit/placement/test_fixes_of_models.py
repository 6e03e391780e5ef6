"""Fixes that keep a model and make what is done with it smaller: as little smaller as the devices of the pool need."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, ANY_IMAGES, H100, L4, MI250X, MI300X, Amd, Nvidia, Object, demand, fleet, node

from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.scoring.candidate import Candidate
from gpujob.placement.suggestions.search import with_fix
from gpujob.values.vocabulary import Reason, Verdict

SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def fixed(objects: list[Object], **spec: Any) -> dict[str, Any]:
    """What the nearest fix of an impossible job sets, by the field below spec.model; it is verified to help."""
    known = fleet(*objects)
    found = with_fix(decide(demand(**spec), known, ANY_IMAGES), known, ANY_IMAGES)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert found.fix is not None, found.hopeless
    assert choose(found.fix.demand, known, ANY_IMAGES).verdict is Verdict.PLACED
    return {change.field.removeprefix("spec.model."): change.after for change in found.fix.changes}


def chosen(objects: list[Object], **spec: Any) -> Candidate | None:
    """The candidate that such a job gets; None if none has room."""
    choice = choose(demand(**spec), fleet(*objects), ANY_IMAGES).choice
    return choice.candidate if choice else None


def is_sure(candidate: Candidate | None) -> bool:
    """Whether a job is placed without MemTight."""
    return candidate is not None and Reason.MEM_TIGHT not in {warning.reason for warning in candidate.warnings}


def is_the_most(objects: list[Object], field: str, most: int, spec: dict[str, Any]) -> None:
    """This value fits without MemTight, the next one does not."""
    sure = []
    for value in (most, most + 1):
        model = {**spec["model"]}
        if field == "lora.rank":
            model["lora"] = {**model["lora"], "rank": value}
        else:
            model[field] = value
        sure.append(is_sure(chosen(objects, **{**spec, "model": model})))
    assert sure == [True, False]


@pytest.mark.parametrize(("kind", "model"), [
    (L4, {"name": "qwen2.5-7b", "method": "LoRA", "lora": {"rank": 4096, "targets": SEVEN}}),
    (L4, {"name": "qwen2.5-7b", "method": "LoRA", "lora": {"rank": 2048}}),
    (L4, {"name": "llama-3.1-8b", "method": "QLoRA", "lora": {"rank": 4096}}),
    (A100, {"parameters": "13B", "method": "LoRA", "lora": {"rank": 4096, "targets": SEVEN}}),
])  # fmt: skip
def test_adapters_get_the_largest_rank_that_surely_fits(kind: Any, model: dict[str, Any]) -> None:
    spec = {"gpusPerNode": 1, "model": {**model, "gradientCheckpointing": "Layers"}}
    objects = [node("n", kind, 1, price="2")]
    found = fixed(objects, **spec)
    assert list(found) == ["lora.rank"]
    is_the_most(objects, "lora.rank", found["lora.rank"], spec)


@pytest.mark.parametrize(("kind", "count", "spec"), [
    (A100, 1, {"model": {"name": "llama-3.1-70b", "method": "QLoRA", "gradientCheckpointing": "Layers", "batchPerGPU": 64,
                         "sequenceLength": 1048576}}),
    (H100, 8, {"gpusPerNode": 8, "model": {"name": "llama-3.1-8b", "method": "Full", "sharding": "FSDP", "batchPerGPU": 4096,
                                           "sequenceLength": 1048576, "gradientCheckpointing": "Layers"}}),
    (L4, 1, {"gpusPerNode": 1, "model": {"name": "llama-3.1-8b", "method": "Inference", "batchPerGPU": 1024,
                                         "sequenceLength": 1048576, "precision": "FP8"}}),
])  # fmt: skip
def test_sizes_of_which_none_suffices_alone_fall_together(kind: Any, count: int, spec: dict[str, Any]) -> None:
    objects = [node("n", kind, count, price="2")]
    found = fixed(objects, **spec)
    assert set(found) == {"batchPerGPU", "sequenceLength"}
    assert found["batchPerGPU"] >= 1
    assert found["sequenceLength"] >= 512


def test_requests_and_their_tokens_fall_together() -> None:
    load = {"concurrency": 4000, "maxTokens": 1048576}
    model = {"name": "llama-3.1-8b", "method": "Inference", "inference": load}
    found = fixed([node("n", L4, 1, price="2")], gpusPerNode=1, model=model)
    assert set(found) == {"inference.concurrency", "inference.maxTokens"}


@pytest.mark.parametrize(("batch", "sequence"), [(64, 2048), (4096, 2048), (64, 4096), (512, 1024)])
def test_a_model_whose_gpus_are_counted_gets_the_most_that_its_own_nodes_surely_hold(batch: int, sequence: int) -> None:
    objects = [node("a", H100, 8, price="2")]
    model = {"name": "llama-3.1-70b", "method": "LoRA", "sharding": "FSDP", "gradientCheckpointing": "Layers",
             "batchPerGPU": batch, "sequenceLength": sequence}  # fmt: skip
    found = fixed(objects, model=model)
    assert list(found) == ["batchPerGPU"]
    is_the_most(objects, "batchPerGPU", found["batchPerGPU"], {"model": model})


def test_a_batch_on_a_node_of_eight() -> None:
    model = {"name": "llama-3.1-70b", "method": "LoRA", "sharding": "FSDP", "gradientCheckpointing": "Layers"}
    assert fixed([node("a", H100, 8, price="2")], model={**model, "batchPerGPU": 64}) == {"batchPerGPU": 8}


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_sequence_is_as_long_as_the_gang_of_afterwards_holds(count: int) -> None:
    objects = [node(f"n{number}", H100, 2, price="2") for number in range(count)]
    spec = {
        "model": {
            "name": "llama-3.1-70b",
            "method": "LoRA",
            "gradientCheckpointing": "Layers",
            "sequenceLength": 1048576,
        }
    }
    found = fixed(objects, **spec)
    assert list(found) == ["sequenceLength"]
    is_the_most(objects, "sequenceLength", found["sequenceLength"], spec)


SERVED = {"method": "Inference"}
SLICE = {"placement": {"devices": ["Partition"]}}


@pytest.mark.parametrize(("objects", "model", "spec", "precision"), [
    ([node("n", H100, 1)], {"name": "llama-3.1-70b"}, {}, "FP8"),
    ([node("n", H100, 1)], {"name": "llama-3.1-70b", "precision": "FP16"}, {}, "FP8"),
    ([node("n", H100, 1)], {"name": "llama-3.1-70b"}, {"gpusPerNode": 1}, "FP8"),
    ([node("n", H100, devices={"nvidia.com/mig-3g.40gb": "2"})], {"name": "qwen2.5-32b"}, SLICE, "FP8"),
    ([node("n", L4, 1)], {"parameters": "14B"}, {}, "FP8"),
    ([node("n", MI300X, 1)], {"parameters": "140B"}, {}, "FP8"),
    ([node("n", A100, 1)], {"parameters": "30B", "precision": "FP32"}, {}, "BF16"),
])  # fmt: skip
def test_a_served_model_gets_a_narrower_format_that_the_device_has(
    objects: list[Object], model: dict[str, Any], spec: dict[str, Any], precision: str
) -> None:
    assert fixed(objects, model={**SERVED, **model}, **spec) == {"precision": precision}


def test_no_format_is_named_that_the_device_lacks() -> None:
    known = fleet(node("n", A100, 1))
    asked = demand(model={"name": "llama-3.1-70b", **SERVED})
    found = with_fix(decide(asked, known, ANY_IMAGES), known, ANY_IMAGES)
    assert (found.verdict, found.fix) == (Verdict.IMPOSSIBLE, None)
    assert "precision" not in found.hopeless


def test_adapters_over_weights_that_do_not_fit_are_trained_over_weights_of_4_bits() -> None:
    model = {"parameters": "13B", "method": "LoRA", "gradientCheckpointing": "Layers", "sequenceLength": 512}
    assert fixed([node("a", L4, 1)], nodes=1, gpusPerNode=1, model=model) == {"method": "QLoRA"}


LONG = {"name": "llama-3.1-70b", "method": "QLoRA", "sequenceLength": 16384}


@pytest.mark.parametrize(("gpu", "counts", "prices", "model"), [
    (MI250X, (8, 3, 8), ("1", "1", "2"), {"name": "qwen2.5-32b", "method": "QLoRA", "sequenceLength": 16384}),
    (A100, (8, 1, 8), ("1", "1", "2"), LONG),
    (A100, (8, 2), ("1", "2"), LONG),
    (H100, (8, 8, 2), ("1", "1", "2"), {"name": "llama-3.1-70b", "method": "LoRA", "sequenceLength": 8192}),
])  # fmt: skip
def test_a_lighter_model_runs_on_joined_pools_that_were_too_small_for_the_heavy_one(
    gpu: Amd | Nvidia, counts: tuple[int, ...], prices: tuple[str, ...], model: dict[str, Any]
) -> None:
    """The heavy model needs whole nodes of 8 GPUs, which no joined pool has enough of; the light one needs a part of each node."""
    nodes = [node(f"n{i}", gpu, gpus, price=price) for i, (gpus, price) in enumerate(zip(counts, prices, strict=True))]
    assert fixed(nodes, nodes=len(nodes), model=model) == {"gradientCheckpointing": "Layers"}
