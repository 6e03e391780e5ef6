"""What can give a refused job a place: more of something; less of it cannot, except where a quota counts what a job asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import ANY_IMAGES, H100, MI300X, demand, fleet, node

from gpujob.fleet.kubernetes.objects import Resources, Taint
from gpujob.fleet.policy.resource_quota import Quotas
from gpujob.fleet.pools.ahead import Ahead, Taking
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.node import Growth, PoolNode
from gpujob.schedule.gains import gains, remounted
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Reason

ROOM = fleet(node("a", H100), node("b", MI300X), catalog=ANY_IMAGES)
POOL = ROOM.pools[0]


def gained(before: Fleet, now: Fleet, namespace: str) -> bool:
    found = gains(before, now, namespace)
    return found.everything or bool(found.free)


def with_node(**changes: object) -> Fleet:
    """The fleet after a change of one node, whose pool has the same facts."""
    changed: PoolNode = replace(POOL.nodes[0], **changes)  # type: ignore[arg-type]
    return replace(ROOM, pools=(POOL.with_nodes({0: changed}), *ROOM.pools[1:]))


HELD = POOL.nodes[0]


def test_the_same_fleet_gains_nothing() -> None:
    assert not gained(ROOM, ROOM, "team")
    assert not gained(ROOM, replace(ROOM), "team")


@pytest.mark.parametrize(
    ("field", "less"),
    [
        ("free", HELD.free - 1),
        ("beside", HELD.beside - 1),
        ("left", HELD.left.minus(Resources(1000, 2**30, 0, 1))),
        ("left", HELD.left.minus(Resources(0, 0, 0, 1))),
    ],
)
def test_less_is_no_gain_and_back_again_it_is(field: str, less: object) -> None:
    poorer = with_node(**{field: less})
    assert not gained(ROOM, poorer, "team")
    assert gained(poorer, ROOM, "team")


def test_one_gains_where_another_loses() -> None:
    before = with_node(left=HELD.left.minus(Resources(1000, 0, 0, 0)))
    assert gained(before, with_node(free=HELD.free - 1), "team")


@pytest.mark.parametrize(
    "changes",
    [
        {"healthy": HELD.healthy - 1}, {"share_base": HELD.share_base.minus(Resources(1000, 0, 0, 0))}, {"total": 4},
        {"taints": (Taint("team", "x", "NoSchedule"),)}, {"unready": Finding(Reason.NOT_READY, "is not Ready")},
        {"labels": {"pool": "other"}}, {"links": 1}, {"domain": "rack-1"}, {"handlers": frozenset({"nvidia"})}, {"unlabelled": "x"},
        {"coming": True}, {"name": "c"},
    ],
)  # fmt: skip
def test_what_else_changes_may_be_a_gain(changes: dict[str, object]) -> None:
    assert gained(ROOM, with_node(**changes), "team")


def test_pools_that_come_go_or_have_others_ahead_may_be_a_gain() -> None:
    assert gained(ROOM, replace(ROOM, pools=ROOM.pools[1:]), "team")
    assert gained(ROOM, fleet(node("a", H100), node("b", MI300X), catalog=ANY_IMAGES), "team")
    taking = Taking(POOL.resource, (("a", 1),), Resources())
    led = ROOM.led_by([Ahead("high", "team", 10, 1, 1, taking, waits=True)])
    assert gained(ROOM, led, "team")
    assert gained(led, ROOM, "team")


def test_where_a_quota_counts_the_job_less_may_be_a_gain() -> None:
    # Without requests a job asks for its share of what is left, which may be what a quota still allows.
    quotas: Quotas = {"team": ()}
    before, poorer = replace(ROOM, quotas=quotas), replace(with_node(free=HELD.free - 1), quotas=quotas)
    assert gained(before, poorer, "team")
    assert not gained(before, poorer, "other")
    assert gained(ROOM, replace(ROOM, quotas=quotas), "team")
    assert not gained(before, replace(before), "team")


def grown(growth: Growth | None) -> Fleet:
    """The fleet whose first pool an autoscaler can add nodes to; the other facts of the pool are the same."""
    pool = POOL.with_nodes({})
    pool.__dict__["growth"] = growth
    return replace(ROOM, pools=(pool, *ROOM.pools[1:]))


def test_what_an_autoscaler_can_add_may_be_a_gain_where_it_changes() -> None:
    template = replace(HELD, name="new")
    two, other = grown(Growth(template, 2)), grown(Growth(template, 3))
    assert gained(ROOM, two, "team")
    assert gained(two, ROOM, "team")
    assert gained(two, other, "team")
    assert not gained(two, grown(Growth(template, 2)), "team"), "another object, and equal"


def test_links_that_become_known_or_more_may_be_a_gain_and_fewer_are_none() -> None:
    unknown, one, two = with_node(links=None), with_node(links=1), with_node(links=2)
    assert gained(unknown, one, "team")
    assert gained(one, unknown, "team")
    assert gained(one, two, "team")
    assert not gained(two, one, "team")


def test_only_what_a_waiting_job_can_use_helps_it() -> None:
    one, two = (gains(with_node(free=0), with_node(free=free), "team") for free in (1, 2))
    assert not one.everything
    assert not one.help_waiting(demand(gpusPerNode=2))
    assert one.help_waiting(demand(gpusPerNode=1))
    assert two.help_waiting(demand(gpusPerNode=2))
    assert not two.help_waiting(demand(gpusPerNode=2, nodes=2))


def test_a_job_that_sizes_itself_or_waits_for_a_better_pool_is_helped_by_any_gain() -> None:
    one = gains(with_node(free=0), with_node(free=1), "team")
    assert one.help_waiting(demand(model={"parameters": "70B", "method": "Full"}))
    assert one.help_waiting(demand(gpusPerNode=8, placement={"waitSeconds": 60}))
    assert not gains(ROOM, ROOM, "team").help_waiting(demand(gpusPerNode=8, placement={"waitSeconds": 60}))


@pytest.mark.parametrize("claims", ["claims", "new_claims"])
def test_volumes_that_were_bound_meanwhile_matter_to_a_demand_with_claims_alone(claims: str) -> None:
    later = replace(ROOM, volumes=replace(ROOM.volumes, taken=frozenset({"pv"})))
    wish = demand()
    assert not remounted(wish, ROOM, later)
    assert remounted(replace(wish, **{claims: ("c",)}), ROOM, later)
    assert not remounted(replace(wish, **{claims: ("c",)}), ROOM, ROOM)
