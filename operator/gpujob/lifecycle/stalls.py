"""When a running job counts as one that stands still (spec.stall), from what its reporter says and the time.

The reporter's clock stands while the program compiles, evaluates or saves, until the bound of that phase; here it is only compared
with the bound of the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum, unique
from typing import Final

from gpujob.status.attempts import standstill
from gpujob.status.attempts.progress import Measured
from gpujob.status.attempts.waits import read_time
from gpujob.status.job.telemetry import Telemetry
from gpujob.status.records.objects import JobRecord
from gpujob.values.finding import counted
from gpujob.values.untrusted import table, whole_number
from gpujob.values.vocabulary import Method, Reason

TIMES: Final = 6
"""The bound in slowest steps of the job itself."""

SHORTEST, LONGEST = 90.0, 900.0
"""Seconds between which that bound is kept."""

FIRST_STEP: Final = 1800.0
"""Seconds until the first step where spec.stall.firstStepSeconds does not say."""

FRESH: Final = timedelta(seconds=60)
"""The age up to which a reading says something of now: four readings."""


@unique
class StallAction(StrEnum):
    """What follows where a job stands still."""

    TELL = "Tell"
    """Condition, event and metric say it; the job runs on."""
    RESTART = "Restart"
    """The attempt ends, and another one goes on from the checkpoint."""
    FAIL = "Fail"
    """The job is Failed and gives its GPUs back."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A job without a step for longer than its bound."""

    message: str


def action_of(job: JobRecord) -> StallAction:
    """spec.stall.action; `Tell` where it does not say."""
    said = table(job.spec, "stall").get("action")
    return next((action for action in StallAction if action == said), StallAction.TELL)


def is_fresh(measured: Measured | None, now: datetime) -> bool:
    """Whether a reading says something of now, and of all pods."""
    return measured is not None and measured.still is not None and measured.compared and now - measured.at <= FRESH


def bound_of(job: JobRecord, steps: float, slowest: float | None) -> tuple[float, str]:
    """Seconds without a sign of work that count as a stall, and where the number comes from."""
    said = table(job.spec, "stall")
    if not steps:
        first = whole_number(said.get("firstStepSeconds"))
        return (FIRST_STEP, "the first step") if first is None else (float(first), "spec.stall.firstStepSeconds")
    if (after := whole_number(said.get("afterSeconds"))) is not None:
        return float(after), "spec.stall.afterSeconds"
    slowest = slowest or 0.0
    why = f"{TIMES} times the slowest step of {slowest:.3g} seconds, {SHORTEST:.0f} to {LONGEST:.0f}"
    return min(LONGEST, max(SHORTEST, TIMES * slowest)), why


def stall_of(job: JobRecord, telemetry: Telemetry, now: datetime) -> Stall | None:
    """Why the job stands still; None while it works, and while that is not known."""
    measured = telemetry.measured
    if measured is None:
        return _never_reported(job, telemetry, now)
    steps = measured.counters.get("steps", 0.0)
    bound, why = bound_of(job, steps, measured.slowest_step)
    if measured.still is None or measured.still < bound or not is_fresh(measured, now) or _only_serves(job, steps):
        return None
    where = standstill.sentence(measured.ranks)
    seconds = counted(int(measured.still), "second")
    missing = f"no step for {seconds} after step {int(steps)}" if steps else f"no first step for {seconds}"
    return Stall(f"{missing}; the bound is {bound:g} seconds ({why})" + (f"; {where}" if where else ""))


def is_near(job: JobRecord, measured: Measured) -> bool:
    """Whether a job has been still for half its bound: then all its pods are read, so that the others' phases count."""
    bound, _ = bound_of(job, measured.counters.get("steps", 0.0), measured.slowest_step)
    return measured.still is not None and measured.still >= bound / 2


def _never_reported(job: JobRecord, telemetry: Telemetry, now: datetime) -> Stall | None:
    """Of a program that reports nothing only a job that sets spec.stall says that it makes steps."""
    began, bound = read_time(job.status.get("startTime")), bound_of(job, 0.0, None)[0]
    refused = any(update.reason is Reason.NO_REPORTER for update in telemetry.updates)
    if not refused or began is None or job.spec.get("stall") is None or _only_serves(job, 0.0):
        return None
    seconds = (now - began).total_seconds()
    if seconds < bound:
        return None
    return Stall(
        f"no first step for {counted(int(seconds), 'second')}; the bound is {bound:g} seconds "
        f"(spec.stall.firstStepSeconds, {FIRST_STEP:g} when absent); no process of the first pod has "
        "made an optimizer, or called gpujob_report.step()"
    )


def _only_serves(job: JobRecord, steps: float) -> bool:
    """Whether it is inference, which makes no steps."""
    return not steps and table(job.spec, "model").get("method") == Method.INFERENCE
