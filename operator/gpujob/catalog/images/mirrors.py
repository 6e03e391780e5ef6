"""Mirrors of registries: an image whose name begins with `from` is pulled from `to` instead, tag and digest unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

DEFAULT_REGISTRY: Final = "docker.io"
OFFICIAL: Final = "library"


@dataclass(frozen=True, slots=True)
class Mirror:
    """Where the images below a registry, or below a path of it, are pulled from; both without a trailing slash."""

    source: str
    target: str


def mirrored(image: str, mirrors: Sequence[Mirror]) -> str:
    """The reference to pull for an image: by the mirror with the longest `source`, unchanged where none has it.

    References are compared as container runtimes read them: pytorch/pytorch is docker.io/pytorch/pytorch, and busybox is
    docker.io/library/busybox. A mirror of a path has what is below it, not names that begin alike.
    """
    if not mirrors or not image:
        return image
    full = with_registry(image)
    fitting = [mirror for mirror in mirrors if _is_below(full, mirror.source)]
    if not fitting:
        return image
    best = max(fitting, key=lambda mirror: len(mirror.source))
    return best.target + full.removeprefix(best.source)


def is_registry(part: str) -> bool:
    """Whether the first part of a name is a registry: it has a dot or a port, or is localhost."""
    return "." in part or ":" in part or part == "localhost"


def with_registry(image: str) -> str:
    """A reference with its registry: docker.io where it names none."""
    first, slash, rest = image.partition("/")
    if not slash or not is_registry(first):
        first, rest = DEFAULT_REGISTRY, image
    if first != DEFAULT_REGISTRY:
        return image
    return f"{first}/{rest}" if "/" in rest else f"{first}/{OFFICIAL}/{rest}"


def _is_below(full: str, source: str) -> bool:
    """Whether a reference is of this registry or path: what follows is another part, or a tag or digest of the path."""
    following = full[len(source) : len(source) + 1]
    return full.startswith(source) and (following == "/" or (following in ("", ":", "@") and "/" in source))
