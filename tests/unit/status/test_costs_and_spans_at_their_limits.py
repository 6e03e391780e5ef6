"""Costs, seconds and spans of a status at their limits: equal times, clocks that differ, figures that are missing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpujob.status.attempts import cost, monthly_budget
from gpujob.status.attempts.spending import MOST_GPUS, Span, gpus_of, spans
from gpujob.status.attempts.waits import write_time

DAY = datetime(2026, 1, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
AN_HOUR = {"pricePerHour": "36.00"}
"""A cent a second."""


def after(seconds: float) -> datetime:
    return DAY + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("told", "seconds", "found"),
    [
        ({}, 100, {"accrued": "1.00"}),
        ({}, 0, {"accrued": "0.00"}),
        ({}, -5, {"accrued": "0.00"}),
        ({"earlier": "2.00"}, 100, {"accrued": "3.00", "earlier": "2.00"}),
        ({"earlier": "0.00"}, 100, {"accrued": "1.00"}),
        ({"earlier": "much"}, 100, {"accrued": "1.00"}),
        # A slower clock takes over: the written amount stays, up to what the clocks of one cluster may differ by.
        ({"accrued": "1.00"}, 100, {"accrued": "1.00"}),
        ({"accrued": "1.01"}, 100, {"accrued": "1.01"}),
        ({"accrued": "1.60"}, 100, {"accrued": "1.60"}),
        ({"accrued": "1.600001"}, 100, {"accrued": "1.00"}),
        ({"accrued": "0.99"}, 100, {"accrued": "1.00"}),
    ],
)
def test_a_cost_is_price_times_seconds(told: dict[str, str], seconds: int, found: dict[str, str]) -> None:
    assert cost.cost({"cost": told}, AN_HOUR, write_time(DAY), after(seconds)) == found


@pytest.mark.parametrize(
    ("status", "seconds"),
    [
        ({}, 0),
        ({"ranSeconds": 50}, 50),
        ({"startTime": write_time(DAY)}, 100),
        ({"startTime": write_time(DAY), "ranSeconds": 50}, 150),
        ({"startTime": write_time(after(101)), "ranSeconds": 50}, 50),
        ({"startTime": "soon", "ranSeconds": "x"}, 0),
    ],
)
def test_the_seconds_of_all_attempts_and_what_a_deadline_leaves(status: dict[str, Any], seconds: int) -> None:
    assert cost.running_seconds(status, after(100)) == seconds
    assert cost.seconds_to_run(3600, status, after(100)) == 3600 - seconds
    assert cost.seconds_to_run(None, status, after(100)) is None


@pytest.mark.parametrize(
    ("begin", "end", "found"),
    [
        (0, 3600, (7200, 36)),
        (-3600, 7200, (7200, 36)),
        (1800, 7200, (3600, 18)),
        (-3600, 1800, (3600, 18)),
        (3599, 3600, (2, 0)),
        (3600, 7200, (0, 0)),
        (-3600, 0, (0, 0)),
        (5000, 9000, (0, 0)),
    ],
)
def test_the_part_of_a_span_between_two_times(begin: float, end: float, found: tuple[int, int]) -> None:
    assert Span("p", 2, DAY, DAY + HOUR, 36).within(after(begin), after(end)) == found
    assert Span("p", 2, DAY, DAY + HOUR, None).within(after(begin), after(end)) == (found[0], None)
    assert Span("p", 2, DAY, DAY, 36).within(after(begin), after(end)) == (0, 0)
    assert Span("p", 2, DAY, DAY, None).within(after(begin), after(end)) == (0, None)


def test_a_span_of_a_second_counts() -> None:
    second = Span("p", 2, DAY, after(1), 36)
    assert second.within(DAY, after(1)) == second.within(DAY - HOUR, DAY + HOUR) == (2, 36)
    assert second.within(after(0.5), after(1)) == (1, 18)


def entry(number: int, begin: float, end: float, dollars: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "attempt": number, "from": write_time(after(begin)), "to": write_time(after(end)), "pool": f"p{number}", "gpus": number,
        **({} if dollars is None else {"cost": dollars}), **more,
    }  # fmt: skip


OLD = write_time(DAY - HOUR)


def of(status: dict[str, Any], created: str = OLD) -> list[tuple[str, int, float, float, int | None]]:
    found = spans(status, created, after(1000))
    return [(s.pool, s.gpus, (s.begin - DAY).total_seconds(), (s.end - DAY).total_seconds(), s.cost) for s in found]


@pytest.mark.parametrize(
    ("status", "created", "found"),
    [
        ({}, OLD, []),
        ({"attempts": [entry(1, 0, 0)]}, OLD, [("p1", 1, 0, 0, None)]),
        ({"attempts": [entry(1, 1, 0)]}, OLD, []),
        # Attempts that are listed no more lie between the creation and the first that is listed, and have the rest of the cost.
        ({"attempts": [entry(2, 0, 10, "1.00"), entry(3, 20, 30)], "cost": {"earlier": "3.00"}}, OLD,
         [("p2", 2, 0, 10, 10**6), ("p3", 3, 20, 30, None), ("", 0, -3600, 0, 2 * 10**6)]),
        ({"attempts": [entry(2, 0, 10, "1.00"), entry(3, 20, 30)], "cost": {"earlier": "1.00"}}, OLD,
         [("p2", 2, 0, 10, 10**6), ("p3", 3, 20, 30, None)]),
        ({"attempts": [entry(2, 0, 10, "1.00"), entry(3, 20, 30)], "cost": {"earlier": "1.000001"}}, OLD,
         [("p2", 2, 0, 10, 10**6), ("p3", 3, 20, 30, None), ("", 0, -3600, 0, 1)]),
        ({"attempts": [entry(2, 0, 10), entry(3, 20, 30)], "cost": {"earlier": "2.00"}}, write_time(DAY),
         [("p2", 2, 0, 10, None), ("p3", 3, 20, 30, None)]),
        ({"attempts": [entry(2, 0, 10)], "cost": {"earlier": "2.00"}}, OLD, [("p2", 2, 0, 10, None)]),
        ({"attempts": [entry(2, 0, 10), entry(3, 20, 30)], "cost": {"earlier": "2.00"}}, "",
         [("p2", 2, 0, 10, None), ("p3", 3, 20, 30, None), ("", 0, -DAY.timestamp(), 0, 2 * 10**6)]),
        # The current attempt.
        ({"startTime": write_time(DAY), "attempt": 1, "placement": {"pool": "p", "nodes": 2, "gpusPerNode": 4, **AN_HOUR}}, OLD,
         [("p", 8, 0, 1000, 10**7)]),
        ({"startTime": write_time(DAY), "attempt": 1, "placement": {"pool": "p", **AN_HOUR},
          "completionTime": write_time(after(-1))}, OLD, [("p", 0, 0, -1, 0)]),
    ],
)  # fmt: skip
def test_the_spans_of_a_status(status: dict[str, Any], created: str, found: list[Any]) -> None:
    assert of(status, created) == found


def test_hostile_figures_of_spans_are_bounded() -> None:
    assert (
        gpus_of({"nodes": MOST_GPUS, "gpusPerNode": 8})
        == gpus_of({"nodes": 1, "gpusPerNode": MOST_GPUS + 1})
        == MOST_GPUS
    )
    (span,) = spans({"attempts": [entry(1, 0, 1, pool="x" * 300)]}, OLD, DAY)
    assert span.pool == "x" * 253


@pytest.mark.parametrize("more", [0, 1])
def test_a_ledger_is_no_longer_than_a_kilobyte(more: int) -> None:
    text = monthly_budget.Ledger(5, DAY).text()
    text += " " * (1023 - len(text) + more)
    assert monthly_budget.read_ledger(text) == (None if more else monthly_budget.Ledger(5, DAY))


def test_a_ledger_of_the_first_second_of_a_month_is_of_this_month() -> None:
    first = datetime(2026, 1, 1, tzinfo=UTC)
    assert monthly_budget.metered(monthly_budget.Ledger(5, first), (), DAY).spent == 5
    assert monthly_budget.metered(monthly_budget.Ledger(5, first - timedelta(seconds=1)), (), DAY).spent == 0
    assert monthly_budget.refusal("team", "0.000005", monthly_budget.Ledger(5, first), DAY)
    assert not monthly_budget.refusal("team", "0.000006", monthly_budget.Ledger(5, first), DAY)
    last_year = monthly_budget.Ledger(5, first - timedelta(seconds=1))
    assert not monthly_budget.refusal("team", "0.000001", last_year, DAY)
    assert monthly_budget.refusal("team", "0", last_year, DAY)
    assert f"is {'x' * 64!r}, which" in monthly_budget.refusal("team", "x" * 65, last_year, DAY)
