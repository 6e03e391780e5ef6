"""Two operators: one writes. A dead leader is followed within half a minute; a frozen one wakes up silent."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.api_server import AuditLog
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Fleet, Operators
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


@pytest.fixture
def pair(no_operator: None, operators: Operators) -> Iterator[tuple[OperatorProcess, OperatorProcess]]:
    """A leader, and one that waits."""
    first, second = operators("first"), operators("second")
    first.start_without_waiting_for_the_lease()
    second.start()
    yield first, second
    for each in (first, second):
        each.stop()


def writers(audit: AuditLog, mark: int) -> set[str]:
    """The tokens of those who wrote anything but the Lease."""
    return {
        entry["user"]["extra"]["authentication.kubernetes.io/credential-id"][0]
        for entry in audit.since(mark)
        if entry["verb"] in ("create", "patch", "delete") and entry["objectRef"]["resource"] != "leases"
    }


def test_a_dead_leader_is_followed_and_a_frozen_one_wakes_up_silent(
    pair: tuple[OperatorProcess, OperatorProcess], fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    first, second = pair
    fleet(h100=2)
    mark = audit.now()
    jobs = {f"before-{number}": team.submit(f"before-{number}", runs_for="1s", gpusPerNode=4) for number in range(8)}
    team.until_all(jobs, "Succeeded")
    assert writers(audit, mark) == {first.credential}

    # In the midst of work: some are placed, some wait, some were just told.
    jobs |= {f"during-{number}": team.submit(f"during-{number}", runs_for="1s", gpusPerNode=4) for number in range(8)}
    eventually(lambda: len(team.jobs()) > 9, what="some of the jobs placed", every=0.01)
    first.kill()
    took = second.until_leading(timeout=30)
    # Not from the kill on: what the dead had just sent is answered, and logged, after its end.
    led = audit.now()
    print({"seconds until another led": round(took, 1)})
    team.until_all(jobs, "Succeeded")

    assert writers(audit, led) == {second.credential}

    first.start()
    eventually(lambda: "operator started" in first.log.read_text().rpartition("lease acquired")[2], what="a standby")
    jobs |= {f"frozen-{number}": team.submit(f"frozen-{number}", runs_for="1s", gpusPerNode=4) for number in range(8)}
    eventually(lambda: len(team.jobs()) > 17, what="some of the jobs placed", every=0.01)
    second.signal(signal.SIGSTOP)
    first.until_leading(timeout=30)
    team.until_all(jobs, "Succeeded")
    quiet = audit.now()
    second.signal(signal.SIGCONT)
    eventually(lambda: "lease lost" in second.log.read_text(), what="the frozen one noticing", every=0.01)
    time.sleep(2)
    assert audit.writes(quiet) == {}

    jobs["after"] = team.submit("after", runs_for="0s")
    team.until("after", "Succeeded")
    assert writers(audit, quiet) == {first.credential}
    created = [
        entry["objectRef"]["name"]
        for entry in audit.since(mark)
        if entry["verb"] == "create" and entry["objectRef"]["resource"] == "jobs"
        and entry["objectRef"]["namespace"] == team.namespace and entry["responseStatus"]["code"] == 201
    ]  # fmt: skip
    assert len(created) == len(set(created)) == len(jobs)
    assert sorted(len(pods) for pods in pods_by_job(team).values()) == [1] * len(jobs)


def pods_by_job(team: Team) -> dict[str, list[Any]]:
    """The pods of each job's uid."""
    found: dict[str, list[Any]] = {}
    for pod in team.pods():
        found.setdefault(pod["metadata"]["labels"]["gpujob.dev/job-uid"], []).append(pod)
    return found
