"""A count whose write fails did not happen: also where the clock was believed to be set with it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from gpujob.cluster.client.api_errors import ApiError
from gpujob.cluster.controller.namespace_budgets import NamespaceBudgets
from gpujob.lifecycle.view import Moment
from gpujob.status.attempts.monthly_budget import ledgers_of
from gpujob.status.records.read_objects import read_job

T = datetime(2026, 3, 10, 12, tzinfo=UTC)
RUNS = {
    "attempt": 1,
    "jobName": "j-1",
    "startTime": "2026-03-10T12:00:00Z",
    "placement": {"pool": "p", "nodes": 1, "gpusPerNode": 8, "pricePerHour": "36.00"},
}


class Writer:
    """Writes all spending but that of one second."""

    def __init__(self) -> None:
        self.written: dict[str, str] = {}
        self.fails = False

    async def read_spending(self, _: str) -> Mapping[str, Any]:
        return self.written

    async def write_spending(self, _: str, data: Mapping[str, str]) -> None:
        if self.fails:
            raise ApiError(503, "ServiceUnavailable", "down")
        self.written = dict(data)


@pytest.mark.parametrize("failing", [(), (150,), (60, 150)])
async def test_a_clock_that_is_set_books_what_passed_although_a_write_fails(failing: tuple[int, ...]) -> None:
    job = read_job({"metadata": {"name": "j", "namespace": "team", "uid": "u", "generation": 1}, "status": RUNS})
    namespaces = {("", "team"): SimpleNamespace(monthly_budget="900")}
    index = SimpleNamespace(jobs={"u": job}, cache=SimpleNamespace(objects=lambda _: namespaces))
    moment, writer = Moment(0.0, T, T), Writer()
    work = SimpleNamespace(index=index, moment=lambda: moment)
    budgets = NamespaceBudgets(work, writer, "home")  # type: ignore[arg-type]
    for second in range(0, 331, 30):
        passed, set_by = timedelta(seconds=second), timedelta(hours=second >= 30)
        moment, writer.fails = Moment(float(second), T + passed + set_by, T + passed), second in failing
        try:
            await budgets.meter()
        except ApiError:
            assert writer.fails
    assert ledgers_of(writer.written)["team"].spent == 330 * 10_000
