"""The quotas after reserved pods that do not exist yet, so that no quota counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gpujob.fleet.assembly.usage import PodReservation
from gpujob.fleet.kubernetes.objects import HOST_DEVICES, Pod
from gpujob.fleet.kubernetes.priority_classes import Priorities, class_of
from gpujob.fleet.policy.quota_scopes import PodTraits
from gpujob.fleet.policy.resource_quota import Quotas, counted_as, quotas_after, taken_by_pods


def quotas_reserved(
    quotas: Quotas, reservations: Iterable[PodReservation], pods: Iterable[Pod], priorities: Priorities
) -> Quotas:
    """The quotas after each reservation, except those whose pod, bound or not, a quota counts already."""
    # Labels are untrusted: a pod in the namespace of another quota does not use up a reservation.
    there = Counter((pod.namespace, pod.job_uid, pod.attempt) for pod in pods)
    for reservation in reservations:
        if there[reservation.namespace, reservation.job_uid, reservation.attempt] > 0:
            there[reservation.namespace, reservation.job_uid, reservation.attempt] -= 1
        else:
            counted, others = (counted_as(reservation.resource),), dict(reservation.others)
            needs = taken_by_pods(counted, reservation.gpus, reservation.needs, 1, others=others)
            needs |= dict(reservation.objects)
            traits = PodTraits(class_of(reservation.priority_class, priorities), reservation.resource == HOST_DEVICES)
            quotas = quotas_after(quotas, reservation.namespace, needs, traits)
    return quotas
