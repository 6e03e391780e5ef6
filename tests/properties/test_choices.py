"""The quick choice is the choice of the full decision, whatever the fleet, the job and the catalog are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from builders import ANY_IMAGES, H100, L4, MI300X, Object, demand, gpupool, images, node
from hypothesis import example, given, settings
from hypothesis import strategies as st
from worlds import clusters, prices, specs

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.kubernetes.runtime_classes import lacks
from gpujob.fleet.policy.resource_quota import read_quota
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
from gpujob.fleet.storage.claim_volumes import Mount
from gpujob.placement.capacity.node_fit import find_room, may_have_room, relevant_size, room_now, uniform_size
from gpujob.placement.capacity.pod_resources import node_needs
from gpujob.placement.engine.choose import Pick, choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.engine.gang_sizing import estimated
from gpujob.placement.filters.pool_filters import POOL_RULES
from gpujob.placement.filters.selection import pool_class_of, rules_of
from gpujob.placement.request.demand import Attachment, Demand, ExcludedNode
from gpujob.placement.request.gang import Gang
from gpujob.placement.scoring import score
from gpujob.values.quantity import GI
from gpujob.values.vocabulary import Method
from tests.e2e.cluster.nodes import Nvidia

SIZED = images(
    {"name": "small", "backend": "CUDA", "architectures": ["7.5", "8.0", "9.0"], "size": "8Gi"},
    {"name": "large", "backend": "CUDA", "architectures": ["7.5", "9.0"], "size": "120Gi", "preference": 5,
     "minDriver": "580.1"},
    {"name": "rocm", "backend": "ROCm", "architectures": ["gfx942", "gfx90a"], "size": "20Gi", "python": "3.12"},
    {"name": "root", "backend": "ROCm", "architectures": ["gfx942"], "runsAsNonRoot": "False", "preference": 1,
     "features": ["FlashAttention"]},
)  # fmt: skip
"""Images that differ in what decides between them: size, driver, root, Python and features."""

catalogs = st.sampled_from([ANY_IMAGES, SIZED, load_catalog()])


@st.composite
def shapes(draw: st.DrawFn) -> list[dict[str, Any]]:
    kinds = st.fixed_dictionaries(
        {},
        optional={
            "nodes": st.integers(1, 3),
            "gpusPerNode": st.sampled_from([1, 2, 8]),
            "accelerator": st.sampled_from(["MI300X", "H100-SXM", "L4"]),
        },
    )
    return draw(st.lists(kinds, min_size=1, max_size=3))


attached = st.one_of(
    st.just({}),
    st.just({}),
    st.sets(st.sampled_from(["n0", "n1", "n2", "other-0", "cpu"]), min_size=1, max_size=2).map(
        lambda names: {
            "single": ("c",),
            "attached": (Attachment("c", tuple(Mount(name, "pod p") for name in sorted(names))),),
            "attachable": frozenset(names),
        }
    ),
)
"""What other pods mount of a job's claims."""


@st.composite
def wishes(draw: st.DrawFn) -> Demand:
    """Jobs of every kind, some with shapes, a wait, or pools that let them down."""
    spec = draw(specs())
    if draw(st.booleans()):
        spec = {key: value for key, value in spec.items() if key not in ("nodes", "gpusPerNode")}
        spec["shapes"] = draw(shapes())
    if draw(st.booleans()):
        spec["placement"] = {**spec.get("placement", {}), "waitSeconds": draw(st.sampled_from([0, 60]))}
    if draw(st.integers(0, 3)) == 0:
        method, length = draw(st.sampled_from(["Full", "LoRA", "Inference"])), draw(st.integers(1, 16)) * 1024
        size = draw(st.sampled_from(["1B", "8B", "70B"]))
        spec["model"] = {"parameters": size, "method": method, "sequenceLength": length}
        spec.pop("gpuMemory", None)
    override = draw(st.sampled_from([None, None, "9.4.2", "11.0.0", "x"]))
    away = draw(st.sampled_from([(), (("x", "2026-01-01T00:00:00Z"),)]))
    names = st.sampled_from(["x", "z", "h100-ondemand", "mi300x-ondemand", "mi210-ondemand"])
    resting = tuple((name, "2026-01-01T00:00:00Z", "no port") for name in sorted(draw(st.sets(names, max_size=2))))
    failed_on = st.sampled_from(["n0", "n1", "n2", "other-0", "other-1"])
    excluded = tuple(
        ExcludedNode(name, "2026-01-01T00:00:00Z", 1, "NodeLost")
        for name in sorted(draw(st.sets(failed_on, max_size=2)))
    )
    stays_on = draw(st.sampled_from(["", "", "", "x", "h100-ondemand", "mi300x-ondemand"]))
    return replace(
        demand(**spec),
        stays_on=stays_on,
        pools_away=away,
        pools_resting=resting,
        gfx_override=override,
        excluded_nodes=excluded,
        **draw(attached),
    )


