"""The catalog's rows as values with their source: memory in bytes, money in micro-dollars, dense TFLOPS, for one Kubernetes device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpujob.values.vocabulary import Backend, CapacityType, Evidence, Reason, RunFormat, Vendor, WorkKind

Support = Literal["production", "limited", "unsupported"]
"""production: the vendor lists it for this work; limited: a consumer part, or partly known or supported; unsupported: no PyTorch
build exists for it, so it is rejected by name.
"""

Level = Literal["accelerator", "runtime"]


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A model of device; None for facts without a source."""

    id: str
    """Short and stable, without spaces: MI300X, H100-SXM, A100-80GB."""
    name: str
    vendor: Vendor
    architecture: str
    """gfx942, or a compute capability such as 9.0."""
    nominal_bytes: int | None = None
    """The vendor's size, read as GiB, so that no driver reports more."""
    driver_bytes: int | None = None
    """What the driver reports."""
    ecc_bytes: int | None = None
    """What the driver reports with error correction on, if that uses the same memory."""
    torch_bytes: int | None = None
    """The smallest total that PyTorch reported."""
    bandwidth_gb_s: float | None = None
    bf16_tflops: float | None = None
    fp16_tflops: float | None = None
    fp8_tflops: float | None = None
    features: frozenset[str] = frozenset()
    min_driver: str | None = None
    """The oldest NVIDIA driver, or amdgpu module, that supports it."""
    min_backend: str | None = None
    """The oldest release of CUDA or ROCm that supports it."""
    host_architecture: str | None = None
    """The CPU architecture of its hosts if all have the same: arm64 for a GB200."""
    support: Support = "production"
    integrated: bool = False
    """Whether it shares its memory with the host, so that it has no size of its own."""
    whole_bytes: int | None = None
    """The memory of the card that it is a fraction of (a virtual function); its own memory gives the fraction."""
    devices_per_card: int = 1
    partitions: int | None = None
    """The most partitions that a device can have (AMD's CPX mode: one for each compute die)."""
    slices: tuple[tuple[str, int], ...] = ()
    """MIG profiles with the bytes that the driver reports for such a slice."""
    compute_units: int | None = None
    """AMD compute units of the device, the labeller's cu-count; distinguishes models of one device id."""
    device_ids: tuple[str, ...] = ()
    """AMD PCI device ids, lower-case hexadecimal."""
    products: tuple[str, ...] = ()
    """The vendors' product labels, every known spelling."""
    gke: tuple[str, ...] = ()
    """Values of cloud.google.com/gke-accelerator."""
    cloud_names: tuple[str, ...] = ()
    """Values of karpenter.k8s.aws/instance-gpu-name."""
    watts: int | None = None
    """Board power; of the whole card if a card has several devices."""
    source: str = ""
    checked_on: str = ""
    note: str = ""

    @property
    def card_bytes(self) -> int | None:
        """The memory of a whole device: the driver's figure, else the vendor's, else that of its card."""
        return self.driver_bytes or self.nominal_bytes or self.whole_bytes

    @property
    def usable_bytes(self) -> int | None:
        """What a framework can use: reported by PyTorch, else the driver's figure less 1 %; None if neither is known."""
        if self.torch_bytes is not None:
            return self.torch_bytes
        return None if self.driver_bytes is None else self.driver_bytes * 99 // 100


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature that a job can require; every one of its levels must have it."""

    name: str
    levels: tuple[Level, ...]
    reason: Reason
    """Why a candidate without it is infeasible."""
    backends: tuple[Backend, ...] = tuple(Backend)
    """The stacks that can have it."""
    since: Mapping[str, str] = field(default_factory=dict)
    """Architectures that have it only from a release of their stack on."""
    description: str = ""
    source: str = ""
    checked_on: str = ""


@dataclass(frozen=True, slots=True)
class Architecture:
    """The facts that all devices of an architecture share."""

    name: str
    features: frozenset[str] = frozenset()
    min_driver: str | None = None
    min_backend: str | None = None


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A cloud's machine: its accelerator and how many Kubernetes devices a node has."""

    name: str
    cloud: str
    accelerator: str
    devices: int
    source: str = ""
    checked_on: str = ""
    parts: int = 1
    """The number of equal parts of each device; the machine has one part."""


@dataclass(frozen=True, slots=True)
class Price:
    """A list price for one Kubernetes device."""

    cloud: str
    instance_type: str | None
    accelerator: str
    region: str
    """`any` if one price holds everywhere."""
    capacity_type: CapacityType
    per_gpu_hour: int
    """Micro-dollars."""
    source: str = ""
    checked_on: str = ""
    """The day the price was published, or read if the publisher gives none."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """The throughput of one Kubernetes device of a model on a benchmark, with its number of devices, engine and number format."""

    benchmark: str
    work: WorkKind
    format: RunFormat
    evidence: Evidence
    accelerator: str
    per_gpu: float
    unit: str
    engine: str = ""
    devices: int = 1
    source: str = ""
    checked_on: str = ""
    sequences: int | None = None
    """Sequences that were served at once, where the source says so."""
