"""Fixes of a number of GPUs divide a tensor parallel model's heads: engines reject the others."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, ANY_IMAGES, H100, L4, L40S, Object, demand, fleet, node
from test_fixes_within_quotas import quota

from gpujob.placement.engine.choose import choose
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.vocabulary import Reason, Verdict

GPUS = "requests.nvidia.com/gpu"
LLAMA = {"name": "llama-3.1-70b", "method": "Inference", "sequenceLength": 2048}
QWEN = {"name": "qwen2.5-32b", "method": "Inference", "sequenceLength": 2048}


def limits(**bounds: str) -> Object:
    """A LimitRange of the job's namespace for the GPUs of a pod."""
    limit = {"type": "Container", **{key: {"nvidia.com/gpu": count} for key, count in bounds.items()}}
    metadata = {"name": "gpus", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [limit]}}


def gpus(*objects: Object, **spec: Any) -> tuple[object, set[Reason]]:
    """The number of GPUs in the nearest fix of an impossible job, and the warnings about its placement with it."""
    known = fleet(*objects)
    decided = next(place_all([PendingJob("", "", demand(**spec), namespace="default")], known, ANY_IMAGES)).decision
    assert decided.verdict is Verdict.IMPOSSIBLE
    assert decided.fix is not None, decided.hopeless
    after = choose(decided.fix.demand, known, ANY_IMAGES)
    assert after.choice is not None
    (change,) = decided.fix.changes
    assert change.field == "spec.gpusPerNode"
    return change.after, {warning.reason for warning in after.choice.candidate.warnings}


@pytest.mark.parametrize(
    ("objects", "asked", "model", "left"),
    [
        # 64 heads and 8 KV heads: 1, 2, 4, 8, 16 …
        ([node("h", H100, price="2"), quota(**{GPUS: "3"})], 4, LLAMA, 2),
        ([node("a", A100, price="2"), quota(**{GPUS: "7"})], 8, LLAMA, 4),
        ([node("h", H100, 7, price="2")], 8, LLAMA, 4),
        ([node("h", H100, 3, price="2")], 8, LLAMA, 2),
        ([node("h", H100, 8, price="2"), limits(max="7")], 8, LLAMA, 4),
        ([node("h", H100, 8, price="2"), limits(min="3")], 2, LLAMA, 4),
        # 40 heads and 8 KV heads: 1, 2, 4, 8, 40.
        ([node("l", L40S, 6, price="2")], 8, QWEN, 4),
        ([node("l", L40S, 8, price="2"), quota(**{GPUS: "7"})], 8, QWEN, 4),
        ([node("l", L40S, 8, price="2"), limits(min="5")], 4, QWEN, 8),
    ],
)
def test_the_most_that_divides_the_heads(objects: list[Object], asked: int, model: dict[str, Any], left: int) -> None:
    count, warnings = gpus(*objects, gpusPerNode=asked, model=model)
    assert count == left
    assert warnings.isdisjoint({Reason.HEADS_NOT_DIVIDED, Reason.MEM_TIGHT})


@pytest.mark.parametrize(
    "spec",
    [
        {"gpuMemory": "20G"},
        # Training shards weights, not heads; the heads of a model of which only the size is said are not known.
        {"model": {"name": "llama-3.1-8b", "method": "LoRA", "sharding": "FSDP"}},
        {"model": {"parameters": "8B", "method": "Inference"}},
    ],
)
def test_other_jobs_get_the_most(spec: dict[str, Any]) -> None:
    assert gpus(node("h", H100, 7, price="2"), gpusPerNode=8, **spec)[0] == 7
    assert gpus(node("h", H100, price="2"), quota(**{GPUS: "3"}), gpusPerNode=4, **spec)[0] == 3


def test_more_gpus_for_a_model_divide_its_heads() -> None:
    count, warnings = gpus(node("l", L4, 8, price="2"), gpusPerNode=3, model=LLAMA | {"sharding": "TensorParallel"})
    assert count == 8
    assert Reason.HEADS_NOT_DIVIDED not in warnings


def test_a_narrower_format_goes_before_a_number_of_gpus_that_engines_reject() -> None:
    """A shorter sequence alone fits on six GPUs, which do not divide 64 heads; with FP8 four hold the model."""
    known = fleet(node("l", L4, 6, price="1"))
    (placing,) = place_all([PendingJob("", "", demand(model=LLAMA), namespace="default")], known, ANY_IMAGES)
    assert placing.decision.fix is not None
    (change,) = placing.decision.fix.changes
    assert (change.field, change.after) == ("spec.model.precision", "FP8")
    after = choose(placing.decision.fix.demand, known, ANY_IMAGES).choice
    assert after is not None
    assert not after.candidate.risk
