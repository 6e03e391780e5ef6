"""Why an image cannot run a job, and the warnings about it: filters of a pool's equipment, and filters of the job.

Pure functions like the pool filters. They compare rows of the catalog with labels, so that new hardware, images and releases
are data. An unknown fact is a warning here and never rejects: `pool_filters.unread` rejects unknown devices. Equipment filters
read nothing of the job except HSA_OVERRIDE_GFX_VERSION, so that their findings can be cached (`compatibility`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.devices.architecture import Fit, fit
from gpujob.catalog.entities import Feature
from gpujob.catalog.images.runtime import Runtime
from gpujob.catalog.images.versions import at_least, satisfies
from gpujob.fleet.pools.equipment import Equipment
from gpujob.placement.images import drivers, gfx_override
from gpujob.placement.request.demand import Demand
from gpujob.values.finding import Finding, listed
from gpujob.values.vocabulary import Backend, Reason

EquipmentRule = Callable[[Equipment, Runtime, str | None], Finding | None]
JobRule = Callable[[Demand, Runtime], Finding | None]

IMAGE_WARNINGS: Final = frozenset(
    {
        Reason.ARCH_OVERRIDDEN,
        Reason.DRIVER_FORWARD,
        Reason.DRIVER_UNKNOWN,
        Reason.DRIVER_UNTESTED,
        Reason.IMAGE_COMPILED_AT_START,
    }
)
"""Warnings about an image on a pool: a runtime without them ranks before a newer one with some."""


def unreadable(runtime: Runtime) -> Finding | None:
    """The GPURuntime cannot be read, so nothing else is known of its image."""
    if not runtime.unreadable:
        return None
    sentence = "GPURuntime {} cannot be read, so it is not used: {}"
    return Finding(Reason.INVALID_SPEC, sentence, (runtime.name, runtime.unreadable))


def arch_unsupported(equipment: Equipment, runtime: Runtime, override: str | None) -> Finding | None:
    """The image has no code for the device's architecture."""
    device = equipment.accelerator
    if device is None or device.support == "unsupported":
        return None
    if fit(device.architecture, runtime.architectures) or gfx_override.applies(equipment, runtime, override):
        return None
    sentence = "{} needs {}, image has {}"
    return Finding(
        Reason.ARCH_UNSUPPORTED, sentence, (device.id, _arch(device.architecture), listed(runtime.architectures))
    )


def _arch(architecture: str) -> str:
    return architecture if architecture.startswith("gfx") else f"compute capability {architecture}"


def backend_too_old(equipment: Equipment, runtime: Runtime, override: str | None) -> Finding | None:
    """The device needs a later release of CUDA or ROCm than the image's."""
    device = equipment.accelerator
    if (
        device is None
        or device.min_backend is None
        or at_least(runtime.backend_version, device.min_backend) is not False
    ):
        return None
    needs, has = f"{runtime.backend} {device.min_backend}", f"{runtime.backend} {runtime.backend_version}"
    return Finding(Reason.ARCH_UNSUPPORTED, "{} needs {}, image has {}", (device.id, needs, has))


def other_system(equipment: Equipment) -> Finding | None:
    """The hosts do not run Linux, as every image of a GPUJob does, whatever else is known of it."""
    if "/" not in equipment.host_architecture:
        return None
    sentence = "hosts are {}, and every pod of a GPUJob is for Linux"
    return Finding(Reason.CPU_ARCH_MISMATCH, sentence, (equipment.host_architecture,))


def cpu_arch_mismatch(equipment: Equipment, runtime: Runtime, override: str | None) -> Finding | None:
    """The image does not exist for the hosts' CPU architecture."""
    hosts = equipment.host_architecture
    if hosts in runtime.cpu_architectures:
        return None
    sentence = "hosts are {}, image is for {}"
    return Finding(Reason.CPU_ARCH_MISMATCH, sentence, (hosts, listed(runtime.cpu_architectures)))


