"""What a cycle keeps of its earlier placements while it goes on: plans, explorations, ends of jobs, reserved links of a fabric."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from builders import A100, ANY_IMAGES, H100, MI300X, Object, demand, fleet, gpupool, node, pod
from test_whose_turn_it_is import high, nodes_of, on, placed, reasons, waiting

from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.request.profile_measurements import Learned, Measurement, Run
from gpujob.schedule.answers import Answer
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import ALWAYS, QueueDecision, place_all
from gpujob.status import pools
from gpujob.values.vocabulary import Reason, Verdict


def run(known: Fleet, *jobs: PendingJob, now: datetime = ALWAYS) -> list[QueueDecision]:
    return list(place_all(jobs, known, ANY_IMAGES, now=now))


def test_a_plan_is_decided_again_after_a_job_took_something() -> None:
    wish = demand(gpusPerNode=8)
    jobs = [PendingJob(uid, uid, wish, uid != "b") for uid in ("a", "b", "c", "d")]
    found = run(on(node("n", H100)), *jobs)
    assert [nodes_of(placing) for placing in found] == [("n",), ("n",), (), ()]


def test_an_answer_that_holds_on_explains_the_newer_snapshot_and_keeps_that_of_the_same_one() -> None:
    less = [fleet(node("n", H100), pod("p", "n", {"nvidia.com/gpu": taken}), catalog=ANY_IMAGES) for taken in (2, 3)]
    answer = Answer(demand(gpusPerNode=8), less[0], ANY_IMAGES)
    known = answer.decision
    answer.follow(less[0])
    assert answer.decision is known
    answer.follow(less[1])
    assert "5 of 8 are free" in answer.decision.candidates[0].reasons[0].message


BEGINS = datetime(2026, 7, 2, 13, 46, 40, tzinfo=UTC)
MAINTENANCE = {"cloud.google.com/scheduled-maintenance-time": str(int(BEGINS.timestamp()))}


@pytest.mark.parametrize(
    ("runs_for", "now", "first"),
    [
        (3600, BEGINS - timedelta(seconds=3600), "m"),
        (3601, BEGINS - timedelta(seconds=3600), "n"),
        (None, BEGINS - timedelta(seconds=3600), "n"),
        (3600, ALWAYS, "n"),
    ],
)
def test_maintenance_after_the_end_of_a_job_counts_only_where_the_end_and_the_time_are_known(
    runs_for: int | None, now: datetime, first: str
) -> None:
    known = on(node("m", H100, labels=MAINTENANCE, price="1.90"), node("n", A100, price="2"))
    job = replace(waiting("a", placement={"objective": "Cost"}), runs_for=runs_for)
    assert nodes_of(run(known, job, now=now)[0]) == (first,)


def test_runs_that_a_cycle_places_count_as_measured_for_the_next_jobs_of_the_profile() -> None:
    known = fleet(node("a", MI300X, price="2.00"), node("h", H100, 64, price="2.00"), catalog=ANY_IMAGES)
    once = Measurement("H100-SXM", "H100-SXM", "1x1", "Mixed", "tokens", (Run(1000, 1.7e9, "r", 600, 10_000_000),), 1)
    wish = replace(demand(), learned=Learned("p", (once,)), exploration=50_000_000)
    jobs = [PendingJob(f"{n:02d}", f"{n:02d}", wish, namespace="team") for n in range(9)]
    other = PendingJob("x", "x", replace(wish, learned=Learned("q", (once,))), namespace="team")
    tried = [placing.answer.demand.trying is not None for placing in run(known, *jobs, other)]
    assert (sum(tried[:9]), tried[9]) == (3, True), (
        "a device counts as measured after three runs; profile q has its own"
    )


FABRIC = gpupool("x", {"pool": "x"}, fabric={"resources": {"rdma/ib": "1"}})


def linked(*busy: int, links: int = 1) -> tuple[Object, ...]:
    """Nodes of one fabric, so many of whose GPUs are taken."""
    names = "abc"[: len(busy)]
    nodes = (node(name, H100, labels={"pool": "x"}, allocatable={"rdma/ib": str(links)}) for name in names)
    pods = (pod(f"p-{name}", name, {"nvidia.com/gpu": n}) for name, n in zip(names, busy, strict=True) if n)
    return (*nodes, *pods, FABRIC)


@pytest.mark.parametrize(
    ("first", "busy", "links", "expected"),
    [
        # What a higher gang takes of the fabric, and what one reserves.
        (high(nodes=2, gpusPerNode=2), (0, 0), 1, ((), [Reason.QUEUED_BEHIND])),
        (high(nodes=2, gpusPerNode=4), (0, 6), 1, ((), [Reason.QUEUED_BEHIND])),
        (high(nodes=2, gpusPerNode=4), (0, 6, 6), 1, ((), [Reason.QUEUED_BEHIND])),
        (high(nodes=2, gpusPerNode=2), (0, 0), 2, (("a", "b"), [])),
        # A job of one node takes none of it.
        (high(gpusPerNode=2), (0, 0), 1, (("a", "b"), [])),
        (high(gpusPerNode=6), (0, 3), 0, ((), [Reason.NOT_ENOUGH_FREE])),
    ],
    ids=["placed", "reserved", "its links alone", "enough", "one node", "never any"],
)
def test_links_of_a_fabric_count_for_gangs_of_higher_priority(
    first: PendingJob, busy: tuple[int, ...], links: int, expected: tuple[tuple[str, ...], list[Reason]]
) -> None:
    found = placed(on(*linked(*busy, links=links)), first, waiting("lo", nodes=2, gpusPerNode=2))["lo"]
    assert (nodes_of(found), reasons(found)[:1]) == expected


def test_a_job_of_one_node_gives_a_gang_no_link_by_going() -> None:
    """Node a has no link, and the higher job takes GPUs of it."""
    first, *others = linked(0, 3)
    del first["status"]["allocatable"]["rdma/ib"]
    found = placed(on(first, *others), high(gpusPerNode=6), waiting("lo", nodes=2, gpusPerNode=2))
    assert (nodes_of(found["hi"]), reasons(found["lo"])) == (("a",), [Reason.NOT_ENOUGH_FREE])


def test_on_nodes_without_names_a_placed_job_goes_before_none() -> None:
    known = on(node("a", H100))
    published = [{**pools.manifest(pool), "status": pools.status(pool, known, {}, "")} for pool in known.pools]
    found = placed(on(*published), high(gpusPerNode=8), waiting("lo", gpusPerNode=8))
    assert (found["hi"].verdict, found["lo"].verdict) == (Verdict.PLACED, Verdict.WAITING)
    assert reasons(found["lo"]) == [Reason.NOT_ENOUGH_FREE]
