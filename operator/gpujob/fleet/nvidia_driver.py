"""The driver of NVIDIA's devices by the labels of GPU Feature Discovery: in the form of today, of old releases, or as the
CUDA that it supports."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from gpujob.catalog.versions import release
from gpujob.finding import Finding
from gpujob.fleet.facts import readable
from gpujob.fleet.objects import Labels
from gpujob.untrusted import whole_number
from gpujob.vocabulary import Reason

_BRANCHES: Final = {
    "11.4": "470", "11.6": "510", "11.7": "515", "11.8": "520", "12.0": "525", "12.1": "530", "12.2": "535",
    "12.3": "545", "12.4": "550", "12.5": "555", "12.6": "560", "12.7": "565", "12.8": "570", "12.9": "575",
    "13.0": "580", "13.1": "590", "13.2": "595", "13.3": "610",
}  # fmt: skip
"""The driver branch by the newest CUDA that it supports, which is what `cuda.runtime-version` says (source: CUDA 13.3
release notes, toolkit and driver versions; those before 12.6 from memory, high confidence)."""


def driver_of(labels: Labels) -> tuple[str | None, tuple[Finding, ...]]:
    """The driver, None where no label says it; of several that contradict each other the oldest, with the doubt.

    Where no label says the driver, the CUDA that it supports says its branch.
    """
    found = list(_written(labels)) or list(_branch(labels))
    if not found:
        return None, ()
    exact = {text for text in found if not any(text != other and _begins(text, other) for other in found)}
    oldest = min(exact, key=release)
    if len(exact) < 2:
        return oldest, ()
    sentence = "labels say driver {} and driver {}; the older counts; restart GPU Feature Discovery"
    return oldest, (Finding(Reason.LABELS_CONTRADICT, sentence, (oldest, max(exact, key=release))),)


def _begins(text: str, other: str) -> bool:
    """Whether a version says the same as another one, or less of it: 570 and 570.10.3, 580.95.05 and 580.95.5."""
    ours, theirs = release(text), release(other)
    return theirs[: len(ours)] == ours and (len(ours), text) < (len(theirs), other)


def _written(labels: Labels) -> Iterator[str]:
    full = readable(labels.get("nvidia.com/cuda.driver-version.full"))
    if full:
        yield full
    for prefix, last in (("nvidia.com/cuda.driver-version", "revision"), ("nvidia.com/cuda.driver", "rev")):
        numbers = _numbers(labels, prefix, "major", "minor", last)
        if numbers:
            yield ".".join(numbers)


def _branch(labels: Labels) -> Iterator[str]:
    for prefix in ("nvidia.com/cuda.runtime-version", "nvidia.com/cuda.runtime"):
        branch = _BRANCHES.get(".".join(_numbers(labels, prefix, "major", "minor")))
        if branch:
            yield branch


def _numbers(labels: Labels, prefix: str, *parts: str) -> list[str]:
    said = (labels.get(f"{prefix}.{part}", "") for part in parts)
    return list(takewhile(lambda part: whole_number(part) is not None, said))
