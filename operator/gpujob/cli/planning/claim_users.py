"""Who mounts the PersistentVolumeClaims that keep a job from a node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gpujob.fleet.kubernetes.objects import Pod
from gpujob.values.finding import counted, listed

if TYPE_CHECKING:
    from gpujob.fleet.assembly.usage import PodReservation
    from gpujob.fleet.sources.cluster_file import ClusterObjects
    from gpujob.placement.request.demand import Demand
    from gpujob.schedule.queue import QueueDecision

Key = TypeVar("Key", bound=Hashable)

User = tuple[str, str, str]
"""The namespace of a pod, and its GPUJob's uid, else its own name."""


class Mounted(NamedTuple):
    """What one holder mounts."""

    said: str
    """The claims in words."""
    nodes: tuple[str, ...]


def by_user(mounts: Iterable[tuple[Key, str, str]]) -> Iterator[tuple[Key, Mounted]]:
    """What each mounts; `mounts` are users, claims and nodes, empty for a node to be added."""
    claims, nodes = defaultdict[Key, set[str]](set), defaultdict[Key, set[str]](set)
    for user, claim, node in mounts:
        claims[user].add(claim)
        nodes[user] |= {node} - {""}
    for user, found in claims.items():
        names = sorted(found)
        kind = "PersistentVolumeClaim" if len(names) == 1 else counted(len(names), "PersistentVolumeClaim")
        yield user, Mounted(f"{kind} {listed(names)}", tuple(sorted(nodes[user])))


def of_cluster(objects: ClusterObjects, demand: Demand, own: str) -> Iterator[tuple[User, str, str]]:
    """The pods that mount the job's claims, and those that will when they start, without those of the job `own` by its uid."""
    claims = {attachment.claim for attachment in demand.attached}
    users: list[Pod | PodReservation] = [*objects.pods, *objects.reservations]
    for user in users:
        namespace, name = user.namespace or "default", ""
        if isinstance(user, Pod):
            if user.terminal or not user.node:
                continue
            name = "" if user.job_uid else user.name
        if namespace == demand.namespace and not (own and user.job_uid == own):
            for claim in claims.intersection(user.volume_claims):
                yield (namespace, user.job_uid, name), claim, user.node


def of_plan(before: Iterable[QueueDecision], demand: Demand) -> Iterator[tuple[tuple[str, str], str, str]]:
    """The jobs of the same plan that mount the job's claims."""
    claims = {attachment.claim for attachment in demand.attached}
    for decided in before:
        job, choice = decided.job, decided.choice
        if choice is not None and not job.plan_only and job.namespace == demand.namespace:
            for claim in claims.intersection(decided.answer.demand.single):
                yield (job.namespace, job.name), claim, choice.nodes[0]
