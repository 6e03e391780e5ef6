"""A computation that yields between two of its steps, so that its caller can do other work there."""

from __future__ import annotations

import gc
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


def uncollected(search: Pieces[Found]) -> Pieces[Found]:
    """The same search without garbage collections inside of a piece; they come between two pieces.

    A collection would visit thousands of candidates and free none of them, since the decision keeps them: a full one takes half as
    long as the piece.
    """
    while True:
        collects = gc.isenabled()
        gc.disable()
        try:
            next(search)
        except StopIteration as end:
            found: Found = end.value
            return found
        finally:
            if collects:
                gc.enable()
        yield


def first_of(groups: Iterable[Iterable[Found]], most: int) -> Pieces[list[Found]]:
    """The first of many, group by group; a group may cost a try, and so may each of its members."""
    found = list[Found]()
    for group in groups:
        yield
        for each in islice(group, most - len(found)):
            found.append(each)
            yield
    return found
