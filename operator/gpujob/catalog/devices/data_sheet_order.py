"""The order of the parts of one vendor's line: more TFLOPS and more bandwidth are never slower, unless runs say so.

A fit to few rows can put a newer, larger part behind an older one that was measured on other programs. Such figures are moved by the
least squares, weighted by their errors, that bring all pairs in order: a quadratic program with one bound for each pair, solved by
Hildreth's method (1957). A pair stays as measured if both have rows of their own that differ by more than both errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from gpujob.catalog.devices.efficiency import Efficiency, Key
from gpujob.catalog.devices.roofline import FORMATS, REFERENCE, is_narrow, reference_is_narrow, share_of, times
from gpujob.catalog.entities import Accelerator
from gpujob.values.vocabulary import RunFormat, WorkKind

SPARE: Final = 0.0005
"""The least lead of the larger part, as a logarithm: figures are stored in four digits."""

_MOST_SWEEPS: Final = 1000
_CLOSE: Final = 1e-6


class Pair(NamedTuple):
    """Two parts of one line: the first has at least the figures of the second at a kind of work in a format."""

    larger: Key
    smaller: Key
    ahead: float
    """The logarithm of the ratio of their speeds without their efficiencies."""


def pairs(accelerators: Sequence[Accelerator], found: Mapping[Key, Efficiency]) -> Iterator[Pair]:
    """Every pair in order of the data sheets, at each kind of work and format of a job."""
    for kind in WorkKind:
        for streams in (False, True) if kind is WorkKind.INFERENCE else (False,):
            for run in (None, *FORMATS.values()):
                yield from _pairs_at(accelerators, found, kind, run, streams=streams)


def _pairs_at(
    accelerators: Sequence[Accelerator],
    found: Mapping[Key, Efficiency],
    kind: WorkKind,
    run: RunFormat | None,
    *,
    streams: bool,
) -> Iterator[Pair]:
    of = next(iter(found))
    across = found[of._replace(kind=kind, narrow=True, architecture="", accelerator=REFERENCE, streams=streams)]
    parts = []
    for each in accelerators:
        took, narrow = times(each, kind, run, share_of(1) if streams else None), is_narrow(each, run)
        key = of._replace(
            kind=kind, narrow=narrow, architecture=each.architecture, accelerator=each.id, streams=streams
        )
        if took is not None and key in found:
            beside = 0.0 if narrow or not reference_is_narrow(run) else -math.log(across.share)
            parts.append((each, key, took, math.log(took.roofline) + beside))
    for larger, key, took, speed in parts:
        for smaller, other, longer, less in parts:
            ahead = took != longer and took.products <= longer.products and took.memory <= longer.memory
            if ahead and is_of_line(larger, smaller):
                yield Pair(key, other, speed - less)


def is_of_line(newer: Accelerator, older: Accelerator) -> bool:
    """Whether two parts are of one vendor's line, and the first is not of an older architecture."""
    (line, age), (other, before) = _generation(newer.architecture), _generation(older.architecture)
    return newer.vendor is older.vendor and line == other and age >= before


def _generation(architecture: str) -> tuple[str, tuple[int, ...]]:
    """The line and its generation: CDNA and RDNA (gfx numbers of three and four digits), or compute capabilities."""
    if architecture.startswith("gfx"):
        digits = architecture.removeprefix("gfx")
        return ("CDNA" if len(digits) == 3 else "RDNA"), (int(digits, 16),)
    return "CUDA", tuple(map(int, architecture.split(".")))


def contradicted(found: Mapping[Key, Efficiency], accelerators: Sequence[Accelerator]) -> dict[tuple[Key, Key], float]:
    """The pairs with both measured and the larger part slower by more than both errors, with the logarithm of their
    ratio."""
    against = {}
    for larger, smaller, ahead in pairs(accelerators, found):
        one, other = found[larger], found[smaller]
        behind = ahead + math.log(one.share / other.share)
        if one.runs and other.runs and behind < -math.hypot(one.error, other.error):
            against[larger, smaller] = behind
    return against


def in_order(found: Mapping[Key, Efficiency], accelerators: Sequence[Accelerator]) -> dict[Key, Efficiency]:
    """The efficiencies moved as little as brings the speeds of every pair in order, but those of `contradicted`."""
    kept = contradicted(found, accelerators)
    least: dict[tuple[Key, Key], float] = {}
    for larger, smaller, ahead in pairs(accelerators, found):
        if (larger, smaller) not in kept:
            bound = SPARE - ahead
            least[larger, smaller] = max(bound, least.get((larger, smaller), bound))
    moved = _moved({key: math.log(each.share) for key, each in found.items()}, found, least)
    return {key: _as_moved(each, moved[key]) for key, each in found.items()}


def _moved(
    at: dict[Key, float], found: Mapping[Key, Efficiency], least: Mapping[tuple[Key, Key], float]
) -> dict[Key, float]:
    """The nearest logarithms in which each pair differs by at least its bound."""
    pressure = dict.fromkeys(least, 0.0)
    for _ in range(_MOST_SWEEPS):
        largest = 0.0
        for pair, bound in least.items():
            larger, smaller = pair
            one, other = found[larger].error ** 2, found[smaller].error ** 2
            if one + other == 0:
                continue
            push = max(-pressure[pair], (bound - at[larger] + at[smaller]) / (one + other))
            if push:
                pressure[pair] += push
                at[larger] += push * one
                at[smaller] -= push * other
                largest = max(largest, abs(push) * (one + other))
        if largest < _CLOSE:
            break
    return at


def _as_moved(each: Efficiency, to: float) -> Efficiency:
    share = math.exp(to)
    by = round(100 * (share / each.share - 1))
    change = f", {'raised' if by > 0 else 'lowered'} by {abs(by)}% to the order of the data sheets" if by else ""
    return replace(each, share=share, source=f"{each.source}{change}")
