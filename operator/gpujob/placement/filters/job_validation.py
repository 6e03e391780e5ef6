"""Problems of the job itself, whatever the pool: unknown names and missing objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.devices import identity
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.naming import short_names
from gpujob.placement.filters.memory import impossible_shape, unknown_model
from gpujob.placement.images import gfx_override
from gpujob.placement.request.demand import DEFAULT_FRAMEWORK, Demand
from gpujob.values.finding import Finding, listed, nearest
from gpujob.values.vocabulary import Backend, Reason, Vendor


class NoFeature(NamedTuple):
    """A known thing that users require and that is no feature."""

    says: str
    """What it is and what to write instead."""
    vendor: Vendor | None = None
    """The vendor that it belongs to: leaving it out must not send the job to the other one."""
    feature: str = ""
    """The feature that takes its place."""
    place: str = ""
    """The field that must say instead where it is, by the member of `spec`; empty if leaving it out is enough."""


_LAYER: Final = NoFeature(
    "is an experimental layer that runs CUDA programs on AMD GPUs, and is not offered; "
    "require CustomCUDAKernels to stay on CUDA, or port the code with hipify",
    feature="CustomCUDAKernels",
)
_FABRIC: Final = NoFeature(
    "is a property of a pool (spec.fabric of its GPUPool), which a gang uses by itself; name the pool in placement.pools",
    place="placement.pools",
)
_LINK: Final = NoFeature(
    "is a property of a device; name the accelerators that have it in placement.accelerators",
    place="placement.accelerators",
)

_PART_OF_PYTORCH: Final = NoFeature("is part of PyTorch, which every image of it has; leave it out")
_TRITON: Final = NoFeature(
    "is in every PyTorch image; write TorchCompile in its place, which has the C compiler that Triton needs",
    feature="TorchCompile",
)


def _stack(vendor: Vendor) -> NoFeature:
    return NoFeature(f"is a vendor's stack and no feature; write placement.vendors: [{vendor}] in its place", vendor)


def _library(backend: Backend) -> NoFeature:
    sentence = f"is in every {backend} image; write placement.vendors: [{backend.vendor}] in its place"
    return NoFeature(sentence, backend.vendor)


def _of_some_images(backend: Backend) -> NoFeature:
    where = f"images.{backend.lower()}"
    sentence = f"is a library that only some images have; name an image with it in spec.{where}"
    return NoFeature(sentence, backend.vendor, place=where)


NOT_FEATURES: Final[Mapping[str, NoFeature]] = MappingProxyType(
    {
        "zluda": _LAYER,
        "cuda": _stack(Vendor.NVIDIA),
        **dict.fromkeys(("rocm", "hip"), _stack(Vendor.AMD)),
        **dict.fromkeys(("nccl", "cudnn", "cublas"), _library(Backend.CUDA)),
        **dict.fromkeys(("rccl", "miopen", "rocblas", "hipblaslt"), _library(Backend.ROCM)),
        **dict.fromkeys(("cufft", "curand", "cusolver", "cusparse"), _library(Backend.CUDA)),
        **dict.fromkeys(("hipblas", "hipfft", "rocfft", "rocrand", "rocsolver", "rocsparse"), _library(Backend.ROCM)),
        **dict.fromkeys(("triton", "inductor", "torchinductor"), _TRITON),
        **dict.fromkeys(("amp", "autocast", "ddp", "fsdp", "gloo", "sdpa", "torchrun"), _PART_OF_PYTORCH),
        "tensorrt": _of_some_images(Backend.CUDA),
        **dict.fromkeys(("migraphx", "aiter"), _of_some_images(Backend.ROCM)),
        **dict.fromkeys(("rdma", "infiniband", "roce", "efa"), _FABRIC),
        **dict.fromkeys(("nvlink", "nvswitch", "xgmi", "infinityfabric"), _LINK),
    }
)
"""Names in lower case that users require and that are no features, with what they are and what to write instead."""


def vendors_left(demand: Demand) -> frozenset[Vendor]:
    """The vendors that placement.vendors and the stacks of the job's own images leave."""
    of_images = frozenset(own.backend.vendor for own in demand.own_images)
    return demand.vendors & of_images if of_images else demand.vendors


def has_field(place: str, demand: Demand) -> bool:
    """Whether the job has the field that a `NoFeature` must be replaced by."""
    if place.startswith("images."):
        return any(place == f"images.{own.backend.lower()}" for own in demand.own_images)
    return bool(demand.pools_allowed if place == "placement.pools" else demand.accelerators_allowed)


def _instead(known: NoFeature, demand: Demand) -> str:
    """What a word that is no feature is, and what to write instead of it; nothing if the job has that already."""
    if known.place and has_field(known.place, demand):
        return f"is no feature; leave it out, because the job has spec.{known.place}"
    if known.vendor and not known.place and vendors_left(demand) == {known.vendor}:
        return f"is no feature; leave it out, because the job runs on {known.vendor} only"
    return known.says


