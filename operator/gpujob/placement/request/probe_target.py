"""The pool and gang that exploration or a probe puts first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """The pool and the gang that come first, and the sentence with the reason."""

    pool: str
    shape: str
    why: str
    probe: bool = False
    then: str = ""
    """The next step, as a clause."""
