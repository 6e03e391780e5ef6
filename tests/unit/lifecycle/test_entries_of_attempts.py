"""status.attempts lists when an attempt began and what it cost, also where its running was never written."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.lifecycle.attempts import with_entry
from gpujob.status.records.objects import read_child, read_job
from gpujob.values.names import child_name

CHILD = child_name("j", "u", 1)
FINAL = {"jobName": CHILD, "startTime": "2026-01-01T12:00:00Z", "cost": {"accrued": "0.50"}}


@pytest.mark.parametrize(
    "held", [{}, {"jobName": CHILD, "attempt": 1}, {"jobName": CHILD, "startTime": FINAL["startTime"]}]
)
def test_the_beginning_and_the_cost_are_those_of_the_final_status(held: dict[str, Any]) -> None:
    job = read_job({"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": {}, "status": held})
    child = read_child({"metadata": {"name": CHILD, "namespace": "team", "uid": "c"}, "spec": {}})
    (entry,) = with_entry(job, child, dict(FINAL), ("Succeeded", "", "ended well"), "2026-01-01T13:00:00Z")["attempts"]
    assert (entry["from"], entry["cost"]) == ("2026-01-01T12:00:00Z", "0.50")


def test_an_attempt_that_never_ran_has_neither() -> None:
    job = read_job(
        {"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": {}, "status": {"jobName": CHILD}}
    )
    child = read_child({"metadata": {"name": CHILD, "namespace": "team", "uid": "c"}, "spec": {}})
    status = with_entry(job, child, {"cost": {"accrued": "0.50"}}, ("Unbound", "", "not bound"), "2026-01-01T13:00:00Z")
    assert status["attempts"][0].keys() & {"from", "cost"} == set()