def job_problems(demand: Demand, fleet: Fleet, catalog: Catalog) -> tuple[Finding, ...]:
    """Problems of the job itself: unknown names, missing runtimes, a namespace that is being deleted or selects nodes unreadably."""
    words, override = _unknown_words(demand, fleet, catalog), gfx_override.problem(demand)
    return tuple(filter(None, (_of_namespace(demand), *words, override)))


def _of_namespace(demand: Demand) -> Finding | None:
    """The problem that the job's namespace is being deleted, whose end cannot be stopped, or has a node selector that admission cannot
    read.
    """
    if demand.selection is not None and demand.selection.unread:
        sentence = "namespace {}: annotation {} is {}, which is no list of key=value, so the API server creates no pod there; fix it"
        numbers = (demand.namespace, demand.selection.annotation, demand.selection.unread)
        return Finding(Reason.INVALID_SPEC, sentence, numbers)
    if not demand.terminating:
        return None
    sentence = (
        "namespace {} is being deleted, and the API server creates no pod there; use another, or a new one of that name"
    )
    return Finding(Reason.NAMESPACE_TERMINATING, sentence, (demand.terminating,))


def _unknown_words(demand: Demand, fleet: Fleet, catalog: Catalog) -> Iterator[Finding]:
    yield from _unknown_features(demand, catalog)
    yield from _unknown_framework(demand, catalog)
    words = (*demand.accelerators_allowed, *demand.accelerators_denied)
    unknown = [word for word in words if not is_accelerator(word, fleet, catalog)]
    nearest_ones = {word: nearest(*fleet.nearest_accelerators(word, catalog)) for word in unknown[:MOST_UNKNOWN]}
    first = next((word for word, found in nearest_ones.items() if not found), None)
    for word, found in nearest_ones.items():
        end = _known_accelerators(fleet) if word == first else found
        yield Finding(Reason.ACCELERATOR_UNKNOWN, "placement.accelerators: {} is no known accelerator{}", (word, end))
    yield from _more(unknown, Reason.ACCELERATOR_UNKNOWN, "placement.accelerators")
    for gang in dict.fromkeys(demand.gangs):
        if gang.accelerator and not is_accelerator(gang.accelerator, fleet, catalog):
            end = nearest(*fleet.nearest_accelerators(gang.accelerator, catalog)) or _known_accelerators(fleet)
            sentence = "shapes[{}].accelerator: {} is no known accelerator{}"
            yield Finding(Reason.ACCELERATOR_UNKNOWN, sentence, (gang.entry, gang.accelerator, end))
    yield from _unknown_pools(demand, fleet)
    yield from unknown_model(demand, catalog)
    yield from impossible_shape(demand, catalog)
    for claim in demand.lost:
        sentence = "there is no PersistentVolumeClaim {} in the job's namespace; create it or remove it from the job"
        yield Finding(Reason.VOLUME_MISSING, sentence, (claim,))
    for index, why in demand.unmade:
        sentence = (
            "volumes[{}].ephemeral: {}, so its claim gets no volume; name one that `kubectl get storageclass` lists"
        )
        yield Finding(Reason.VOLUME_MISSING, sentence, (index, why))
    for claim, trouble, remedy in demand.troubled:
        sentence = "PersistentVolumeClaim {} {}, so no pod with it starts; {} or remove it from the job"
        yield Finding(Reason.VOLUME_MISSING, sentence, (claim, trouble, remedy))
    if demand.priority_class is not None and fleet.priorities and demand.priority_class not in fleet.priorities:
        sentence = "priorityClassName: there is no PriorityClass {}{}; create it or name another"
        near = nearest(identity.nearest(demand.priority_class, fleet.priorities))
        yield Finding(Reason.PRIORITY_CLASS_UNKNOWN, sentence, (demand.priority_class, near))
    if demand.service_account is not None and catalog.service_accounts is not None:
        yield from _other_account(demand.service_account, catalog.service_accounts)
    yield from _unknown_runtimes(demand, catalog)


def _other_account(name: str, allowed: frozenset[str]) -> Iterator[Finding]:
    """The words are those of the chart's admission policy, which can be switched off."""
    if name not in {"default", *allowed}:
        sentence = (
            "serviceAccountName: {} is not allowed here; {}, "
            "or ask the admin to add it to the chart's admission.allowedServiceAccounts"
        )
        instead = f"use one of {', '.join(sorted(allowed))}" if allowed else "leave it out"
        yield Finding(Reason.SERVICE_ACCOUNT_NOT_ALLOWED, sentence, (name, instead))


