"""Which Jobs are a GPUJob's own: labels and owner references are written by anybody, names and uids are not.

A child is of its GPUJob's namespace and has the name that the operator gives the attempt; the attempt is the next one at most;
and once the status has recorded a child's uid, no other Job of that name is taken for it. Between the POST of a Job and
the write of its status nothing is recorded yet: then the name and the number alone tell, so that a restart finds it.
"""

from __future__ import annotations

from gpujob.names import child_name
from gpujob.status.records import ChildRecord, JobRecord
from gpujob.untrusted import whole_number


def is_child(child: ChildRecord, job: JobRecord) -> bool:
    """Whether a Job is what the operator made, or would make next, for a GPUJob."""
    if (child.namespace, child.owner_uid) != (job.namespace, job.uid):
        return False
    recorded, named = job.status.get("jobUID"), job.status.get("jobName") == child.name
    if recorded and (named or recorded == child.uid):
        return bool(recorded == child.uid)
    last = whole_number(job.status.get("attempt")) or 0
    return child.attempt <= last + 1 and child.name == child_name(job.name, job.uid, child.attempt)
