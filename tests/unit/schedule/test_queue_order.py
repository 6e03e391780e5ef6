"""Many jobs on one snapshot: the oldest first, each on what the earlier ones left."""

from __future__ import annotations

import pytest
from builders import A100_40, ANY_IMAGES, H100, MI300X, Object, demand, fleet, node, placings, pod

from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import QueueDecision, place_all
from gpujob.status import pools
from gpujob.values.vocabulary import Outcome, Reason, Verdict


def nodes_of(placing: QueueDecision) -> tuple[str, ...]:
    return placing.decision.choice.nodes if placing.decision.choice else ()


def test_the_older_job_is_first_then_the_smaller_uid() -> None:
    wish = demand(gpusPerNode=8)
    jobs = [
        PendingJob("b", "2026-01-02", wish),
        PendingJob("c", "2026-01-01", wish),
        PendingJob("a", "2026-01-02", wish),
    ]
    found = list(place_all(jobs, fleet(node("n", H100), catalog=ANY_IMAGES), ANY_IMAGES))
    assert [(placing.job.uid, placing.decision.verdict) for placing in found] == [
        ("c", Verdict.PLACED), ("a", Verdict.WAITING), ("b", Verdict.WAITING),
    ]  # fmt: skip


def test_two_gangs_never_hold_half_each() -> None:
    gang = {"nodes": 2, "gpusPerNode": 8}
    first, second = placings([gang, gang], *(node(f"n{number}", H100) for number in range(3)))
    assert (nodes_of(first), nodes_of(second)) == (("n0", "n1"), ())
    assert second.decision.verdict is Verdict.WAITING


def test_a_blocked_job_takes_nothing_from_those_after_it() -> None:
    jobs = [{"nodes": 2, "gpusPerNode": 8}, {"gpusPerNode": 8}]
    blocked, fits = placings(jobs, node("n", H100), node("m", H100, cordoned=True))
    assert (blocked.decision.verdict, nodes_of(fits)) == (Verdict.WAITING, ("n",))


def test_ten_small_jobs_leave_six_devices_together() -> None:
    found = placings([{}] * 10 + [{"gpusPerNode": 6}], node("a", A100_40), node("b", A100_40))
    assert [nodes_of(placing) for placing in found] == [("a",)] * 8 + [("b",)] * 3


def test_memory_is_promised_once_too() -> None:
    half: Object = {"resources": {"memory": "600Gi"}}
    first, second = placings([half, half], node("n", H100))
    assert nodes_of(first) == ("n",)
    assert [reason.reason for reason in second.decision.candidates[0].reasons] == [Reason.NOT_ENOUGH_FREE]


def test_an_impossible_job_has_its_nearest_fix_and_a_waiting_one_none() -> None:
    impossible, again, waiting = placings(
        [{"nodes": 2}, {"nodes": 2}, {"gpusPerNode": 8}], node("n", H100), pod("p", "n", {"nvidia.com/gpu": 1})
    )
    assert impossible.decision.fix is not None
    assert again.decision.fix == impossible.decision.fix
    assert (waiting.decision.verdict, waiting.decision.fix) == (Verdict.WAITING, None)


def test_a_plan_sees_what_the_older_jobs_took_and_takes_nothing() -> None:
    wish = demand(gpusPerNode=8)
    jobs = [PendingJob("1", "", wish), PendingJob("2", "", wish, plan_only=True), PendingJob("3", "", wish)]
    found = list(place_all(jobs, fleet(node("a", H100), node("b", H100), catalog=ANY_IMAGES), ANY_IMAGES))
    assert [nodes_of(placing) for placing in found] == [("a",), ("b",), ("b",)]


def test_a_job_that_cannot_be_decided_about_is_told_and_the_others_are_placed() -> None:
    class Odd(Exception):
        pass

    class Broken(tuple):  # type: ignore[type-arg]
        def __iter__(self) -> object:
            raise Odd

    broken = demand(requires=["BF16"])
    object.__setattr__(broken, "requires", Broken(("BF16",)))
    jobs = [PendingJob("1", "", broken), PendingJob("2", "", demand())]
    world, told = fleet(node("n", H100), catalog=ANY_IMAGES), []
    found = list(place_all(jobs, world, ANY_IMAGES, failed=lambda job, error: told.append((job.uid, type(error)))))
    assert (told, [placing.job.uid for placing in found]) == ([("1", Odd)], ["2"])
    with pytest.raises(Odd):
        list(place_all(jobs, world, ANY_IMAGES))