def _unknown_features(demand: Demand, catalog: Catalog) -> Iterator[Finding]:
    """The names in `requires` that are no features; names of other known things say what to write instead."""
    unknown = [word for word in demand.requires if word not in catalog.features]
    named = {word: NOT_FEATURES[word.lower()] for word in unknown if word.lower() in NOT_FEATURES}
    others = [word for word in unknown if word not in named]
    for word in unknown:
        if word in named:
            yield Finding(Reason.FEATURE_UNKNOWN, "requires: {} {}", (word, _instead(named[word], demand)))
        elif word in others[:MOST_UNKNOWN]:
            near = nearest(*catalog.nearest_features(word))
            yield Finding(Reason.FEATURE_UNKNOWN, "requires: {} is no known feature{}", (word, near))
    yield from _more(others, Reason.FEATURE_UNKNOWN, "requires")


def _unknown_runtimes(demand: Demand, catalog: Catalog) -> Iterator[Finding]:
    """The GPURuntimes of the job's own images that do not exist or belong to the other stack."""
    if not demand.own_images:
        return
    known = {runtime.name: runtime for runtime in catalog.runtimes}
    for own in demand.own_images:
        if own.runtime is None:
            continue
        where, runtime = own.backend.lower(), known.get(own.runtime)
        if runtime is None:
            sentence = "images.{}.runtime: there is no GPURuntime {}{}; create it or leave the field out"
            fitting = (name for name, each in known.items() if each.backend is own.backend)
            near = nearest(identity.nearest(own.runtime, fitting))
            yield Finding(Reason.RUNTIME_UNKNOWN, sentence, (where, own.runtime, near))
        elif not runtime.unreadable and runtime.backend is not own.backend:
            sentence = "images.{}.runtime: GPURuntime {} is of an image for {}; name one for {} or leave the field out"
            numbers = (where, own.runtime, runtime.backend, own.backend)
            yield Finding(Reason.RUNTIME_UNKNOWN, sentence, numbers)


MOST_UNKNOWN: Final = 3
"""Unknown names of one list that are named; of further ones the number."""


def _more(unknown: Sequence[str], reason: Reason, where: str) -> Iterator[Finding]:
    if len(unknown) > MOST_UNKNOWN:
        yield Finding(reason, "{}: {} more names are unknown", (where, len(unknown) - MOST_UNKNOWN))


def unknown_exclusions(demand: Demand, fleet: Fleet) -> Iterator[Finding]:
    """The warning that excluded pools do not exist: an autoscaled pool without nodes may have such a name."""
    unknown = [word for word in demand.pools_denied if word not in fleet.called]
    if unknown:
        sentence = "placement.pools.deny: there is no pool {} now"
        yield Finding(Reason.POOL_UNKNOWN, sentence, (listed(unknown),))


def _unknown_pools(demand: Demand, fleet: Fleet) -> Iterator[Finding]:
    """Names of allowed pools that no pool has; the list of known pools follows the first one only."""
    unknown = [word for word in demand.pools_allowed if word not in fleet.called]
    names = short_names(fleet.whole_pools) if unknown else {}
    for place, word in enumerate(unknown[:MOST_UNKNOWN]):
        found = fleet.nearest_pool(word)
        near = nearest(found and names.get(found, found))
        known = f"; known pools are {listed(sorted(names.values()))}" if not place else ""
        yield Finding(Reason.POOL_UNKNOWN, "placement.pools: there is no pool {}{}{}", (word, near, known))
    yield from _more(unknown, Reason.POOL_UNKNOWN, "placement.pools")


def is_accelerator(word: str, fleet: Fleet, catalog: Catalog) -> bool:
    """Whether the catalog or a pool has an accelerator of this name, or of this family."""
    if catalog.members(word):
        return True
    there = {pool.accelerator_id for pool in fleet.pools}
    return word in there or bool(catalog.members(word, there))


def _known_accelerators(fleet: Fleet) -> str:
    """The end of a sentence about an accelerator that is near none: those of the cluster, and where all are listed."""
    there = sorted({pool.accelerator.id for pool in fleet.pools if pool.accelerator is not None})
    known = f"; the cluster has {listed(there)}" if there else ""
    return f"{known}; `kubectl gpujob catalog accelerators` lists all"


def _unknown_framework(demand: Demand, catalog: Catalog) -> Iterator[Finding]:
    """A framework that no image has; the user's own images without facts may have any."""
    if demand.framework == DEFAULT_FRAMEWORK or demand.framework in catalog.frameworks:
        return
    if any(own.runtime is None for own in demand.own_images):
        return
    near = nearest(catalog.nearest_framework(demand.framework)) or f"; images have {listed(sorted(catalog.frameworks))}"
    yield Finding(Reason.FRAMEWORK_UNKNOWN, "framework.name: {} is no known framework{}", (demand.framework, near))
