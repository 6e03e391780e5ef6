"""Jobs of several priorities on one snapshot: what lower ones can never do to higher ones, and what their statuses say."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

from builders import ANY_IMAGES, Object, demand
from hypothesis import given
from hypothesis import strategies as st
from worlds import clusters, specs

from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
from gpujob.placement.capacity.node_filters import rejections
from gpujob.placement.capacity.pod_resources import node_needs
from gpujob.placement.engine.decide import decide
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Candidate
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import QueueDecision, place_all
from gpujob.values.vocabulary import Outcome, Reason, Verdict

VALUES = {"high": 100, "middle": 50, "low": -5}
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in VALUES.items()
]


@st.composite
def queues(draw: st.DrawFn) -> list[PendingJob]:
    """Jobs of some priorities, each created at another moment; a few are plans."""
    found = []
    for number in range(draw(st.integers(2, 8))):
        spec: Object = draw(st.sampled_from([{"gpusPerNode": 1}, {"gpusPerNode": 2}, {"nodes": 2, "gpusPerNode": 4}]))
        spec = draw(st.just(spec) | st.just({"gpusPerNode": 8}) | specs(pools=False))
        level = draw(st.sampled_from(["", *VALUES]))
        wish = demand(**spec, **({"priorityClassName": level} if level else {}))
        created, plan = f"{draw(st.integers(0, 3))}", draw(st.integers(0, 9)) == 0
        found.append(PendingJob(f"{number:03d}", created, wish, plan, namespace="team", name=f"job-{number}"))
    return found


worlds = clusters(odd=False).map(lambda objects: [*objects, *CLASSES])


def fleet_from(objects: list[Object]) -> Fleet:
    return fleet_of(read_cluster(objects), ANY_IMAGES)[0]


def value(job: PendingJob) -> int:
    return VALUES.get(job.demand.priority_class or "", 0)


def placed(jobs: Iterable[PendingJob], fleet: Fleet) -> dict[str, QueueDecision]:
    return {placing.job.uid: placing for placing in place_all(jobs, fleet, ANY_IMAGES)}


def told(placings: Iterable[QueueDecision]) -> dict[str, tuple[Verdict, str, list[str]]]:
    return {
        each.job.uid: (
            each.verdict,
            each.decision.digest,
            [finding.message for candidate in each.decision.candidates for finding in candidate.reasons],
        )
        for each in placings
    }


def after(fleet: Fleet, placings: Iterable[QueueDecision]) -> Fleet:
    """The fleet after what was placed took its devices."""
    for each in placings:
        if each.choice is not None and not each.job.plan_only:
            chosen = each.choice.candidate
            fleet = fleet.reserve(chosen.pool, chosen.gang.gpus_per_node, each.choice.needs, each.choice.nodes)
    return fleet


def lacking(wish: Demand, fleet: Fleet) -> int | None:
    """The fewest devices that must become free before a job starts, by trying every set of ready nodes of every pool."""
    found = [
        lack
        for candidate in decide(wish, fleet, ANY_IMAGES).candidates
        if candidate.outcome is Outcome.BUSY
        and not {reason.reason for reason in candidate.reasons} & {Reason.QUOTA_EXCEEDED, Reason.MAY_GROW}
        for lack in _lacking(wish.only(candidate.gang), _pool(fleet, candidate))
    ]
    return min(found, default=None)


def _pool(fleet: Fleet, candidate: Candidate) -> Pool:
    pool = fleet.pool(candidate.pool.name)
    assert pool is not None
    return pool


def _has_room_when_emptied(wish: Demand, node: PoolNode) -> bool:
    """Whether a pod fits once all pods with GPUs are gone."""
    emptied = replace(node, free=node.healthy, left=node.share_base)
    return node.healthy >= wish.gpus_per_node and node.share_base.covers(node_needs(wish, emptied))


def _lacking(wish: Demand, pool: Pool) -> Iterable[int]:
    ready = [
        node
        for node in pool.nodes
        if node.unready is None and not rejections(wish, pool, node, None) and _has_room_when_emptied(wish, node)
    ]
    for nodes in combinations(ready, wish.nodes):
        yield sum(max(0, wish.gpus_per_node - max(0, node.free)) for node in nodes)


@given(objects=worlds, queue=queues())
def test_a_lower_job_never_takes_what_the_first_that_waits_lacks_the_least(
    objects: list[Object], queue: list[PendingJob]
) -> None:
    fleet = fleet_from(objects)
    found = list(place_all(queue, fleet, ANY_IMAGES))
    for number, each in enumerate(found):
        if each.verdict is Verdict.WAITING and not each.job.plan_only:
            same = [other for other in found[:number] if value(other.job) >= value(each.job)]
            equals = [other for other in found[number:] if value(other.job) == value(each.job)]
            before = lacking(each.job.demand, after(fleet, [*same, *equals]))
            assert lacking(each.job.demand, after(fleet, found)) == before
            return


@given(objects=worlds, queue=queues())
def test_lower_jobs_change_nothing_for_higher_ones(objects: list[Object], queue: list[PendingJob]) -> None:
    fleet = fleet_from(objects)
    everyone = told(placed(queue, fleet).values())
    for level in {value(job) for job in queue}:
        upper = told(placed([job for job in queue if value(job) >= level], fleet).values())
        assert upper == {uid: everyone[uid] for uid in upper}


@given(objects=worlds, queue=queues(), seed=st.integers(0, 99))
def test_every_job_gets_one_answer_whatever_the_order_of_the_list(
    objects: list[Object], queue: list[PendingJob], seed: int
) -> None:
    fleet, other = fleet_from(objects), list(queue)
    random.Random(seed).shuffle(other)
    found = list(place_all(queue, fleet, ANY_IMAGES))
    assert sorted(each.job.uid for each in found) == sorted(job.uid for job in queue)
    assert told(found) == told(place_all(other, fleet, ANY_IMAGES))
    assert all(each.verdict is each.decision.verdict for each in found)


@given(objects=worlds, queue=queues())
def test_who_would_have_room_but_for_higher_jobs_is_told_so(objects: list[Object], queue: list[PendingJob]) -> None:
    fleet = fleet_from(objects)
    for each in placed(queue, fleet).values():
        reasons = {reason.reason for candidate in each.decision.candidates for reason in candidate.reasons}
        others = [job for job in queue if value(job) <= value(each.job)]
        alone = placed(others, fleet)[each.job.uid]
        behind = any(value(job) > value(each.job) for job in queue)
        assert behind or Reason.QUEUED_BEHIND not in reasons
        if each.verdict is Verdict.WAITING and alone.verdict is Verdict.PLACED and not each.job.demand.wait_seconds:
            assert Reason.QUEUED_BEHIND in reasons


@given(objects=worlds, queue=queues(), most=st.integers(0, 24))
def test_what_is_held_for_a_namespace_is_never_more_than_its_quota(
    objects: list[Object], queue: list[PendingJob], most: int
) -> None:
    """Several GPUs of one card under two names are counted as each name counts them."""
    hard = dict.fromkeys(("requests.nvidia.com/gpu", "requests.amd.com/gpu"), f"{most}")
    quota: Object = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team"},
        "status": {"hard": hard, "used": dict.fromkeys(hard, "0")},
    }
    fleet = fleet_from([*objects, quota])
    last = PendingJob("last", "9", demand(gpusPerNode=1, priorityClassName="low"), namespace="other", name="last")
    higher = [job for job in queue if value(job) > VALUES["low"]]
    seen = placed([*higher, last], fleet)["last"].answer.fleet
    held = Counter(
        (ahead.job, ahead.taking.resource, ahead.taking.on)
        for pool in seen.pools
        for ahead in pool.ahead
        if ahead.waits
    )
    taken = Counter[str]()
    for _, resource, on in held:
        taken[resource] += sum(gpus for _, gpus in on)
    assert all(taken[name.removeprefix("requests.")] <= most for name in hard)
