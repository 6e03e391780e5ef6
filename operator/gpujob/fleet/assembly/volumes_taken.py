"""The PersistentVolumes that claims of placed jobs take, until the scheduler has bound them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from gpujob.fleet.assembly.usage import PodReservation
from gpujob.fleet.kubernetes.objects import Pod
from gpujob.fleet.storage.claim_volumes import Volumes, of_a_pod
from gpujob.fleet.storage.volume_binding import after


def volumes_taken(volumes: Volumes, reservations: Iterable[PodReservation], pods: Iterable[Pod]) -> Volumes:
    """The volumes without those that reservations take on their nodes: for named claims that are not bound, and for the claims of
    pods that are not on their nodes yet.
    """
    gangs: dict[tuple[str, int, str], list[PodReservation]] = defaultdict(list)
    for each in reservations:
        if each.node and (each.volume_claims or each.new_claims):
            gangs[each.job_uid, each.attempt, each.namespace].append(each)
    there = {(pod.job_uid, pod.attempt, pod.namespace, pod.node) for pod in pods} if gangs else set()
    for gang, found in sorted(gangs.items()):
        nodes, first = [each.node for each in found if (*gang, each.node) not in there], found[0]
        named = [one for claim in first.volume_claims if (one := volumes.wanted(first.namespace or "default", claim))]
        own = [of_a_pod(*claim) for claim in first.new_claims] if volumes.classes else []
        if nodes and (named or own):
            volumes = after(volumes, named, own, nodes)
    return volumes
