"""What /metrics is made of: only the active operator exports jobs, and only recent readings count as current."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from gpujob.cluster.app.metrics_snapshot import snapshot
from gpujob.cluster.client.outage_gate import OutageGate
from gpujob.cluster.metrics.collector import Snapshot
from gpujob.cluster.queue.work_queue import ControllerCounters
from gpujob.status.attempts.progress import Measured
from gpujob.status.job.telemetry import Telemetry


def record(uid: str, **status: Any) -> Any:
    placement = {"pool": "mi300x", "vendor": "AMD", "accelerator": "MI300X", "nodes": 1, "gpusPerNode": 8}
    began = {"state": "Running", "startTime": "2026-01-01T00:00:00Z", "placement": placement}
    return SimpleNamespace(created="", uid=uid, namespace="team", name=uid, spec={}, status={**began, **status})


def a_desk(telemetry: Any = None) -> Any:
    return SimpleNamespace(
        outage=OutageGate(lambda: 0.0),
        counters=ControllerCounters(),
        telemetry=telemetry or {},
        counted_dollars={},
        wall=lambda: datetime.now(UTC),
    )


def look(*jobs: Any, leader: bool = True, telemetry: Any = None, work: Any = None) -> Snapshot:
    """A snapshot of an operator that holds these jobs, or of one with this controller state."""
    return begun(jobs, leader=leader, telemetry=telemetry, work=work)()


def begun(
    jobs: Iterable[Any],
    *,
    leader: bool = True,
    telemetry: Any = None,
    work: Any = None,
    unread: Iterable[str] = (),
    refused: Iterable[str] = (),
) -> Callable[[], Snapshot]:
    """The same as the loop leaves it: what is said of jobs is still to be computed."""
    work = work or a_desk(telemetry)
    operator: Any = SimpleNamespace(
        reconciler=SimpleNamespace(work=work),
        cache=SimpleNamespace(
            complete=False,
            malformed=Counter(pods=5),
            refusals=Counter(pods=20),
            unread=dict.fromkeys(unread, "403"),
            kinds={"pods": SimpleNamespace(key="pods")},
        ),
        leadership=SimpleNamespace(is_leader=lambda: leader),
        health=SimpleNamespace(
            last_byte={"pods": 1.0},
            age=lambda *_: 2.0,
            relists=Counter(),
            malformed=Counter(nodes=3),
            refused=dict.fromkeys(refused, "403"),
        ),
        scraper=SimpleNamespace(results=Counter()),
        crds=SimpleNamespace(counts=dict),
    )
    index: Any = SimpleNamespace(jobs={job.uid: job for job in jobs}, set_aside=Counter(pods=100))
    client: Any = SimpleNamespace(requests=Counter())
    return snapshot(operator, index, client)


def test_what_has_not_happened_is_none_for_each_kind() -> None:
    seen = look()
    assert seen.watch_age == {"pods": 2.0}
    assert (seen.relists, seen.malformed) == ({"pods": 0}, {"pods": 125, "nodes": 3}), "of the cache and the index too"


def failed(reason: str, status: str = "False") -> list[dict[str, str]]:
    return [{"type": "PreflightPassed", "status": status, "reason": reason}]


def test_who_does_not_lead_tells_of_no_job() -> None:
    waiting = look(record("a"), record("b", conditions=failed("ImageBroken")), leader=False)
    assert (waiting.leader, waiting.jobs, waiting.ran, waiting.preflight_failed) == (False, {}, [], {})
    acting = look(record("a"), record("b"))
    assert (acting.leader, acting.jobs) == (True, {("Running", "AMD", "mi300x"): 2})
    assert [job.name for job in acting.ran] == ["a", "b"]


def test_preflights_that_failed_are_counted_by_pool_and_reason() -> None:
    jobs = [
        record("a", conditions=failed("DevicePermission")),
        record("b", conditions=failed("DevicePermission")),
        record("c", conditions=failed("PreflightPassed", "True")),
        record("d", conditions=failed("PreflightPending", "Unknown")),
        record("e", conditions=[None, 7, {"type": "PreflightPassed", "status": "False"}], placement="hostile"),
    ]
    assert look(*jobs).preflight_failed == {("mi300x", "DevicePermission"): 2, ("", ""): 1}


@pytest.mark.parametrize(("age", "told"), [(0, True), (59, True), (61, False), (3600, False)])
def test_what_was_not_read_lately_is_not_told_as_what_is(age: int, told: bool) -> None:
    at = datetime.now(UTC) - timedelta(seconds=age)
    measured = Measured(at, counters={"steps": 7.0}, rates={"steps": 0.5}, last_step_at=1767225700.0, on_device=True)
    (job,) = look(record("a"), telemetry={"a": Telemetry(measured)}).ran
    assert (job.last_step_at, job.on_device, job.rates) == (
        (1767225700.0, True, {"steps": 0.5}) if told else (None, None, {})
    )
    assert job.counters == {"steps": 7.0}


def test_the_dollars_of_a_job_never_become_fewer() -> None:
    """The end of a job lies before the looks at which it still ran, and comes from another clock."""
    work, placement = a_desk(), {"pool": "p", "vendor": "AMD", "pricePerHour": "36.00"}
    began = (datetime.now(UTC) - timedelta(seconds=100)).strftime("%Y-%m-%dT%H:%M:%SZ")
    running = record("a", startTime=began, placement=placement)
    (before,) = look(running, work=work).ran
    assert (before.dollars or 0) >= 1_000_000
    ended = record("a", state="Succeeded", startTime=began, placement=placement, cost={"accrued": "0.97"})
    (after,) = look(ended, work=work).ran
    assert after.dollars == before.dollars
    assert look(work=work).ran == []
    (another,) = look(ended, work=work).ran
    assert another.dollars == 970_000, "the record of a job that is gone is dropped"


def test_a_job_whose_child_somebody_suspended_costs_what_its_devices_cost() -> None:
    began = (datetime.now(UTC) - timedelta(seconds=100)).strftime("%Y-%m-%dT%H:%M:%SZ")
    placement = {"pool": "p", "vendor": "AMD", "pricePerHour": "36.00"}
    (job,) = look(record("a", state="Placed", startTime=began, placement=placement, cost={"accrued": "0.10"})).ran
    assert (job.dollars or 0) >= 1_000_000


def test_a_suspended_job_still_tells_what_it_has_cost() -> None:
    (job,) = look(record("a", state="Suspended", startTime=None, placement={}, cost={"accrued": "2.00"})).ran
    assert (job.dollars, job.pool, job.state) == (2_000_000, "", "Suspended")
    assert look(record("b", state="Queued", startTime=None, placement={})).ran == []


@pytest.mark.parametrize(
    ("state", "minutes", "shown"),
    [
        *(("Succeeded", 9, True), ("Failed", 9, True), ("Succeeded", 11, False), ("Failed", 60 * 24, False)),
        *(("Running", 60 * 24, True), ("Suspended", 60 * 24, True), ("Succeeded", None, True)),
    ],
)
def test_a_job_that_ended_more_than_ten_minutes_ago_has_no_series_and_is_counted(
    state: str, minutes: int | None, shown: bool
) -> None:
    ended = None if minutes is None else f"{datetime.now(UTC) - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"
    seen = look(record("a", state=state, completionTime=ended))
    assert [job.name for job in seen.ran] == ["a"] * shown
    assert seen.jobs == {(state, "AMD", "mi300x"): 1}


def test_what_a_scrape_renders_does_not_change_meanwhile() -> None:
    work = a_desk()
    finish = begun((), work=work)
    work.counters.queue_wait.observe(1.0)
    work.counters.placing.observe(1.0)
    work.counters.decisions["Placed", "Placed"] += 1
    seen = finish()
    assert (sum(seen.queue_wait.counts), sum(seen.placing.counts), seen.decisions) == (0, 0, {})


class Counted(dict[str, Any]):
    """A status that counts how often it is read."""

    reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.reads += 1
        return super().get(key, default)


def reading(steps: float) -> Telemetry:
    return Telemetry(Measured(datetime.now(UTC), counters={"steps": steps}, rates={"steps": 0.5}))


def test_the_loop_reads_no_job_for_a_scrape_and_what_is_said_is_of_its_moment() -> None:
    job, work = record("a"), a_desk({"a": reading(7.0)})
    job.status = status = Counted(job.status)
    finish = begun([job], work=work)
    assert status.reads == 0
    # Meanwhile the operator goes on.
    work.telemetry["a"] = reading(9.0)
    work.wall = lambda: datetime.now(UTC) + timedelta(hours=5)
    seen = finish()
    assert status.reads > 0
    assert [(job.counters, job.rates) for job in seen.ran] == [({"steps": 7.0}, {"steps": 0.5})]


@pytest.mark.parametrize(
    ("unread", "refused", "seen"), [((), (), 0), (["pods"], (), 1), ((), ["pods"], 1), (["pods"], ["pods"], 1)]
)
def test_a_kind_that_may_not_be_read_is_a_metric_whether_the_operator_needs_it_or_not(
    unread: list[str], refused: list[str], seen: int
) -> None:
    assert begun((), unread=unread, refused=refused)().unknown == {"pods": seen}