@st.composite
def growing_pools(draw: st.DrawFn) -> Object:
    """A GPUPool whose nodes an autoscaler adds."""
    provision = {"maxNodes": draw(st.integers(1, 4)), "gpusPerNode": draw(st.sampled_from([1, 8]))}
    return gpupool(
        draw(st.sampled_from(["x", "z"])), {"pool": draw(st.sampled_from(["a", "b", "none"]))},
        accelerator=draw(st.sampled_from(["MI300X", "L4", "H100-SXM"])), provision=provision,
    )  # fmt: skip


NEW_CARD: Final = Nvidia("NVIDIA-X9", 40960, "newer", (9, 0), mig=False)
"""A model that no catalog row knows: it may have a price, and its speed is unknown."""


@st.composite
def other_nodes(draw: st.DrawFn) -> Object:
    """Nodes of the model without a speed, and nodes with little disk."""
    name, gpu = f"other-{draw(st.integers(0, 2))}", draw(st.sampled_from([NEW_CARD, NEW_CARD, H100, MI300X, L4]))
    disk = draw(st.sampled_from(["100Gi", "400Gi", "1000Gi"]))
    return node(name, gpu, draw(st.sampled_from([1, 8])), allocatable={"ephemeral-storage": disk}, price=draw(prices))


worlds = st.builds(
    lambda objects, others, growing: [*objects, *others, *growing],
    clusters(most=6),
    st.lists(other_nodes(), max_size=3, unique_by=lambda found: found["metadata"]["name"]),
    st.lists(growing_pools(), max_size=2, unique_by=lambda pool: pool["metadata"]["name"]),
)


def answer(demand: Demand, fleet: Fleet, catalog: Catalog) -> Pick:
    decision = decide(demand, fleet, catalog)
    return Pick(decision.verdict, decision.choice)


@settings(max_examples=400)
@given(objects=worlds, wish=wishes(), catalog=catalogs)
def test_the_choice_is_that_of_the_full_decision(objects: list[Object], wish: Demand, catalog: Catalog) -> None:
    fleet, known = fleet_of(read_cluster(objects), catalog)
    assert choose(wish, fleet, known) == answer(wish, fleet, known)


@given(
    objects=worlds,
    wish=wishes(),
    catalog=catalogs,
    hard=st.dictionaries(
        st.sampled_from(["requests.nvidia.com/gpu", "requests.amd.com/gpu", "pods", "requests.memory"]),
        st.integers(0, 20).map(str),
        min_size=1,
    ),
    used=st.sampled_from(["0", "1", "4"]),
)
def test_quotas_do_not_part_them(
    objects: list[Object], wish: Demand, catalog: Catalog, hard: dict[str, str], used: str
) -> None:
    fleet, known = fleet_of(read_cluster(objects), catalog)
    quota = read_quota({"metadata": {"name": "q"}, "status": {"hard": hard, "used": dict.fromkeys(hard, used)}})
    fleet, wish = replace(fleet, quotas={"team": (quota,)}), replace(wish, namespace="team")
    assert choose(wish, fleet, known) == answer(wish, fleet, known)


