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
