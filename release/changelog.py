"""CHANGELOG.md as values: the changes of a version."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

KINDS: Final = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
"""The headings of Keep a Changelog, which are Artifact Hub's kinds in lower case."""
UNRELEASED: Final = "Unreleased"

_VERSION: Final = re.compile(r"^## \[?([^]\s]+)\]?.*$", re.MULTILINE)
_KIND: Final = re.compile(r"^### (\w+)\s*$", re.MULTILINE)
_CHANGE: Final = re.compile(r"^- (.*(?:\n  .*)*)", re.MULTILINE)


class Unreadable(ValueError):
    """The changelog has no such version, or a heading that is no kind of change."""


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the changelog; `kind` is in lower case, `description` one line."""

    kind: str
    description: str


def changes_of(text: str, version: str) -> tuple[Change, ...]:
    """The changes of a version in their order; those under Unreleased where the version has no heading yet."""
    parts = _sections(_VERSION, text)
    found = parts.get(version, parts.get(UNRELEASED))
    if found is None:
        raise Unreadable(f"CHANGELOG.md has neither a heading {version} nor {UNRELEASED}")
    changes = []
    for kind, body in _sections(_KIND, found).items():
        if kind not in KINDS:
            raise Unreadable(f"CHANGELOG.md: ### {kind} is none of {', '.join(KINDS)}")
        changes += [Change(kind.lower(), " ".join(each.split())) for each in _CHANGE.findall(body)]
    return tuple(changes)


def notes_of(changes: Iterable[Change]) -> str:
    """The changes as Markdown, by kind in the changelog's order."""
    changes = list(changes)
    parts = []
    for kind in KINDS:
        lines = [f"- {each.description}" for each in changes if each.kind == kind.lower()]
        parts += [f"### {kind}", *lines, ""] if lines else []
    return "\n".join(parts)


def _sections(heading: re.Pattern[str], text: str) -> dict[str, str]:
    """The text below each heading, by the heading's word."""
    words = heading.split(text)[1:]
    return dict(zip(words[::2], words[1::2], strict=True))