@given(objects=worlds, queue=st.lists(wishes(), min_size=2, max_size=6), catalog=catalogs)
def test_it_stays_so_while_a_fleet_fills(objects: list[Object], queue: list[Demand], catalog: Catalog) -> None:
    """What is kept with a pool from one version to the next is still true."""
    fleet, known = fleet_of(read_cluster(objects), catalog)
    for wish in queue:
        fresh, _ = fleet_of(read_cluster(objects), catalog)
        fresh = replace(fresh, pools=tuple(replace(pool) for pool in fleet.pools))
        pick = choose(wish, fleet, known)
        assert pick == answer(wish, fresh, known)
        if pick.choice is not None:
            chosen = pick.choice.candidate
            fleet = fleet.reserve(chosen.pool, chosen.gang.gpus_per_node, pick.choice.needs, pick.choice.nodes)


def plain_room(wish: Demand, pool: Pool, size: int | None) -> list[str] | None:
    """The nodes by a walk over all of them; None where they are too few, or took no pod of the job lately."""
    if any(name == pool.family for name, _, _ in wish.pools_resting):
        return None
    asked = Resources(wish.millicores or 0, wish.memory or 0, wish.storage or 0)
    disk = None if size is None else size * 5 // 2 + (wish.storage or 20 * GI)
    growth = pool.growth if pool.growth and pool.family not in dict(wish.pools_away) else None
    coming = (*growth.started, *(growth.template,) * min(growth.count, wish.nodes)) if growth else ()
    found = [
        each
        for each in (*pool.nodes, *coming)
        if all(map(pool.tolerates, each.taints)) and (each.total is None or each.total >= wish.gpus_per_node)
        if each.allocatable.covers(asked) and (disk is None or (each.allocatable.storage or disk) >= disk)
        if not lacks(each.handlers, pool.handler) and each.name not in {node for node, *_ in wish.excluded_nodes}
        if wish.attaches(each.name)
        if each.unready is None and each.free >= wish.gpus_per_node and each.left.covers(node_needs(wish, each))
    ]
    advised = [sum(taint.effect == "PreferNoSchedule" for taint in each.taints) for each in found]
    ranked = sorted(zip(found, advised, strict=True), key=lambda f: (f[0].coming, f[1], f[0].free, f[0].left.memory))
    return sorted(each.name for each, _ in ranked[: wish.nodes]) if len(found) >= wish.nodes else None


@given(objects=worlds, wish=wishes(), size=st.sampled_from([None, 8 * GI, 120 * GI, 390 * GI]))
def test_room_is_what_a_walk_over_all_nodes_finds(objects: list[Object], wish: Demand, size: int | None) -> None:
    fleet, _ = fleet_of(read_cluster(objects), ANY_IMAGES)
    for pool in fleet.pools:
        for asked in map(wish.only, wish.gangs):
            room = find_room(asked, pool, size)
            names = [each.name for each in room.nodes] if room.nodes else None
            assert names == plain_room(asked, pool, size)
            assert find_room(asked, pool, relevant_size(size, uniform_size(asked, pool))) == room
            assert room_now(asked, pool, size) == (room if room.nodes else None)
            assert may_have_room(asked.gang, pool) or not room.nodes


@given(objects=worlds, gpus=st.integers(1, 9), nodes=st.integers(1, 4))
def test_free_nodes_are_counted_as_they_are_given(objects: list[Object], gpus: int, nodes: int) -> None:
    fleet, _ = fleet_of(read_cluster(objects), ANY_IMAGES)
    for pool in fleet.pools:
        assert pool.stock.has_free(gpus, nodes) == (len(list(pool.stock.with_free(gpus))) >= nodes)


TRAINED: Final = demand(model={"parameters": "8B", "method": "Full"})
"""21 L4 hold it."""


