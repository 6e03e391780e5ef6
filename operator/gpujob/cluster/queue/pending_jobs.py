"""The jobs that wait for a placement, each with the generation that was looked at; a number tells that they changed."""

from __future__ import annotations

from collections.abc import Iterator, MutableSet


class PendingJobs(MutableSet[str]):
    """Job uids. `version` grows with every change, so that a long queue is not compared to learn that it is the same."""

    def __init__(self) -> None:
        self._generations: dict[str, int] = {}
        self.version = 0

    def put(self, uid: str, generation: int) -> None:
        """Takes a job that waits; one that waits already with that generation changes nothing."""
        if self._generations.get(uid) != generation:
            self._generations[uid] = generation
            self.version += 1

    def add(self, value: str) -> None:
        """Takes a job whose generation does not matter."""
        self.put(value, 0)

    def discard(self, value: str) -> None:
        """Removes a job, if it waits."""
        if self._generations.pop(value, None) is not None:
            self.version += 1

    def __contains__(self, value: object) -> bool:
        return value in self._generations

    def __iter__(self) -> Iterator[str]:
        return iter(self._generations)

    def __len__(self) -> int:
        return len(self._generations)
