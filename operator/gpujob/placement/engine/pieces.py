"""A computation that yields between two of its steps, so that its caller can do other work there."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import islice
from typing import TypeVar

Found = TypeVar("Found")
Pieces = Generator[None, None, Found]
"""Such a computation and its result."""


def finished(search: Pieces[Found]) -> Found:
    """The result of a search in one piece."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            found: Found = end.value
            return found


def first_of(found: Iterable[Found], most: int) -> Pieces[list[Found]]:
    """The first of many, each of which may cost a try."""
    first = list[Found]()
    for each in islice(found, most):
        first.append(each)
        yield
    return first
