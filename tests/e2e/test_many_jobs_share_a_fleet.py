"""Jobs beside each other: whole gangs or nothing, no gap wasted, and who is small may pass who is blocked."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import eventually
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


def test_four_single_device_jobs_and_a_whole_node_job_fit_on_two_nodes(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(h100=2)
    small = [f"one-{number}" for number in range(4)]
    for name in small:
        team.submit(name)
    team.submit("whole", gpusPerNode=8)
    team.until_all([*small, "whole"], "Running")
    where = {team.status(name)["placement"]["nodeNames"][0] for name in small}
    assert len(where) == 1
    assert team.status("whole")["placement"]["nodeNames"][0] not in where


def test_of_two_gangs_that_each_want_all_nodes_one_runs_and_the_other_has_no_pod(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(h100=3)
    uids = {name: team.submit(name, runs_for="3s", nodes=2, gpusPerNode=8) for name in ("one", "two")}
    waiting = eventually(lambda: next((name for name in uids if team.state(name) == "Queued"), ""), what="one queued")
    running = next(name for name in uids if name != waiting)
    team.until(running, "Running")
    # A third node is free, and the one that waits does not touch it; a younger and smaller job may.
    team.submit("small", runs_for="0s", gpusPerNode=8)
    team.until("small", "Succeeded")
    assert team.state(waiting) == "Queued"
    assert (team.pods(uids[waiting]), team.jobs(uids[waiting]), team.services(uids[waiting])) == ([], [], [])
    queued = team.condition(waiting, "Placed")
    assert (queued["status"], queued["reason"]) == ("False", "NotEnoughFree")
    team.until(waiting, "Running")
    assert team.state(running) == "Succeeded"
    team.until(waiting, "Succeeded")


def test_a_job_that_waits_is_told_what_is_free_now(operator: OperatorProcess, fleet: Fleet, team: Team) -> None:
    fleet(h100=2)
    for name in ("one", "other"):
        team.submit(name, gpusPerNode=4)
    team.until_all(["one", "other"], "Running")
    team.submit("waits", nodes=2, gpusPerNode=8)
    team.until("waits", "Queued")
    before = team.condition("waits", "Placed")
    assert "8 of 16 are free" in before["message"]
    team.delete("one")
    # Its pod is given its grace first.
    told = lambda: "12 of 16 are free" in team.condition("waits", "Placed")["message"]  # noqa: E731
    eventually(told, 90, what="the new number")
    after = team.condition("waits", "Placed")
    assert (after["reason"], after["lastTransitionTime"]) == (before["reason"], before["lastTransitionTime"])
