"""Devices of one node at a time: from its labels and resource slices, with last known facts and what makes it suspect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.devices.from_slices import with_slices
from gpujob.fleet.devices.group import DeviceGroup, groups_of
from gpujob.fleet.devices.last_known import Recollection, recalled
from gpujob.fleet.dra.inventory import Inventory
from gpujob.fleet.health.node_failures import NodeFailures
from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.labels.maintenance import as_of, planned_at
from gpujob.fleet.pools.arriving import Arriving, is_bare
from gpujob.status.attempts.waits import read_time, write_time
from gpujob.status.records.objects import JobRecord

log = structlog.get_logger(__name__)


class NodeReader:
    """Reads nodes, and keeps the facts about them that expire."""

    def __init__(self, inventory: Inventory, clock: Callable[[], float], wall: Callable[[], datetime]) -> None:
        self._inventory, self._clock, self._wall = inventory, clock, wall
        self._recollections: dict[str, Recollection] = {}
        self._expiring: dict[str, float] = {}
        self._failures, self._suspects = NodeFailures(), dict[str, float]()
        self.version = 0
        """A number that changes when a fact expires or is added, because a decision may change then."""

    def read(self, node: Node, catalog: Catalog) -> tuple[Node, tuple[DeviceGroup, ...]]:
        """The node with what makes it suspect, and its devices."""
        node = self._as_of_now(self._with_failures(node))
        return node, self._recalled(node.name, self.groups(node, catalog))

    def groups(self, node: Node, catalog: Catalog) -> tuple[DeviceGroup, ...]:
        """The devices of a node as its labels and resource slices are now; empty if they cannot be read."""
        try:
            return with_slices(node, groups_of(node, catalog), self._inventory, catalog)
        except Exception as error:  # an error in one node does not stop placement on the others
            log.exception("node left out", node=node.name, error=repr(error))
            return ()

    def forget(self, name: str) -> None:
        """Drops the facts about a node that is gone."""
        for facts in (self._recollections, self._suspects, self._expiring):
            facts.pop(name, None)

    def record(self, uid: str, job: JobRecord | None) -> set[str]:
        """Records the failures of a job's attempts, None if it is gone; returns the nodes to read again."""
        found = self._failures.put(uid, job.status if job is not None else None)
        self.version += bool(found and job is not None)
        return found

    def expire(self) -> set[str]:
        """Drops facts whose time is over; returns the nodes to read again."""
        now = self._clock()
        suspects = {name for name, until in self._suspects.items() if now >= until}
        forgotten = {name for name, until in self._expiring.items() if now >= until}
        for name in suspects:
            del self._suspects[name]
        for name in forgotten:
            del self._expiring[name]
            self._recollections.pop(name, None)
        self.version += len(suspects) + len(forgotten)
        return suspects | forgotten

    def _recalled(self, name: str, groups: tuple[DeviceGroup, ...]) -> tuple[DeviceGroup, ...]:
        """The groups of a node, with the facts of its last labels while a labeller restarts."""
        groups, recollection = recalled(groups, self._recollections.get(name), self._clock())
        self._expiring.pop(name, None)
        if recollection is not None:
            self._recollections[name] = recollection
            if recollection.until is not None:
                self._expiring[name] = recollection.until
        return groups

    def _with_failures(self, node: Node) -> Node:
        """The node with what makes it suspect, which is read again when that has decayed."""
        now = self._wall()
        found = self._failures.suspicion(node.name, now)
        self._suspects.pop(node.name, None)
        if found is None:
            return node
        self._suspects[node.name] = self._clock() + (found.until - now).total_seconds()
        return replace(node, suspicion=found.sentence)

    def _as_of_now(self, node: Node) -> Node:
        """The node without maintenance whose announced time is past; a node with later maintenance is read again at that time."""
        now, begins = self._wall(), planned_at(node.labels)
        if begins is not None and begins > now.timestamp():
            until = self._clock() + begins - now.timestamp()
            self._suspects[node.name] = min(until, self._suspects.get(node.name, until))
        return as_of(node, now)


class NodesWithoutDevices:
    """Tracks nodes as they change. Those older than twice the wait are dropped, because they no longer matter."""

    def __init__(self) -> None:
        self._bare: dict[str, Node] = {}

    def put(self, name: str, node: Node | None) -> None:
        """Applies a node, new or changed; None if it is deleted."""
        if node is not None and node.created and is_bare(node):
            self._bare[name] = node
        else:
            self._bare.pop(name, None)

    def nodes(self, now: datetime, seconds: float) -> Iterator[tuple[Node, Arriving]]:
        """The nodes created within twice this number of seconds, sorted by name, with the deadline of one wait."""
        for name in sorted(self._bare):
            node = self._bare[name]
            since = read_time(node.created)
            if since is None or now >= since + timedelta(seconds=2 * seconds):
                del self._bare[name]
            else:
                yield node, Arriving(name, node.created, write_time(since + timedelta(seconds=seconds)))
