"""The last known facts of a node's devices, for the minute in which a restarting labeller removes its labels.

GPU Feature Discovery deletes its labels when it ends and writes them again when it is up. The operator keeps the facts for five
minutes; a plan of a file knows only the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from gpujob.fleet.devices.group import DeviceGroup
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Reason

KEPT_SECONDS: Final = 300.0
"""How long the last known facts of devices replace missing labels."""


@dataclass(frozen=True, slots=True)
class Recollection:
    """A node's device groups by its last labels, and their expiry (None: no end is set)."""

    uid: str
    groups: tuple[DeviceGroup, ...]
    until: float | None = None

    def expired(self, now: float) -> bool:
        """Whether it has expired."""
        return self.until is not None and now >= self.until


def recalled(
    groups: tuple[DeviceGroup, ...], before: Recollection | None, now: float
) -> tuple[tuple[DeviceGroup, ...], Recollection | None]:
    """A node's groups with facts that its labels no longer contain, and the facts to keep from now on.

    Facts return for devices that are still allocatable on the same node (its uid), up to five minutes.
    """
    if not groups:
        return groups, None
    uid = groups[0].node.uid
    known = {} if before is None or before.uid != uid or before.expired(now) else _by_resource(before.groups)
    lost = [group for group in groups if _is_lost(group, known.get(group.resource))]
    if not lost:
        return groups, Recollection(uid, groups)
    until = now + KEPT_SECONDS if before is None or before.until is None else before.until
    restored = tuple(_restored(group, known[group.resource]) if group in lost else group for group in groups)
    kept = {**_by_resource(groups), **{group.resource: known[group.resource] for group in lost}}
    return restored, Recollection(uid, tuple(kept.values()), until)


def _by_resource(groups: tuple[DeviceGroup, ...]) -> Mapping[str, DeviceGroup]:
    return {group.resource: group for group in groups}


def _is_lost(group: DeviceGroup, before: DeviceGroup | None) -> bool:
    """Whether labels disappeared: no figure is left, and the model is unknown or known from another source."""
    if before is None or not group.healthy or before.facts.problem is not None:
        return False
    said, says = before.facts, group.facts
    if says.unnamed:
        return True
    gone = says.reported is None and says.driver is None and says.problem is None
    known = said.reported is not None or said.driver is not None
    return gone and known and says.name == said.name


def _restored(group: DeviceGroup, before: DeviceGroup) -> DeviceGroup:
    sentence = "the labels of node {} are missing; their last values count for five minutes"
    warning = Finding(Reason.LABELS_GONE, sentence, (group.node.name,))
    facts = replace(before.facts, warnings=(*before.facts.warnings, warning))
    return replace(group, facts=facts, total=max(group.total or 0, group.healthy) or before.total)
