"""The catalog's rows and the catalog: values with their source, and the lookups that fleet and placement ask.

Memory is bytes, money micro-dollars, TFLOPS dense, and everything is for one KUBERNETES DEVICE (a GCD of an MI250X).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from gpujob.catalog import identity, model_names, pricelist
from gpujob.catalog.efficiency import Efficiency, Key
from gpujob.catalog.models import ModelShape
from gpujob.catalog.runtime import Runtime, in_order
from gpujob.catalog.stacks import Stack, stack_of
from gpujob.catalog.throughput import Speed, Speeds, Throughput, Work
from gpujob.vocabulary import Backend, CapacityType, Reason, Vendor

Support = Literal["production", "limited", "unsupported"]
"""production: the vendor lists it for this work; limited: a consumer part, or partly known or supported; unsupported:
no PyTorch build exists for it, so it is refused by name."""
Level = Literal["accelerator", "runtime"]


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A model of device; None where nobody could be cited."""

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
    """What the driver reports with error correction on, where that takes of the same memory."""
    torch_bytes: int | None = None
    """The smallest total that PyTorch was seen to report."""
    bandwidth_gb_s: float | None = None
    bf16_tflops: float | None = None
    fp16_tflops: float | None = None
    fp8_tflops: float | None = None
    features: frozenset[str] = frozenset()
    min_driver: str | None = None
    """The oldest NVIDIA driver, or amdgpu module, that drives it."""
    min_backend: str | None = None
    """The oldest release of CUDA or ROCm that knows it."""
    host_architecture: str | None = None
    """The CPU architecture of its hosts where they are all alike: arm64 of a GB200."""
    support: Support = "production"
    integrated: bool = False
    """Whether it shares its memory with the host, so that no figure is its own."""
    whole_bytes: int | None = None
    """The memory of the card that it is a fraction of (a virtual function); which part it is, its own memory tells."""
    devices_per_card: int = 1
    partitions: int | None = None
    """The most partitions that a device can be cut into (AMD's CPX mode: one for each compute die)."""
    slices: tuple[tuple[str, int], ...] = ()
    """MIG profiles with the bytes that the driver reports for such a slice."""
    compute_units: int | None = None
    """AMD compute units of the device, the labeller's cu-count; tells models of one device id apart."""
    device_ids: tuple[str, ...] = ()
    """AMD PCI device ids, lower-case hexadecimal."""
    products: tuple[str, ...] = ()
    """The vendors' product labels, every known spelling."""
    gke: tuple[str, ...] = ()
    """Values of cloud.google.com/gke-accelerator."""
    cloud_names: tuple[str, ...] = ()
    """Values of karpenter.k8s.aws/instance-gpu-name."""
    watts: int | None = None
    """Board power; of the whole card where a card is several devices."""
    source: str = ""
    checked_on: str = ""
    note: str = ""

    @property
    def card_bytes(self) -> int | None:
        """The memory of a whole one: the driver's figure, else the vendor's, else that of the card that it is cut from."""
        return self.driver_bytes or self.nominal_bytes or self.whole_bytes

    @property
    def usable_bytes(self) -> int | None:
        """What a framework can use: seen by PyTorch, else the driver's figure less 1 %; None when neither is known."""
        if self.torch_bytes is not None:
            return self.torch_bytes
        return None if self.driver_bytes is None else self.driver_bytes * 99 // 100


@dataclass(frozen=True, slots=True)
class Feature:
    """A word that a job can require; it needs every one of its levels."""

    name: str
    levels: tuple[Level, ...]
    reason: Reason
    """Why a candidate without it is rejected."""
    backends: tuple[Backend, ...] = tuple(Backend)
    """The stacks that can have it."""
    since: Mapping[str, str] = field(default_factory=dict)
    """Architectures that have it only from a release of their stack on."""
    description: str = ""
    source: str = ""
    checked_on: str = ""


@dataclass(frozen=True, slots=True)
class Architecture:
    """What all devices of an architecture have in common."""

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
    """Into how many equal parts each of its devices is cut, of which the machine has one."""


