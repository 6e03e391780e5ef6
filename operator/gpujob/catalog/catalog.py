"""The catalog: rows with their source, and the lookups of fleet and placement.

Memory is bytes, money micro-dollars, TFLOPS dense, and everything is for one KUBERNETES DEVICE (a GCD of an MI250X).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from gpujob.catalog.devices import identity, pricelist
from gpujob.catalog.devices.efficiency import Efficiency, Key
from gpujob.catalog.devices.likeness import near_names
from gpujob.catalog.devices.pricelist import OwnPrice
from gpujob.catalog.devices.throughput import Speed, Speeds, Work
from gpujob.catalog.entities import Accelerator, Architecture, Feature, InstanceType, Price, Throughput
from gpujob.catalog.images.mirrors import Mirror, mirrored
from gpujob.catalog.images.runtime import Runtime, Stack, in_order, stack_of
from gpujob.catalog.models import naming
from gpujob.catalog.models.shapes import ModelShape
from gpujob.values.vocabulary import CapacityType, HostAccess

RUNS_ON: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("tf", "keras", "tf-keras"), "tensorflow"),
        **dict.fromkeys(("flax", "optax", "maxtext", "equinox"), "jax"),
        **dict.fromkeys(
            ("transformers", "accelerate", "lightning", "deepspeed", "peft", "trl", "unsloth", "diffusers", "fastai"),
            "pytorch",
        ),
    }
)
"""Libraries that users name as the framework of a job, and the framework that they run on."""

NO_FRAMEWORKS: Final = frozenset({"tensorrt", "tensorrt-llm", "triton", "onnxruntime", "onnx"})
"""Programs that are like a framework by their letters alone: no framework of the images runs them."""

SAGEMAKER: Final = "ml."
"""The prefix of SageMaker's machine names before EC2's: ml.p5.48xlarge is a node of HyperPod."""


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """All rows, and the lookups; built once, shared and immutable."""

    accelerators: tuple[Accelerator, ...] = ()
    features: Mapping[str, Feature] = field(default_factory=dict)
    instance_types: Mapping[str, InstanceType] = field(default_factory=dict)
    prices: tuple[Price, ...] = ()
    runtimes: tuple[Runtime, ...] = ()
    """In the order of `in_order`."""
    throughputs: tuple[Throughput, ...] = ()
    efficiencies: Mapping[Key, Efficiency] = field(default_factory=dict)
    """The efficiency of each accelerator, computed from the throughput rows."""
    data_sheets: tuple[Accelerator, ...] = ()
    """Rows whose TFLOPS and bandwidth fill in for those of a file that replaces the accelerators without them."""
    models: Mapping[str, ModelShape] = field(default_factory=dict)
    stacks: tuple[Stack, ...] = ()
    architectures: Mapping[str, Architecture] = field(default_factory=dict)
    own_prices: Mapping[str, OwnPrice] = field(default_factory=dict)
    """What admins pay, by accelerator and by instance type (in lower case)."""
    mirrors: tuple[Mirror, ...] = ()
    """Where images are pulled from in place of the registries that their names say."""
    service_accounts: frozenset[str] | None = None
    """The ServiceAccounts that jobs may name; None where no installation is known."""
    host_access: frozenset[HostAccess] | None = None
    """The parts of the host that GPUPools may give to pods; None where no installation is known."""
    docs_url: str = ""
    """Where this installation serves the documentation site, without a slash at its end; empty: nowhere."""
    refused: tuple[tuple[str, str], ...] = ()
    """Rows that contradict themselves: name and message."""

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
        object.__setattr__(self, "_models", {naming.key(name): shape for name, shape in self.models.items()})

    def accelerator(self, word: str) -> Accelerator | None:
        """The accelerator of this id."""
        return self._identities.ids.get(word)

    def named(self, word: str) -> tuple[str, ...]:
        """The ids that a user's name for an accelerator means: each board of H100; none for an unknown name."""
        return self._identities.named(word)

    def members(self, word: str, unlisted: Iterable[str] = ()) -> frozenset[str]:
        """The ids, and the names of devices without a row, that a job's name for accelerators means; none for an unknown name."""
        return self._identities.members(word, unlisted)

    def by_device_id(
        self,
        device_id: str,
        driver_memory_gib: float | None = None,
        cu_count: int | None = None,
        product: str = "",
    ) -> Accelerator | None:
        """The model of an AMD PCI device id.

        Several models share some ids; the product's name, the known memory (the vram label, GiB) and compute units distinguish
        them. None for an unknown id, and if models that differ in memory or architecture remain.
        """
        return self._identities.by_device_id(device_id, driver_memory_gib, cu_count, product)

    def by_product(self, product: str, driver_memory_gib: float | None = None) -> Accelerator | None:
        """The model of a product label or name; spaces, hyphens and underscores are equal.

        The suffixes of shared and sliced devices (-SHARED, -MIG-1g.5gb) are dropped, so the result is the card.
        """
        return self._identities.by_product(product, driver_memory_gib)

    def by_gke(self, value: str) -> Accelerator | None:
        """The model of a value of cloud.google.com/gke-accelerator."""
        return self._identities.by_gke(value)

    def by_cloud_name(self, name: str, memory_mib: int | None = None) -> Accelerator | None:
        """The model of a cloud's name for a device (a100, MI300X, H100_NVLINK_80GB) with the cloud's own MiB."""
        return self._identities.by_cloud_name(name, memory_mib)

    def may_be(self, cloud_name: str) -> frozenset[str]:
        """The ids of all models that a cloud's name for a device may mean."""
        return self._identities.may_be(cloud_name)

    def by_instance_type(self, name: str) -> Accelerator | None:
        """The model of a cloud's instance type: by its row, else by a name that contains the model's."""
        row = self.machine(name)
        return self.accelerator(row.accelerator) if row else self._identities.by_machine_name(name)

    def machine(self, instance_type: str) -> InstanceType | None:
        """The row of an instance type. Azure's names keep the letter case of the request that created the nodes; SageMaker's are
        those of EC2 after `ml.`."""
        return self.instance_types.get(instance_type) or self._machines.get(
            instance_type.lower().removeprefix(SAGEMAKER)
        )

    def device(self, word: str) -> Accelerator | None:
        """The accelerator that a user's name means, if it means one."""
        named = self.named(word)
        return self.accelerator(named[0]) if len(named) == 1 else None

    def nearest_accelerators(self, word: str) -> tuple[str, ...]:
        """The names of accelerators that a name may mean: a label's or cloud's name (NVIDIA-H100-80GB-HBM3, 74a1), those of a
        machine (p5.48xlarge, p5), else those of the same model; none for another model, however similar its letters.
        """
        found = self.by_product(word) or self.by_cloud_name(word) or self.by_device_id(word)
        of_word = self.named(word) or ((found.id,) if found else ())
        return of_word or self._of_machines(word) or near_names(word, self._identities)

    def _of_machines(self, word: str) -> tuple[str, ...]:
        """The accelerators of a cloud's machine, or of all machines of its family, sorted."""
        exact, family = self.machine(word), f"{word.lower().partition('.')[0]}."
        alike = (row for name, row in self._machines.items() if name.startswith(family))
        return (exact.accelerator,) if exact is not None else tuple(sorted({row.accelerator for row in alike}))

    def nearest_features(self, word: str) -> tuple[str, ...]:
        """The features that a mistyped name most likely means: all that begin with it (FP8 is two), else the closest one."""
        begun = identity.begun(word, self.features)
        near = identity.nearest(word, self.features)
        return begun if len(begun) > 1 else (near,) if near else ()

    @property
    def frameworks(self) -> frozenset[str]:
        """The frameworks that images have."""
        return frozenset(runtime.framework for runtime in self.runtimes if not runtime.unreadable)

    def nearest_framework(self, word: str) -> str | None:
        """The framework that a mistyped name most likely means, or on which a library of that name runs. torch is PyTorch."""
        plain = word.lower().replace("_", "-")
        if plain in NO_FRAMEWORKS:
            return None
        runs_on = RUNS_ON.get(plain, "")
        return runs_on if runs_on in self.frameworks else identity.nearest(word, self.frameworks)

    def model(self, name: str) -> ModelShape | None:
        """The dimensions of a model; case, an owner ("meta-llama/"), hyphens for dots and endings such as -instruct do not matter."""
        found = (self._models.get(naming.key(meant)) for meant in naming.meant(name))
        return next(filter(None, found), None)

    def stored(self, name: str) -> str:
        """The number format in which the weights of a model of this name are stored (`WeightFormat`); empty: 16 bits."""
        known = self.model(name)
        return "" if known is None else naming.stored(name, known.published)

    def nearest_models(self, name: str) -> tuple[str, ...]:
        """Up to three models that a mistyped name may mean, the likeliest first."""
        return naming.nearest(name, self.models)

    def with_runtimes(self, extra: Iterable[Runtime]) -> Catalog:
        """This catalog with an admin's runtimes; one of the same name replaces the row, even if it is unreadable."""
        theirs = tuple(extra)
        names = {row.name for row in theirs}
        return replace(self, runtimes=(*(row for row in self.runtimes if row.name not in names), *theirs))

    def price_of(self, cloud: str | None, instance_type: str, region: str, capacity_type: CapacityType) -> Price | None:
        """The list price of an instance type in this region, else in the region of that cloud with the closest name.

        A price for all regions is returned with the requested region; any other region is in `Price.region`. SageMaker sells EC2's
        machines at prices of its own.
        """
        machine = None if instance_type.startswith(SAGEMAKER) else self.machine(instance_type)
        return self._price_list.listed(cloud, machine.name if machine else instance_type, region, capacity_type)

    def price_of_model(self, cloud: str, accelerator_id: str, region: str, capacity_type: CapacityType) -> Price | None:
        """The list price of a model at a cloud that sells it by the GPU, for any machine."""
        return self._price_list.of_model(cloud, accelerator_id, region, capacity_type)

    def indicative_price(self, accelerator_id: str, capacity_type: CapacityType) -> Price | None:
        """The median of the clouds' list prices of a model, for devices without a price of their own."""
        return self._price_list.median(accelerator_id, capacity_type)

    def own_price(self, instance_type: str | None, accelerator_id: str | None) -> OwnPrice | None:
        """What admins pay: by the instance type, else by the model."""
        return self.own_prices.get((instance_type or "").lower()) or self.own_prices.get(accelerator_id or "")

    def pulled_as(self, image: str) -> str:
        """The reference that nodes pull for an image."""
        return mirrored(image, self.mirrors)

    def speed(self, accelerator_id: str, work: Work) -> Speed | None:
        """The speed of a model on this work, relative to the catalog's reference; None if unknown."""
        return self._speeds.of(accelerator_id, work)
