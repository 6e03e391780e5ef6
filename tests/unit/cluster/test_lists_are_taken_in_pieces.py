"""The index takes a list of thousands of objects one by one, with turns of others between; these may look at the fleet meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.kubernetes.parse import read_node, read_pod
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.sources.incremental import FleetIndex
from tests.builders import ANY_IMAGES, H100, gpupool, node, pod

MANY = 30


def jobs() -> list[dict[str, Any]]:
    names = [f"j{number}" for number in range(MANY)]
    return [
        {"metadata": {"name": name, "namespace": "team", "uid": name, "generation": 1}, "spec": {}} for name in names
    ]


def cluster(cache: ObjectCache) -> None:
    """Nodes of an admin's pool, each with a pod, and jobs."""
    cache.replace("nodes", [node(f"n{number}", H100, labels={"of": "admin"}) for number in range(MANY)], "7")
    cache.replace("pods", [pod(f"p{n}", f"n{n}", {"nvidia.com/gpu": n % 8}) for n in range(MANY)], "7")
    cache.replace("gpupools", [gpupool("admin", {"of": "admin"})], "7")
    cache.replace("gpujobs", jobs(), "7")


def empty() -> ClusterIndex:
    cache = ObjectCache(mirrored("gpujob-runner-x"))
    for kind in cache.kinds:
        cache.replace(kind, [], "1")
    return ClusterIndex(cache, ANY_IMAGES)


def as_text(fleet: Fleet) -> list[tuple[str, list[tuple[str, int | None]]]]:
    return [(pool.name, [(each.name, each.free) for each in pool.nodes]) for pool in fleet.pools]


def taken_at_once() -> tuple[Fleet, set[str]]:
    index = empty()
    cluster(index.cache)
    return (touched := index.take(index.cache.take_changes())) and index.fleet(), touched


def test_each_object_is_a_piece() -> None:
    index = empty()
    cluster(index.cache)
    touched = set[str]()
    pieces = list(index.take_in_pieces(index.cache.take_changes(), touched))
    # The index of the fleet and that of the jobs take each node and each pod.
    assert len(pieces) == 2 * MANY + 2 * MANY + MANY
    assert touched == {f"j{number}" for number in range(MANY)}


@pytest.mark.parametrize("after", [1, MANY // 2, MANY + 5, 2 * MANY, 3 * MANY])
def test_who_looks_at_the_fleet_between_two_pieces_sees_all_and_takes_nothing_away(after: int) -> None:
    wanted, all_touched = taken_at_once()
    index = empty()
    cluster(index.cache)
    touched = set[str]()
    pieces = index.take_in_pieces(index.cache.take_changes(), touched)
    for _ in range(after):
        next(pieces)
    assert as_text(index.fleet()) == as_text(wanted)
    list(pieces)
    assert as_text(index.fleet()) == as_text(wanted)
    assert touched == all_touched


def test_what_changes_between_two_pieces_is_of_the_next_look() -> None:
    index = empty()
    cluster(index.cache)
    touched = set[str]()
    pieces = index.take_in_pieces(index.cache.take_changes(), touched)
    next(pieces)
    index.cache.apply("pods", "DELETED", pod("p7", "n7"))
    list(pieces)
    assert index.cache.changed.is_set()
    index.take(index.cache.take_changes())
    (pool,) = index.fleet().pools
    assert {each.name: each.free for each in pool.nodes}["n7"] == 8


@pytest.mark.parametrize("regions", ["ab", "aa"], ids=["two pools", "two pools and the one that joins them"])
@pytest.mark.parametrize("done", range(9))
def test_a_pod_that_comes_while_pools_are_built_counts_in_a_look_between_and_afterwards(
    done: int, regions: str
) -> None:
    index = FleetIndex(ANY_IMAGES)
    for name, machine, region in zip(("n0", "n1"), "ab", regions, strict=True):
        labels = {"topology.kubernetes.io/region": region, "node.kubernetes.io/instance-type": machine}
        parsed = read_node(node(name, H100, labels=labels))
        index.put_node(parsed, groups_of(parsed, ANY_IMAGES))
    pieces = index.in_pieces()
    for _ in range(done):
        next(pieces, None)
    for name in ("n0", "n1"):
        index.put_pod(("default", f"on-{name}"), read_pod(pod(f"on-{name}", name, {"nvidia.com/gpu": 3})))
    free = lambda: {(pool.name, each.free) for pool in index.fleet().pools for each in pool.nodes}  # noqa: E731
    between = free()
    assert {each for _, each in between} == {5}
    list(pieces)
    assert free() == between
    assert len({name for name, _ in between}) == (3 if regions == "aa" else 2)
