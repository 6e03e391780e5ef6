"""Why a node can never run a pod of a job, even when it is empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.kubernetes.runtime_classes import lacks
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.storage.volume_ties import ZONES, Expression, Tie, new_node_mounts
from gpujob.placement.capacity.pod_resources import DEFAULT_STORAGE
from gpujob.placement.request.demand import Demand
from gpujob.values.vocabulary import Reason

IMAGE_ROOM: Final = (5, 2)
"""Disk for an image, as a multiple of its size: the layers, the unpacked files and a margin (pull and unpack overlap)."""


def rejections(demand: Demand, pool: Pool, node: PoolNode, image_size: int | None) -> tuple[Reason, ...]:
    """Why the node can never run a pod of this job, even when it is empty."""
    found = []
    if any(not pool.tolerates(taint) for taint in node.taints):
        found.append(Reason.TAINT_NOT_TOLERATED)
    if node.total is not None and node.total < demand.gpus_per_node and not pool.pending:
        found.append(Reason.POOL_TOO_SMALL)
    if not node.allocatable.covers(pod_request(demand)):
        found.append(Reason.NODE_TOO_SMALL)
    if _disk_short(demand, node, image_size):
        found.append(Reason.DISK_TOO_SMALL)
    if demand.mountable is not None and not _mounts(demand, demand.mountable, pool, node):
        found.append(Reason.ZONE_CONFLICT)
    if demand.image_volumes and node.image_mounts.able is False:
        found.append(Reason.IMAGE_VOLUME_UNSUPPORTED)
    if lacks(node.handlers, pool.handler):
        found.append(Reason.RUNTIME_HANDLER_MISSING)
    if node.unlabelled:
        found.append(Reason.RUNTIME_CLASS_EXCLUDES)
    if lacks_label(demand, pool, node):
        found.append(Reason.NODES_NOT_SELECTED)
    return tuple(found)


def mounts_on_new(demand: Demand, pool: Pool) -> bool:
    """Whether a node to be added to a pool may mount the job's volumes, as far as its selector and the region of its nodes say."""
    return _new_node_allows(demand.tied, pool)


def lacks_label(demand: Demand, pool: Pool, node: PoolNode) -> str:
    """The label of its namespace's node selector that a node lacks, as key=value; empty if it has all, or none of its labels is
    known. Of a node to be added the terms of the pool's selector are known, and that it is like the pool's nodes, where these all lack
    one.
    """
    selection = demand.selection
    if selection is None:
        return ""
    if node.coming:
        terms = ((label, Tie(((Expression(label[0], "In", label[1:]),),))) for label in selection.labels)
        unsaid = next(("=".join(label) for label, tie in terms if not _new_node_allows((tie,), pool)), "")
        there = {selection.lacking(each.labels) for each in pool.nodes if each.labels and not each.coming}
        return unsaid or (min(there) if "" not in there and there else "")
    return selection.lacking(node.labels) if node.labels else ""


def _new_node_allows(ties: Sequence[Tie], pool: Pool) -> bool:
    """Whether a node to be added to a pool may be what ties require, as far as its selector and the region of its nodes say."""
    region = ((ZONES[1], "In", (pool.region,)),) if pool.region else ()
    return new_node_mounts(ties, pool.selector + region)


def _mounts(demand: Demand, mountable: frozenset[str], pool: Pool, node: PoolNode) -> bool:
    """Whether a node can mount the job's volumes; of one that can be added the terms of the pool's selector are known."""
    return mounts_on_new(demand, pool) if node.coming else node.name in mountable


def pod_request(demand: Demand) -> Resources:
    """A pod, and CPU, memory and disk that it requests: the job's own requests, else the LimitRange minimum; /dev/shm counts as
    memory.
    """
    asked = Resources(demand.millicores or 0, demand.memory or demand.shared_memory or 0, demand.storage or 0, 1)
    return asked if demand.limits is None else asked.at_least(demand.limits.least)


def disk_needed(demand: Demand, image_size: int) -> int:
    """Bytes of disk that a node must have for an image and a pod of the job."""
    return image_room(image_size) + (demand.storage or DEFAULT_STORAGE)


def image_room(image_size: int) -> int:
    """Bytes of disk that an image of this size takes."""
    return image_size * IMAGE_ROOM[0] // IMAGE_ROOM[1]


def largest_image(demand: Demand, disk: int) -> int:
    """The largest image in bytes for which `disk_needed` stays within a limit; negative if the job alone exceeds it."""
    numerator, denominator = IMAGE_ROOM
    return (denominator * (disk - (demand.storage or DEFAULT_STORAGE) + 1) - 1) // numerator


def _disk_short(demand: Demand, node: PoolNode, image_size: int | None) -> bool:
    disk = node.allocatable.storage
    return image_size is not None and disk is not None and disk < disk_needed(demand, image_size)
