"""A node that is taken takes no size of a model from the free ones of its pool."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, L4, MI300X, Object, demand, fleet, node, pod

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.filters.limit_range import bounded
from gpujob.placement.report.summary import summary
from gpujob.values.vocabulary import Verdict

CATALOG = load_catalog()
SERVED = {"method": "Inference", "inference": {"concurrency": 128, "maxTokens": 8192}}
GPT = {"name": "openai/gpt-oss-120b", **SERVED}
LLAMA = {"name": "llama-3.1-70b", "precision": "FP16", **SERVED}
TAKEN = {
    "taken": lambda gpu, name, count: [node(name, gpu, count, price="1"), pod(f"on-{name}", name, {gpu.resource: count})],
    "cordoned": lambda gpu, name, count: [node(name, gpu, count, price="1", cordoned=True)],
    "not-ready": lambda gpu, name, count: [node(name, gpu, count, price="1", ready=False)],
    "faulty": lambda gpu, name, count: [node(name, gpu, count, price="1", allocatable={gpu.resource: "2"})],
}  # fmt: skip


def placed(model: dict[str, Any], *objects: Object) -> tuple[Verdict, tuple[str, ...], str]:
    """The verdict, the nodes and the shape, of which `choose` has the same verdict and nodes."""
    wish, known = demand(model=model), fleet(*objects)
    found, pick = decide(wish, known, CATALOG), choose(wish, known, CATALOG)
    assert (pick.verdict, pick.choice) == (found.verdict, found.choice)
    if found.choice is None:
        return found.verdict, (), ""
    return found.verdict, found.choice.nodes, found.choice.candidate.gang.shape


@pytest.mark.parametrize("state", TAKEN)
@pytest.mark.parametrize("others", [(8,), (7,), (8, 8), (16,), (8, 7, 7)])
@pytest.mark.parametrize(
    ("model", "gpu", "free"), [(GPT, L4, (6,)), (LLAMA, MI300X, (3,)), (GPT, L4, (6, 6)), (GPT, H100, (3,))]
)
def test_what_runs_on_the_free_nodes_alone_runs_beside_taken_ones(
    model: dict[str, Any], gpu: Any, free: tuple[int, ...], others: tuple[int, ...], state: str
) -> None:
    alone = [node(f"a{index}", gpu, count, price="1") for index, count in enumerate(free)]
    beside = [each for index, count in enumerate(others) for each in TAKEN[state](gpu, f"b{index}", count)]
    verdict, nodes, shape = placed(model, *alone)
    assert verdict is Verdict.PLACED
    found = placed(model, *alone, *beside)
    # Two devices that a faulty node offers may be used too.
    assert found[0] is Verdict.PLACED if state == "faulty" else found == (verdict, nodes, shape)


def test_a_larger_node_that_is_free_is_taken_without_the_warning() -> None:
    assert placed(GPT, node("a", L4, 6, price="1"), node("b", L4, 8, price="1")) == (Verdict.PLACED, ("b",), "1x8")


FALCON = {"name": "falcon-180b", "method": "LoRA", "sharding": "FSDP", "sequenceLength": 512, "batchPerGPU": 1,
          "gradientCheckpointing": "Layers"}  # fmt: skip


def part(gpu: Any, name: str, free: int, count: int = 8) -> list[Object]:
    """A node of which so many devices are free."""
    return [node(name, gpu, count, price="1"), pod(f"on-{name}", name, {gpu.resource: count - free})]


@pytest.mark.parametrize(("objects", "model", "nodes", "shape"), [
    (part(L4, "a", 6), GPT, ("a",), "1x6"),
    ([*part(L4, "a", 6), *part(L4, "b", 0, 6)], GPT, ("a",), "1x6"),
    ([node("a", L4, 8, allocatable={"nvidia.com/gpu": "6"}, price="1")], GPT, ("a",), "1x6"),
    (part(MI300X, "a", 3), LLAMA, ("a",), "1x3"),
    ([*part(H100, "a", 3), *part(H100, "b", 3)], FALCON, ("a", "b"), "2x3"),
    ([*part(H100, "a", 5), *part(H100, "b", 4, 7)], FALCON, ("a", "b"), "2x3"),
    ([*part(H100, "a", 4), *part(H100, "b", 4), *part(H100, "c", 0)], FALCON, ("a", "b"), "2x3"),
])  # fmt: skip
def test_what_is_free_of_larger_nodes_is_enough(
    objects: list[Object], model: dict[str, Any], nodes: tuple[str, ...], shape: str
) -> None:
    assert placed(model, *objects) == (Verdict.PLACED, nodes, shape)


def named(hard: str) -> Object:
    limits = {"hard": {"requests.nvidia.com/gpu": hard}, "used": {"requests.nvidia.com/gpu": "0"}}
    space = {"name": "q", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": space, "spec": limits, "status": limits}


def at_most(gpus: str) -> Object:
    limits = [{"type": "Container", "max": {"nvidia.com/gpu": gpus}}]
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "l", "namespace": "default"},
        "spec": {"limits": limits},
    }


@pytest.mark.parametrize(("objects", "spec", "shape"), [
    ([node("a", L4, 8, price="1")], {"model": GPT, "placement": {"maxPricePerHour": "6"}}, "1x6"),
    ([node("a", L4, 8, price="1"), *part(L4, "b", 0, 6)], {"model": GPT, "placement": {"maxPricePerHour": "6"}}, "1x6"),
    ([node("a", L4, 8, price="1"), named("6")], {"model": GPT}, "1x6"),
    ([node("a", L4, 8, price="1"), at_most("6")], {"model": GPT}, "1x6"),
    ([*(node(name, H100, 8, price="1") for name in "abc"), at_most("2")], {"model": FALCON}, "3x2"),
    ([*(node(name, H100, 8, price="1") for name in "abc"), at_most("3")], {"model": FALCON}, "2x3"),
])  # fmt: skip
def test_a_limit_that_one_size_keeps_leaves_that_size(objects: list[Object], spec: dict[str, Any], shape: str) -> None:
    known = fleet(*objects)
    asked = bounded(demand(**spec).but(namespace="default"), known, "default")
    found, pick = decide(asked, known, CATALOG), choose(asked, known, CATALOG)
    assert (pick.verdict, pick.choice) == (found.verdict, found.choice)
    assert found.choice is not None, summary(found)
    assert found.choice.candidate.gang.shape == shape


def test_a_size_without_room_is_waited_for_as_the_fewest_that_hold_the_model() -> None:
    objects = [*part(H100, "a", 2), *part(H100, "b", 2)]
    asked, known = demand(model=FALCON), fleet(*objects)
    found = decide(asked, known, CATALOG)
    assert found.verdict is choose(asked, known, CATALOG).verdict is Verdict.WAITING
    assert found.candidates[0].gang.shape == "1x6"