def test_a_job_goes_to_the_other_vendor_when_its_first_pool_is_full() -> None:
    found = placings([{"gpusPerNode": 8}] * 3, node("a", MI300X, price="1"), node("n", H100, price="2"))
    assert [nodes_of(placing) for placing in found] == [("a",), ("n",), ()]
    assert {c.outcome for c in found[2].decision.candidates} == {Outcome.BUSY}


def test_published_pools_without_node_names_are_not_promised_twice_either() -> None:
    known = fleet(*(node(f"n{number}", H100) for number in range(3)), node("a", MI300X), catalog=ANY_IMAGES)
    published = [{**pools.manifest(pool), "status": pools.status(pool, known, {}, "")} for pool in known.pools]
    jobs: list[Object] = [
        {"gpusPerNode": 4},
        {"gpusPerNode": 4},
        {"nodes": 2, "gpusPerNode": 8},
        {},
        {"gpusPerNode": 8},
    ]
    found = placings([{**spec, "placement": {"vendors": ["NVIDIA"]}} for spec in jobs], *published)
    assert [placing.decision.verdict for placing in found] == [Verdict.PLACED] * 3 + [Verdict.WAITING] * 2
    assert placings([{"gpusPerNode": 8}], *published)[0].decision.verdict is Verdict.PLACED


HIGH: Object = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 100,
}
USUAL: Object = HIGH | {"metadata": {"name": "usual"}, "value": 50, "globalDefault": True}


def test_the_job_of_higher_priority_is_first_whenever_it_came() -> None:
    lo, hi = demand(gpusPerNode=8), demand(gpusPerNode=8, priorityClassName="high")
    jobs = [
        PendingJob("a-lo", "2026-01-01", lo),
        PendingJob("b-hi", "2026-01-02", hi),
        PendingJob("c-hi", "2026-01-03", hi),
    ]
    found = place_all(jobs, fleet(node("n", H100), HIGH, catalog=ANY_IMAGES), ANY_IMAGES)
    assert [(placing.job.uid, placing.verdict) for placing in found] == [
        ("b-hi", Verdict.PLACED), ("c-hi", Verdict.WAITING), ("a-lo", Verdict.WAITING),
    ]  # fmt: skip


def test_the_default_class_counts_where_a_job_names_none() -> None:
    low: Object = HIGH | {"metadata": {"name": "low"}, "value": -1}
    jobs = [PendingJob("a", "1", demand(priorityClassName="low")), PendingJob("b", "2", demand())]
    for classes, order in (((low,), "ba"), ((HIGH, low, USUAL), "ba"), ((), "ab")):
        found = place_all(jobs, fleet(node("n", H100), *classes, catalog=ANY_IMAGES), ANY_IMAGES)
        assert "".join(placing.job.uid for placing in found) == order


@pytest.mark.parametrize("value", [None, "many", True, 1.5, [], 10**30, "9" * 40])
def test_a_class_whose_value_is_no_number_counts_as_none(value: object) -> None:
    jobs = [PendingJob("a", "1", demand(priorityClassName="high")), PendingJob("b", "2", demand())]
    found = place_all(jobs, fleet(node("n", H100), HIGH | {"value": value}, catalog=ANY_IMAGES), ANY_IMAGES)
    assert [placing.job.uid for placing in found] == ["a", "b"]


def test_a_class_that_is_not_there_is_to_be_mended_and_an_unknown_one_is_a_warning() -> None:
    (unknown,) = placings([{"priorityClassName": "hihg"}], node("n", H100), HIGH)
    assert (unknown.verdict, unknown.decision.verdict) == (Verdict.MISCONFIGURED, Verdict.MISCONFIGURED)
    assert [problem.message for problem in unknown.decision.problems] == [
        "priorityClassName: there is no PriorityClass hihg; the nearest is high; create it or name another"
    ]
    (unchecked,) = placings([{"priorityClassName": "high"}], node("n", H100))
    warnings = [
        warning
        for warning in unchecked.decision.candidates[0].warnings
        if warning.reason is Reason.PRIORITY_CLASS_UNKNOWN
    ]
    assert [warning.message for warning in warnings] == [
        "nothing is known of PriorityClasses here, high is unchecked and the job's priority taken as 0"
    ]
