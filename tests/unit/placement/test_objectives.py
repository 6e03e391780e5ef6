"""Value, Cost and Speed: what each makes of the same pools."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, L4, MI210, MI300X, MI355X, Object, decision, gpupool, node

from gpujob.placement import documents, explain
from gpujob.placement.decision import Decision
from gpujob.vocabulary import Outcome
from tests.e2e.cluster.nodes import Nvidia

B200 = Nvidia("NVIDIA-B200", 183359, "blackwell", (10, 0), mig=True)
UNPRICED = {"node.kubernetes.io/instance-type": None}
# A part of the catalog without figures of its speed, at a dollar.
W7800 = node("w", labels={"amd.com/gpu.device-id": "745e"}, devices={"amd.com/gpu": "8"}, price="1")


def decided(*objects: Object, objective: str | None = "Value", **spec: Any) -> Decision:
    return decision(*objects, placement={"objective": objective} if objective else {}, **spec)


def order(*objects: Object, objective: str | None = "Value", **spec: Any) -> list[str]:
    found = explain.best_per_pool(decided(*objects, objective=objective, **spec))
    return [c.pool.accelerator_id for c in found if c.outcome in (Outcome.CHOSEN, Outcome.FITS)]


NODES = [
    node("b", B200, price="5"),
    node("h", H100, price="3"),
    node("l", L4, price="0.7"),
    node("m", MI300X, price="2"),
]


@pytest.mark.parametrize(
    ("objective", "accelerators"),
    [
        # Dollars for what a B200 does in an hour: 5.00, MI300X 5.06, H100 5.92, L4 11.1.
        # Nothing tells how fast a job without model and profile runs.
        (None, ["L4", "MI300X", "H100-SXM", "B200"]),
        ("Value", ["B200", "MI300X", "H100-SXM", "L4"]),
        ("Cost", ["L4", "MI300X", "H100-SXM", "B200"]),
        ("Speed", ["B200", "H100-SXM", "MI300X", "L4"]),
    ],
)
def test_the_same_pools_under_each_objective(objective: str | None, accelerators: list[str]) -> None:
    assert order(*NODES, objective=objective) == accelerators


@pytest.mark.parametrize("objective", ["Value", "Cost"])
def test_an_unknown_price_ranks_last_however_fast(objective: str) -> None:
    # No list knows what an MI210 or an MI100 costs.
    unpriced = node("u", MI210)
    assert order(unpriced, node("l", L4, price="90"), objective=objective) == ["L4", "MI210"]
    found = decided(unpriced, objective=objective)
    assert found.candidates[0].price_per_hour is None
    assert found.candidates[0].price_of_work is None


def test_a_price_of_nothing_is_a_price() -> None:
    assert order(node("o", L4, price="0"), node("h", H100, price="2")) == ["L4", "H100-SXM"]
    assert order(node("o", L4, price="0"), node("h", H100, price="0")) == ["H100-SXM", "L4"]


def test_speed_takes_an_unknown_price_and_of_equal_speeds_the_cheaper() -> None:
    assert order(node("u", MI210), node("l", L4, price="1"), objective="Speed") == ["L4", "MI210"]
    one, other = node("z", H100, price="2", labels=UNPRICED), node("a", H100, price="3", labels=UNPRICED)
    found = decided(one, other, objective="Speed")
    assert found.candidates[0].price_per_hour == 2_000_000


def test_where_a_speed_is_unknown_cost_decides_and_the_plan_says_so() -> None:
    assert order(*NODES, W7800) == ["L4", "W7800", "MI300X", "H100-SXM", "B200"]
    told = documents.plan(decided(*NODES, W7800))
    assert told["objective"] == "Cost"
    assert told["message"] == (
        "l4-ondemand is cheapest of 5 pools with room at $0.70 an hour, since no speed of W7800 is known"
    )
    assert documents.plan(decided(*NODES, W7800, objective="Cost"))["message"] == (
        "l4-ondemand is cheapest of 5 pools with room at $0.70 an hour"
    )
    assert order(*NODES, W7800, objective="Speed")[-1] == "W7800"


def test_an_unknown_speed_of_a_pool_without_room_changes_nothing() -> None:
    full = {**W7800, "spec": {"unschedulable": True}}
    assert order(*NODES, full) == ["B200", "MI300X", "H100-SXM", "L4"]


def test_the_sentence_says_what_the_winner_has_over_the_cheapest() -> None:
    assert explain.summary(decided(*NODES)) == (
        "b200-ondemand is best value of 4 pools with room at $5.00 an hour, about 15.8 times the speed of l4-ondemand"
    )
    two = [node("b", B200, price="5"), node("h", H100, price="3")]
    assert explain.summary(decided(*two)) == (
        "b200-ondemand is best value of 2 pools with room at $5.00 an hour, 1.97 times the speed of h100-sxm-ondemand"
    )
    assert (
        explain.summary(decided(*two, objective="Speed"))
        == "b200-ondemand is fastest of 2 pools with room at $5.00 an hour"
    )
    assert explain.summary(decided(*two, objective="Cost")) == (
        "h100-sxm-ondemand is cheapest of 2 pools with room at $3.00 an hour"
    )


def test_value_counts_the_whole_gang_and_of_equal_values_the_smaller_is_first() -> None:
    nodes = [node("h", H100, price="2"), node("m", MI300X, price="2")]
    shapes = [{"accelerator": "MI300X"}, {"accelerator": "H100-SXM", "gpusPerNode": 4}, {"accelerator": "H100-SXM"}]
    found = decided(*nodes, shapes=shapes)
    assert [(c.pool.accelerator_id, c.gang.shape) for c in found.candidates if c.outcome is not Outcome.REJECTED] == [
        ("H100-SXM", "1x1"), ("H100-SXM", "1x4"), ("MI300X", "1x1")
    ]  # fmt: skip
    fastest = decided(*nodes, shapes=shapes, objective="Speed").candidates[0]
    assert (fastest.gang.shape, fastest.speed_of_job) == ("1x4", 4 * 507_113)


def test_equals_end_in_the_name() -> None:
    pools = [gpupool(name, {"rack": name}, price={"perGPUHour": 2}) for name in ("b", "a", "c")]
    nodes = [node(name, MI355X, labels={"rack": name}) for name in ("c", "a", "b")]
    for objective in ("Value", "Cost", "Speed"):
        found = decided(*nodes, *pools, objective=objective)
        assert [c.pool.name for c in explain.best_per_pool(found)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "spec", [{"model": {"parameters": "1B", "method": "LoRA"}, "gpusPerNode": 1}, {"profile": "p"}]
)
def test_a_job_of_whose_work_something_is_known_has_value_as_its_objective(spec: Object) -> None:
    assert documents.plan(decided(*NODES, objective=None, **spec))["objective"] == "Value"


def test_a_job_that_probes_has_value_as_its_objective() -> None:
    found = decision(*NODES, placement={"probe": {"steps": 5}})
    assert documents.plan(found)["objective"] == "Value"


def test_a_job_of_whose_work_nothing_is_known_takes_the_cheapest_and_says_what_value_would_take() -> None:
    assert explain.summary(decided(*NODES, objective=None)) == (
        "l4-ondemand is cheapest of 4 pools with room at $0.70 an hour; objective Value would take b200-ondemand at $5.00"
    )
    one = [node("h", H100, price="3"), node("l", L4, price="2.9")]
    assert explain.summary(decided(*one, objective=None)) == (
        "l4-ondemand is cheapest of 2 pools with room at $2.90 an hour; objective Value would take h100-sxm-ondemand at $3.00"
    )
    same = [node("h", H100, price="1"), node("l", L4, price="2")]
    assert explain.summary(decided(*same, objective=None)) == (
        "h100-sxm-ondemand is best value and cheapest of 2 pools with room at $1.00 an hour"
    )
    assert explain.summary(decided(*NODES, W7800, objective=None)) == (
        "l4-ondemand is cheapest of 5 pools with room at $0.70 an hour"
    )
    assert explain.summary(decided(*NODES, objective="Cost")) == (
        "l4-ondemand is cheapest of 4 pools with room at $0.70 an hour"
    )
