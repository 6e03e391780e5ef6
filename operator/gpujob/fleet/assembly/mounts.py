"""The pods that mount each PersistentVolumeClaim, and those that will when they start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator

from gpujob.fleet.assembly.usage import PodReservation
from gpujob.fleet.kubernetes.objects import Pod
from gpujob.fleet.storage.claim_volumes import Mount, Mounts
from gpujob.fleet.storage.volume_records import Key

_User = Pod | PodReservation


class MountIndex:
    """Follows pods and reservations; `mounts` is the current result, the same object until something changes."""

    def __init__(self) -> None:
        self._users: dict[Key, dict[Hashable, _User]] = defaultdict(dict)
        self._moved: set[Key] = set()
        self._mounts: Mounts = {}

    def put(self, user: Hashable, before: _User | None, after: _User | None) -> None:
        """Applies a pod or a reservation, new, changed or gone, under a key of its own."""
        for claim in _claims(before):
            self._users[claim].pop(user, None)
            self._moved.add(claim)
        for claim in _claims(after):
            if after is not None:
                self._users[claim][user] = after
                self._moved.add(claim)

    @property
    def mounts(self) -> Mounts:
        """The mounts of each claim."""
        changed = dict[Key, tuple[Mount, ...]]()
        for claim in self._moved:
            changed[claim] = tuple(sorted(set(_mounts(self._users[claim].values()))))
            if not self._users[claim]:
                del self._users[claim]
        self._moved.clear()
        if any(self._mounts.get(claim, ()) != mounts for claim, mounts in changed.items()):
            every = {**self._mounts, **changed}
            for claim in [claim for claim, mounts in changed.items() if not mounts]:
                del every[claim]
            self._mounts = every
        return self._mounts


def mounts_of(pods: Iterable[Pod], reservations: Iterable[PodReservation]) -> Mounts:
    """The mounts of these pods and reservations."""
    index = MountIndex()
    users: list[_User] = [*pods, *reservations]
    for number, user in enumerate(users):
        index.put(number, None, user)
    return index.mounts


def _claims(user: _User | None) -> Iterator[Key]:
    """The claims that a pod or a reservation mounts; a pod without a node, or one that has ended, mounts none."""
    if user is None or not user.volume_claims or (isinstance(user, Pod) and (user.terminal or not user.node)):
        return
    for claim in user.volume_claims:
        yield user.namespace or "default", claim


def _mounts(users: Iterable[_User]) -> Iterator[Mount]:
    """The mounts of one claim. A reservation counts until a pod of its attempt mounts the claim."""
    users = list(users)
    pods = [user for user in users if isinstance(user, Pod)]
    for pod in pods:
        yield Mount(pod.node, f"pod {pod.name}")
    arrived = {(pod.job_uid, pod.attempt) for pod in pods}
    for user in users:
        if isinstance(user, PodReservation) and (user.job_uid, user.attempt) not in arrived:
            yield Mount(user.node, f"job {user.job}", starts=True)
