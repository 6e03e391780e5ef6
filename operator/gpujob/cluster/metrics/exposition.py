"""Parses a job's report: Prometheus text, strictly and within bounds, because any program may listen on the port.

The names are those of docs/telemetry.md. Lines of other names are skipped; an unreadable line of one of these names makes the
whole report unreadable, because half a report would show as slowness.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpujob.status.attempts.standstill import TRAINING

MOST_BYTES: Final = 512 * 1024
"""The longest report that is read; a reporter's own is about 3 KiB for each process, and a pod has at most 64 processes."""

MOST_LINES: Final = 8192
"""The most lines of a report that are read; 64 processes write about 4,000."""

MOST_SAMPLES: Final = 2048
"""The most samples of a report that are read; 64 processes write about 1,030 of them."""

MOST: Final = 1e18
"""The largest credible number."""

LATEST: Final = 253402300799.0
"""The last second of the year 9999 as Unix time."""

LONGEST_SAVE: Final = 86400.0
"""The longest time in seconds that saving a checkpoint takes."""

SUMMED: Final = {"gpujob_samples_total": "samples", "gpujob_tokens_total": "tokens"}
"""Counters of each process's own share."""

WHOSE: Final = "gpujob_attempt_info"
"""The metric whose labels name the owner of the report."""

PHASE: Final = "gpujob_phase"
"""The metric whose label names what a process does."""

FAULT: Final = "gpujob_device_fault_timestamp_seconds"
"""The metric whose labels name a device and what the driver reported of it."""

MOST_FAULTS: Final = 16
"""The most faults of a report that are read."""

READ: Final = frozenset({
    *SUMMED, FAULT, WHOSE, PHASE, "gpujob_up", "gpujob_steps_total", "gpujob_world_size", "gpujob_ranks_reporting",
    "gpujob_progress_ratio", "gpujob_remaining_seconds", "gpujob_checkpoint_step", "gpujob_checkpoint_timestamp_seconds",
    "gpujob_checkpoint_save_seconds", "gpujob_unsaved_steps", "gpujob_first_step_timestamp_seconds",
    "gpujob_last_step_timestamp_seconds", "gpujob_on_device", "gpujob_still_seconds", "gpujob_slowest_step_seconds",
    "gpujob_phase_left_seconds",
})  # fmt: skip
"""Names that are read."""

_NAME: Final = re.compile(r"gpujob_[a-zA-Z0-9_:]{1,64}")
_LABEL: Final = re.compile(r'([a-z_]{1,32})="([-0-9A-Za-z._:]{0,128})"')
_ATTEMPT: Final = re.compile(r"[0-9]{1,9}")
_REST: Final = re.compile(r"(\{[^{}]{0,1024}\})? +([-+.0-9a-zA-Z]{1,32})(?: +-?[0-9]{1,20})? *")


class UnreadableReport(ValueError):
    """The port serves no report; the message gives the reason in a few words, and repeats nothing of the content."""


@dataclass(frozen=True, slots=True)
class Report:
    """The report of all processes of one pod; None or absent if not reported."""

    counters: Mapping[str, float]
    """steps, samples, tokens of the whole job, since its program began."""
    progress: float | None = None
    """0 to 1."""
    remaining: float | None = None
    """Seconds."""
    checkpoint: int | None = None
    """A step."""
    checkpoint_at: float | None = None
    """Unix time in seconds."""
    save_seconds: float | None = None
    """The longest time that a checkpoint took to save."""
    unsaved: int | None = None
    """Steps since the last checkpoint."""
    first_step_at: float | None = None
    """Unix time in seconds."""
    last_step_at: float | None = None
    """Unix time in seconds."""
    on_device: bool | None = None
    """Whether every process uses memory on a GPU; False: one trains on the CPU."""
    still: float | None = None
    """Seconds in which no process made a step, fetched a batch or was in a phase, unless the bound of the phase is over."""
    slowest_step: float | None = None
    """Seconds of the longest of the last steps of any process, without phases."""
    in_phase: bool = False
    """Whether a process compiles, evaluates or saves."""
    phase_left: float | None = None
    """Seconds for which the clock of any process still stands in its phase."""
    whose: tuple[str, int] | None = None
    """The job's uid and the attempt."""
    faults: tuple[tuple[str, str, float], ...] = ()
    """What the driver reported of devices of the pod (`Xid-79`), the device, and the Unix time of the first such error."""

    def rates(self, shortest: float) -> dict[str, float]:
        """What each counter gained a second from the first step to the last; empty for less than `shortest` seconds."""
        steps, seconds = self.counters.get("steps", 0.0), (self.last_step_at or 0.0) - (self.first_step_at or 0.0)
        if self.first_step_at is None or steps < 2 or seconds < shortest:
            return {}
        # The first step began before its time was recorded, with the program's start.
        return {key: value * (steps - 1) / steps / seconds for key, value in self.counters.items()}

    def is_of(self, job_uid: str, attempt: int, *, must_say: bool) -> bool:
        """Whether it is of that attempt; a report without that field, as from earlier reporters, counts unless it is required."""
        return not must_say if self.whose is None else self.whose == (job_uid, attempt)


