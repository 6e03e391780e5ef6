"""Whether a range contains any version at all.

A range is an intersection of intervals of versions; if it contains any version, it contains 0, the end of one of its parts, or the
version right after such an end.
"""

from __future__ import annotations

import re
from typing import Final

Version = tuple[int, ...]

_PART: Final = re.compile(r" *(==|!=|>=|<=|>|<|~=) *([0-9]+(?:[.][0-9]+)*)([.][*])? *")

_PARTS: Final = 16
"""Numbers of a version that are compared."""


def is_satisfiable(text: str) -> bool:
    """Whether any version is in a range such as ">=2.10,<2.15"; also where the text is no range."""
    parts = [_PART.fullmatch(part) for part in text.split(",")]
    clauses = [(part[1], tuple(map(int, part[2].split("."))), bool(part[3])) for part in parts if part]
    if len(clauses) < len(parts):
        return True
    ends: list[Version] = [(0,)]
    for _, numbers, _ in clauses:
        after = (*numbers[:-1], numbers[-1] + 1)
        ends += [numbers, after]
    tried = [version for end in ends for version in (_padded(end), (*_padded(end)[:-1], 1))]
    return any(all(_holds(*clause, version) for clause in clauses) for version in tried)


def _padded(numbers: Version) -> Version:
    return (*numbers, *[0] * (_PARTS - len(numbers)))[:_PARTS]


def _holds(operator: str, numbers: Version, of_prefix: bool, version: Version) -> bool:
    """Whether one part of a range admits a version."""
    end = _padded(numbers)
    within = version[: len(numbers)] == numbers if of_prefix else version == end
    match operator:
        case "==":
            return within
        case "!=":
            return not within
        case ">=":
            return version >= end
        case "<=":
            return version <= end
        case ">":
            return version > end
        case "<":
            return version < end
    return version >= end and version[: len(numbers) - 1] == numbers[:-1]
