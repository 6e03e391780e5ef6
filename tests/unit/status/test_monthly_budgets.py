"""What a namespace has spent in a month, and whether another job of it may start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpujob.status.attempts.monthly_budget import Ledger, ledgers_of, metered, read_ledger, refusal
from gpujob.status.records.objects import JobRecord
from gpujob.status.records.read_objects import read_job

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
MICRO = 10**6


def job(name: str = "j", **status: Any) -> JobRecord:
    return read_job(
        {"metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": status}
    )


def runs(since: str, price: str | None = "36.00") -> JobRecord:
    placement = {"pool": "p", "nodes": 1, "gpusPerNode": 8, **({"pricePerHour": price} if price else {})}
    return job(attempt=1, jobName="j-1", startTime=since, placement=placement)


def test_all_that_ran_in_the_month_counts_where_nothing_was_counted_before() -> None:
    # Half of it in February.
    assert metered(None, [runs("2026-02-28T12:00:00Z")], datetime(2026, 3, 1, 12, tzinfo=UTC)).spent == 12 * 36 * MICRO
    assert metered(None, [runs("2026-03-10T11:00:00Z"), runs("2026-03-10T11:30:00Z")], NOON).spent == 54 * MICRO
    assert metered(None, [runs("2026-03-10T11:00:00Z", None)], NOON).spent == 0


@pytest.mark.parametrize("minutes", [1, 7, 60])
def test_it_is_the_same_however_often_it_is_counted(minutes: int) -> None:
    ledger, running = None, runs("2026-03-10T11:30:00Z")
    for minute in range(0, 121, minutes):
        ledger = metered(ledger, [running], NOON + timedelta(minutes=minute))
    assert ledger is not None
    assert ledger.spent == int((ledger.counted - NOON + timedelta(minutes=30)).total_seconds()) * 36 * MICRO // 3600


def test_a_job_that_was_deleted_stays_counted() -> None:
    ledger = metered(None, [runs("2026-03-10T11:00:00Z")], NOON)
    assert metered(ledger, [], NOON + timedelta(hours=1)).spent == 36 * MICRO


def test_a_new_month_begins_with_nothing() -> None:
    ledger = Ledger(900 * MICRO, datetime(2026, 3, 31, 23, tzinfo=UTC))
    april = datetime(2026, 4, 1, 1, tzinfo=UTC)
    assert metered(ledger, [runs("2026-03-31T23:00:00Z")], april) == Ledger(36 * MICRO, april)


def test_a_ledger_of_the_future_is_counted_from_now_on() -> None:
    ledger = Ledger(5 * MICRO, NOON + timedelta(days=3))
    assert metered(ledger, [runs("2026-03-10T11:00:00Z")], NOON) == Ledger(5 * MICRO, NOON)


@pytest.mark.parametrize(
    "text",
    [None, "", "x", "[]", "7", '{"spent": 7, "counted": "2026-03-10T12:00:00Z"}', '{"spent": "1.00"}', "[" * 2000],
)
def test_what_is_no_ledger_is_none(text: Any) -> None:
    assert read_ledger(text) is None


def test_a_ledger_is_read_as_it_was_written() -> None:
    assert read_ledger(Ledger(1_234_567, NOON).text()) == Ledger(1_234_567, NOON)


def test_a_spent_budget_refuses_with_its_numbers() -> None:
    assert refusal("team", "100", Ledger(100 * MICRO - 1, NOON), NOON) == ""
    assert refusal("team", "100.00", Ledger(100 * MICRO, NOON), NOON) == (
        "the jobs of namespace team have cost $100.00 in 2026-03 and its monthly budget is $100.00; the job waits until "
        "2026-04-01T00:00:00Z, or until an admin raises annotation gpujob.dev/monthly-budget"
    )
    december = datetime(2026, 12, 31, 23, tzinfo=UTC)
    assert "2027-01-01T00:00:00Z" in refusal("team", "0", Ledger(0, december), december)
    assert refusal("team", "100", Ledger(100 * MICRO, NOON), datetime(2026, 4, 1, tzinfo=UTC)) == "", "the month before"


@pytest.mark.parametrize("written", ["", "much", "-5", "NaN", "1_000", "$5", "9999999999"])
def test_a_budget_that_cannot_be_read_lets_nothing_start_and_says_so(written: str) -> None:
    assert refusal("team", written, Ledger(0, NOON), NOON) == (
        f"annotation gpujob.dev/monthly-budget of namespace team is {written!r}, which is no sum of US dollars; "
        'an admin writes it as a decimal in quotes, for example "5000.00"'
    )


def test_one_ledger_that_cannot_be_read_hides_no_other() -> None:
    kept = Ledger(5 * MICRO, NOON)
    assert ledgers_of({"a": kept.text(), "b": "no ledger", "c": 7}) == {"a": kept}
