"""The order of the pools is kept with the fleet, as long as their facts stay as they are."""

from __future__ import annotations

from dataclasses import replace

from builders import H100, L4, MI300X, demand, fleet, node

from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pricing import PoolPrice
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.pool_order import order_pools
from gpujob.placement.scoring.score import Aim
from gpujob.values.vocabulary import Objective, Verdict

JOB = demand(gpusPerNode=1, placement={"objective": "Cost"})


def priced(found: Fleet, *dollars: int) -> Fleet:
    """The fleet with other prices of its pools, in their order, and all that was kept with it before."""
    prices = (PoolPrice(each * 10**6, "spec") for each in dollars)
    return replace(
        found, pools=tuple(replace(pool, price=each) for pool, each in zip(found.pools, prices, strict=True))
    )


def chosen(asked: Demand, found: Fleet) -> str:
    """The pool that is chosen, by the quick way and by the full decision."""
    pick = choose(asked, found, load_catalog())
    assert pick.choice == decide(asked, found, load_catalog()).choice
    assert pick.choice is not None
    return pick.choice.candidate.pool.name


def test_it_is_worked_out_once_and_again_when_facts_change() -> None:
    two = priced(fleet(node("a", H100), node("b", MI300X)), 1, 2)
    assert chosen(JOB, two) == two.pools[0].name
    kept = order_pools(JOB, Aim(Objective.COST), two, load_catalog())
    assert order_pools(JOB, Aim(Objective.COST), replace(two), load_catalog()) is kept
    dearer = priced(two, 3, 2)
    assert dearer.answers is two.answers
    assert chosen(JOB, dearer) == two.pools[1].name
    assert chosen(JOB, two) == two.pools[0].name


def test_it_stays_while_pods_come_and_go() -> None:
    two = priced(fleet(node("a", H100), node("b", MI300X)), 1, 2)
    kept = order_pools(JOB, Aim(Objective.COST), two, load_catalog())
    choice = choose(JOB, two, load_catalog()).choice
    assert choice is not None
    fuller = two.reserve(choice.candidate.pool, 1, choice.needs, choice.nodes)
    assert fuller.pools != two.pools
    assert order_pools(JOB, Aim(Objective.COST), fuller, load_catalog()) is kept


def test_a_changed_demand_is_what_replace_makes() -> None:
    assert JOB.but(millicores=5, as_root=True) == replace(JOB, millicores=5, as_root=True) != JOB


VALUE = demand(gpusPerNode=1, placement={"objective": "Value"})


def test_a_slow_pool_of_the_lowest_price_does_not_end_the_search_for_value() -> None:
    assert chosen(VALUE, fleet(node("slow", L4, price="1"), node("fast", H100, price="2"))) == "h100-sxm-ondemand"


def test_the_search_for_a_better_busy_pool_goes_on_after_one_that_is_no_better() -> None:
    busy = node("fast", H100, price="2", allocatable={"nvidia.com/gpu": "0"})
    found, waits = fleet(node("slow", L4, price="1"), busy), replace(VALUE, wait_seconds=600)
    assert choose(waits, found, load_catalog()).verdict is Verdict.WAITING
    assert decide(waits, found, load_catalog()).verdict is Verdict.WAITING
    assert chosen(VALUE, found) == "l4-ondemand"
