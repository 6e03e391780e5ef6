"""Spans of time as people write them: 90, 60s, 5m30s, 12h, 30d, 4w."""

from __future__ import annotations

import re
from typing import Final

UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
LONGEST: Final = 3650 * UNITS["d"]
"""The longest span that an option takes, in seconds."""
_PART: Final = re.compile("([0-9]{1,9}(?:[.][0-9]{1,3})?)([smhdw])", re.ASCII)
_SPAN: Final = re.compile(f"(?:{_PART.pattern})+", re.ASCII)
_SECONDS: Final = re.compile("[0-9]{1,9}(?:[.][0-9]{1,3})?", re.ASCII)


def seconds_in(text: str) -> float | None:
    """The seconds of a span; a number without a unit counts seconds. None for anything else."""
    if _SECONDS.fullmatch(text):
        return float(text)
    if len(text) > 64 or not _SPAN.fullmatch(text):
        return None
    return sum(float(number) * UNITS[unit] for number, unit in _PART.findall(text))
