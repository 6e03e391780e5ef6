"""Of fixes that change the same field and are equally near the one at the lowest price is shown, and one that surely runs before one
with which the model may not; of a price limit the lowest one, with the warning.
"""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, ANY_IMAGES, H100, L4, MI210, MI300X, T4, Nvidia, Object, decision, fleet, gpupool, node, pod

from gpujob.placement.engine.choose import choose
from gpujob.placement.scoring.candidate import Fix
from gpujob.placement.suggestions.search import with_fix

T, L, H = node("t", T4, price="0.98"), node("l", L4, price="2"), node("h", H100, price="5")
M, OLD = node("m", MI300X, price="1"), node("i", MI210, price="1.5")
LIMIT = "spec.placement.maxPricePerHour"
ALLOW = "spec.placement.pools.allow"


def fixed(*objects: Object, **spec: Any) -> Fix:
    """The nearest fix of a job that no pool can run, by the images of the builders; the job is placed with it."""
    known = fleet(*objects)
    fix = with_fix(decision(*objects, catalog=ANY_IMAGES, **spec), known, ANY_IMAGES).fix
    assert fix is not None
    assert choose(fix.demand, known, ANY_IMAGES).choice is not None
    return fix


@pytest.mark.parametrize(
    ("objects", "pools", "more", "added"),
    [
        ((T, L, H), ["t4-ondemand"], {"requires": ["FP8OCP"]}, "l4-ondemand"),
        # The order of the nodes and the letters of the names change nothing.
        ((H, L, T), ["t4-ondemand"], {"requires": ["BF16"]}, "l4-ondemand"),
        ((T, node("a", A100, price="9"), H), ["t4-ondemand"], {"gpuMemory": "40G"}, "h100-sxm-ondemand"),
        # A dear device of the same vendor comes before a cheap one of the other.
        ((T, M, H), ["t4-ondemand"], {"gpuMemory": "40G"}, "h100-sxm-ondemand"),
        ((OLD, M, L), ["mi210-ondemand"], {"gpuMemory": "150G"}, "mi300x-ondemand"),
        # One with room before one without.
        (
            (T, L, H, pod("p", "l", {"nvidia.com/gpu": 8})), ["t4-ondemand"], {"requires": ["FP8OCP"]},
            "h100-sxm-ondemand",
        ),
    ],
)  # fmt: skip
def test_the_cheapest_of_equally_near_pools_with_room(
    objects: tuple[Object, ...], pools: list[str], more: dict[str, Any], added: str
) -> None:
    fix = fixed(*objects, placement={"pools": {"allow": pools}}, **more)
    assert [(change.field, change.after) for change in fix.changes] == [(ALLOW, [*pools, added])]
    assert fix.pool == added


@pytest.mark.parametrize("word", ["nvidia", "ampere"])
def test_the_cheapest_device_that_a_word_for_several_means(word: str) -> None:
    a10 = node("b", L4, price="1") if word == "nvidia" else node("b", A100, price="1")
    fix = fixed(node("a", H100, price="3"), a10, M, shapes=[{"accelerator": word}])
    assert fix.pool == ("l4-ondemand" if word == "nvidia" else "a100-80gb-ondemand")


@pytest.mark.parametrize(
    ("objects", "spec", "after"),
    [
        (
            [node("l", L4, 8, price="1")],
            {"model": {"name": "qwen2.5-32b", "method": "Inference"}, "gpusPerNode": 2},
            [("spec.gpusPerNode", 4)],
        ),
        (
            [node("l", L4, 4, price="1")],
            {"model": {"name": "llama-3.1-8b", "method": "LoRA"}, "gpusPerNode": 1},
            [("spec.model.gradientCheckpointing", "Layers")],
        ),
    ],
)
def test_a_fix_with_which_the_model_surely_runs_comes_first(
    objects: list[Object], spec: dict[str, Any], after: list[tuple[str, object]]
) -> None:
    fix = fixed(*objects, **spec)
    assert [(change.field, change.after) for change in fix.changes] == after
    placed = choose(fix.demand, fleet(*objects), ANY_IMAGES).choice
    assert placed is not None
    assert placed.candidate.risk == 0


@pytest.mark.parametrize(("gpus", "limit", "risk"), [
    # L4 holds 20.75Gi of at most 24.93Gi on three GPUs, whose number does not divide the heads; A100 holds both.
    (3, "3.00", ", where the model may need more memory (MemTight), where engines may reject that number of GPUs (HeadsNotDivided)"),
    (4, "4.00", ""),
    (2, "6.00", ""),
])  # fmt: skip
def test_the_fix_of_a_price_limit_is_the_smallest_and_names_the_warning(gpus: int, limit: str, risk: str) -> None:
    nodes = [node("l", L4, gpus, price="1"), node("a", A100, price="6")]
    model = {"name": "qwen2.5-32b", "method": "Inference"}
    fix = fixed(*nodes, model=model, placement={"maxPricePerHour": "0.50"})
    assert [(change.field, change.after) for change in fix.changes] == [("spec.placement.maxPricePerHour", limit)]
    assert (
        fix.message == f"with spec.placement.maxPricePerHour {limit} instead of 0.50 it would fit pool {fix.pool}{risk}"
    )


@pytest.mark.parametrize("more", [[], [node("z", MI300X, 1, price="1")], [node("z", L4, 3, price="1")]])
@pytest.mark.parametrize(
    ("objects", "spec", "field", "largest"),
    [
        ([node("a", H100, 6, price="4")], {"gpusPerNode": 8}, "spec.gpusPerNode", 6),
        ([node(name, H100, 1, price="6") for name in "abc"], {"nodes": 5, "gpusPerNode": 1}, "spec.nodes", 3),
    ],
)  # fmt: skip
def test_a_number_is_the_largest_that_fits_whatever_else_its_pool_lacks(
    more: list[Object], objects: list[Object], spec: dict[str, Any], field: str, largest: int
) -> None:
    """The larger pool is above the price limit too, which the smaller gang ends; a small pool has one reason alone."""
    (only,) = fixed(*objects, *more, **spec, placement={"maxPricePerHour": "28"}).changes
    assert (only.field, only.after) == (field, largest)


@pytest.mark.parametrize("limit", ["6.99", "5"])
def test_a_limit_rises_no_further_than_to_the_gang_that_it_lets_the_job_take(limit: str) -> None:
    """Eight nodes hold the model, of which one is not ready: seven new ones cost less."""
    a30 = Nvidia("NVIDIA-A30", 24576, "ampere", (8, 0), mig=True)
    pool = gpupool("z", {"pool": "z"}, price={"perGPUHour": "1"}, provision={"maxNodes": 8})
    there = node("n", a30, 1, labels={"pool": "z"}, ready=False)
    model = {"name": "llama-3.1-70b", "method": "Inference", "sequenceLength": 16384}
    (only,) = fixed(there, pool, model=model, placement={"maxPricePerHour": limit}).changes
    assert (only.field, only.after) == (LIMIT, "7.00")
