"""The next reconcile time of each job: the earliest is known at once, however many there are."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, MutableMapping

SLACK = 64
"""Outdated entries that the heap can hold beyond the number of jobs."""


class DueTimes(MutableMapping[str, float]):
    """A time for each job uid; setting, removing and taking the earliest cost O(log n)."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        """Every time that was set; an entry is outdated if its job has another time, or none."""

    def __getitem__(self, uid: str) -> float:
        return self._at[uid]

    def __setitem__(self, uid: str, at: float) -> None:
        if self._at.get(uid) == at:
            return
        self._at[uid] = at
        heapq.heappush(self._heap, (at, uid))
        if len(self._heap) > 2 * len(self._at) + SLACK:
            self._heap = [(at, uid) for uid, at in self._at.items()]
            heapq.heapify(self._heap)

    def __delitem__(self, uid: str) -> None:
        del self._at[uid]
        if not self._at:
            self._heap.clear()

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)

    def first(self) -> tuple[float, str] | None:
        """The earliest time and its job, by uid among equal times; None if there is none."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def take(self, now: float) -> set[str]:
        """Removes the jobs that are due, and returns them."""
        taken = set()
        while (first := self.first()) is not None and first[0] <= now:
            taken.add(first[1])
            del self[first[1]]
        return taken
