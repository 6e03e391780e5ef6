"""A GPUJobProfile after one more run: the job's measurement, under its device, gang and number format.

A run that is recorded already (by the job's uid) changes nothing, so that a step that is repeated after a crash counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from gpujob.placement.request.profile_measurements import LEAST, MOST, UNITS, Measurement, Profile, Run, figure
from gpujob.status.attempts.waits import read_time, write_time
from gpujob.values.quantity import exact_dollars
from gpujob.values.untrusted import table
from gpujob.values.vocabulary import API_VERSION, FIELD_MANAGER, Label

KEPT: Final = 8
"""The most runs of a measurement; the oldest are dropped first."""

MEASUREMENTS: Final = 64
"""The most measurements of a profile; those with the oldest newest run are dropped first."""

LEAST_SECONDS: Final = 20
"""The least measured seconds: the first steps compile kernels and fill caches."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One job's measurement: units a second of the whole job by unit, over a number of seconds."""

    job: str
    device: str
    accelerator: str
    shape: str
    precision: str
    rates: Mapping[str, float]
    seconds: int
    dollars: int | None
    ended: datetime


def from_status(status: Mapping[str, Any]) -> tuple[dict[str, float], float]:
    """The rates in a status of its current attempt, and their seconds: for an operator that began to read too late to have its own."""
    begun, until = (read_time(text) for text in (status.get("startTime"), table(status, "progress").get("updated")))
    rates = {unit: _rate(table(status, "throughput").get(f"{unit}PerSecond")) for unit in UNITS}
    measured = {unit: rate for unit, rate in rates.items() if rate is not None}
    return measured, (until - begun).total_seconds() if begun and until and measured else 0.0


def _rate(text: Any) -> float | None:
    try:
        rate = float(text) if isinstance(text, str) else 0.0
    except ValueError:
        return None
    return rate if LEAST <= rate <= MOST else None


def after_run(namespace: str, name: str, held: Profile, ran: Ran) -> dict[str, Any] | None:
    """The GPUJobProfile object with the run; None if the run adds nothing (too short, nothing counted, recorded already).

    It carries the uid and the version that it was made from, so that it undoes neither another write nor a deletion.
    """
    measurements = held.measurements
    unit = next((word for word in UNITS if ran.rates.get(word, 0.0) >= LEAST), None)
    if unit is None or ran.seconds < LEAST_SECONDS:
        return None
    if any(run.job == ran.job for measurement in measurements for run in measurement.runs):
        return None
    run = Run(ran.rates[unit], ran.ended.timestamp(), ran.job, ran.seconds, ran.dollars)
    one = Measurement(ran.device, ran.accelerator, ran.shape, ran.precision, unit, (run,), 1)
    body = _object(namespace, name, _added([_by_now(m, one.runs[0].ended) for m in measurements], one))
    body["metadata"] |= {"uid": held.uid, "resourceVersion": held.version} if held.version else {}
    return body


def _by_now(measurement: Measurement, now: float) -> Measurement:
    """A measurement without times in the future: otherwise runs of a clock that was ahead would be the newest for years."""
    return replace(measurement, runs=tuple(replace(run, ended=min(run.ended, now)) for run in measurement.runs))


def _added(measurements: Sequence[Measurement], one: Measurement) -> list[Measurement]:
    before = next((m for m in measurements if m.key == one.key), None)
    if before is not None:
        runs = tuple(sorted((*before.runs, *one.runs), key=lambda run: run.ended))[-KEPT:]
        one = replace(one, runs=runs, count=before.count + 1)
    others = [m for m in measurements if m.key != one.key]
    newest = sorted((*others, one), key=lambda m: max(run.ended for run in m.runs))[-MEASUREMENTS:]
    return sorted(newest, key=lambda m: m.key)


def _object(namespace: str, name: str, measurements: Sequence[Measurement]) -> dict[str, Any]:
    fastest = max(measurements, key=lambda m: (m.unit == measurements[0].unit, m.per_second))
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUJobProfile",
        "metadata": {"name": name, "namespace": namespace, "labels": {Label.MANAGED_BY: FIELD_MANAGER}},
        "status": {
            "summary": f"{fastest.shape} {fastest.device}: {figure(fastest.per_second)} {fastest.unit}/s"[:128],
            "runs": sum(m.count for m in measurements),
            "measurements": [_measurement(m) for m in measurements],
        },
    }


def _measurement(measurement: Measurement) -> dict[str, Any]:
    return {
        "device": measurement.device,
        "accelerator": measurement.accelerator,
        "shape": measurement.shape,
        "precision": measurement.precision,
        "unit": measurement.unit,
        "perSecond": f"{measurement.per_second:.6g}",
        "count": measurement.count,
        "runs": [_run(run) for run in measurement.runs],
    }


def _run(run: Run) -> dict[str, Any]:
    dollars = {} if run.dollars is None else {"dollars": exact_dollars(run.dollars)}
    ended = write_time(datetime.fromtimestamp(run.ended, UTC))
    return {"job": run.job, "perSecond": f"{run.per_second:.6g}", "seconds": run.seconds, "time": ended, **dollars}
