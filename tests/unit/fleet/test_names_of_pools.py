"""No two pools have one name, whatever admins call theirs and whatever labels and annotations say."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from builders import H100, Object, decision, fleet, gpupool, node

from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.pools import naming
from gpujob.values.vocabulary import Verdict

MINE = {"mine": "yes"}


def nodes() -> list[Object]:
    """Three nodes of two prices: two discovered pools of one plain name, so both with a hash."""
    return [node("a", H100, price="2", labels=MINE), node("b", H100, price="2"), node("c", H100, price="3")]


def names(*objects: Object) -> list[str]:
    return [pool.name for pool in fleet(*objects).whole_pools]


FIRST, SECOND = "h100-sxm-ondemand-4d5181", "h100-sxm-ondemand-6072e6"


@pytest.mark.parametrize(
    "called",
    [
        (FIRST,),
        (FIRST, SECOND),
        # Also the longer hash that the discovered pool would take next.
        (FIRST, f"{FIRST}7", f"{FIRST}75"),
        # The plain name, its stems, and a name of no pool.
        ("h100-sxm-ondemand",),
        ("h100-sxm",),
        ("h100", "h100-sxm-ondemand"),
        ("other",),
    ],
)
def test_whatever_an_admin_calls_a_pool_each_name_is_given_once(called: tuple[str, ...]) -> None:
    assert names(*nodes()) == [FIRST, SECOND]
    pools = [gpupool(name, MINE if number == 0 else {"no": "node"}) for number, name in enumerate(called)]
    found = fleet(*nodes(), *pools)
    shown = [pool.name for pool in found.whole_pools]
    assert len(shown) == len(set(shown))
    held = {pool.name: [each.name for each in pool.nodes] for pool in found.whole_pools}
    assert held[called[0]] == ["a"]
    assert sorted(name for nodes in held.values() for name in nodes) == ["a", "b", "c"]
    placed = decision(*nodes(), *pools, gpusPerNode=8)
    assert placed.verdict is Verdict.PLACED


def test_an_admin_s_pool_of_a_discovered_name_answers_to_it_alone() -> None:
    found = fleet(*nodes(), gpupool(FIRST, MINE))
    assert [pool.name for pool in found.whole_pools if pool.is_called(FIRST)] == [FIRST]
    (mine,) = (pool for pool in found.pools if pool.name == FIRST)
    assert not mine.discovered


def test_two_identities_whose_short_hashes_are_equal_get_longer_ones() -> None:
    """Anybody who may annotate a node finds such prices in a second."""
    (group,) = groups_of(read_node(node("a", H100, price="1")), load_catalog())
    seen: dict[str, str] = {}
    for cents in range(10**6):
        price = f"{cents / 100:.2f}"
        identity = naming.identity_of(replace(group, node=replace(group.node, price=price)))
        short = hashlib.sha256(repr(tuple(str(part) for part in identity)).encode()).hexdigest()[:6]
        if short in seen:
            break
        seen[short] = price
    found = names(node("a", H100, price=price), node("b", H100, price=seen[short]), node("c", H100, price="0.001"))
    assert len(set(found)) == 3
    assert sorted(map(len, found)) == [24, 25, 25]
