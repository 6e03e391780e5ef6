"""What holds when a cluster grows or a queue is decided: more to choose from never makes an answer worse."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from builders import ANY_IMAGES, H100, L4, MI300X, Object, demand, gpupool, manifest, node, pod
from hypothesis import example, given, settings
from hypothesis import strategies as st
from worlds import clusters

from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Decision, Fix
from gpujob.placement.suggestions.search import with_fix
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.vocabulary import Verdict

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 16)
KINDS = (H100, L4, MI300X)
WORST = (Verdict.IMPOSSIBLE, Verdict.MISCONFIGURED, Verdict.WAITING, Verdict.PLACED)
"""Verdicts from the worst to the best."""
SERVED = {"name": "llama-3.1-70b", "method": "Inference", "inference": {"maxTokens": 4096, "concurrency": 8}}
TRAINED = {"name": "llama-3.1-8b", "method": "LoRA", "batchPerGPU": 4}


@st.composite
def some_nodes(draw: st.DrawFn, most: int = 40, prefix: str = "n") -> list[Object]:
    """Up to so many nodes of up to four kinds: any number of GPUs, cordoned, tainted, with and without a price."""
    kinds = draw(
        st.lists(
            st.tuples(st.sampled_from(KINDS), st.sampled_from(SIZES), st.sampled_from((None, "1.5", "2.004", "30"))),
            min_size=1,
            max_size=4,
        )
    )
    found = []
    for number in range(draw(st.integers(1, most))):
        gpu, count, price = draw(st.sampled_from(kinds))
        state = draw(st.integers(0, 7))
        taints = ("team=a:NoSchedule",) if state == 0 else ()
        found.append(node(f"{prefix}{number}", gpu, count, cordoned=state == 1, taints=taints, price=price))
    return found


@st.composite
def added_pools(draw: st.DrawFn, name: str = "added") -> tuple[Object, ...]:
    """A GPUPool that can grow, with none to three nodes there, some of them cordoned."""
    gpu, accelerator = draw(st.sampled_from(((H100, "H100-SXM"), (MI300X, "MI300X"))))
    gpus, driver = draw(st.sampled_from(SIZES)), "580.95.05" if gpu is H100 else "6.16.6"
    sizes = {"gpusPerNode": gpus, "cpu": "128", "memory": "1024Gi", "driverVersion": driver, "cpuArchitecture": "amd64"}
    provision = {"maxNodes": draw(st.integers(1, 4)), **sizes}
    price = draw(st.sampled_from(({}, {"price": {"perGPUHour": "2.50"}})))
    there = [
        node(f"{name}-{number}", gpu, gpus, labels={"rack": name}, cordoned=draw(st.booleans()))
        for number in range(draw(st.integers(0, min(3, provision["maxNodes"]))))
    ]
    return (gpupool(name, {"rack": name}, accelerator=accelerator, provision=provision, **price), *there)


@st.composite
def jobs(draw: st.DrawFn) -> Object:
    """A job of any number of GPUs and nodes, sized by itself or by its model."""
    gang = draw(
        st.one_of(
            st.fixed_dictionaries({"nodes": st.integers(1, 4), "gpusPerNode": st.sampled_from(SIZES)}),
            st.fixed_dictionaries({"model": st.sampled_from((SERVED, TRAINED))}),
            st.fixed_dictionaries({"model": st.just(SERVED), "gpusPerNode": st.sampled_from(SIZES)}),
        )
    )
    more = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "gpuMemory": st.sampled_from(("16G", "80G", "150G")),
                "placement": st.sampled_from(
                    (
                        {"maxPricePerHour": "12"},
                        {"accelerators": {"allow": ["H100"]}},
                        {"vendors": ["AMD"]},
                        {"objective": "Value"},
                    )
                ),
            },
        )
    )
    if "model" in gang:
        more.pop("gpuMemory", None)
    return gang | more


def fleet_from(objects: Iterable[Object]) -> Fleet:
    return fleet_of(read_cluster(list(objects)), ANY_IMAGES)[0]


def verdict(wish: Demand, objects: Iterable[Object]) -> int:
    """How good the verdict is."""
    return WORST.index(choose(wish, fleet_from(objects), ANY_IMAGES).verdict)


def fixed(wish: Demand, objects: Iterable[Object]) -> tuple[Decision, Fix | None]:
    fleet = fleet_from(objects)
    decided = decide(wish, fleet, ANY_IMAGES)
    return decided, with_fix(decided, fleet, ANY_IMAGES).fix


@settings(max_examples=25)
@given(some_nodes(), some_nodes(most=2, prefix="more"), jobs())
def test_more_nodes_never_worsen_the_verdict(there: list[Object], more: list[Object], job: Object) -> None:
    wish = demand(**job)
    assert verdict(wish, [*there, *more]) >= verdict(wish, there)


@settings(max_examples=25)
@given(some_nodes(most=12), added_pools(), jobs())
def test_a_pool_that_can_grow_never_worsens_the_verdict(
    there: list[Object], pool: tuple[Object, ...], job: Object
) -> None:
    wish = demand(**job)
    assert verdict(wish, [*there, *pool]) >= verdict(wish, there)


@st.composite
def unlike_nodes(draw: st.DrawFn, most: int, prefix: str = "u") -> list[Object]:
    """Nodes that have one device and differ in all that makes several pools of them, or in all that a node of a GPUPool may."""
    found = []
    for number in range(draw(st.integers(1, most))):
        labels = {
            "karpenter.sh/capacity-type": draw(st.sampled_from(("on-demand", "on-demand", "spot", "reserved"))),
            "nvidia.com/cuda.driver-version.full": draw(st.sampled_from(("580.95.05", "550.54.15", "470.10.1", None))),
            "nvidia.com/cuda.driver.major": None,
            "nvidia.com/cuda.driver-version.major": None,
            "nvidia.com/gpu.memory": draw(st.sampled_from(("23034", "20000"))),
            "node.kubernetes.io/instance-type": draw(st.sampled_from((None, None, "g6.48xlarge"))),
        }
        price, count = draw(st.sampled_from((None, "0.5", "1", "1.00", "3"))), draw(st.sampled_from((1, 2, 4)))
        state = draw(st.integers(0, 5))
        found.append(
            node(
                f"{prefix}{number}", L4, count, labels={"rack": "mix", **labels}, price=price, cordoned=state == 0,
                taints=("team=a:NoSchedule",) if state == 1 else (),
            )
        )  # fmt: skip
    return found


mixes = st.lists(
    st.builds(
        lambda price, more: gpupool("mix", {"rack": "mix"}, **price, **more),
        st.sampled_from(({}, {}, {"price": {"perNodeHour": "6"}})),
        st.sampled_from(({}, {}, {"provision": {"maxNodes": 20, "gpusPerNode": 4}}, {"capacityType": "OnDemand"})),
    ),
    max_size=1,
)
"""A GPUPool of all these nodes, or none: then they are discovered. It says how large new nodes are: else they are as the largest."""

of_mixes = st.fixed_dictionaries(
    {"nodes": st.integers(1, 3), "gpusPerNode": st.sampled_from((1, 2, 4))},
    optional={
        "gpuMemory": st.sampled_from(("16G", "22G", "23G", "60G")),
        "placement": st.sampled_from(
            (
                {"maxPricePerHour": "1.50"},
                {"maxPricePerHour": "12"},
                {"capacityTypes": ["OnDemand"]},
                {"capacityTypes": ["Reserved"]},
                {"capacityTypes": ["OnDemand", "Reserved", "Spot"], "objective": "Speed"},
                {"accelerators": {"allow": ["L4"]}, "capacityTypes": ["OnDemand", "Spot"]},
            )
        ),
    },
)


of_models = st.fixed_dictionaries(
    {"model": st.sampled_from((TRAINED, SERVED, TRAINED | {"method": "Full"}))},
    optional={"placement": st.sampled_from(({"maxPricePerHour": "12"}, {"capacityTypes": ["OnDemand", "Spot"]}))},
)
"""Jobs that their model sizes."""


@st.composite
def busy_nodes(draw: st.DrawFn) -> list[Object]:
    """Unlike nodes, and a pod on some of them."""
    there = draw(unlike_nodes(5))
    names = draw(st.lists(st.sampled_from([each["metadata"]["name"] for each in there]), unique=True, max_size=3))
    return [*there, *(pod(f"p-{name}", name, {L4.resource: draw(st.sampled_from((1, 2, 4)))}) for name in names)]


@settings(max_examples=100)
@given(mixes, busy_nodes(), unlike_nodes(2, "more"), of_mixes | of_models)
def test_an_unlike_node_never_worsens_verdict_or_fix(
    pool: list[Object], there: list[Object], more: list[Object], job: Object
) -> None:
    wish = demand(**job)
    (few, before), (many, after) = fixed(wish, [*pool, *there]), fixed(wish, [*pool, *there, *more])
    assert WORST.index(many.verdict) >= WORST.index(few.verdict)
    if many.verdict in WORST[:2] and before is not None:
        assert after is not None
        assert len(after.changes) <= len(before.changes)


@settings(max_examples=60)
@given(mixes, unlike_nodes(5), of_mixes, st.integers(0, 4))
def test_a_low_price_or_a_newer_driver_on_some_nodes_never_worsens_the_verdict(
    pool: list[Object], there: list[Object], job: Object, first: int
) -> None:
    wish, before = demand(**job), verdict(demand(**job), [*pool, *there])
    priced, upgraded = copy.deepcopy(there), copy.deepcopy(there)
    for each in priced[first:]:
        each["metadata"]["annotations"]["gpujob.dev/price-per-gpu-hour"] = "0.02"
    for each in upgraded[first:]:
        each["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"] = "595.10.01"
    assert verdict(wish, [*pool, *priced]) >= before
    assert verdict(wish, [*pool, *upgraded]) >= before


@settings(max_examples=60)
@given(mixes, busy_nodes(), of_mixes | of_models, st.sampled_from((0, 60)))
def test_unlike_nodes_are_chosen_from_as_they_are_decided_about(
    pool: list[Object], there: list[Object], job: Object, patience: int
) -> None:
    patient = {"placement": {**job.get("placement", {}), "waitSeconds": patience}}
    wish, fleet = demand(**{**job, **patient}), fleet_from([*pool, *there])
    decided, chosen = decide(wish, fleet, ANY_IMAGES), choose(wish, fleet, ANY_IMAGES)
    assert (chosen.verdict, chosen.choice) == (decided.verdict, decided.choice)


@settings(max_examples=60)
@given(unlike_nodes(5), of_mixes)
def test_a_gang_that_enough_discovered_nodes_suit_has_a_place(there: list[Object], job: Object) -> None:
    """The nodes that suit a pod of the job alone, whatever pools they are in."""
    wish = demand(**job)
    alone = demand(**{**job, "nodes": 1})
    limit = wish.max_price
    alone = alone.but(max_price=None if limit is None else limit // wish.gang.nodes)
    able = [verdict(alone, [each]) for each in there]
    for least in (WORST.index(Verdict.PLACED), WORST.index(Verdict.WAITING)):
        if sum(each >= least for each in able) >= wish.gang.nodes:
            assert verdict(wish, there) >= least


@settings(max_examples=60)
@given(mixes, unlike_nodes(4), st.lists(of_mixes, min_size=2, max_size=8))
def test_a_device_of_unlike_nodes_is_promised_once_and_impossible_is_so_in_the_queue(
    pool: list[Object], there: list[Object], queue: list[Object]
) -> None:
    left = {each["metadata"]["name"]: int(each["status"]["allocatable"]["nvidia.com/gpu"]) for each in there}
    waiting = [PendingJob(f"{number:03d}", "", demand(**job)) for number, job in enumerate(queue)]
    new, size, fleet = 0, 4, fleet_from([*pool, *there])
    for placing in place_all(waiting, fleet, ANY_IMAGES):
        gpus = placing.choice.candidate.gang.gpus_per_node if placing.choice else 0
        for name in placing.choice.nodes if placing.choice else ():
            if name:
                left[name] -= gpus
            new += 0 if name else gpus
        alone = choose(placing.job.demand, fleet, ANY_IMAGES).verdict
        assert (alone is Verdict.IMPOSSIBLE) == (placing.verdict is Verdict.IMPOSSIBLE)
    assert min(left.values()) >= 0
    assert new <= size * (20 - len(there)) + sum(left.values())


def priced(nodes: Iterable[Object], price: str) -> list[Object]:
    """The nodes, those without a price with this one: nodes of a pool share it, as a GPUPool gives it to them."""
    found = copy.deepcopy([*nodes])
    for each in found:
        each["metadata"]["annotations"] = {"gpujob.dev/price-per-gpu-hour": price} | each["metadata"]["annotations"]
    return found


PRICES = st.sampled_from(("0.02", "2.5", "31"))


@settings(max_examples=25)
@given(some_nodes(most=12), jobs(), PRICES)
def test_a_price_never_worsens_the_verdict(there: list[Object], job: Object, price: str) -> None:
    wish = demand(**job)
    assert verdict(wish, priced(there, price)) >= verdict(wish, there)


@settings(max_examples=15)
@given(some_nodes(most=4), jobs(), PRICES)
@example([node("n", L4, 1)], {"gpuMemory": "16G", "placement": {"maxPricePerHour": "12"}}, "31")
@example([node("n", L4, 1)], {"gpuMemory": "30G", "placement": {"maxPricePerHour": "12"}}, "0.02")
def test_a_price_keeps_a_fix(there: list[Object], job: Object, price: str) -> None:
    wish = demand(**job)
    (few, before), (many, after) = fixed(wish, there), fixed(wish, priced(there, price))
    worst = (Verdict.IMPOSSIBLE, Verdict.MISCONFIGURED)
    if few.verdict in worst and many.verdict in worst and before is not None:
        assert after is not None
        assert len(after.changes) <= len(before.changes)


UNLABELLED = [node("unlabelled", None, devices={"nvidia.com/gpu": "3"})]
"""A node that an admin must label: jobs that it could run are Misconfigured where they were Impossible."""


@settings(max_examples=15)
@given(
    some_nodes(most=6),
    some_nodes(most=2, prefix="more") | added_pools().map(list) | st.just(UNLABELLED),
    jobs(),
)
@example([node("n", L4, 1)], UNLABELLED, {"gpuMemory": "30G"})
@example([node("n", H100, 4)], UNLABELLED, {"gpusPerNode": 6})
def test_more_to_choose_from_keeps_a_fix(there: list[Object], more: list[Object], job: Object) -> None:
    wish = demand(**job)
    (few, before), (many, after) = fixed(wish, there), fixed(wish, [*there, *more])
    worst = (Verdict.IMPOSSIBLE, Verdict.MISCONFIGURED)
    if few.verdict in worst and many.verdict in worst and before is not None:
        assert after is not None
        assert len(after.changes) <= len(before.changes)


@settings(max_examples=15)
@given(some_nodes(most=4), jobs(), st.integers(1, 12))
def test_equal_nodes_of_other_price_keep_a_fix(there: list[Object], job: Object, copies: int) -> None:
    wish = demand(**job)
    equal = [node(f"equal-{number}", H100, 8, price=f"{31 + number}") for number in range(copies)]
    (few, before), (many, after) = fixed(wish, [*there, equal[0]]), fixed(wish, [*there, *equal])
    if few.verdict is many.verdict is Verdict.IMPOSSIBLE:
        assert (before is None) == (after is None)


@settings(max_examples=25)
@given(some_nodes(most=8), st.none() | added_pools(), st.lists(jobs(), min_size=1, max_size=8))
def test_impossible_alone_is_impossible_in_the_queue_and_the_other_way_round(
    there: list[Object], pool: tuple[Object, ...] | None, queue: list[Object]
) -> None:
    fleet = fleet_from([*there, *(pool or ())])
    wishes = [demand(**job) for job in queue]
    waiting = [PendingJob(f"{number:03d}", "", wish) for number, wish in enumerate(wishes)]
    together = {placing.job.uid: placing.verdict for placing in place_all(waiting, fleet, ANY_IMAGES)}
    for number, wish in enumerate(wishes):
        alone = choose(wish, fleet, ANY_IMAGES).verdict
        assert (alone is Verdict.IMPOSSIBLE) == (together[f"{number:03d}"] is Verdict.IMPOSSIBLE)


@given(clusters(most=8), st.lists(added_pools("l4-ondemand"), max_size=1))
def test_no_two_pools_have_one_name(objects: list[Object], added: list[tuple[Object, ...]]) -> None:
    names = [pool.name for pool in fleet_from([*objects, *(each for some in added for each in some)]).pools]
    assert len(names) == len(set(names))


@given(added_pools(), st.lists(jobs(), min_size=1, max_size=10))
def test_nodes_to_be_added_are_never_promised_twice(pool: tuple[Object, ...], queue: list[Object]) -> None:
    spec, there = pool[0]["spec"]["provision"], pool[1:]
    size = spec["gpusPerNode"]
    left = {each["metadata"]["name"]: size for each in there if not each["spec"].get("unschedulable")}
    waiting = [PendingJob(f"{number:03d}", "", demand(**job)) for number, job in enumerate(queue)]
    gangs: list[tuple[int, int]] = []
    for placing in place_all(waiting, fleet_from(pool), ANY_IMAGES):
        choice = placing.choice
        if choice is not None and all(choice.nodes):
            for name in choice.nodes:
                left[name] -= choice.candidate.gang.gpus_per_node
        elif choice is not None:  # its pods take any nodes of the pool, those that are there too
            gangs.append((len(choice.nodes), choice.candidate.gang.gpus_per_node))
    assert min(left.values(), default=0) >= 0
    assert packs(gangs, (*left.values(), *(size,) * (spec["maxNodes"] - len(there))))


def packs(gangs: Sequence[tuple[int, int]], bins: tuple[int, ...]) -> bool:
    """Whether gangs of (pods, GPUs of each) go into bins of free GPUs, the pods of a gang into different ones."""
    if not gangs:
        return True
    (pods, gpus), *rest = sorted(gangs, key=lambda gang: (-gang[1], -gang[0]))
    return any(packs(rest, left) for left in set(ways(bins, pods, gpus)))


def ways(bins: tuple[int, ...], pods: int, gpus: int) -> Iterable[tuple[int, ...]]:
    """What the bins have left after each way to put so many pods into different ones."""
    if pods == 0:
        yield bins
    elif bins:
        first, *rest = bins
        if first >= gpus:
            yield from (tuple(sorted((first - gpus, *left))) for left in ways(tuple(rest), pods - 1, gpus))
        yield from (tuple(sorted((first, *left))) for left in ways(tuple(rest), pods, gpus))


@pytest.mark.parametrize(
    ("gangs", "bins", "fits"),
    [
        ([(1, 8), (1, 4), (1, 4)], (8, 8), True),
        ([(2, 4), (2, 4)], (8, 8), True),
        ([(2, 4), (1, 8)], (8, 8), False),
        ([(3, 1)], (8, 8), False),
        ([(1, 5), (1, 5), (1, 3), (1, 3)], (8, 8), True),
        ([(1, 5), (1, 5), (1, 4)], (8, 8), False),
        ([], (), True),
        ([(1, 1)], (), False),
    ],
)
def test_what_packs(gangs: list[tuple[int, int]], bins: tuple[int, ...], fits: bool) -> None:
    assert packs(gangs, bins) == fits


HASH_SEEDS = ("0", "1", "4242")

PLANS = """
import json, sys, orjson
from gpujob.api.manifest import read_gpujob
from gpujob.catalog.files.load import load_catalog
from gpujob.cli.planning.planner import document, plan_jobs
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
for line in sys.stdin.buffer:
    world = json.loads(line)
    fleet, catalog = fleet_of(read_cluster(world["cluster"]), load_catalog())
    (made,) = plan_jobs([read_gpujob(world["job"])], fleet, catalog, {})
    print(orjson.dumps(document(made, every=True)).decode(), flush=True)
"""
"""A line for each line: the whole plan of a world, as the command line writes it."""


@pytest.fixture(scope="module")
def planners() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A process for each hash seed, all the time: its start takes longer than a hundred plans, and a failure needs many to shrink."""
    path = str(Path(__file__).parent.parent.parent)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PLANS],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for seed in HASH_SEEDS
    ]
    yield started
    for each in started:
        each.communicate()


@settings(max_examples=20)
@given(some_nodes(most=8) | clusters(most=6), added_pools(), jobs())
def test_all_hash_seeds_give_the_same_bytes(
    planners: list[subprocess.Popen[bytes]], there: list[Object], pool: tuple[Object, ...], job: Object
) -> None:
    """Whole plans from processes that walk their sets in other orders."""
    world = json.dumps({"cluster": [*there, *pool], "job": manifest("job", **job)}).encode()
    for each in planners:
        assert each.stdin is not None
        each.stdin.write(world + b"\n")
        each.stdin.flush()
    plans = {each.stdout.readline() for each in planners if each.stdout is not None}
    assert len(plans) == 1
    assert b'"verdict"' in plans.pop()
