"""What a check found: a level, what it is about, a sentence and its remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much a finding matters: Error keeps jobs from running or from being reported, Unknown could not be checked."""

    ERROR = "Error"
    WARNING = "Warning"
    UNKNOWN = "Unknown"
    OK = "OK"


@dataclass(frozen=True, slots=True)
class Found:
    """One finding of a check; `about` is a node, a pool or another object, empty for the whole cluster."""

    check: str
    level: Level
    message: str
    remedy: str = ""
    about: str = ""


def error(check: str, message: str, remedy: str, about: str = "") -> Found:
    """What keeps jobs from running, or is wrong in what is installed."""
    return Found(check, Level.ERROR, message, remedy, about)


def warning(check: str, message: str, remedy: str, about: str = "") -> Found:
    """What some jobs will miss."""
    return Found(check, Level.WARNING, message, remedy, about)


def unknown(check: str, message: str, remedy: str, about: str = "") -> Found:
    """What could not be checked."""
    return Found(check, Level.UNKNOWN, message, remedy, about)


def fine(check: str, message: str) -> Found:
    """What was checked and is as it must be."""
    return Found(check, Level.OK, message)


def set_values(*options: str) -> str:
    """The remedy that the release gets values: options of `helm upgrade`, as a shell reads them."""
    return f"upgrade the release with {' '.join(options)}"
