"""A pool on which a model may not run, by its memory or its heads, comes after every other one with room, whatever its price."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100_40, H100, H200, L4, L40S, MI300X, Object, demand, fleet, gpupool, node, pod

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.behind import behind
from gpujob.placement.report.summary import summary
from gpujob.placement.report.why_not import why_not
from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Outcome, Reason, Verdict

CATALOG = load_catalog()
DEEPSEEK = {"name": "deepseek-ai/DeepSeek-V3", "method": "Inference", "sequenceLength": 2048}
QWEN = {"name": "qwen2.5-32b", "method": "Inference", "sequenceLength": 2048}
EIGHT = {"name": "llama-3.1-8b", "method": "LoRA", "sequenceLength": 4096, "batchPerGPU": 1}
TIGHT = "the model needs 78.64Gi on each GPU, and 89.22Gi with what the allocator may reserve; H100-SXM has 79.09Gi"


def decided(*objects: Object, **spec: Any) -> Decision:
    """The decision, with the same choice as the search that ends at the first candidate."""
    wanted, found = demand(**spec), fleet(*objects, catalog=CATALOG)
    decision = decide(wanted, found, CATALOG)
    pick = choose(wanted, found, CATALOG)
    assert (pick.verdict, pick.choice) == (decision.verdict, decision.choice)
    return decision


CHEAP, DEAR = node("cheap", H100, price="3"), node("dear", H200, price="4")


@pytest.mark.parametrize(
    ("objects", "spec", "chosen"),
    [
        ([CHEAP, DEAR], {"model": DEEPSEEK}, "H200"),
        ([CHEAP, DEAR], {"model": DEEPSEEK, "gpusPerNode": 8}, "H200"),
        ([CHEAP, DEAR], {"model": DEEPSEEK, "placement": {"objective": "Cost"}}, "H200"),
        ([CHEAP, node("m", MI300X, price="30")], {"model": DEEPSEEK}, "MI300X"),
        # Three do not divide 40 heads.
        ([node("a", L4, 3, price="0.5"), node("b", L40S, 2, price="9")], {"model": QWEN}, "L40S"),
        ([node("a", L4, 3, price="0.5"), node("b", A100_40, 2, price="9")], {"model": QWEN, "placement": {"objective": "Speed"}},
         "A100-40GB"),
        # Where no other pool has room, it is taken.
        ([CHEAP], {"model": DEEPSEEK}, "H100-SXM"),
        ([CHEAP, node("dear", H200, price="4", cordoned=True)], {"model": DEEPSEEK}, "H100-SXM"),
        ([node("a", L4, 3, price="0.5")], {"model": QWEN}, "L4"),
        # A model that both hold goes to the cheaper one.
        ([CHEAP, DEAR], {"model": EIGHT}, "H100-SXM"),
    ],
)  # fmt: skip
def test_a_pool_that_holds_the_model_without_a_warning_comes_first(
    objects: list[Object], spec: dict[str, Any], chosen: str
) -> None:
    found = decided(*objects, **spec)
    assert found.verdict is Verdict.PLACED
    assert found.candidates[0].pool.accelerator_id == chosen


def test_the_pool_that_is_passed_over_is_named_with_its_warning() -> None:
    found = decided(CHEAP, DEAR, model=DEEPSEEK)
    assert summary(found) == (
        "h200-ondemand is the only pool with room and no warning about the model at $32.00 an hour; h100-sxm-ondemand has room too, "
        f"but {TIGHT}"
    )
    other = next(
        each for each in found.candidates if each.outcome is Outcome.FITS and each.pool.accelerator_id == "H100-SXM"
    )
    assert behind(other, found) == TIGHT
    told = why_not(found, "h100-sxm-ondemand", fleet(CHEAP, DEAR, catalog=CATALOG), CATALOG).change
    assert told == f"it fits too, and comes after pools that hold the model without such a warning: {TIGHT}"


def test_a_job_that_may_wait_does_not_wait_for_a_pool_on_which_it_may_not_run() -> None:
    busy = [CHEAP, pod("p", "cheap", {H100.resource: 8})]
    found = decided(*busy, DEAR, model=DEEPSEEK, placement={"waitSeconds": 60, "objective": "Cost"})
    assert (found.verdict, found.candidates[0].pool.accelerator_id) == (Verdict.PLACED, "H200")


@pytest.mark.parametrize(
    ("gpu", "count", "model", "asked", "advice"),
    [
        # Two L4 do not hold it; four would, on a node that has them.
        (L4, 3, QWEN, 3, "no number of them here does and holds the model"),
        (L4, 8, QWEN, 3, "gpusPerNode 4 does"),
        (L4, 8, QWEN, 6, "gpusPerNode 4 does"),
        (H200, 8, QWEN, 3, "gpusPerNode 2 does"),
        (H200, 8, DEEPSEEK, 7, "gpusPerNode 8 does"),
    ],
)
def test_the_advice_of_another_number_holds_the_model(
    gpu: Any, count: int, model: dict[str, Any], asked: int, advice: str
) -> None:
    found = decided(node("n", gpu, count), model=model, gpusPerNode=asked)
    (warning,) = (each for each in found.candidates[0].warnings if each.reason is Reason.HEADS_NOT_DIVIDED)
    assert warning.message.endswith(f"and tensor parallel engines reject that; {advice}")
    if advice.startswith("gpusPerNode"):
        said = decided(node("n", gpu, count), model=model, gpusPerNode=int(advice.split()[1]))
        assert said.verdict is Verdict.PLACED


NEW = {"provision": {"maxNodes": 1, "gpusPerNode": 8, "cpu": "96", "memory": "1800Gi"}, "accelerator": "H200"}


@pytest.mark.parametrize("price", ["0.30", "40"])
def test_new_nodes_that_hold_the_model_come_before_free_ones_that_may_not(price: str) -> None:
    new = gpupool("new", {"a": "b"}, price={"perGPUHour": price}, **NEW)
    found = decided(CHEAP, new, model=DEEPSEEK)
    assert (found.candidates[0].pool.name, found.candidates[0].provision) == ("new", True)
    # a model that both hold takes the free node
    assert decided(CHEAP, new, model=EIGHT).candidates[0].pool.name == "h100-sxm-ondemand"


@pytest.mark.parametrize("objective", ["Cost", "Value", "Speed"])
@pytest.mark.parametrize("price", ["0.30", "40"])
def test_a_patient_job_waits_for_the_pool_that_holds_the_model(price: str, objective: str) -> None:
    busy = [node("dear", H200, price=price), pod("other", "dear", {"nvidia.com/gpu": 8})]
    found = decided(CHEAP, *busy, model=DEEPSEEK, placement={"waitSeconds": 60, "objective": objective})
    assert (found.verdict, found.candidates[0].pool.name) == (Verdict.WAITING, "h200-ondemand")
    assert summary(found).startswith("waits up to 60 seconds from its creation for pool h200-ondemand, which is busy")


def test_a_patient_job_does_not_wait_for_a_pool_that_is_as_tight_and_dearer() -> None:
    tight = [node("dear", H100, price="40"), pod("other", "dear", {"nvidia.com/gpu": 8})]
    assert decided(CHEAP, *tight, model=DEEPSEEK, placement={"waitSeconds": 60}).verdict is Verdict.PLACED


@pytest.mark.parametrize("price", ["0.30", "40"])
def test_a_patient_job_waits_for_healthy_nodes(price: str) -> None:
    ill = node("ill", L4, 1, price="0.5")
    ill["status"]["conditions"].append({"type": "XIDErrors", "status": "True"})
    busy = [node("dear", H200, price=price), pod("other", "dear", {"nvidia.com/gpu": 8})]
    patient = {"waitSeconds": 60, "objective": "Cost"}
    found = decided(ill, *busy, placement=patient)
    assert (found.verdict, found.candidates[0].pool.name) == (Verdict.WAITING, "h200-ondemand")
    assert decided(ill, *busy).candidates[0].pool.name == "l4-ondemand"
