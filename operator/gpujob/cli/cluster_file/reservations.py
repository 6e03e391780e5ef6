"""The operator's reservations for the children of a cluster's GPUJobs, read from the same child Jobs.

Pods that are not bound yet hold their devices by it; without it a plan would give them away.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gpujob.values.untrusted import table
from gpujob.values.vocabulary import Label

if TYPE_CHECKING:
    from gpujob.fleet.assembly.usage import PodReservation
    from gpujob.status.records.objects import JobRecord


def reservations_in(documents: Iterable[Any]) -> tuple[PodReservation, ...]:
    """The reservations of the child Jobs among a cluster's objects, each once; the last of duplicates counts."""
    from gpujob.fleet.sources.cluster_file import objects_in

    known = list(objects_in(documents, []))
    children = children_in(known)
    if not children:
        return ()
    # late import: records of jobs take longer to import than everything else that `pools` needs
    from gpujob.status.attempts import ownership
    from gpujob.status.records.read_objects import read_child

    jobs = _jobs(known)
    found: list[PodReservation] = []
    for child in map(read_child, children):
        job = jobs.get(child.owner_uid)
        found += ownership.reservations(child, job) if job else child.reservations()
    return tuple({reservation.key: reservation for reservation in found}.values())


def children_in(objects: Iterable[Any]) -> list[Any]:
    """The child Jobs among objects; if GPUJobs are described with their uids, only the children of one of them.

    A captured cluster leaves out GPUJobs whose children are sufficient; the capture has checked their owners.
    """
    known = list(objects)
    found = [each for each in known if is_child(each)]
    jobs = _jobs(known) if found else {}
    if not jobs:
        return found
    from gpujob.status.attempts import ownership
    from gpujob.status.records.read_objects import read_child

    records = ((each, read_child(each)) for each in found)
    return [each for each, child in records if (job := jobs.get(child.owner_uid)) and ownership.is_child(child, job)]


def _jobs(known: Iterable[Any]) -> dict[str, JobRecord]:
    """The GPUJobs that are described with their uids, by these."""
    from gpujob.status.records.read_objects import read_job

    records = [read_job(each) for each in known if each.get("kind") == "GPUJob"]
    return {record.uid: record for record in records if record.uid}


def is_child(raw: Any) -> bool:
    """Whether the operator created a Job for a GPUJob."""
    group = str(raw.get("apiVersion") or "").partition("/")[0]
    return raw.get("kind") == "Job" and group == "batch" and Label.JOB_UID in table(table(raw, "metadata"), "labels")
