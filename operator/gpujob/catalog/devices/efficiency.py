"""Efficiencies as values: the fraction of its roofline that an accelerator achieves on a kind of work, with an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpujob.catalog.devices.roofline import REFERENCE
from gpujob.values.vocabulary import WorkKind


class Key(NamedTuple):
    """The subject of an efficiency. Without an accelerator it is the family's; without an architecture that of all families."""

    kind: WorkKind
    narrow: bool
    """Formats below 16 bits."""
    architecture: str
    accelerator: str = ""
    streams: bool = False
    """Inference of one sequence, which memory alone bounds."""


def bridge(kind: WorkKind, *, streams: bool = False) -> Key:
    """The key of the reference's efficiency below 16 bits, relative to that in 16."""
    return Key(kind, True, "", REFERENCE, streams)


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Achieved fraction of the roofline, 1 for the reference's; its relative standard error; its basis."""

    share: float
    error: float
    runs: int = 0
    """Rows of the accelerator on this work in such formats; 0 if the figure is a prior's, or that of other work."""
    source: str = ""
    checked_on: str = ""


def dumped(found: Mapping[Key, Efficiency]) -> list[dict[str, object]]:
    """Efficiencies as the generated catalog stores them: rounded to significant digits."""
    return [
        {
            "work": key.kind.value,
            "narrow": key.narrow,
            "architecture": key.architecture,
            "accelerator": key.accelerator,
            "streams": key.streams,
            "share": f"{each.share:.4g}",
            "error": f"{each.error:.3f}",
            "runs": each.runs,
            "source": each.source,
            "checkedOn": each.checked_on,
        }
        for key, each in found.items()
    ]


def loaded(raw: Iterable[Mapping[str, Any]]) -> dict[Key, Efficiency]:
    """The efficiencies that `dumped` wrote."""
    return {
        Key(
            WorkKind(each["work"]), each["narrow"], each["architecture"], each["accelerator"], each["streams"]
        ): Efficiency(float(each["share"]), float(each["error"]), each["runs"], each["source"], each["checkedOn"])
        for each in raw
    }
