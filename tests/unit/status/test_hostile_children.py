"""Records of GPUJobs, Jobs and Pods: whatever is inside, nothing raises."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.status.observe.child import observe
from gpujob.status.records.read_objects import read_child, read_job, read_pod_record
from gpujob.values.vocabulary import Label

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
parts = st.fixed_dictionaries({}, optional={"metadata": junk, "spec": junk, "status": junk})
OURS = {"labels": {Label.JOB_UID: "u"}}


@given(raw=parts)
@pytest.mark.parametrize("read", [read_job, read_child, read_pod_record])
def test_any_document_is_read(read: Any, raw: dict[str, Any]) -> None:
    read(raw)


@given(status=junk, states=junk, conditions=junk, phase=junk)
def test_any_status_of_a_pod_of_ours_is_read(status: Any, states: Any, conditions: Any, phase: Any) -> None:
    odd = {"containerStatuses": states, "initContainerStatuses": states, "conditions": conditions, "phase": phase}
    train = {"containerStatuses": [{"name": "train", "state": states}], "phase": phase}
    found = [read_pod_record({"metadata": OURS, "status": one}).state for one in (status, odd, train)]
    assert observe(read_child({}), [state for state in found if state is not None]).message


@given(value=junk)
@pytest.mark.parametrize("member", ["labels", "annotations", "ownerReferences", "name", "uid", "generation"])
def test_any_metadata_is_read(member: str, value: Any) -> None:
    for read in (read_job, read_child, read_pod_record):
        read({"metadata": {member: value}})


@given(value=junk)
def test_any_affinity_is_read(value: Any) -> None:
    def child(terms: Any) -> dict[str, Any]:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        return {"spec": {"completions": value, "template": {"spec": {"affinity": {"nodeAffinity": required}}}}}

    read_child(child(value))
    assert read_child(child([{"matchFields": [{"key": "metadata.name", "values": value}]}])).nodes is not None


@given(conditions=junk)
def test_any_condition_of_a_child_is_read(conditions: Any) -> None:
    assert read_child({"status": {"conditions": conditions}}).ended in ("", "Complete", "Failed")
