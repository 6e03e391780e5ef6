"""Labels vanish for a minute when a labeller restarts: what they said last is used, for five minutes at most."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import H100, MI300X, Object, node

from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.devices.group import DeviceGroup, groups_of
from gpujob.fleet.devices.last_known import Recollection, recalled
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.values.vocabulary import Reason

GPU = "nvidia.com/gpu"


def read(raw: Object) -> tuple[DeviceGroup, ...]:
    return groups_of(read_node(raw), load_catalog())


def bare(uid: str = "uid-of-n", devices: Any = None) -> Object:
    found = node("n", devices=devices or {GPU: "8"})
    found["metadata"]["uid"] = uid
    return found


def remembered(raw: Object) -> Recollection:
    held = recalled(read(raw), None, 0.0)[1]
    assert held is not None
    return held


@pytest.mark.parametrize("gpu", [H100, MI300X])
def test_the_last_known_facts_stand_in_for_five_minutes(gpu: Any) -> None:
    held = remembered(node("n", gpu))
    gone = read(bare(devices={gpu.resource: "8"}))
    groups, held_on = recalled(gone, held, 100.0)
    assert (groups[0].facts.name, groups[0].facts.problem) == (held.groups[0].facts.name, None)
    assert [warning.reason for warning in groups[0].facts.warnings] == [Reason.LABELS_GONE]
    assert held_on is not None
    assert held_on.until == 400.0
    # Read again meanwhile: the five minutes count from the first time.
    again, still = recalled(gone, held_on, 399.0)
    assert (again[0].facts.problem, still and still.until) == (None, 400.0)
    late, nothing = recalled(gone, held_on, 400.0)
    assert late[0].facts.problem is not None
    assert nothing is not None
    assert nothing.until is None


def test_labels_that_come_back_are_believed_again() -> None:
    _, held = recalled(read(bare()), remembered(node("n", H100)), 100.0)
    back, fresh = recalled(read(node("n", H100)), held, 200.0)
    assert back[0].facts.warnings == ()
    assert fresh is not None
    assert fresh.until is None


def test_another_node_of_the_same_name_is_not_taken_for_the_old_one() -> None:
    groups, _ = recalled(read(bare(uid="another")), remembered(node("n", H100)), 10.0)
    assert groups[0].facts.problem is not None


def test_devices_that_are_no_longer_allocatable_are_not_recalled() -> None:
    empty = replace(read(bare())[0], healthy=0)
    assert recalled((empty,), remembered(node("n", H100)), 10.0)[0][0].facts.problem is not None


def test_what_the_instance_type_still_says_is_completed() -> None:
    machine = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    gone = bare()
    gone["metadata"]["labels"] |= machine
    groups, _ = recalled(read(gone), remembered(node("n", H100, labels=machine)), 10.0)
    assert groups[0].facts.driver == "580.95.05"
