"""Gangs over nodes of which no two are alike cost what the nodes that suit them cost, in GPUPools and in discovered pools."""

from __future__ import annotations

import random
from typing import Any

import pytest
from builders import H100, Object, decision, demand, fleet, gpupool, node

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.choose import choose
from gpujob.values.vocabulary import CapacityType, Verdict

CATALOG = load_catalog()
MIX = {"rack": "mix"}
TYPES = (CapacityType.ON_DEMAND, CapacityType.SPOT, CapacityType.RESERVED)
OLD = "470.10.1"
"""No image of the catalog runs on it."""


def unlike(number: int, price: int, **more: Any) -> Object:
    """A node of 8 H100 with a price in dollars, a driver and a size; nodes of 4 or with a taint take no pod of 8."""
    driver, kind = more.get("driver", f"580.{70 + number}.01"), more.get("kind", TYPES[0])
    labels = {
        **MIX,
        "nvidia.com/cuda.driver-version.full": driver,
        "nvidia.com/cuda.driver.major": None,
        "nvidia.com/cuda.driver-version.major": None,
        "karpenter.sh/capacity-type": kind.replace("OnDemand", "on-demand").lower(),
    }
    return node(
        f"n{number:02}", H100, more.get("gpus", 8), labels=labels, price=str(price), taints=more.get("taints", [])
    )


def random_nodes(some: random.Random) -> list[Object]:
    return [
        unlike(
            number,
            some.randint(1, 30),
            driver=some.choice([OLD, *(f"580.{some.randint(66, 99)}.0{some.randint(1, 9)}" for _ in range(5))]),
            kind=some.choice(TYPES),
            gpus=some.choice([8, 8, 8, 4]),
            taints=some.choice([[], [], [], ["team=x:NoSchedule"]]),
        )
        for number in range(some.randint(6, 24))
    ]


def bounds(nodes: list[Object], count: int, accepted: list[str]) -> tuple[int, int] | None:
    """Micro-dollars of the cheapest nodes that each can run a pod by itself, and of as many at the highest price of them."""
    prices = []
    for each in nodes:
        alone = decision(each, catalog=CATALOG, gpusPerNode=8, placement={"capacityTypes": accepted})
        if alone.verdict is Verdict.PLACED:
            assert alone.choice is not None
            prices.append(alone.choice.candidate.price_per_hour or 0)
    prices.sort()
    if len(prices) < count:
        return None
    return sum(prices[:count]), count * prices[count - 1]


@pytest.mark.parametrize("admin", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_a_gang_costs_what_the_cheapest_nodes_that_suit_it_cost(seed: int, admin: bool) -> None:
    some = random.Random(seed)
    nodes, count = random_nodes(some), some.randint(2, 5)
    accepted = [kind.value for kind in some.sample(TYPES, some.randint(1, 3))]
    known = fleet(*nodes, *([gpupool("mix", MIX)] if admin else []), catalog=CATALOG)
    between = bounds(nodes, count, accepted)
    spec = {"nodes": count, "gpusPerNode": 8}
    free = choose(demand(**spec, placement={"capacityTypes": accepted}), known, CATALOG)
    if between is None:
        assert free.verdict is not Verdict.PLACED
        return
    assert free.choice is not None
    price = free.choice.candidate.price_per_hour or 0
    assert between[0] <= price <= between[1]
    limits = {f"{price / 1e6:.2f}": Verdict.PLACED, f"{price / 1e6 - 0.01:.2f}": Verdict.IMPOSSIBLE}
    for limit, verdict in limits.items():
        placement = {"capacityTypes": accepted, "maxPricePerHour": limit}
        assert choose(demand(**spec, placement=placement), known, CATALOG).verdict is verdict, limit


@pytest.mark.parametrize("admin", [False, True])
@pytest.mark.parametrize("count", [6, 18, 40])
def test_prices_and_drivers_that_both_rise_leave_no_gang_out(count: int, admin: bool) -> None:
    nodes = [unlike(number, 1 + number) for number in range(count)]
    spec = {"nodes": 3, "gpusPerNode": 8, "placement": {"maxPricePerHour": "72"}}
    found = decision(*nodes, *([gpupool("mix", MIX)] if admin else []), catalog=CATALOG, **spec)
    assert found.choice is not None
    assert found.choice.nodes == ("n00", "n01", "n02")
