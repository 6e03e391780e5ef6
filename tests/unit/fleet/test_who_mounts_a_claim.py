"""Which pods mount a PersistentVolumeClaim: live ones on a node, and those of placed jobs until they come."""

from __future__ import annotations

from typing import Any

import pytest
from builders import Object, pod

from gpujob.fleet.assembly.mounts import MountIndex, mounts_of
from gpujob.fleet.assembly.usage import PodReservation, reservations_of
from gpujob.fleet.kubernetes.objects import Pod, Resources
from gpujob.fleet.kubernetes.parse import read_pod
from gpujob.fleet.storage.claim_volumes import Mount, with_mount
from gpujob.fleet.storage.volume_records import read_volume, read_volume_claim
from gpujob.values.vocabulary import Label

CLAIM = ("default", "c")
NEEDS = Resources(1000, 1024**3, 0, 1)


def using(name: str, on: str, *claims: Any, job: str = "", **more: Any) -> Pod:
    found: Object = pod(name, on, **more)
    found["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    if job:
        found["metadata"]["labels"] = {Label.JOB_UID: job, Label.ATTEMPT: "1"}
    return read_pod(found)


def planned(on: str, claims: tuple[str, ...] = ("c",), attempt: int = 1) -> PodReservation:
    (found,) = reservations_of(
        "u", attempt, "default", (on,), "pool", "nvidia.com/gpu", 1, NEEDS, volume_claims=claims, job="j"
    )
    return found


@pytest.mark.parametrize(
    ("user", "node"),
    [
        (using("p", "n", "c"), "n"),
        (using("p", "n", "c", phase="Pending"), "n"),
        (using("p", "", "c"), None),
        (using("p", "n", "c", phase="Succeeded"), None),
        (using("p", "n", "c", phase="Failed"), None),
        (using("p", "n", "other"), None),
        (using("p", "n", 7, None, ""), None),
    ],
)
def test_a_live_pod_on_a_node_mounts_its_claims(user: Pod, node: str | None) -> None:
    assert mounts_of([user], []).get(CLAIM, ()) == (() if node is None else (Mount(node, "pod p"),))


def test_a_pod_that_is_being_deleted_mounts_them_still() -> None:
    raw = pod("p", "n")
    raw["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    raw["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    assert CLAIM in mounts_of([read_pod(raw)], [])


def test_a_claim_that_is_made_for_a_pod_is_its_own() -> None:
    raw = pod("p", "n")
    raw["spec"]["volumes"] = [{"name": "c", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    assert read_pod(raw).volume_claims == ()


def test_a_claim_of_two_volumes_is_mounted_once() -> None:
    assert using("p", "n", "c", "b", "c").volume_claims == ("b", "c")


def test_a_placed_job_mounts_its_claims_until_its_pod_does() -> None:
    index = MountIndex()
    index.put("r", None, planned("n"))
    assert index.mounts == {CLAIM: (Mount("n", "job j", starts=True),)}
    mine, strange = using("p", "n", "c", job="u"), using("q", "m", "c")
    index.put("q", None, strange)
    assert index.mounts[CLAIM] == (Mount("m", "pod q"), Mount("n", "job j", starts=True))
    index.put("p", None, mine)
    assert index.mounts[CLAIM] == (Mount("m", "pod q"), Mount("n", "pod p"))
    index.put("p", mine, None)
    index.put("q", strange, None)
    assert index.mounts[CLAIM] == (Mount("n", "job j", starts=True),)
    index.put("r", planned("n"), None)
    assert index.mounts == {}


def test_a_pod_of_another_attempt_uses_no_reservation_up() -> None:
    assert len(mounts_of([using("p", "n", "c", job="u")], [planned("n", attempt=2)])[CLAIM]) == 2


def test_without_a_change_the_mounts_are_the_same_object() -> None:
    index = MountIndex()
    index.put("p", None, using("p", "n", "c"))
    before = index.mounts
    index.put("q", None, using("q", "n"))
    index.put("p", using("p", "n", "c"), using("p", "n", "c", cpu="2"))
    assert index.mounts is before


def test_equal_mounts_in_any_order_are_equal() -> None:
    users = [using("p", "n", "c"), using("q", "m", "c")]
    assert mounts_of(users, []) == mounts_of(users[::-1], [])


def test_one_more_mount_leaves_the_others() -> None:
    mount, more = Mount("n", "pod p"), Mount("n", "job j", starts=True)
    before = {CLAIM: (mount,)}
    assert with_mount(before, "default", ["c", "d"], more) == {CLAIM: (mount, more), ("default", "d"): (more,)}
    assert with_mount(before, "default", [], more) is before


@pytest.mark.parametrize(
    ("modes", "one_node", "one_pod"),
    [
        (["ReadWriteOnce"], True, False),
        (["ReadWriteOncePod"], True, True),
        (["ReadWriteOnce", "ReadWriteMany"], False, False),
        (["ReadWriteMany"], False, False),
        ([], False, False),
        ("ReadWriteOncePod", False, False),
    ],
)
def test_the_access_modes_say_how_many_can_mount_it(modes: Any, one_node: bool, one_pod: bool) -> None:
    claim = read_volume_claim({"spec": {"accessModes": modes}})
    assert (claim.one_node, claim.one_pod) == (one_node, one_pod)


@pytest.mark.parametrize(
    ("spec", "many"),
    [
        ({"accessModes": ["ReadWriteOnce"], "csi": {"driver": "ebs.csi.aws.com"}}, False),
        ({"accessModes": ["ReadWriteOnce"], "csi": {"driver": "nfs.csi.k8s.io"}}, True),
        ({"accessModes": ["ReadWriteOnce"], "nfs": {"server": "s", "path": "/"}}, True),
        ({"accessModes": ["ReadWriteOnce", "ReadWriteMany"], "csi": {"driver": "d"}}, True),
        ({"accessModes": ["ReadOnlyMany"]}, True),
        ({"accessModes": ["ReadWriteOncePod"]}, False),
        ({"accessModes": "ReadWriteMany", "csi": {"driver": ["nfs.csi.k8s.io"]}}, False),
        ({}, False),
    ],
)
def test_a_volume_says_whether_many_nodes_can_mount_it(spec: Object, many: bool) -> None:
    assert read_volume({"metadata": {"name": "pv"}, "spec": spec}).many_nodes is many
