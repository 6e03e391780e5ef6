"""The nodes of a pool: what is free on each, and why no pod can start there now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from gpujob.catalog.entities import Accelerator
from gpujob.fleet.assembly.usage import PodReservation, Usage
from gpujob.fleet.devices.group import DeviceGroup
from gpujob.fleet.gpupools.selection import Fabric
from gpujob.fleet.kubernetes.objects import HOST_DEVICES, Node, Pod, Resources
from gpujob.fleet.labels import maintenance
from gpujob.fleet.labels.facts import declared
from gpujob.fleet.labels.maintenance import Tolerated
from gpujob.fleet.pools.node import PoolNode
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Reason


def pool_nodes(
    groups: Iterable[DeviceGroup],
    usage: Usage,
    fabric: Fabric | None = None,
    tolerated: Tolerated = (),
    unknown: Callable[[DeviceGroup], Finding | None] = lambda group: None,
) -> tuple[PoolNode, ...]:
    """The nodes of a pool. `unknown` says why the devices of one are not known although those of the pool are: it is not usable."""
    found = ((_pool_node(group, usage, fabric, tolerated), unknown(group)) for group in groups)
    nodes = (node if why is None else node.unnumbered(why) for node, why in found)
    return tuple(sorted(nodes, key=lambda node: node.name))


def unknown_devices(group: DeviceGroup, accelerator: Accelerator | None) -> Finding | None:
    """Why the devices of a node of an admin's pool of this accelerator are not known, whatever those of its other nodes are. A node
    whose device plugin is down shows them by its labels.
    """
    if group.facts.problem is None or group.facts.problem.reason is Reason.NO_DEVICE_PLUGIN:
        return None
    problem, name = declared(group.facts, group.resource, accelerator).problem, group.node.name
    if problem is None or name in problem.numbers:
        return problem
    return Finding(problem.reason, "node {}: {}", (name, problem.message))


def _pool_node(group: DeviceGroup, usage: Usage, fabric: Fabric | None, tolerated: Tolerated) -> PoolNode:
    node = group.node
    return PoolNode(
        name=node.name,
        total=group.total,
        healthy=group.healthy,
        free=_free(group, usage),
        allocatable=node.allocatable,
        share_base=node.allocatable.minus(usage.plain.get(node.name, Resources())),
        left=node.allocatable.minus(usage.resources.get(node.name, Resources())),
        taints=tuple(taint for taint in node.taints if not maintenance.is_passing(taint, tolerated)),
        unready=_unready(group, tolerated),
        suspected=maintenance.suspected(node, group.facts.vendor),
        planned=(announced := maintenance.planned(node, group.facts.vendor)),
        planned_at=maintenance.planned_at(node.labels) if announced else None,
        beside=group.beside,
        links=fabric.room(node, usage.devices) if fabric else None,
        domain=fabric.domain(node) if fabric else "",
        image_mounts=node.image_mounts,
        handlers=node.handlers,
        labels=node.labels,
        silicon=group.silicon,
    )


def _free(group: DeviceGroup, usage: Usage) -> int:
    """Devices that no pod uses, under this resource or another one of the same cards."""
    node = group.node.name
    free = group.healthy - group.held - usage.devices.get((node, group.resource), 0)
    if group.lent:
        # A claim that outlives its pod, or whose pod is not in the cache yet.
        free -= sum(count for uid, count in group.lent if uid not in usage.uids.get(node, ()))
    if group.resource == HOST_DEVICES:
        return max(0, free)
    if group.silicon is None:
        return free
    taken = {resource: usage.devices.get((node, resource), 0) for resource, _ in group.silicon.shares}
    return min(free, group.silicon.left(group.resource, taken))


class LostRoom(NamedTuple):
    """Why a pod has no room on the node that it is pinned to."""

    why: str = ""
    """What became of the node; empty where pods of others have taken the room."""
    passes: bool = False
    """Whether that may pass soon: agents and device plugins restart."""


def lost_room(
    room: PodReservation,
    node: Node | None,
    groups: Iterable[DeviceGroup] | None,
    pods: Collection[Pod],
    own: Iterable[Pod],
    claimed: Mapping[str, int],
    tolerated: Tolerated = (),
) -> LostRoom | None:
    """Why a pod that is not bound yet and has these tolerations has no room on its node (None: it is gone); None where it has. `own`
    are the pods of its job, `groups` None where nothing is known of the node's devices yet.

    The pods there, those nominated for it and claims take it. None where the node lacks CPU or memory without them too, where one of
    them is of the same job, and where a claim has devices for a pod of the job that is not bound: kube-scheduler allocates them and
    binds the pod afterwards.
    """
    if any((pod.namespace, pod.job_uid) == (room.namespace, room.job_uid) for pod in pods):
        return None
    if node is None:
        return LostRoom("is gone")
    if why := "is being deleted" if node.leaving else "is cordoned" if node.cordoned else "":
        return LostRoom(why)
    if not node.ready:
        return LostRoom("is not Ready", passes=True)
    hard = (taint for taint in node.taints if taint.effect != "PreferNoSchedule")
    if (taint := next((each for each in hard if not maintenance.is_tolerated(each, tolerated)), None)) is not None:
        return LostRoom(f"has taint {taint}", passes=True)
    if groups is None:
        return None
    group = next((group for group in groups if group.resource == room.resource), None)
    if group is None or group.healthy < room.gpus:
        return LostRoom(f"offers {group.healthy if group else 0} of {room.gpus} devices", passes=True)
    return LostRoom() if _is_taken(room, group, pods, own, claimed) else None


def _is_taken(
    room: PodReservation, group: DeviceGroup, pods: Collection[Pod], own: Iterable[Pod], claimed: Mapping[str, int]
) -> bool:
    usage, allocatable = Usage(pods, (), claimed), group.node.allocatable
    left = allocatable.minus(usage.resources.get(room.node, Resources()))
    if _free(group, usage) >= room.gpus and left.covers(room.needs):
        return False
    if not allocatable.covers(room.needs):
        return False
    lent, unbound = dict(group.lent), (pod for pod in own if not pod.node and pod.namespace == room.namespace)
    return not any(pod.uid in claimed or pod.uid in lent for pod in unbound)


def _unready(group: DeviceGroup, tolerated: Tolerated) -> Finding | None:
    """Why no pod can start on the node now, None when one can."""
    node = group.node
    away = maintenance.away(node, group.facts.vendor, tolerated)
    if away:
        return away
    if group.healthy == 0 and group.taint:
        sentence = "the devices of node {} have the device taint {} (ResourceSlice or DeviceTaintRule)"
        return Finding(Reason.DEVICE_TAINTED, sentence, (node.name, group.taint))
    if group.lacks_plugin and group.facts.problem is not None:
        return replace(group.facts.problem, reason=Reason.NO_ALLOCATABLE)
    if group.healthy == 0:
        number = next((why for why in node.unread if why.startswith(f"{group.resource}: ")), None)
        if number is not None:
            return Finding(Reason.NO_ALLOCATABLE, "node {}: {}; check its device plugin", (node.name, number))
        of = f" of {group.total}" if group.total else ""
        return Finding(Reason.NO_ALLOCATABLE, "node {} shows 0{} devices as allocatable", (node.name, of))
    return None
