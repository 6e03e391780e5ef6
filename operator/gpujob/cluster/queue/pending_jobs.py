"""The jobs that wait for a placement, each with its reconciled generation; a version number shows changes."""

from __future__ import annotations

from collections.abc import Iterator, MutableSet


class PendingJobs(MutableSet[str]):
    """Job uids. `version` grows with every change, so that an unchanged long queue needs no comparison."""

    def __init__(self) -> None:
        self._generations: dict[str, int] = {}
        self.version = 0

    def put(self, uid: str, generation: int) -> None:
        """Adds a waiting job; one with the same generation changes nothing."""
        if self._generations.get(uid) != generation:
            self._generations[uid] = generation
            self.version += 1

    def add(self, value: str) -> None:
        """Adds a job whatever its generation."""
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
