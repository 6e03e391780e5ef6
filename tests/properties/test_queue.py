"""What holds for a whole queue of jobs on one snapshot."""

from __future__ import annotations

import random
from collections import defaultdict

from builders import ANY_IMAGES, Object, demand
from hypothesis import given
from hypothesis import strategies as st
from worlds import clusters, specs

from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
from gpujob.placement.engine.decide import decide
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import QueueDecision, place_all
from gpujob.values.vocabulary import Verdict

queues = st.lists(specs(), min_size=1, max_size=8)


def fleet_from(objects: list[Object]) -> Fleet:
    return fleet_of(read_cluster(objects), ANY_IMAGES)[0]


def waiting(queue: list[Object]) -> list[PendingJob]:
    return [PendingJob(f"{number:03d}", "", demand(**spec)) for number, spec in enumerate(queue)]


def placed(jobs: list[PendingJob], fleet: Fleet) -> list[QueueDecision]:
    return list(place_all(jobs, fleet, ANY_IMAGES))


def told(placings: list[QueueDecision]) -> dict[str, tuple[Verdict, str]]:
    return {placing.job.uid: (placing.decision.verdict, placing.decision.digest) for placing in placings}


@given(objects=clusters(), queue=queues)
def test_nothing_is_promised_twice(objects: list[Object], queue: list[Object]) -> None:
    fleet = fleet_from(objects)
    devices: dict[tuple[str, str], int] = defaultdict(int)
    memory: dict[str, int] = defaultdict(int)
    for placing in placed(waiting(queue), fleet):
        choice = placing.decision.choice
        for node in choice.nodes if choice else ():
            assert choice is not None
            devices[node, choice.candidate.pool.resource] += placing.job.demand.gpus_per_node
            memory[node] += choice.needs.memory
    for pool in fleet.pools:
        for node in pool.nodes:
            assert devices[node.name, pool.resource] <= max(node.free, 0)
            assert memory[node.name] <= max(node.left.memory, 0)


@given(objects=clusters(odd=False), queue=queues)
def test_a_job_without_room_changes_nothing_for_the_others(objects: list[Object], queue: list[Object]) -> None:
    fleet, jobs = fleet_from(objects), waiting(queue)
    everyone = placed(jobs, fleet)
    lucky = [placing.job for placing in everyone if placing.decision.verdict is Verdict.PLACED]
    alone = told(placed(lucky, fleet))
    assert alone == {uid: answer for uid, answer in told(everyone).items() if uid in alone}


@given(objects=clusters(), queue=queues, seed=st.integers(0, 99))
def test_the_order_of_arrival_in_the_list_does_not_count(objects: list[Object], queue: list[Object], seed: int) -> None:
    fleet, jobs = fleet_from(objects), waiting(queue)
    other = list(jobs)
    random.Random(seed).shuffle(other)
    assert told(placed(jobs, fleet)) == told(placed(other, fleet))


@given(objects=clusters(odd=False), queue=queues)
def test_a_verdict_by_a_shared_decision_is_the_job_s_own(objects: list[Object], queue: list[Object]) -> None:
    """Equal jobs share one evaluation within a round; each answer is what a round of its own would say."""
    fleet = fleet_from(objects)
    doubled = waiting([*queue, *queue])
    assert len(placed(doubled, fleet)) == len(doubled)
    for placing in placed(doubled, fleet):
        choice = placing.decision.choice
        again = next(place_all([placing.job], fleet, ANY_IMAGES))
        assert again.decision.verdict is placing.decision.verdict
        if choice is not None:
            pool, gpus = choice.candidate.pool, placing.job.demand.gpus_per_node
            fleet = fleet.reserve(pool, gpus, choice.needs, choice.nodes)


@given(objects=clusters(), queue=queues)
def test_a_decision_by_what_equal_jobs_found_is_the_job_s_own(objects: list[Object], queue: list[Object]) -> None:
    """What a job found on pools serves equal ones once its decision was read, as the controller does while jobs are placed."""
    for placing in place_all(waiting([*queue, *queue, *queue]), fleet_from(objects), ANY_IMAGES):
        answer, decision = placing.answer, placing.decision
        assert (placing.verdict, placing.choice) == (decision.verdict, decision.choice)
        if placing.choice is not None:
            assert decision == decide(answer.demand, answer.fleet, ANY_IMAGES)


@given(objects=clusters(odd=False), queue=queues)
def test_plans_of_suspended_jobs_take_nothing(objects: list[Object], queue: list[Object]) -> None:
    fleet = fleet_from(objects)
    plans = [PendingJob(job.uid, job.created, job.demand, plan_only=True) for job in waiting(queue)]
    for placing in placed(plans, fleet):
        alone = next(place_all([placing.job], fleet, ANY_IMAGES))
        assert told([alone]) == told([placing])
