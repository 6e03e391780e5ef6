"""Names that the API server accepts for any name of a job: for children, and for values of labels."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

from gpujob.values.untrusted import whole_number

STEM: Final = 40
"""Characters of the job's name in a child's name: leaves room for hash, attempt and the pod's index within 63."""

LABEL: Final = 63


def child_name(job_name: str, uid: str, attempt: int) -> str:
    """The name of an attempt's Job and Service: the job's cleaned name, 8 hex digits of its uid's hash, the attempt.

    A DNS label of at most 61 characters that begins with a letter: an Indexed Job's pods are called name-index, and a
    Service's name must not begin with a digit. The hash distinguishes jobs whose names agree in what is kept. A pure
    function, so that a crash never makes a second set of children.
    """
    return f"{stem_of(job_name, uid)}-{attempt}"


@lru_cache(maxsize=10_000)  # 4 µs against 0.1; each reconcile needs it a few times
def stem_of(job_name: str, uid: str) -> str:
    """The part of the name that all attempts share; each reconcile asks for it a few times."""
    cleaned = re.sub(r"[^a-z0-9]+", "-", job_name.lower()).strip("-")
    if not cleaned[:1].isalpha():
        cleaned = f"j-{cleaned}"
    digest = hashlib.sha256(uid.encode()).hexdigest()[:8]
    return f"{cleaned[:STEM].strip('-')}-{digest}"


def attempt_in(name: str) -> int | None:
    """The number of the attempt in a child's name, which unlike its label cannot change; None if there is none."""
    return whole_number(name.rpartition("-")[2])


def stem_in(name: str) -> str:
    """The part of a child's name that all attempts share, which unlike a label cannot change; empty if no child has such a name."""
    stem, _, number = name.rpartition("-")
    return stem if number.isdecimal() and _HASHED.search(stem) else ""


_HASHED: Final = re.compile("-[0-9a-f]{8}$")


def label_value(text: str) -> str:
    """A text as a label's value: at most 63 characters, letters and digits at both ends; may be empty."""
    cleaned = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).lstrip("-_.")
    return cleaned[:LABEL].rstrip("-_.")


NO_NAMESPACE: Final = "{} is not a namespace; write at most 63 lower-case letters, digits and hyphens"
"""The sentence about a name that no namespace can have."""

_NAMESPACE: Final = re.compile("(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def is_namespace(name: object) -> bool:
    """Whether a namespace can have this name: a label of RFC 1123."""
    return isinstance(name, str) and _NAMESPACE.fullmatch(name) is not None
