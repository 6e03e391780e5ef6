"""The measurements of a job's reporter as members of its status; and when they are worth a write of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from gpujob.status.attempts.standstill import Ranks
from gpujob.status.attempts.waits import read_time, write_time
from gpujob.values.untrusted import table, whole_number

WORTH_PERCENT: Final = 5
"""Percent of progress that is worth a status write."""

FIRST_AFTER: Final = timedelta(seconds=60)
"""How long a job runs until its first speed is worth a write: the first steps are slower than the rest."""

LONG: Final = timedelta(seconds=300)
"""The remaining time, if the program reports it, below which the first speed is written with the end only."""

CHECKPOINT_EVERY: Final = timedelta(seconds=60)
"""The shortest time between two writes for a new checkpoint."""

LONGEST: Final = timedelta(days=3650)
"""The longest credible remaining time."""


@dataclass(frozen=True, slots=True)
class FaultSeen:
    """What a driver reported of a device under a program that runs on, by the pod's reporter."""

    pod: str
    what: str
    """For example Xid 79."""
    device: str
    at: str
    """When, by the clock of its node, as RFC 3339."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The last report of a job, for the whole job; None if not reported."""

    at: datetime
    fraction: float | None = None
    """How much is done, 0 to 1."""
    remaining: float | None = None
    """Seconds until it has ended."""
    counters: Mapping[str, float] = field(default_factory=dict)
    """steps, samples, tokens since the attempt began."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """The same for a second."""
    overall: Mapping[str, float] = field(default_factory=dict)
    """The same for a second over all readings so far."""
    seconds: float = 0.0
    """Seconds over which that is."""
    checkpoint: int | None = None
    """The step of the last checkpoint that is safe."""
    checkpoint_at: datetime | None = None
    save_seconds: float | None = None
    """The longest time that a checkpoint took to save."""
    unsaved: int | None = None
    """Steps since the last checkpoint of this attempt; None before it."""
    last_step_at: float | None = None
    """Unix time in seconds."""
    on_device: bool | None = None
    """Whether it trains on GPUs; False: on the CPU."""
    still: float | None = None
    """Seconds in which no rank made a step, fetched a batch or was in a phase; None where the reporter does not say."""
    slowest_step: float | None = None
    """Seconds of the longest of the last steps."""
    ranks: Ranks = field(default_factory=Ranks)
    """All ranks, where the job stands still."""
    compared: bool = True
    """Whether `still` and `ranks` are those of all pods; False while the others of a job that may stand still are being read."""
    faults: tuple[FaultSeen, ...] = ()
    """Broken devices of its pods, sorted by pod."""


def members(held: Mapping[str, Any], measured: Measured | None, *, done: bool = False) -> dict[str, Any]:
    """status.progress, .throughput and .checkpoint: as measured, else as stored; `done`: the job succeeded."""
    found = _members(held, measured)
    return found | {"progress": _whole(found["progress"])} if done else found


def _whole(progress: Mapping[str, Any]) -> dict[str, Any]:
    """The progress of a succeeded program: its last report may be seconds old, so that 100 percent would never show."""
    kept = {key: value for key, value in progress.items() if key != "estimatedEnd"}
    return kept | {"percent": 100} if "percent" in kept else kept


def _members(held: Mapping[str, Any], measured: Measured | None) -> dict[str, Any]:
    if measured is None:
        return {key: dict(table(held, key)) for key in ("progress", "throughput", "checkpoint")}
    steps, ends = measured.counters.get("steps"), None
    if measured.remaining is not None and measured.remaining < LONGEST.total_seconds():
        ends = write_time(measured.at + timedelta(seconds=measured.remaining))
    progress = {
        "step": None if steps is None else int(steps),
        "percent": None if measured.fraction is None else int(measured.fraction * 100),
        "estimatedEnd": ends,
        "updated": write_time(measured.at),
    }
    throughput = {f"{what}PerSecond": _figure(rate) for what, rate in measured.rates.items()}
    return {
        "progress": _known(progress),
        "throughput": throughput or dict(table(held, "throughput")),
        "checkpoint": _checkpoint(table(held, "checkpoint"), measured),
    }


def _checkpoint(held: Mapping[str, Any], measured: Measured) -> dict[str, Any]:
    """status.checkpoint: the last one that is safe, the slowest save, and the steps that failed attempts lost."""
    if measured.checkpoint is None:
        return dict(held)
    saved = {
        "step": measured.checkpoint,
        "time": write_time(measured.checkpoint_at) if measured.checkpoint_at else None,
        "saveSeconds": None if measured.save_seconds is None else math.ceil(measured.save_seconds),
    }
    kept = {key: held[key] for key in ("saveSeconds", "lostSteps") if key in held}
    return kept | _known(saved)


def after_failure(held: Mapping[str, Any], measured: Measured | None) -> dict[str, Any]:
    """status.checkpoint after an attempt failed: the steps since its last checkpoint are lost, as last read."""
    found = _checkpoint(table(held, "checkpoint"), measured) if measured else dict(table(held, "checkpoint"))
    if not found or measured is None:
        return found
    steps = measured.counters.get("steps", 0.0) if measured.unsaved is None else measured.unsaved
    lost = (whole_number(found.get("lostSteps")) or 0) + int(steps)
    return found | {"lostSteps": lost} if lost else found


def display(status: Mapping[str, Any]) -> dict[str, str]:
    """The texts for `kubectl get` of a status that has its members."""
    progress, throughput = table(status, "progress"), table(status, "throughput")
    percent, step = whole_number(progress.get("percent")), whole_number(progress.get("step"))
    far = f"{percent} %" if percent is not None else f"step {step}" if step is not None else ""
    fast = next((f"{throughput[key]}{unit}" for key, unit in _UNITS.items() if throughput.get(key)), "")
    accrued = table(status, "cost").get("accrued")
    paid = f"${_cents(accrued)}" if isinstance(accrued, str) else ""
    return {key: text for key, text in (("progress", far), ("throughput", fast), ("cost", paid)) if text}


_UNITS: Final = {"tokensPerSecond": "", "samplesPerSecond": " samples/s", "stepsPerSecond": " steps/s"}
"""The text of the column of tokens a second, from the first known rate; rates other than tokens have a unit there."""


def is_worth_a_write(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the change since the last write is worth one before its time."""
    before = whole_number(table(held, "progress").get("percent")) or 0
    after = whole_number(table(wanted, "progress").get("percent"))
    saved = table(wanted, "checkpoint").get("step") != table(held, "checkpoint").get("step")
    moved = after is not None and after >= before + WORTH_PERCENT
    return moved or (saved and _rested(held, wanted)) or _has_first_speed(held, wanted)


def _has_first_speed(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the speed of a long-running job is known for the first time."""
    progress = table(wanted, "progress")
    started, now, end = (
        read_time(text) for text in (held.get("startTime"), progress.get("updated"), progress.get("estimatedEnd"))
    )
    moves = any(rate != "0" for rate in table(wanted, "throughput").values())
    if table(held, "throughput") or not moves or started is None or now is None:
        return False
    return now - started >= FIRST_AFTER and (end is None or end - now >= LONG)


def _rested(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the last write is old enough for a new checkpoint: a program may report one after each step."""
    last, now = (read_time(table(status, "progress").get("updated")) for status in (held, wanted))
    return last is None or now is None or not timedelta() <= now - last < CHECKPOINT_EVERY


def differs(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the new status has another progress, speed or cost than the stored one."""
    return table(held, "display") != table(wanted, "display") or is_worth_a_write(held, wanted)


def _figure(number: float) -> str:
    """A rate in at least three digits: 2553, 25.5, 0.0255."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}" if number >= 1e-3 else "0"


def _cents(accrued: str) -> str:
    """Dollars with two decimals, from the operator's text with two to six."""
    whole, _, part = accrued.partition(".")
    return f"{whole}.{(part + '00')[:2]}"


def _known(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if value is not None}
