"""The ConfigMaps that earlier versions of the operator put into namespaces: deleted once no child needs them.

An upgrade changes the runner's content and so its name. Children of the earlier version keep using the old ConfigMap, whose name
only they contain, because the operator has no right to list ConfigMaps. So every mounted name is recorded, and the ConfigMap is
deleted when no running child mounts it any more. The chart's role grants that for the earlier names.
"""

from __future__ import annotations

from typing import cast

import structlog

from gpujob.cluster.cache.watched_kinds import RunnerMap
from gpujob.cluster.client.api_errors import ApiError, Forbidden
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.writer.writes import NotLeader, Writer
from gpujob.render.runner import name_of
from gpujob.status.records.objects import ChildRecord
from gpujob.values.vocabulary import Label

log = structlog.get_logger(__name__)

Location = tuple[str, str]
"""Namespace and name."""


class EarlierRunners:
    """Deletes them, each with one read and one write."""

    def __init__(self, work: ControllerState, writer: Writer, name: str) -> None:
        """`name` is that of this version's ConfigMap."""
        self._work, self._writer, self._name = work, writer, name
        self._noted: set[Location] = set()
        self._settled: set[Location] = set()

    async def sweep(self) -> None:
        """One pass over all children, including ended ones."""
        children = cast("list[ChildRecord]", list(self._work.index.cache.objects("jobs").values()))
        self._noted |= {(child.namespace, child.runner) for child in children if child.runner not in ("", self._name)}
        needed = {(child.namespace, child.runner) for child in children if not child.ended}
        # A ConfigMap that a new child mounts (an earlier version led again) is checked once more.
        self._settled -= needed
        for place in sorted(self._noted - needed - self._settled):
            try:
                await self._remove(*place)
            except NotLeader:
                return
            except Forbidden:
                log.warning(
                    "an earlier runner stays: the role does not name it",
                    namespace=place[0],
                    name=place[1],
                    remedy=f"kubectl delete configmap {place[1]} --namespace {place[0]}",
                )
            except ApiError as error:
                log.warning("earlier runner not removed", namespace=place[0], name=place[1], error=str(error))
                continue
            self._settled.add(place)

    async def _remove(self, namespace: str, name: str) -> None:
        """Deletes it if its content matches its name: another ConfigMap of that name is left alone."""
        raw = await self._writer.find_runner(namespace, name)
        if raw is None:
            return
        held, labels = RunnerMap(raw), raw["metadata"].get("labels") or {}
        if Label.RUNNER in labels and name == name_of(held.digest):
            await self._writer.delete_earlier_runner(namespace, name, held.uid)
