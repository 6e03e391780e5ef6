"""What the operator promised to the children of a cluster's GPUJobs: read of the same child Jobs as the operator reads.

Pods that are not bound yet hold their devices by it; without it a plan would give them away.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gpujob.untrusted import table
from gpujob.vocabulary import Label

if TYPE_CHECKING:
    from gpujob.fleet.usage import Promise


def promises_in(documents: Iterable[Any]) -> tuple[Promise, ...]:
    """The promises of the child Jobs among a cluster's objects, each once: of what is described twice the last counts."""
    from gpujob.fleet.cluster_file import objects_in

    found = children_in(objects_in(documents, []))
    if not found:
        return ()
    # Records of jobs take longer to import than all else that a look at the pools needs.
    from gpujob.status.records import read_child

    return tuple({promise.key: promise for each in found for promise in read_child(each).promises()}.values())


def children_in(objects: Iterable[Any]) -> list[Any]:
    """The child Jobs among objects; where GPUJobs are described with their uids, only what is a child of one of them.

    In a captured cluster those are left out whose children tell enough; whoever captured it has looked whose they are.
    """
    known = list(objects)
    found = [each for each in known if is_child(each)]
    told = {table(each, "metadata").get("uid"): each for each in known if each.get("kind") == "GPUJob"} if found else {}
    told.pop(None, None)
    if not told:
        return found
    from gpujob.status import kinship
    from gpujob.status.records import read_child, read_job

    jobs = {uid: read_job(raw) for uid, raw in told.items()}
    records = ((each, read_child(each)) for each in found)
    return [
        each for each, child in records if child.owner_uid in jobs and kinship.is_child(child, jobs[child.owner_uid])
    ]


def is_child(raw: Any) -> bool:
    """Whether an object is a Job that the operator made for a GPUJob."""
    group = str(raw.get("apiVersion") or "").partition("/")[0]
    return raw.get("kind") == "Job" and group == "batch" and Label.JOB_UID in table(table(raw, "metadata"), "labels")
