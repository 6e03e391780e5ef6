"""The driver of NVIDIA's devices from the labels of GPU Feature Discovery: in the current form, of old releases, or as the
supported CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from gpujob.catalog.images.versions import Release, release
from gpujob.fleet.kubernetes.objects import Labels
from gpujob.fleet.labels.facts import readable
from gpujob.values.finding import Finding
from gpujob.values.untrusted import whole_number
from gpujob.values.vocabulary import Reason

_OLDEST: Final = {
    (11, 4): "470", (11, 6): "510", (11, 7): "515", (11, 8): "520", (12, 0): "525", (12, 1): "530", (12, 2): "535",
    (12, 3): "545", (12, 4): "550", (12, 5): "555", (12, 6): "560", (12, 7): "565", (12, 8): "570.26",
    (12, 9): "575.51.03", (13, 0): "580.65.06", (13, 1): "590.44.01", (13, 2): "595.45.04", (13, 3): "610.43.02",
}  # fmt: skip
"""The oldest driver that supports a CUDA, given by `cuda.runtime-version` (source: CUDA 13.3 release notes, toolkit and driver
versions; the branches before 12.8 from memory, high confidence).
"""


def driver_of(labels: Labels) -> tuple[str | None, tuple[Finding, ...]]:
    """The driver, None without a label; of contradicting labels the oldest, with the warning.

    The supported CUDA gives its lower bound if no label has the driver or only its branch.
    """
    found, cuda = list(_written(labels)), _supported(labels)
    bound = _oldest_with(cuda) if cuda else None
    if not found:
        return bound, ()
    exact = {text for text in found if not any(text != other and _begins(text, other) for other in found)}
    oldest = min(exact, key=release)
    if len(exact) > 1:
        sentence = "labels say driver {} and driver {}; the older counts; restart GPU Feature Discovery"
        return oldest, (Finding(Reason.LABELS_CONTRADICT, sentence, (oldest, max(exact, key=release))),)
    if cuda is None or bound is None:
        return oldest, ()
    if _newest_of(oldest)[:1] == min(cuda, max(_OLDEST))[:1]:
        return bound if _begins(oldest, bound) else oldest, ()
    sentence = (
        "labels say driver {} and CUDA {}, which do not go together; the older counts; restart GPU Feature Discovery"
    )
    warning = Finding(Reason.LABELS_CONTRADICT, sentence, (oldest, ".".join(map(str, cuda))))
    return min(oldest, bound, key=release), (warning,)


def _oldest_with(cuda: Release) -> str | None:
    """The oldest driver that supports at least a CUDA; for a release newer than the table, that of the one before."""
    return max((oldest for known, oldest in _OLDEST.items() if known <= cuda), key=release, default=None)


def _newest_of(driver: str) -> Release:
    """The newest CUDA that a driver's branch supports, empty if it is older than the table."""
    branch = release(driver)[:1]
    return max((cuda for cuda, oldest in _OLDEST.items() if release(oldest)[:1] <= branch), default=())


def _begins(text: str, other: str) -> bool:
    """Whether a version equals another one or is less precise: 570 and 570.10.3, 580.95.05 and 580.95.5."""
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


def _supported(labels: Labels) -> Release | None:
    """The newest CUDA that the driver supports; of twins that differ the older."""
    prefixes = ("nvidia.com/cuda.runtime-version", "nvidia.com/cuda.runtime")
    said = (release(".".join(_numbers(labels, prefix, "major", "minor"))) for prefix in prefixes)
    return min(((*cuda, 0)[:2] for cuda in said if cuda), default=None)


def _numbers(labels: Labels, prefix: str, *parts: str) -> list[str]:
    said = (labels.get(f"{prefix}.{part}", "") for part in parts)
    return list(takewhile(lambda part: whole_number(part) is not None, said))
