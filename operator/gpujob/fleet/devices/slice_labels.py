"""A device of a ResourceSlice as the labels that the vendor's labeller would write, for the readers of labels.

Attributes: NVIDIA dra-driver-nvidia-gpu v0.5 (2026-08), ROCm k8s-gpu-dra-driver v0.1 and v1.0 (2025-10, 2026).
"""

from __future__ import annotations

import re
from typing import Final

from gpujob.fleet.dra.resource_slices import SliceDevice
from gpujob.fleet.kubernetes.objects import Labels
from gpujob.fleet.labels.facts import GIB, MIB
from gpujob.fleet.vendors import amd, nvidia
from gpujob.fleet.vendors.amd_labels import PREFIXES
from gpujob.values.vocabulary import Vendor

_PCI_DEVICE: Final = re.compile(r"0x[0-9a-fA-F]{4}")
"""Version 0.1 of AMD's driver published a KFD id under the name of the PCI device id in 1.0."""


def resource_of(vendor: Vendor, device: SliceDevice) -> str:
    """The resource under which a device plugin would offer the device."""
    profile = device.attributes.get("profile", "")
    if vendor is Vendor.NVIDIA and device.type == "mig":
        return f"nvidia.com/mig-{profile}"
    return nvidia.PLAIN if vendor is Vendor.NVIDIA else amd.PLAIN


def labels_of(vendor: Vendor, device: SliceDevice) -> Labels:
    found = _nvidia_labels(device) if vendor is Vendor.NVIDIA else _amd_labels(device)
    return {key: value for key, value in found.items() if value}


def _nvidia_labels(device: SliceDevice) -> dict[str, str]:
    said, memory = device.attributes, device.memory
    major, _, rest = said.get("cudaComputeCapability", "").partition(".")
    kind = f"mig-{said.get('profile', '')}" if said.get("type") == "mig" else "gpu"
    return {
        "nvidia.com/gpu.product": re.sub(r"[\s_]+", "-", said.get("productName", "").strip()),
        f"nvidia.com/{kind}.memory": str(memory // MIB) if memory else "",
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": rest.partition(".")[0],
        "nvidia.com/cuda.driver-version.full": said.get("driverVersion", ""),
    }


def _amd_labels(device: SliceDevice) -> dict[str, str]:
    said, memory = device.attributes, device.memory
    whole = "spx_nps1" if said.get("type") == "amdgpu" else ""
    pci = said.get("deviceID", "")
    return {
        "amd.com/gpu.device-id": pci[2:].lower() if _PCI_DEVICE.fullmatch(pci) else "",
        "amd.com/gpu.product-name": re.sub(r"\s+", "_", said.get("productName", "").strip()),
        "amd.com/gpu.vram": f"{(2 * memory + GIB) // (2 * GIB)}G" if memory else "",
        "amd.com/gpu.driver-version": said.get("driverVersionFull") or said.get("driverVersion", ""),
        "amd.com/gpu.compute-memory-partition": mode_of(device) or whole,
    }


def mode_of(device: SliceDevice) -> str:
    """The compute and memory partition of an AMD device: cpx_nps4."""
    said = device.attributes
    pair = "_".join(filter(None, (said.get("computePartition"), said.get("memoryPartition"))))
    return (said.get("partitionProfile") or pair).lower()


def labels_of_others(labels: Labels, vendor: Vendor) -> Labels:
    """A node's labels without those that a labeller wrote for the same devices: slices are newer and exact."""
    starts = ("nvidia.com/",) if vendor is Vendor.NVIDIA else (*PREFIXES, "amd.com/")
    return {key: value for key, value in labels.items() if not key.startswith(starts)}
