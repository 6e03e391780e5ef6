"""The probes of a job: status.probes for each pool, and when a probe has run long enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gpujob.placement.engine.exploration import MOST_TRIALS
from gpujob.placement.request.profile_measurements import LEAST, UNITS, Measurement, figure, read_measurements
from gpujob.status.attempts.progress import Measured
from gpujob.status.attempts.waits import write_time
from gpujob.status.records.objects import ChildRecord, JobRecord
from gpujob.values.untrusted import table, tables, whole_number


@dataclass(frozen=True, slots=True)
class ProbeLimits:
    """Seconds after which a probe ends whatever it measured."""

    longest: float = 900.0
    """Since its pods run, if it does not reach its steps."""
    starts_within: float = 900.0
    """Since its creation, if its pods do not run; most of them are for the image."""
    unreachable: float = 120.0
    """Since its pods run, if its pod cannot be reached: a remedy would come too late."""


DEFAULT_LIMITS: Final = ProbeLimits()


@dataclass(frozen=True, slots=True)
class Course:
    """The progress of a probe, by the API server's clock and the operator's own, because a node's clock may be wrong."""

    age: float
    """Seconds since its child was created."""
    ran: float | None
    """Seconds since its pods were first seen to run; None before."""
    waits: str = ""
    """What it does, or waits for, in a sentence."""
    blocked: str = ""
    """The message about an unreachable pod, with the remedy; empty if it is reachable or not read yet."""
    limits: ProbeLimits = DEFAULT_LIMITS

    @property
    def left(self) -> float:
        """Seconds until it is over whatever it measured."""
        limits = self.limits
        if self.ran is None:
            return max(0.0, limits.starts_within - self.age)
        longest = limits.unreachable if self.blocked else limits.longest
        return max(0.0, min(longest - self.ran, limits.starts_within + limits.longest - self.age))


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one probe: a rate in a unit, an error, or why it measured nothing without an error."""

    pool: str
    unit: str = ""
    per_second: float = 0.0
    failed: str = ""
    unmeasured: str = ""
    started: bool = True

    @property
    def sentence(self) -> str:
        """For the Placed condition."""
        if self.failed:
            return f"the trial on pool {self.pool} failed: {self.failed}"
        if self.unmeasured:
            return f"the trial on pool {self.pool} {self.unmeasured}"
        return f"the trial on pool {self.pool} measured {figure(self.per_second)} {self.unit}/s"


def steps_of(child: ChildRecord) -> int | None:
    """Steps after which this child ends because it is a probe; None for the real run."""
    return whole_number(child.hint.placement.get("probe"))


def result(child: ChildRecord, measured: Measured | None, course: Course) -> Result | None:
    """The result of a probe, once it is over; None while it runs, and if its program has ended by itself."""
    steps, pool = steps_of(child), str(child.hint.placement.get("pool", ""))
    if steps is None or child.ended:
        return None
    over = course.left <= 0
    if course.ran is None:
        why = f"did not start within {course.limits.starts_within:g} seconds: {course.waits}"
        return Result(pool, unmeasured=why, started=False) if over else None
    rates = measured.rates if measured else {}
    unit = next((word for word in UNITS if rates.get(word, 0.0) >= LEAST), None)
    done = measured is not None and measured.counters.get("steps", 0.0) >= steps
    if unit is not None and (done or over):
        return Result(pool, unit, rates[unit])
    # Not the pool's fault: a program that does not report, or an unreachable one, reports no step on any pool.
    why = (
        f"was not read: {course.blocked}"
        if course.blocked
        else f"reported no step within {course.limits.longest:g} seconds; its program needs to report"
    )
    return Result(pool, unmeasured=why) if over else None


def with_result(
    status: Mapping[str, Any], child: ChildRecord, result: Result, precision: str, now: datetime
) -> list[dict[str, Any]]:
    """status.probes after one more probe."""
    placement = child.hint.placement
    entry: dict[str, Any] = {
        "pool": result.pool,
        "device": device_of(placement),
        "accelerator": str(placement.get("accelerator", "")),
        "shape": shape_of(placement),
        "precision": precision,
        "time": write_time(now),
    }
    if result.failed:
        entry["failed"] = result.failed[:256]
    elif result.unmeasured:
        entry["unmeasured"] = result.unmeasured[:256]
        entry |= {} if result.started else {"started": False}
    else:
        entry |= {"unit": result.unit, "perSecond": f"{result.per_second:.6g}"}
    place = entry["pool"], entry["shape"]
    others = [dict(each) for each in tables(status, "probes") if (each.get("pool"), each.get("shape")) != place]
    return [*others, entry][-MOST_TRIALS:]


def device_of(placement: Mapping[str, Any]) -> str:
    """The device of a placement, as written in a status."""
    return str(placement.get("device") or placement.get("accelerator", ""))


def shape_of(placement: Mapping[str, Any]) -> str:
    """Its gang: nodes x GPUs per node."""
    return f"{placement.get('nodes', 1)}x{placement.get('gpusPerNode', 1)}"


def kept(job: JobRecord) -> list[dict[str, Any]]:
    """status.probes without probes that failed or did not start before the job was edited: the edit may have fixed the cause."""
    edited = job.status.get("observedGeneration") != job.generation
    return [dict(each) for each in tables(job.status, "probes") if not (edited and _is_in_vain(each))]


def _is_in_vain(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("failed")) or entry.get("started") is False


def measurements(status: Mapping[str, Any]) -> tuple[Measurement, ...]:
    """The measurements of a job's own probes."""
    return read_measurements({"measurements": [_as_measurement(each) for each in tables(status, "probes")]})


def _as_measurement(entry: Mapping[str, Any]) -> dict[str, Any]:
    run = {"job": "", "perSecond": entry.get("perSecond"), "time": entry.get("time")}
    return {**entry, "count": 1, "runs": [run]}


def failed(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The pools on which a probe failed, and its message."""
    for entry in tables(status, "probes"):
        pool, said = entry.get("pool"), entry.get("failed")
        if isinstance(pool, str) and isinstance(said, str) and said:
            yield pool, said[:256]


def tried(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The devices and gangs of the job's probes so far."""
    return map(_device_and_gang, _placed(status))


def unstarted(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The probes that did not start."""
    return (_device_and_gang(entry) for entry in _placed(status) if entry.get("started") is False)


def _placed(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for entry in tables(status, "probes")[:MOST_TRIALS]:
        if isinstance(entry.get("device"), str) and isinstance(entry.get("shape"), str):
            yield entry


def _device_and_gang(entry: Mapping[str, Any]) -> tuple[str, str]:
    return entry["device"], entry["shape"]


def is_trial(status: Mapping[str, Any]) -> bool:
    """Whether the placement in a status is a probe."""
    return whole_number(table(status, "placement").get("probe")) is not None