@dataclass(frozen=True, slots=True)
class Price:
    """A list price for one Kubernetes device."""

    cloud: str
    instance_type: str | None
    accelerator: str
    region: str
    """`any` where one price holds everywhere."""
    capacity_type: CapacityType
    per_gpu_hour: int
    """Micro-dollars."""
    source: str = ""
    checked_on: str = ""
    """The day the price was published, or read where the publisher gives no day."""


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """All rows, and the lookups; built once, shared by everyone, never changed."""

    accelerators: tuple[Accelerator, ...] = ()
    features: Mapping[str, Feature] = field(default_factory=dict)
    instance_types: Mapping[str, InstanceType] = field(default_factory=dict)
    prices: tuple[Price, ...] = ()
    runtimes: tuple[Runtime, ...] = ()
    """In the order of `in_order`."""
    throughputs: tuple[Throughput, ...] = ()
    efficiencies: Mapping[Key, Efficiency] = field(default_factory=dict)
    """What accelerators achieve of their rooflines, as the throughputs tell."""
    data_sheets: tuple[Accelerator, ...] = ()
    """Rows whose TFLOPS and bandwidth hold where those of a file that replaces the accelerators say none."""
    models: Mapping[str, ModelShape] = field(default_factory=dict)
    stacks: tuple[Stack, ...] = ()
    architectures: Mapping[str, Architecture] = field(default_factory=dict)
    refused: tuple[tuple[str, str], ...] = ()
    """Rows that contradict themselves: name and sentence."""

    _machines: Mapping[str, InstanceType] = field(init=False, repr=False)
    _identities: identity.Identities = field(init=False, repr=False)
    _price_list: pricelist.PriceList = field(init=False, repr=False)
    _speeds: Speeds = field(init=False, repr=False)
    _models: Mapping[str, ModelShape] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        known = (replace(row, stack=stack_of(self.stacks, row.backend, row.backend_release)) for row in self.runtimes)
        object.__setattr__(self, "runtimes", in_order(known))
        object.__setattr__(self, "_machines", {name.lower(): row for name, row in self.instance_types.items()})
        object.__setattr__(self, "_identities", identity.Identities(self.accelerators))
        object.__setattr__(self, "_price_list", pricelist.PriceList(self.prices))
        object.__setattr__(self, "_speeds", Speeds(self.efficiencies, (*self.data_sheets, *self.accelerators)))
        object.__setattr__(self, "_models", {model_names.key(name): shape for name, shape in self.models.items()})

    def accelerator(self, word: str) -> Accelerator | None:
        """The accelerator of this id."""
        return self._identities.ids.get(word)

    def named(self, word: str) -> tuple[str, ...]:
        """The ids that a person's word for an accelerator means: H100 each of its boards; none for an unknown word."""
        return self._identities.named(word)

    def by_device_id(
        self, device_id: str, driver_memory_gib: float | None = None, cu_count: int | None = None
    ) -> Accelerator | None:
        """The model behind an AMD PCI device id.

        Some ids are shared by several models: what is known of memory (the vram label, GiB) and compute units tells
        them apart. None for an unknown id, and when models that differ in memory or architecture remain.
        """
        return self._identities.by_device_id(device_id, driver_memory_gib, cu_count)

    def by_product(self, product: str, driver_memory_gib: float | None = None) -> Accelerator | None:
        """The model behind a product label or name; spaces, hyphens and underscores are the same.

        The suffixes of shared and sliced devices (-SHARED, -MIG-1g.5gb) are dropped: the card is named.
        """
        return self._identities.by_product(product, driver_memory_gib)

    def by_gke(self, value: str) -> Accelerator | None:
        """The model behind a value of cloud.google.com/gke-accelerator."""
        return self._identities.by_gke(value)

    def by_cloud_name(self, name: str, memory_mib: int | None = None) -> Accelerator | None:
        """The model behind a cloud's name for a device (a100, MI300X, H100_NVLINK_80GB) and the cloud's own MiB of it."""
        return self._identities.by_cloud_name(name, memory_mib)

    def may_be(self, cloud_name: str) -> frozenset[str]:
        """The ids of all models that a cloud's name for a device may mean."""
        return self._identities.may_be(cloud_name)

    def by_instance_type(self, name: str) -> Accelerator | None:
        """The model that a cloud's instance type has: by its row, else by a name that is made of the model's."""
        row = self.machine(name)
        return self.accelerator(row.accelerator) if row else self._identities.by_machine_name(name)

    def machine(self, instance_type: str) -> InstanceType | None:
        """The row of an instance type. Azure's are in the letter case that somebody wrote when the nodes were made."""
        return self.instance_types.get(instance_type) or self._machines.get(instance_type.lower())

    def nearest_accelerator(self, word: str) -> str | None:
        """The id that a word most likely means: that of a label or cloud's name (NVIDIA-H100-80GB-HBM3, 74a1), else the
        nearest."""
        named = self.by_product(word) or self.by_cloud_name(word) or self.by_device_id(word)
        return named.id if named else identity.nearest(word, self._identities.ids)

    def nearest_feature(self, word: str) -> str | None:
        """The feature that a mistyped word most likely means."""
        return next(iter(self.nearest_features(word)), None)

    def nearest_features(self, word: str) -> tuple[str, ...]:
        """What a mistyped word most likely means: every feature that it begins (FP8 is two), else the nearest one."""
        begun = identity.begun(word, self.features)
        near = identity.nearest(word, self.features)
        return begun if len(begun) > 1 else (near,) if near else ()

    @property
    def frameworks(self) -> frozenset[str]:
        """The frameworks that images have."""
        return frozenset(runtime.framework for runtime in self.runtimes if not runtime.unreadable)

    def nearest_framework(self, word: str) -> str | None:
        """The framework that a mistyped word most likely means, be it written PyTorch or torch."""
        return identity.nearest(word, self.frameworks)

    def model(self, name: str) -> ModelShape | None:
        """The shape of a model; case, an owner ("meta-llama/"), hyphens for dots and endings such as -instruct do not matter."""
        found = (self._models.get(model_names.key(meant)) for meant in model_names.meant(name))
        return next(filter(None, found), None)

    def stored(self, name: str) -> str:
        """The number format in which the weights of a model of this name are stored (`WeightFormat`); empty: 16 bits."""
        known = self.model(name)
        return "" if known is None else model_names.stored(name, known.published)

    def nearest_models(self, name: str) -> tuple[str, ...]:
        """Up to three models that a mistyped name may mean, the likeliest first."""
        return model_names.nearest(name, self.models)

    def with_runtimes(self, extra: Iterable[Runtime]) -> Catalog:
        """This catalog and an admin's runtimes; one of the same name replaces the row, be it readable or not."""
        theirs = tuple(extra)
        names = {row.name for row in theirs}
        return replace(self, runtimes=(*(row for row in self.runtimes if row.name not in names), *theirs))

    def price_of(self, cloud: str | None, instance_type: str, region: str, capacity_type: CapacityType) -> Price | None:
        """The list price of an instance type: of this region, else of the region of that cloud whose name is nearest.

        A price that holds everywhere comes with the region asked for; another region shows in `Price.region`.
        """
        machine = self.machine(instance_type)
        return self._price_list.listed(cloud, machine.name if machine else instance_type, region, capacity_type)

    def price_of_model(self, cloud: str, accelerator_id: str, region: str, capacity_type: CapacityType) -> Price | None:
        """The list price of a model at a cloud that sells it by the GPU, whatever the machine."""
        return self._price_list.of_model(cloud, accelerator_id, region, capacity_type)

    def indicative_price(self, accelerator_id: str, capacity_type: CapacityType) -> Price | None:
        """The median of the clouds' list prices of a model, for devices whose own price nobody knows."""
        return self._price_list.median(accelerator_id, capacity_type)

    def speed(self, accelerator_id: str, work: Work) -> Speed | None:
        """How fast a model is on this work, compared with the catalog's reference; None where nothing is known."""
        return self._speeds.of(accelerator_id, work)
