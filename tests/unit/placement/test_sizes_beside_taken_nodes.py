"""A node that is taken takes no size of a model from the free ones of its pool."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, L4, MI300X, Object, demand, fleet, node, pod

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
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
