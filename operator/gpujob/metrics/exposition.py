"""Reads what a job's reporter serves: Prometheus text, strictly and within bounds, for anything can stand behind a port.

The names are those of docs/telemetry.md. Lines of other names are skipped; a line of one of these names that cannot be
read makes the whole report unreadable, since half a report would show as slowness.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

MOST_BYTES: Final = 65536
"""The longest report that is read; a reporter's own is about 4 KiB for 8 processes."""

MOST: Final = 1e18
"""The largest number that is believed."""

COUNTERS: Final = {
    "gpujob_steps_total": "steps",
    "gpujob_samples_total": "samples",
    "gpujob_tokens_total": "tokens",
}

_SAMPLE: Final = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]{0,127})(?:\{[^{}]{0,1024}\})? +([-+.0-9a-zA-Z]{1,32})(?: +-?[0-9]{1,20})? *"
)


class UnreadableReport(ValueError):
    """What a port serves is no report; the message says why in a few words, and repeats nothing of it."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the processes of one pod have reported; None or absent where nothing was said."""

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


def read_report(body: bytes) -> Report:
    """The report in a reply's body; raises UnreadableReport."""
    found: dict[str, list[float]] = defaultdict(list)
    for name, value in _samples(body):
        found[name].append(value)
    if not found:
        raise UnreadableReport("no line of it is known")
    return Report(
        counters={word: found[name][0] for name, word in COUNTERS.items() if found.get(name)},
        progress=_first(found, "gpujob_progress_ratio", most=1.0),
        remaining=_first(found, "gpujob_remaining_seconds"),
        checkpoint=_whole(_first(found, "gpujob_checkpoint_step")),
        checkpoint_at=_first(found, "gpujob_checkpoint_timestamp_seconds", most=253402300799.0),
    )


def _samples(body: bytes) -> Iterator[tuple[str, float]]:
    if len(body) > MOST_BYTES:
        raise UnreadableReport(f"more than {MOST_BYTES} bytes")
    try:
        text = body.decode("ascii")
    except UnicodeDecodeError:
        raise UnreadableReport("not ASCII text") from None
    for line in text.split("\n"):
        if line.startswith("gpujob_"):
            match = _SAMPLE.fullmatch(line)
            if match is None:
                raise UnreadableReport("a line of it is no Prometheus sample")
            yield match[1], _number(match[2])


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UnreadableReport("a value of it is no number") from None
    if not math.isfinite(value) or not 0 <= value <= MOST:
        raise UnreadableReport("a value of it is below 0, endless or no number")
    return value


def _first(found: Mapping[str, list[float]], name: str, most: float = MOST) -> float | None:
    values = found.get(name)
    if not values:
        return None
    if values[0] > most:
        raise UnreadableReport(f"{name} is above {most:g}")
    return values[0]


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
