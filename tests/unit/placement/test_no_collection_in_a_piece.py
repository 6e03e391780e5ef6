"""No garbage collection lengthens a piece of a decision: they come between two pieces."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from gpujob.placement.engine.pieces import Pieces, finished, uncollected


@pytest.fixture(autouse=True)
def collects() -> Iterator[None]:
    """The collector as it was before the test."""
    before = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if before else gc.disable)()


def search(seen: list[bool], fails: bool = False) -> Pieces[str]:
    """Two pieces, each of which records whether the collector is on."""
    seen.append(gc.isenabled())
    yield
    seen.append(gc.isenabled())
    if fails:
        raise ValueError("no result")
    return "found"


def test_the_collector_is_off_in_pieces_and_on_between_them() -> None:
    seen, between = list[bool](), list[bool]()
    for _ in uncollected(search(seen)):
        between.append(gc.isenabled())
    assert (seen, between) == ([False, False], [True])
    assert gc.isenabled()


def test_the_result_is_that_of_the_search() -> None:
    assert finished(uncollected(search([]))) == "found"
    assert gc.isenabled()


def test_a_search_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(ValueError, match="no result"):
        finished(uncollected(search([], fails=True)))
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    between = [gc.isenabled() for _ in uncollected(search([]))]
    assert between == [False]
    assert not gc.isenabled()