@given(objects=worlds, wish=wishes())
@example([node("n", L4, 33)], TRAINED)
@example([node("n", L4, 32), node("m", L4, 22)], TRAINED)
@example([node("n", H100, 20)], demand(model={"parameters": "70B", "method": "LoRA"}))
@example([node("n", L4, 40), node("m", L4, 40)], demand(model={"parameters": "13B", "method": "Full"}, nodes=2))
def test_each_pool_gets_the_smallest_gang_that_holds_the_model(objects: list[Object], wish: Demand) -> None:
    """By a walk over every count on one usable node and over whole nodes, pool by pool."""
    fleet, known = fleet_of(read_cluster(objects), ANY_IMAGES)
    sized = estimated(wish, fleet, known)
    # Pools that join others get the gangs of several nodes among these.
    for pool in [each for each in fleet.pools if not each.joins] if wish.sized_by_model else ():
        gangs = [gang for gang in sized.gangs if gang.is_for(pool.name)]
        sizes, nodes = [size for size, _ in pool.node_sizes(10**6)], wish.nodes if wish.nodes_given else None
        made = [gang for gang in every_gang(pool, nodes) if gang.gpus <= 64]
        assert gangs
        holding = [gang for gang in made if holds(wish, gang, pool, known, "high")]
        nearly = [gang for gang in made if holds(wish, gang, pool, known, "expected")]
        if holding or nearly:
            # The first one is that of all nodes: nothing smaller holds it, but where heads must be divided.
            assert all(gang in (holding or nearly) for gang in gangs)
            if wish.model is not None and wish.model.method is not Method.INFERENCE:
                least = min((gang.gpus, gang.nodes) for gang in holding or nearly)
                assert (gangs[0].gpus, gangs[0].nodes) == least
        else:
            assert len(gangs) == 1
            assert gangs[0].gpus_per_node in (1, sizes[0]) or gangs[0].nodes == (nodes or 1)


def every_gang(pool: Pool, nodes: int | None) -> list[Gang]:
    """The gangs that a pool's usable nodes make: by number of GPUs on one node, or on as many as the job says; whole nodes."""
    sizes = pool.node_sizes(10**6)
    on_one = [Gang(nodes or 1, gpus) for size, count in sizes if count >= (nodes or 1) for gpus in range(1, size + 1)]
    several = [Gang(n, size) for size, count in sizes for n in range(2, min(count, 8) + 1)] if nodes is None else []
    return list(dict.fromkeys(on_one + several))


def holds(wish: Demand, gang: Gang, pool: Pool, catalog: Catalog, end: str) -> bool:
    """Whether a device holds the model in a gang, up to one end of the estimate."""
    two = wish.but(gangs=(gang, Gang(1, 2)), sized_by_model=False).but(sized_by_model=True)
    need = estimated(two, Fleet(), catalog).gangs[0].memory
    return pool.memory is None or need is None or getattr(need, end) <= pool.memory


@given(objects=worlds, wish=wishes())
def test_a_rule_that_is_not_asked_would_refuse_nothing(objects: list[Object], wish: Demand) -> None:
    fleet, _ = fleet_of(read_cluster(objects), ANY_IMAGES)
    for pool in fleet.pools:
        for asked in map(wish.only, wish.gangs):
            silent = set(POOL_RULES) - (set(rules_of(asked)) & pool_class_of(pool).rules)
            assert not list(filter(None, (rule(asked, pool, fleet) for rule in silent)))


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 10**8)), min_size=2, max_size=8), st.integers(2, 4096))
@example([(2117514, 19017031), (4139363, 37174911)], 4096)  # their values differ by a part of a part in 10**15
def test_the_order_of_pools_by_value_is_the_same_for_gangs_of_any_size(worth: list[tuple[int, int]], gpus: int) -> None:
    """Price in micro-dollars an hour and speed in millionths of the reference, of one GPU; whether the speed scales or not."""
    for times in (1, gpus):
        one, many = (
            sorted(worth, key=lambda each, n=n, m=m: score.Worth(each[0] * n, each[1] * m).value)
            for n, m in ((1, 1), (gpus, times))
        )
        assert one == many
