"""A job without steps on a real API server: the condition with the rank that is behind, the event, and its end where the job asks
for one. The pods are simulated; what their reporter says is read over the network."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cluster import eventually
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.reporter import Reporter, reach
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


class Halting(Reporter):
    """A program of two ranks that trains 4 steps a second until it `halts`, in training or in a phase whose bound is over."""

    halted: float | None = None
    phase = "Training"

    def halts(self, at_step: int, uid: str, phase: str = "Training") -> None:
        self.halted, self.phase = time.monotonic(), phase
        waits, works = ["all_reduce (torch/distributed/c10d.py:1)"], ["read_shard (train.py:7)"]
        self.ranks = json.dumps({
            "jobUid": uid, "attempt": "1", "ranks": [
                {"rank": 0, "world": 2, "steps": at_step, "still": 60, "stack": waits},
                {"rank": 1, "world": 2, "steps": at_step, "still": 60, "stack": works, "phase": phase},
            ],
        }).encode()  # fmt: skip

    def goes_on(self) -> None:
        self.began += time.monotonic() - (self.halted or 0.0)
        self.halted, self.phase = None, "Training"

    def report(self) -> bytes:
        still = 0.0 if self.halted is None else time.monotonic() - self.halted
        steps = (time.monotonic() - self.began - still) * 4
        return (
            f'gpujob_up 1\ngpujob_steps_total{{rank="0"}} {steps:.0f}\ngpujob_still_seconds{{rank="0"}} {still}\n'
            f'gpujob_slowest_step_seconds{{rank="0"}} 0.25\ngpujob_phase{{rank="0",phase="{self.phase}"}} 1\n'
        ).encode()


@pytest.fixture
def program() -> Iterator[Halting]:
    made = Halting()
    yield made
    made.close()


def runs(team: Team, program: Halting, **stall: object) -> str:
    """A job that runs and was read; gives its uid."""
    uid = team.submit("job", gpusPerNode=8, telemetry={"port": program.port}, stall=stall)
    team.until("job", "Running")
    reach(team, uid)
    # Progress is written once a minute, the first reading with it.
    eventually(lambda: team.condition("job", "TelemetryReachable").get("status") == "True", 90, what="a reading")
    assert team.condition("job", "Stalled") == {}
    return uid


def stall_is(team: Team, status: str, what: str) -> dict[str, Any]:
    """The condition Stalled, once it has this status."""
    return eventually(
        lambda: held if (held := team.condition("job", "Stalled")).get("status") == status else None, 60, what=what
    )


def stalled(team: Team) -> str:
    """The sentence, once the job is Stalled."""
    found = stall_is(team, "True", "Stalled")
    assert found["reason"] == "Stalled"
    return str(found["message"])


def test_a_stall_is_said_ends_by_itself_and_ends_the_job_where_that_is_asked(
    hasty: OperatorProcess, fleet: Fleet, team: Team, program: Halting
) -> None:
    fleet(h100=1)
    uid = runs(team, program, afterSeconds=10)
    program.halts(40, uid)
    message = stalled(team)
    assert re.match(
        r"no step for 1\d seconds after step \d+; the bound is 10 seconds \(spec\.stall\.afterSeconds\); "
        r"rank 1 \(pod job-\w+-1-0-\w+ on node \S+\) is at step 40 in read_shard \(train\.py:7\); "
        r"rank 0 waits at step 40 in all_reduce \(torch/distributed/c10d\.py:1\); "
        r"the job runs on, spec\.stall\.action: Restart or Fail would end the attempt$",
        message,
    ), message
    assert team.state("job") == "Running"
    eventually(lambda: team.told("job").count("Stalled") == 1, 10, what="one event")
    program.goes_on()
    works = stall_is(team, "False", "steps")
    assert (works["reason"], works["message"]) == ("StepsGoOn", "the job works again")
    # Also while the job runs.
    team.change("job", stall={"action": "Fail"})
    program.halts(80, uid)
    status = team.until("job", "Failed", timeout=90)
    assert [(each["reason"], each["blame"]) for each in status["attempts"]] == [("Stalled", "Infrastructure")]
    assert team.condition("job", "Failed")["reason"] == "Stalled"
    eventually(lambda: not team.pods(uid) and not team.jobs(uid), 30, what="its GPUs given back")


def test_a_hang_in_a_phase_over_its_bound_and_a_process_that_answers_no_more_are_stalls_too(
    hasty: OperatorProcess, fleet: Fleet, team: Team, program: Halting
) -> None:
    fleet(h100=1)
    uid = runs(team, program, afterSeconds=10, phaseSeconds=10)
    (pod,) = team.pods(uid)
    told = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    assert told["GPUJOB_PHASE_SECONDS"] == "10"
    program.halts(40, uid, "Saving")
    assert " is at step 40 (phase Saving) in read_shard (train.py:7); " in stalled(team)
    program.goes_on()
    eventually(lambda: team.condition("job", "Stalled")["status"] == "False", 60, what="a job that works again")
    program.answers.clear()
    message = stalled(team)
    assert (
        f"accepts connections on port {program.port} and does not answer: its process is stopped, or keeps" in message
    )
    assert team.state("job") == "Running"


def test_a_program_that_runs_on_after_its_device_broke_is_moved(
    hasty: OperatorProcess, fleet: Fleet, team: Team, program: Halting
) -> None:
    (first, second) = fleet(h100=2)
    uid = team.submit("job", gpusPerNode=8, telemetry={"port": program.port})
    before = team.until("job", "Running")
    reach(team, uid)
    (node,) = before["placement"]["nodeNames"]
    fault = 'gpujob_device_fault_timestamp_seconds{rank="0",device="GPU-1",fault="Xid-79"} 1767225600'
    program.body = program.report() + f"{fault}\n".encode()
    status = team.until("job", "Restarting", timeout=90)
    (entry,) = status["attempts"]
    assert (entry["reason"], entry["blame"]) == ("DeviceFault", "Infrastructure")
    told = f"node {node}: the driver reports Xid 79 of GPU-1 at 2026-01-01T00:00:00Z to pod "
    assert entry["message"].startswith(told)
    after = team.until("job", "Running", timeout=60)
    assert after["placement"]["nodeNames"] == [({first, second} - {node}).pop()]
    assert [each["name"] for each in after["excludedNodes"]] == [node]
