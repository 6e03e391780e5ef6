"""A status that names a child which the job cannot have is not this operator's record: the running child stays."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.lifecycle.children import current_child, superfluous
from gpujob.status.records.objects import ChildRecord, JobRecord
from gpujob.status.records.read_objects import read_child, read_job
from gpujob.values.names import child_name


def job(**status: Any) -> JobRecord:
    return read_job({"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": {}, "status": status})


def child(attempt: int, **status: Any) -> ChildRecord:
    owner = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "name": "j", "uid": "u", "controller": True}
    metadata = {
        "name": child_name("j", "u", attempt),
        "namespace": "team",
        "uid": f"c{attempt}",
        "ownerReferences": [owner],
    }
    return read_child({"metadata": metadata, "spec": {}, "status": status})


ENDED = {"conditions": [{"type": "Failed", "status": "True"}]}


@pytest.mark.parametrize("name", ["bogus", "bogus-7", "other-0123456789-1", 7, ["j"], {"a": 1}])
def test_the_running_child_counts_where_the_recorded_name_cannot_be_one(name: Any) -> None:
    forged = job(state="Succeeded", attempt=7, jobName=name)
    running, earlier = child(2), child(1, **ENDED)
    assert current_child(forged, [earlier, running]) is running
    assert list(superfluous(forged, [earlier, running])) == []


def test_of_two_live_children_the_newest_counts_and_the_other_goes() -> None:
    forged = job(state="Succeeded", attempt=7, jobName="bogus")
    assert list(superfluous(forged, [child(1), child(2)])) == [child(1)]


def test_a_recorded_name_of_the_job_counts_though_no_such_child_is_there() -> None:
    recorded = job(state="Running", attempt=3, jobName=child_name("j", "u", 3))
    assert current_child(recorded, [child(2)]) is None
    assert list(superfluous(recorded, [child(2)])) == [child(2)]
