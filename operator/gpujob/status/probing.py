"""The trials of a job that probes: what status.probes says of each pool, and when a trial has run long enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gpujob.placement.learned import LEAST, UNITS, Measurement, figure, read_measurements
from gpujob.placement.trying import MOST_TRIALS
from gpujob.status.patience import read_time, write_time
from gpujob.status.progress import Measured
from gpujob.status.records import ChildRecord, JobRecord
from gpujob.untrusted import table, tables, whole_number

LONGEST: Final = 900.0
"""Seconds after which a trial that does not reach its steps is ended."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one trial: a rate in a unit, what went wrong, or neither, where nothing could be measured."""

    pool: str
    unit: str = ""
    per_second: float = 0.0
    failed: str = ""

    @property
    def sentence(self) -> str:
        """For the Placed condition."""
        if self.failed:
            return f"the trial on pool {self.pool} failed: {self.failed}"
        if not self.unit:
            return (
                f"the trial on pool {self.pool} told of no step within {LONGEST:g} seconds; its program needs to report"
            )
        return f"the trial on pool {self.pool} measured {figure(self.per_second)} {self.unit}/s"


def steps_of(child: ChildRecord) -> int | None:
    """Steps after which this child ends, since it is a trial; None for the real run."""
    return whole_number(child.hint.placement.get("probe"))


def result(job: JobRecord, child: ChildRecord, measured: Measured | None, now: datetime) -> Result | None:
    """The result of a trial that runs, once it is over; None while it goes on, and where its program has ended by itself."""
    steps, pool = steps_of(child), str(child.hint.placement.get("pool", ""))
    begun = read_time(job.status.get("startTime"))
    if steps is None or begun is None or child.ended:
        return None
    over = (now - begun).total_seconds() >= LONGEST
    rates = measured.rates if measured else {}
    unit = next((word for word in UNITS if rates.get(word, 0.0) >= LEAST), None)
    done = measured is not None and measured.counters.get("steps", 0.0) >= steps
    if unit is not None and (done or over):
        return Result(pool, unit, rates[unit])
    # No fault of the pool: a program that does not report, or one that cannot be reached, tells of a step nowhere.
    return Result(pool) if over else None


def seconds_left(job: JobRecord, now: datetime) -> float:
    """Seconds until a trial is over whatever it measured."""
    begun = read_time(job.status.get("startTime"))
    return LONGEST if begun is None else max(0.0, LONGEST - (now - begun).total_seconds())


def with_result(
    status: Mapping[str, Any], child: ChildRecord, result: Result, precision: str, now: datetime
) -> list[dict[str, Any]]:
    """status.probes after one more trial."""
    placement = child.hint.placement
    entry = {
        "pool": result.pool,
        "device": str(placement.get("device") or placement.get("accelerator", "")),
        "accelerator": str(placement.get("accelerator", "")),
        "shape": f"{placement.get('nodes', 1)}x{placement.get('gpusPerNode', 1)}",
        "precision": precision,
        "time": write_time(now),
    }
    if result.failed:
        entry["failed"] = result.failed[:256]
    elif result.unit:
        entry |= {"unit": result.unit, "perSecond": f"{result.per_second:.6g}"}
    place = entry["pool"], entry["shape"]
    others = [dict(each) for each in tables(status, "probes") if (each.get("pool"), each.get("shape")) != place]
    return [*others, entry][-MOST_TRIALS:]


def kept(job: JobRecord) -> list[dict[str, Any]]:
    """status.probes without trials that failed before the job was edited: the edit may have mended why."""
    edited = job.status.get("observedGeneration") != job.generation
    return [dict(each) for each in tables(job.status, "probes") if not (edited and each.get("failed"))]


def measurements(status: Mapping[str, Any]) -> tuple[Measurement, ...]:
    """What a job's own trials measured."""
    return read_measurements({"measurements": [_as_measurement(each) for each in tables(status, "probes")]})


def _as_measurement(entry: Mapping[str, Any]) -> dict[str, Any]:
    run = {"job": "", "perSecond": entry.get("perSecond"), "time": entry.get("time")}
    return {**entry, "count": 1, "runs": [run]}


def failed(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The pools on which a trial failed, and what it said."""
    for entry in tables(status, "probes"):
        pool, said = entry.get("pool"), entry.get("failed")
        if isinstance(pool, str) and isinstance(said, str) and said:
            yield pool, said[:256]


def tried(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The devices and shapes of the job's trials so far."""
    for entry in tables(status, "probes")[:MOST_TRIALS]:
        device, shape = entry.get("device"), entry.get("shape")
        if isinstance(device, str) and isinstance(shape, str):
            yield device, shape


def is_trial(status: Mapping[str, Any]) -> bool:
    """Whether the placement that a status tells of is a trial."""
    return whole_number(table(status, "placement").get("probe")) is not None
