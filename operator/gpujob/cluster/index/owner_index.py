"""Records of children and pods by the GPUJob in their owner labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Generic, TypeVar

from gpujob.cluster.cache.object_key import Key

R = TypeVar("R")


class OwnerIndex(Generic[R]):
    """One kind's objects by their owner labels, which are untrusted."""

    def __init__(self) -> None:
        self._by_owner: dict[str, dict[Key, R]] = defaultdict(dict)
        self._owner: dict[Key, str] = {}

    def put(self, key: Key, uid: str, record: R | None, touched: set[str]) -> None:
        """Moves a record to its job from the previous one; both are marked as changed."""
        before = self._owner.pop(key, "")
        if before and before != uid:
            self._by_owner[before].pop(key, None)
            touched.add(before)
            if not self._by_owner[before]:
                del self._by_owner[before]
        if uid and record is not None:
            self._by_owner[uid][key] = record
            self._owner[key] = uid
            touched.add(uid)

    def of(self, uid: str) -> dict[Key, R]:
        """The records of one job."""
        return self._by_owner.get(uid) or {}

    def owners(self, wanted: Callable[[R], bool]) -> set[str]:
        """The jobs with a record that is wanted."""
        return {uid for uid, records in self._by_owner.items() if any(map(wanted, records.values()))}

    def all(self) -> list[R]:
        """Every record."""
        return [record for records in self._by_owner.values() for record in records.values()]
