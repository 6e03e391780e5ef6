"""Devices of one slice that are views of one card: whole and cut, for containers and for virtual machines, with counters of places."""

from __future__ import annotations

from typing import Any

import pytest
from builders import decision, device_class, fleet, node, resource_claim, resource_slice

from gpujob.values.vocabulary import Verdict

NVIDIA = {"productName": "NVIDIA A100 80GB PCIe", "cudaComputeCapability": {"version": "8.0.0"}}
CLASSES = (
    device_class("gpu", "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"),
    device_class("mig", "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"),
)


def whole(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "memory": "80Gi", "type": "gpu", **NVIDIA, **more}


def part(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "memory": "40192Mi", "type": "mig", "profile": "3g.40gb", **NVIDIA, **more}


def totals(*devices: dict[str, Any]) -> dict[str, int]:
    found = fleet(node("n", devices={}), resource_slice("n", "gpu.nvidia.com", *devices), *CLASSES)
    return {pool.kind.value: pool.total for pool in found.pools}


@pytest.mark.parametrize(
    ("own", "parent"),
    [
        ({"uuid": "GPU-a"}, {"parentUUID": "GPU-a", "uuid": "MIG-a"}),
        ({"pcieBusID": "0000:01:00.0"}, {"pcieBusID": "0000:01:00.0"}),
        ({"resource.kubernetes.io/pciBusID": "0000:01:00.0"}, {"resource.kubernetes.io/pciBusID": "0000:01:00.0"}),
        ({"uuid": "gpu-A"}, {"parentUUID": "GPU-a"}),
    ],
)
def test_a_card_whose_slices_are_announced_is_not_whole(own: dict[str, str], parent: dict[str, str]) -> None:
    assert totals(whole("g0", **own), part("m0", **parent)) == {"Partition": 1}
    assert totals(whole("g0", **own), whole("g1", uuid="GPU-z"), part("m0", **parent)) == {"Partition": 1, "Whole": 1}


def test_a_slice_of_another_card_leaves_a_card_whole() -> None:
    assert totals(whole("g0", uuid="GPU-a"), part("m0", parentUUID="GPU-b")) == {"Partition": 1, "Whole": 1}
    assert totals(whole("g0"), part("m0")) == {"Partition": 1, "Whole": 1}


def test_a_card_that_a_virtual_machine_has_is_taken() -> None:
    vfio = {"name": "v0", "type": "vfio", "uuid": "GPU-a"}
    offered = (node("n", devices={}), resource_slice("n", "gpu.nvidia.com", whole("g0", uuid="GPU-a"), vfio), *CLASSES)
    assert decision(*offered).verdict is Verdict.PLACED
    taken = resource_claim("c", "gpu.nvidia.com", "n", "v0", pod_uid="u")
    assert decision(*offered, taken).verdict is Verdict.WAITING


def free(*objects: dict[str, Any]) -> dict[str, int]:
    return {pool.kind.value: pool.free for pool in fleet(node("n", devices={}), *CLASSES, *objects).pools}


VFIO = {"name": "v0", "type": "vfio", "uuid": "GPU-a"}
TWO_CARDS = resource_slice(
    "n", "gpu.nvidia.com", whole("g0", uuid="GPU-a"), whole("g1", uuid="GPU-b"), part("m0", parentUUID="GPU-a"),
    part("m1", parentUUID="GPU-a"), VFIO,
)  # fmt: skip


@pytest.mark.parametrize(
    ("held", "left"),
    [
        ([], {"Partition": 2, "Whole": 1}),
        (["m0"], {"Partition": 1, "Whole": 1}),
        (["g1"], {"Partition": 2, "Whole": 0}),
        # The scheduler gave a card that is cut as a whole, or to a virtual machine: its slices are gone with it.
        (["g0"], {"Partition": 0, "Whole": 1}),
        (["v0"], {"Partition": 0, "Whole": 1}),
        (["g0", "g1"], {"Partition": 0, "Whole": 0}),
    ],
)
def test_a_claim_on_one_view_takes_the_others(held: list[str], left: dict[str, int]) -> None:
    claims = [resource_claim(name, "gpu.nvidia.com", "n", name, pod_uid=f"u-{name}") for name in held]
    assert free(TWO_CARDS, *claims) == left


SICK = [{"key": "xid", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("devices", "left"),
    [
        ([whole("g0", uuid="GPU-a", taints=SICK), whole("g1", uuid="GPU-b")], {"Whole": 1}),
        ([whole("g0", uuid="GPU-a"), whole("g1", uuid="GPU-b"), part("m0", parentUUID="GPU-b", taints=SICK)],
         {"Partition": 0, "Whole": 1}),
        # A taint is of one device: the driver taints the slices of a sick card too.
        ([whole("g0", uuid="GPU-a", taints=SICK), part("m0", parentUUID="GPU-a")], {"Partition": 1}),
        ([whole("g0", uuid="GPU-a", taints=SICK), part("m0", parentUUID="GPU-a", taints=SICK)], {"Partition": 0}),
        ([whole("g0", uuid="GPU-a", taints=[{"key": "x", "effect": "NoExecute"}])], {"Whole": 0}),
    ],
)  # fmt: skip
def test_a_taint_takes_the_view_that_it_is_on(devices: list[dict[str, Any]], left: dict[str, int]) -> None:
    assert free(resource_slice("n", "gpu.nvidia.com", *devices)) == left