def framework_unsupported(demand: Demand, runtime: Runtime) -> Finding | None:
    """The image has another framework or another version of it."""
    has = f"{runtime.framework} {runtime.framework_version}"
    if runtime.framework != demand.framework:
        return Finding(Reason.FRAMEWORK_UNSUPPORTED, "needs {}, image has {}", (demand.framework, has))
    if demand.framework_version and not satisfies(runtime.framework_version, demand.framework_version):
        needs = f"{demand.framework} {demand.framework_version}"
        return Finding(Reason.FRAMEWORK_UNSUPPORTED, "needs {}, image has {}", (needs, has))
    return None


def python_unsupported(demand: Demand, runtime: Runtime) -> Finding | None:
    """The image has another Python version, or an unknown one."""
    if demand.python is None or (runtime.python is not None and satisfies(runtime.python, demand.python)):
        return None
    has = f"Python {runtime.python}" if runtime.python else "an unknown Python"
    return Finding(Reason.FRAMEWORK_UNSUPPORTED, "needs Python {}, image has {}", (demand.python, has))


def image_needs_root(demand: Demand, runtime: Runtime) -> Finding | None:
    """The image works only as root and the job does not run as root."""
    if demand.as_root or runtime.runs_as_non_root != "False":
        return None
    return Finding(Reason.IMAGE_NEEDS_ROOT, "image works as root only; set securityContext.runAsUser to 0")


OF_EQUIPMENT: Final[tuple[EquipmentRule, ...]] = (
    arch_unsupported,
    backend_too_old,
    drivers.driver_too_old,
    cpu_arch_mismatch,
)

OF_JOB: Final[tuple[JobRule, ...]] = (framework_unsupported, python_unsupported, image_needs_root)


def missing_on_device(feature: Feature, equipment: Equipment) -> Finding | None:
    """The device lacks a feature."""
    device = equipment.accelerator
    if device is None or "accelerator" not in feature.levels or feature.name in device.features:
        return None
    return Finding(feature.reason, "requires {}, which {} does not have", (feature.name, device.id))


def features_of_other_stacks(required: Iterable[Feature], backend: Backend) -> Iterator[Finding]:
    """Required features that no image for this stack can have, whatever its contents."""
    for feature in required:
        if backend not in feature.backends:
            sentence = "requires {}, which {} images never have"
            yield Finding(feature.reason, sentence, (feature.name, backend))


def missing_in_image(feature: Feature, equipment: Equipment, runtime: Runtime) -> Finding | None:
    """The image lacks a feature, at all or for this device."""
    if "runtime" not in feature.levels or runtime.backend not in feature.backends:
        return None
    if feature.name not in runtime.features:
        return Finding(feature.reason, "requires {}, which image {} does not have", (feature.name, runtime.image))
    since = feature.since.get(equipment.accelerator.architecture) if equipment.accelerator else None
    if since and equipment.accelerator and at_least(runtime.backend_version, since) is False:
        sentence = "requires {}, which {} has from {} {} on, image has {}"
        numbers = (feature.name, equipment.accelerator.id, runtime.backend, since, runtime.backend_version)
        return Finding(feature.reason, sentence, numbers)
    return None


def required_by(demand: Demand, catalog: Catalog) -> tuple[Feature, ...]:
    """The required features that the catalog knows; `job_validation.job_problems` reports the others."""
    return tuple(filter(None, map(catalog.features.get, demand.requires)))


def warnings(equipment: Equipment, runtime: Runtime | None, override: str | None) -> Iterator[Finding]:
    """What is unknown or unusual about an image (None: nothing is known of it) on a pool with this equipment."""
    yield from gfx_override.warnings(equipment, runtime, override)
    if not equipment.is_read:
        return
    yield from drivers.warnings(equipment, runtime)
    device = equipment.accelerator
    if runtime and device and fit(device.architecture, runtime.architectures) is Fit.PTX:
        sentence = "image has no machine code for {}: the driver compiles its PTX when the program starts"
        yield Finding(Reason.IMAGE_COMPILED_AT_START, sentence, (_arch(device.architecture),))
        yield from drivers.may_not_compile(equipment, runtime)


def count(found: tuple[Finding, ...]) -> int:
    """The number of a candidate's warnings that concern its image."""
    return sum([warning.reason in IMAGE_WARNINGS for warning in found])
