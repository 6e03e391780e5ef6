"""Which Jobs are the child of a GPUJob, and what its child reserves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.status.attempts.ownership import is_child, is_stray, reservations
from gpujob.status.records.objects import ChildRecord, JobRecord
from gpujob.status.records.read_objects import read_child, read_job
from gpujob.values.names import child_name
from gpujob.values.vocabulary import Label

FIRST, SECOND, THIRD = (child_name("j", "u", number) for number in (1, 2, 3))
RECORDED: Final = {"attempt": 1, "jobName": FIRST, "jobUID": "c"}
PLACEMENT: Final = {"nodes": 2, "gpusPerNode": 4, "nodeNames": ["n0", "n1"]}


def job(**status: Any) -> JobRecord:
    return read_job({"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "status": status})


def child(number: int, uid: str = "c", **changes: Any) -> ChildRecord:
    head = {
        "name": child_name("j", "u", number), "namespace": "team", "uid": uid,
        "labels": {Label.JOB_UID: "u", Label.ATTEMPT: str(number)},
        "ownerReferences": [{"kind": "GPUJob", "name": "j", "uid": "u", "controller": True}],
    }  # fmt: skip
    return replace(read_child({"metadata": head, "spec": {"suspend": True, "template": {"spec": {}}}}), **changes)


@pytest.mark.parametrize(
    ("status", "found", "mine"),
    [
        ({}, child(1), True),
        ({}, child(2), False),
        ({"attempt": 1}, child(1), True),
        ({"attempt": 1}, child(2), True),
        ({"attempt": 1}, child(3), False),
        (RECORDED, child(1), True),
        (RECORDED, child(1, "another"), False),
        # The recorded one keeps its uid, whatever its name.
        (RECORDED, child(3, "c"), True),
        (RECORDED, child(2, "next"), True),
        (RECORDED, child(3, "late"), False),
        # The name alone is recorded: no uid contradicts it.
        ({"attempt": 1, "jobName": FIRST}, child(1, "any"), True),
        ({}, child(1, name="of-a-user"), False),
        ({}, child(1, namespace="other"), False),
        ({}, child(1, owner_uid="other"), False),
        # A running Job that loses its owner is not lost.
        (RECORDED, child(1, owner_uid=""), True),
        (RECORDED, child(1, owner_uid="other"), True),
        (RECORDED, child(1, "another", owner_uid=""), False),
        (RECORDED, child(1, owner_uid="", name="of-a-user"), False),
    ],
)
def test_the_child_is_the_recorded_job_or_the_next_attempt(
    status: dict[str, Any], found: ChildRecord, mine: bool
) -> None:
    assert is_child(found, job(**status)) is mine


@pytest.mark.parametrize(
    ("found", "stray"),
    [
        (child(1), False),
        (child(1, "another"), True),
        (child(3, "late"), True),
        (child(3, "late", name="of-a-user"), False),
        (child(3, "late", namespace="other"), False),
        (child(3, "late", owner_uid="other"), False),
    ],
)
def test_a_stray_has_the_name_and_the_owner_of_a_child(found: ChildRecord, stray: bool) -> None:
    assert is_stray(found, job(**RECORDED)) is stray


def test_a_recorded_child_reserves_at_most_its_placement() -> None:
    wide = child(1, nodes=("n0", "n1", "n2"), pods=3, gpus=8, resource="nvidia.com/gpu", needs=Resources(1))
    placed = job(**RECORDED, placement=PLACEMENT)
    assert [(each.node, each.gpus) for each in reservations(wide, placed)] == [("n0", 4), ("n1", 4)]
    for status in (
        {**RECORDED, "jobUID": "another", "placement": PLACEMENT},
        {**RECORDED, "placement": {**PLACEMENT, "nodes": "2"}},
        {**RECORDED, "placement": {**PLACEMENT, "gpusPerNode": None}},
    ):
        assert reservations(wide, job(**status)) == wide.reservations()
        assert [(each.node, each.gpus) for each in wide.reservations()] == [("n0", 8), ("n1", 8), ("n2", 8)]
    narrow = replace(wide, nodes=("n1",), pods=1, gpus=2)
    assert [(each.node, each.gpus) for each in reservations(narrow, placed)] == [("n1", 2)]
