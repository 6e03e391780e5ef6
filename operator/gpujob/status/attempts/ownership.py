"""Which Jobs belong to a GPUJob: labels and owner references are untrusted, names and uids are not.

A child is in its GPUJob's namespace and has the name that the operator gives the attempt; the attempt is at most the next one; and
once the status has recorded a child's uid, no other Job of that name counts, and this one does whatever becomes of its owner
references: a running Job that loses them is not lost. Between the POST of a Job and the write of its status nothing is recorded: then
only the name and the number count, so that a restart finds it.

A Job that the GPUJob controls under the name of one of its attempts, and that is no child, is a stray: a create that arrived after the
child of that name was deleted, or of an attempt that the status does not know. It runs the program a second time.
"""

from __future__ import annotations

from dataclasses import replace

from gpujob.fleet.assembly.usage import PodReservation
from gpujob.status.records.objects import ChildRecord, JobRecord
from gpujob.values.names import child_name
from gpujob.values.untrusted import table, whole_number


def is_child(child: ChildRecord, job: JobRecord) -> bool:
    """Whether the operator created a Job, or would create it next, for a GPUJob."""
    mine, made = child.owner_uid == job.uid, child.name == child_name(job.name, job.uid, child.attempt)
    if child.namespace != job.namespace or not (mine or made):
        return False
    recorded, named = job.status.get("jobUID"), job.status.get("jobName") == child.name
    if recorded and (named or recorded == child.uid):
        return bool(recorded == child.uid)
    last = whole_number(job.status.get("attempt")) or 0
    return mine and made and child.attempt <= last + 1


def is_stray(child: ChildRecord, job: JobRecord) -> bool:
    """Whether a Job has the name and the owner of a GPUJob's child and is none: the operator deletes it."""
    mine = (child.namespace, child.owner_uid) == (job.namespace, job.uid)
    return mine and child.name == child_name(job.name, job.uid, child.attempt) and not is_child(child, job)


def reservations(child: ChildRecord, job: JobRecord) -> tuple[PodReservation, ...]:
    """What a GPUJob's child will use: once the status has recorded it, at most the placement in the status.

    A suspended Job can be changed to other nodes and more pods, but that does not change the decision.
    """
    placement = table(job.status, "placement")
    pods, gpus, names = (placement.get(key) for key in ("nodes", "gpusPerNode", "nodeNames"))
    if job.status.get("jobUID") != child.uid or not isinstance(pods, int) or not isinstance(gpus, int):
        return child.reservations()
    named = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
    nodes = tuple(dict.fromkeys(node for node in child.nodes if node in named))
    if nodes == child.nodes and child.pods <= pods and child.gpus <= gpus:
        return child.reservations()
    return replace(child, nodes=nodes, pods=min(child.pods, pods), gpus=min(child.gpus, gpus)).reservations()
