"""Places for clusters of real nodes on one machine: each has a number, and from it all its names and addresses.

A slot is held by a lock that the kernel gives back when its holder ends, so a slot whose lock is free has no user, and
what is still found in it was left by one that crashed.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster.binaries import cache
from tests.e2e.cluster.state import ClusterError

_SLOTS = 8
_NODES = 8


@dataclass(frozen=True, slots=True)
class Slot:
    """One place; addresses are of 198.18.0.0/15, which RFC 2544 sets aside for tests of networks."""

    number: int

    @property
    def dir(self) -> Path:
        """Everything of the cluster. Beside the images, for they are linked and not copied."""
        return cache() / "nodes" / str(self.number)

    @property
    def interface(self) -> str:
        """This machine's own link to the nodes."""
        return f"gpujob{self.number}"

    @property
    def host(self) -> str:
        """Where this machine is reached by the nodes."""
        return f"198.18.{self.number}.1"

    def address(self, node: int) -> str:
        """Where a node is reached."""
        return f"198.18.{self.number}.{10 + node}"

    def pods(self, node: int) -> str:
        """The network of a node's pods."""
        return f"198.19.{self.number * _NODES + node}.0/24"

    def cgroup(self, node: str) -> str:
        """The control group, in each hierarchy, above all pods of a node."""
        return f"gpujob{self.number}-{node}"


@contextmanager
def free_slot() -> Iterator[Slot]:
    """The first free slot, held until the block or this process ends."""
    folder = cache() / "nodes"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for number in range(_SLOTS):
        descriptor = os.open(folder / f"{number}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        try:
            yield Slot(number)
        finally:
            os.close(descriptor)
        return
    raise ClusterError(f"{_SLOTS} clusters of real nodes run on this machine already")
