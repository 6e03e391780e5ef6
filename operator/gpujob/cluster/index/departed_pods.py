"""What pods that are gone said last of their end, while their child Job is there: its failure may be looked at after them.

The Job controller takes its finalizer off a pod before it writes the Job's condition Failed, so the pod may be gone first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpujob.cluster.cache.object_key import Key
from gpujob.status.records.objects import ChildRecord, PodState

MOST: Final = 4096
"""Pods that are kept: those of the largest gang, four times."""


class DepartedPods:
    """Pods by the key of their child Job; above `most` those of the Job that has some for longest go."""

    def __init__(self, most: int = MOST) -> None:
        self._by_child: dict[Key, dict[str, PodState]] = {}
        self._most, self._count = most, 0

    def put(self, pod: PodState, child: ChildRecord | None) -> None:
        """Keeps a pod of a child Job; not of one that is gone, or that was suspended, which ends its pods."""
        if child is None or child.uid != pod.child_uid or child.paused:
            return
        pods = self._by_child.setdefault((child.namespace, child.name), {})
        self._count += pod.name not in pods
        pods[pod.name] = replace(pod, gone=True)
        while self._count > self._most:
            self.forget(next(iter(self._by_child)))

    def forget(self, child: Key) -> None:
        """Drops the pods of a child Job."""
        self._count -= len(self._by_child.pop(child, ()))

    def of(self, child: ChildRecord) -> list[PodState]:
        """The pods of a child Job that are gone, sorted by name."""
        pods = self._by_child.get((child.namespace, child.name), {})
        return [pods[name] for name in sorted(pods) if pods[name].child_uid == child.uid]
