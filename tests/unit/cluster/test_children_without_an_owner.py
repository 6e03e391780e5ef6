"""Which Jobs are taken for children that were left without an owner: only those whose names the operator made from a uid."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.status.records.read_objects import read_child
from gpujob.values.names import child_name


def orphan_of(**changes: Any) -> str:
    metadata: dict[str, Any] = {
        "name": child_name("train", "uid-1", 2), "namespace": "team", "uid": "c",
        "labels": {"gpujob.dev/job-uid": "uid-1", "gpujob.dev/attempt": "2"},
        "annotations": {"gpujob.dev/job-name": "train"},
    }  # fmt: skip
    return read_child({"metadata": metadata | changes, "spec": {}}).orphan_of


def test_a_child_without_an_owner_says_whose_it_was() -> None:
    assert orphan_of() == "uid-1"


@pytest.mark.parametrize(
    "changes",
    [
        {"ownerReferences": [{"kind": "GPUJob", "name": "train", "uid": "uid-1", "controller": True}]},
        {"ownerReferences": [{"kind": "CronJob", "name": "other", "uid": "x"}]},
        {"name": "train-2"},
        {"name": child_name("train", "uid-2", 2)},
        {"labels": {}},
        {"labels": {"gpujob.dev/job-uid": ""}},
        {"labels": {"gpujob.dev/job-uid": 7}},
        {"annotations": {}},
        {"annotations": {"gpujob.dev/job-name": ["train"]}},
        {"annotations": {"gpujob.dev/job-name": "other"}},
    ],
)
def test_any_other_job_is_none(changes: Any) -> None:
    assert orphan_of(**changes) == ""
