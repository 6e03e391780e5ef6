"""Why a pod has no room on the node that it is pinned to: pods of others (devices, CPU or memory), or what became of the node."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.fleet.assembly.node_state import LostRoom
from gpujob.fleet.assembly.usage import PodReservation
from gpujob.fleet.devices.from_slices import with_slices
from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.dra.inventory import read_inventory
from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.kubernetes.parse import read_node, read_pod
from gpujob.fleet.labels.maintenance import Tolerated
from gpujob.fleet.sources.incremental import FleetIndex
from gpujob.values.vocabulary import Label
from tests.builders import ANY_IMAGES, H100, device_class, node, pod, resource_claim, resource_slice

GPU = "nvidia.com/gpu"
LITTLE = Resources(1000, 2**30, 0, 1)


def others(number: int, gpus: int = 0, **more: Any) -> dict[str, Any]:
    """A pod on the node with a number of devices."""
    return pod(f"other-{number}", "n0", {GPU: gpus} if gpus else None, **more)


def mine(raw: dict[str, Any]) -> dict[str, Any]:
    """The pod as one of the job."""
    raw["metadata"] |= {"namespace": "team", "labels": {Label.JOB_UID: "u", Label.ATTEMPT: "1"}}
    return raw


def lost(
    gpus: int, *pods: dict[str, Any], needs: Resources = LITTLE, on: dict[str, Any] | None = None
) -> LostRoom | None:
    """Why a pod with this many devices has no room beside `pods`."""
    index, parsed = FleetIndex(ANY_IMAGES), read_node(on or node("n0", H100))
    index.put_node(parsed, groups_of(parsed, ANY_IMAGES))
    for raw in pods:
        index.put_pod((raw["metadata"]["namespace"], raw["metadata"]["name"]), read_pod(raw))
    return index.lost_room(PodReservation("u", "n0", GPU, gpus, needs, 1, "team"), parsed)


def is_taken(gpus: int, *pods: dict[str, Any], needs: Resources = LITTLE) -> bool:
    """Whether `pods` have taken the room of a pod with this many devices."""
    return lost(gpus, *pods, needs=needs) == LostRoom()


@pytest.mark.parametrize(
    ("gpus", "pods", "taken"),
    [
        (8, (), False),
        (8, (others(0, 1),), True),
        (1, (others(0, 7),), False),
        (1, (others(0, 4), others(1, 4)), True),
        (1, (others(0, 8, phase="Succeeded"),), False),
        # Its own pod is there: bound, or nominated after a preemption.
        (8, (mine(others(0, 8)),), False),
        (8, (others(0, 8), mine(others(1, 8))), False),
    ],
)
def test_devices(gpus: int, pods: tuple[dict[str, Any], ...], taken: bool) -> None:
    assert is_taken(gpus, *pods) is taken


def test_cpu_that_others_took_is_room_too() -> None:
    whole = read_node(node("n0", H100)).allocatable.millicores
    half = Resources(whole // 2, 2**30, 0, 1)
    assert not is_taken(1, others(0, 1), needs=half)
    assert is_taken(1, others(0, 1, cpu=f"{whole // 2 + 1}m"), needs=half)
    assert not is_taken(1, others(0, 1, cpu="1"), needs=Resources(whole + 1, 0, 0, 1))


@pytest.mark.parametrize(
    ("tolerated", "is_lost"),
    [((), True), ((("x", None, None),), False), ((("", None, None),), False), ((("x", None, "NoExecute"),), True)],
)
def test_a_taint_that_the_pod_tolerates_keeps_it_off_no_node(tolerated: Tolerated, is_lost: bool) -> None:
    parsed = read_node(
        changed("spec", taints=[{"key": "x", "effect": "NoSchedule"}, {"key": "y", "effect": "PreferNoSchedule"}])
    )
    index, room = FleetIndex(ANY_IMAGES), PodReservation("u", "n0", GPU, 8, LITTLE, 1, "team")
    index.put_node(parsed, groups_of(parsed, ANY_IMAGES))
    assert (index.lost_room(room, parsed, tolerated) is not None) is is_lost


def test_a_node_that_is_gone() -> None:
    room = PodReservation("u", "n0", GPU, 1, Resources(), 1, "team")
    assert FleetIndex(ANY_IMAGES).lost_room(room, None) == LostRoom("is gone")


def test_a_node_that_is_not_read_yet_is_not_taken() -> None:
    room = PodReservation("u", "n0", GPU, 1, Resources(), 1, "team")
    assert FleetIndex(ANY_IMAGES).lost_room(room, read_node(node("n0", H100))) is None


def changed(part: str, **fields: Any) -> dict[str, Any]:
    """The node with other fields of a part: metadata, spec or status."""
    raw: dict[str, Any] = node("n0", H100)
    raw[part] = {**raw.get(part, {}), **fields}
    return raw


@pytest.mark.parametrize(
    ("on", "why", "passes"),
    [
        (changed("metadata", deletionTimestamp="2026-01-01T12:00:00Z"), "is being deleted", False),
        (changed("status", conditions=[{"type": "Ready", "status": "Unknown"}]), "is not Ready", True),
        (changed("spec", unschedulable=True), "is cordoned", False),
        (changed("spec", taints=[{"key": "x", "effect": "NoSchedule"}]), "has taint x:NoSchedule", True),
        (changed("status", allocatable={"cpu": "64", "memory": "512Gi", GPU: "4"}), "offers 4 of 8 devices", True),
        (changed("status", allocatable={"cpu": "64", "memory": "512Gi"}), "offers 0 of 8 devices", True),
    ],
)
def test_a_node_that_takes_no_pod_any_more(on: dict[str, Any], why: str, passes: bool) -> None:
    assert lost(8, on=on) == LostRoom(why, passes)
    assert lost(8, mine(others(0, 8)), on=on) is None, "its own pod is bound"


@pytest.mark.parametrize("extended", [False, True], ids=["a claim of the pod", "a claim for a resource's name"])
@pytest.mark.parametrize(("holder", "taken"), [("mine", False), ("other", True)])
def test_devices_that_a_claim_has_for_the_pod_that_is_bound_next_are_not_taken(
    extended: bool, holder: str, taken: bool
) -> None:
    driver = "gpu.nvidia.com"
    device = {"name": "gpu-0", "memory": "81559Mi", "type": "gpu", "productName": "NVIDIA H100 80GB HBM3"}
    objects = (
        resource_slice("n0", driver, device),
        device_class(driver, f"device.driver == '{driver}' && device.attributes['{driver}'].type == 'gpu'", GPU),
        resource_claim("c", driver, "n0", "gpu-0", pod_uid=holder, extended=extended),
    )
    inventory, parsed = read_inventory(objects), read_node(node("n0", labels={}))
    index, raw = FleetIndex(ANY_IMAGES, inventory.of_pod), mine(pod("p", ""))
    raw["metadata"]["uid"] = "mine"
    index.put_node(parsed, with_slices(parsed, groups_of(parsed, ANY_IMAGES), inventory, ANY_IMAGES))
    index.put_pod(("team", "p"), read_pod(raw))
    room = PodReservation("u", "n0", GPU, 1, LITTLE, 1, "team")
    assert index.lost_room(room, parsed) == (LostRoom() if taken else None)
