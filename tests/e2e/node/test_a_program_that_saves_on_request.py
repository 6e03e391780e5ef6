"""At the limit of its budget a real program gets SIGTERM and the time to save; a raised budget goes on from what it saved then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.api_server import JOBS
from tests.e2e.cluster import eventually
from tests.e2e.node.test_a_training_goes_on import begins, checkpoints, of_attempt
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

__all__ = ["checkpoints"]
pytestmark = [pytest.mark.e2e, pytest.mark.node]

SAVES = """
import os, signal, sys, time
from pathlib import Path

folder, attempt = Path(os.environ["GPUJOB_CHECKPOINT_DIR"]), int(os.environ["GPUJOB_ATTEMPT"])
last = folder / "last"
step = int(last.read_text()) if last.exists() else 0

def saves(*_):
    time.sleep(4)  # A save that takes its time.
    last.write_text(str(step))
    sys.exit(0)

signal.signal(signal.SIGTERM, saves)
print(os.environ["GPUJOB_BACKEND"], "attempt", attempt, "begins after step", step, flush=True)
# The first attempt never ends by itself, and saves nothing before it is asked to end.
for step in range(step + 1, step + 21 if attempt > 1 else 1_000_000):
    time.sleep(0.1)
"""
"""Prints what `begins` looks for."""


def test_a_program_saves_at_the_limit_of_its_budget_and_goes_on_from_there_when_that_is_raised(
    operator: OperatorProcess, team: Trainers, checkpoints: str, pools: Callable[..., None]
) -> None:
    # A cent a second. The budget is lowered to what it has cost once the program handles SIGTERM.
    pools("amd", price={"perGPUHour": "36.00"})
    volumes = [{"name": "runs", "persistentVolumeClaim": {"claimName": checkpoints}}]
    uid = team.run(
        "run", "python3", "-c", SAVES, volumes=volumes, checkpoint={"volume": "runs"}, resources={"cpu": "200m", "memory": "128Mi"},
        placement={"vendors": ["AMD"], "budget": "900.00"},
    )  # fmt: skip
    team.until("run", "Running", timeout=120)
    (pod,) = of_attempt(team, uid, 1)
    assert pod["spec"]["terminationGracePeriodSeconds"] == 120
    eventually(lambda: "begins after step 0" in team.printed(pod), 60, what="a program that handles SIGTERM")
    team.change("run", placement={"budget": "0.15"})
    team.until("run", "Suspended", timeout=120)
    suspended = team.condition("run", "Suspended")
    assert suspended["reason"] == "BudgetExceeded"
    assert "placement.budget is $0.15" in suspended["message"]
    eventually(lambda: not team.pods(uid), 60, what="the end of its pod")
    team.change("run", placement={"budget": "900.00"})
    status = team.until("run", "Succeeded", "Failed", timeout=120)
    assert status["state"] == "Succeeded", status
    first, second = status["attempts"]
    assert (first["reason"], first.get("blame"), second["reason"]) == ("BudgetExceeded", None, "Succeeded")
    (said,) = begins(team, uid)
    backend, _, number = said.partition(" attempt 2 begins after step ")
    assert backend == "ROCm"
    # A program that did not save when it was asked to end begins after step 0.
    assert int(number) > 0
    assert "failures" not in status


IS_SUSPENDED = """
import os, signal, sys, time
from pathlib import Path

asked = Path(os.environ["GPUJOB_CHECKPOINT_DIR"], "asked")
if asked.exists():
    sys.exit(0)

def saves(*_):
    asked.touch()
    if os.environ["ENDS"] == "well":
        time.sleep(4)  # The pod may outlive the suspension, or not: both end well.
        sys.exit(0)

signal.signal(signal.SIGTERM, saves)
print("hears", flush=True)
while True:
    time.sleep(0.1)
"""
"""Never ends before it is asked to, and then at once when it runs again."""


@pytest.mark.parametrize("ends", ["well", "with its grace"])
def test_a_job_that_something_else_suspends_and_resumes_goes_on_in_the_same_attempt(
    operator: OperatorProcess, team: Trainers, checkpoints: str, ends: str
) -> None:
    volumes = [{"name": "runs", "persistentVolumeClaim": {"claimName": checkpoints}}]
    uid = team.run(
        "run", "python3", "-c", IS_SUSPENDED, volumes=volumes, checkpoint={"volume": "runs"}, env=[{"name": "ENDS", "value": ends}],
        resources={"cpu": "200m", "memory": "128Mi"}, terminationGracePeriodSeconds=15,
    )  # fmt: skip
    child = team.until("run", "Running", timeout=120)["jobName"]
    # SIGTERM does not reach a program that has no handler yet.
    (pod,) = team.pods(uid)
    eventually(lambda: "hears" in team.printed(pod), 60, what="a program that has begun")
    suspend(team, child, True)
    eventually(lambda: all("deletionTimestamp" in pod["metadata"] for pod in team.pods(uid)), 30, what="pods that end")
    suspend(team, child, False)
    if ends == "with its grace":
        told = str(eventually(lambda: resumed(team), 15, what="that a pod of before ends first"))
        assert told.endswith("; 1 pod of before ends first, then new ones follow")
    status = team.until("run", "Succeeded", "Failed", timeout=120)
    assert [(each["attempt"], each["reason"]) for each in status["attempts"]] == [(1, "Succeeded")]
    assert "failures" not in status


def suspend(team: Trainers, job: str, yes: bool) -> None:
    """Suspends or resumes a child Job, as a queue or an admin does."""
    team.api.patch(JOBS.format(team.namespace), job, {"spec": {"suspend": yes}})


def resumed(team: Trainers) -> str | None:
    message = str(team.condition("run", "Running").get("message"))
    return message if "was suspended and resumed" in message else None