def read_report(body: bytes) -> Report:
    """The report in a reply's body; raises UnreadableReport."""
    found: dict[str, list[float]] = defaultdict(list)
    series: set[tuple[str, str]] = set()
    faults: list[tuple[str, str, float]] = []
    for name, labels, value in _samples(body):
        if (name, labels) in series:
            raise UnreadableReport(f"its {name} is there twice")
        series.add((name, labels))
        found[name].append(value)
        if name == FAULT and value <= LATEST and (fault := _fault(labels)) is not None:
            faults.append((*fault, value))
    if not found.get("gpujob_up"):
        raise UnreadableReport("it has no gpujob_up")
    on_device = found.get("gpujob_on_device")
    return Report(
        counters=_counters(found),
        progress=_most(found, "gpujob_progress_ratio", below=1.0),
        remaining=_most(found, "gpujob_remaining_seconds"),
        checkpoint=_whole(_most(found, "gpujob_checkpoint_step")),
        checkpoint_at=_most(found, "gpujob_checkpoint_timestamp_seconds", below=LATEST),
        save_seconds=_most(found, "gpujob_checkpoint_save_seconds", below=LONGEST_SAVE),
        unsaved=_whole(_most(found, "gpujob_unsaved_steps")),
        first_step_at=_most(found, "gpujob_first_step_timestamp_seconds", below=LATEST),
        last_step_at=_most(found, "gpujob_last_step_timestamp_seconds", below=LATEST),
        on_device=min(on_device) > 0 if on_device else None,
        still=_least(found, "gpujob_still_seconds"),
        slowest_step=_most(found, "gpujob_slowest_step_seconds"),
        in_phase=any(_phase(labels) != TRAINING for name, labels in series if name == PHASE),
        phase_left=_most(found, "gpujob_phase_left_seconds"),
        whose=_whose([labels for name, labels in series if name == WHOSE]),
        faults=tuple(sorted(faults)[:MOST_FAULTS]),
    )


def _fault(labels: str) -> tuple[str, str] | None:
    """What is broken and which device, in the labels of one sample."""
    said = dict(_LABEL.findall(labels))
    return (said["fault"], said["device"]) if said.get("fault") and said.get("device") else None


def _whose(lines: Sequence[str]) -> tuple[str, int] | None:
    """The job's uid and the attempt in the labels of the one sample that has them."""
    if not lines:
        return None
    said = dict(_LABEL.findall(lines[0]))
    attempt = said.get("attempt", "")
    if len(lines) > 1 or "job_uid" not in said or not _ATTEMPT.fullmatch(attempt):
        raise UnreadableReport(f"its {WHOSE} does not name one job and attempt")
    return said["job_uid"], int(attempt)


def _counters(found: Mapping[str, list[float]]) -> dict[str, float]:
    """The job's counters: all processes step together, and each counts the samples and tokens of its own batches."""
    steps = _most(found, "gpujob_steps_total")
    reporting = _most(found, "gpujob_ranks_reporting") or 1.0
    world = max(_most(found, "gpujob_world_size") or 1.0, reporting)
    counted = {word: sum(found[name]) * world / reporting for name, word in SUMMED.items() if found.get(name)}
    if any(value > MOST for value in counted.values()):
        raise UnreadableReport(f"its counters are above {MOST:g}")
    return counted if steps is None else {"steps": steps, **counted}


def _samples(body: bytes) -> Iterator[tuple[str, str, float]]:
    """Name, raw labels and value of each sample that is read."""
    if len(body) > MOST_BYTES:
        raise UnreadableReport(f"more than {MOST_BYTES} bytes")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableReport("not UTF-8 text") from None
    if text.count("\n") > MOST_LINES:
        raise UnreadableReport(f"more than {MOST_LINES} lines")
    left = MOST_SAMPLES
    for line in text.split("\n"):
        name = _NAME.match(line)
        if name is not None and name[0] in READ:
            rest = _REST.fullmatch(line, name.end())
            if rest is None:
                raise UnreadableReport(f"its {name[0]} is no Prometheus sample")
            left -= 1
            if left < 0:
                raise UnreadableReport(f"more than {MOST_SAMPLES} samples")
            yield name[0], rest[1] or "", _number(name[0], rest[2])


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UnreadableReport(f"its {name} is no number") from None
    if not math.isfinite(value) or not 0 <= value <= MOST:
        raise UnreadableReport(f"its {name} is below 0 or endless")
    return value


def _most(found: Mapping[str, list[float]], name: str, below: float = MOST) -> float | None:
    """The largest value of any process; processes differ by the moment of their report."""
    values = found.get(name)
    if values and max(values) > below:
        raise UnreadableReport(f"its {name} is above {below:g}")
    return max(values) if values else None


def _least(found: Mapping[str, list[float]], name: str) -> float | None:
    """The smallest value of any process."""
    return min(found.get(name, ()), default=None)


def _phase(labels: str) -> str:
    return str(dict(_LABEL.findall(labels)).get("phase", TRAINING))


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
