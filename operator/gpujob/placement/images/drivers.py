"""Host drivers against what an image and a device need: a driver that is too old rejects, an unknown one warns.

CUDA checks at start: releases of one major version run on one oldest driver (minor version compatibility), and on data-centre
devices also on some older branches if the image holds a compatibility package. ROCm checks nothing: the window of an image
rejects, the catalog's window of its release warns about untested drivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gpujob.catalog.images.runtime import Runtime
from gpujob.catalog.images.versions import Release, apart, at_least, release
from gpujob.fleet.pools.equipment import Equipment
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Backend, Reason

FORWARD: Final = "ForwardCompatibility"
"""The feature of images with a compatibility package, and of the devices that it works on."""


def driver_too_old(equipment: Equipment, runtime: Runtime, override: str | None) -> Finding | None:
    """The node's driver is older than the image or the device needs; the finding names the oldest that works."""
    if equipment.driver is None:
        return None
    unmet = [_oldest_for(equipment, runtime)] if not _forward(equipment, runtime) else []
    unmet = [need for need in (*unmet, _of_device(equipment)) if need and at_least(equipment.driver, need) is False]
    if not unmet:
        return None
    return Finding(Reason.DRIVER_TOO_OLD, "has driver {}, needs {}", (equipment.driver, max(unmet, key=release)))


def least_need(findings: Iterable[Finding]) -> Release:
    """The driver that an image needs on a pool, of images that are rejected for it; else an empty release."""
    found = (finding.numbers[1] for finding in findings if finding.reason is Reason.DRIVER_TOO_OLD)
    return release(str(next(found, "")))


def _oldest_for(equipment: Equipment, runtime: Runtime) -> str | None:
    """The oldest driver newer than the pool's on which an image runs, with its compatibility package if it has one."""
    need = _needed(runtime)
    if need is None or equipment.driver is None or runtime.stack is None or not _may_forward(equipment, runtime):
        return need
    newer = [first for first in runtime.stack.forward_drivers if at_least(equipment.driver, first) is False]
    return min((need, *newer), key=release)


def warnings(equipment: Equipment, runtime: Runtime | None) -> Iterator[Finding]:
    """What is unknown or untested about the driver; nothing if it is too old anyway."""
    oldest, newest = _tested(runtime)
    needs = [need for need in (runtime and _needed(runtime), _of_device(equipment), oldest) if need]
    if runtime and not needs and not newest:
        sentence = "the driver that {} {} needs is unknown; set {} in the image's GPURuntime"
        field = "minDriver" if runtime.backend is Backend.CUDA else "driverWindow"
        yield Finding(Reason.DRIVER_UNKNOWN, sentence, (runtime.backend, runtime.backend_version, field))
        return
    if equipment.driver is None:
        needed = needs[0] if needs else newest and f"at most {newest}"
        if needed:
            yield Finding(Reason.DRIVER_UNKNOWN, "no label has the driver; the image needs {}", (needed,))
        return
    unclear = next((need for need in needs if at_least(equipment.driver, need) is None), None)
    if unclear:
        yield Finding(Reason.DRIVER_UNKNOWN, "labels say driver {}, the image needs {}", (equipment.driver, unclear))
    if runtime is None:
        return
    if oldest and at_least(equipment.driver, oldest) is False:
        sentence = "driver {} is older than those that ROCm {} was tried with, {} and newer"
        yield Finding(Reason.DRIVER_UNTESTED, sentence, (equipment.driver, runtime.backend_version, oldest))
    elif newest and at_least(newest, equipment.driver) is False:
        sentence = "driver {} is newer than those that ROCm {} was tried with, up to {}"
        yield Finding(Reason.DRIVER_UNTESTED, sentence, (equipment.driver, runtime.backend_version, newest))
    need = _needed(runtime)
    if need and at_least(equipment.driver, need) is False and _forward(equipment, runtime):
        sentence = "driver {} is older than {}: the compatibility package in the image must make up for it"
        yield Finding(Reason.DRIVER_FORWARD, sentence, (equipment.driver, need))


def untested_by(equipment: Equipment, runtime: Runtime | None) -> float:
    """The distance of the host's driver from the drivers that an image was tried with; 0 among them, and if either is unknown."""
    if runtime is None or equipment.driver is None:
        return 0.0
    oldest, newest = _tested(runtime)
    has, need = equipment.driver, _needed(runtime)
    beyond = (oldest and at_least(has, oldest) is False and oldest) or (
        newest and at_least(newest, has) is False and newest
    )
    if not beyond and need and at_least(has, need) is False and _forward(equipment, runtime):
        beyond = need
    return apart(release(has), release(beyond)) if beyond else 0.0


def may_not_compile(equipment: Equipment, runtime: Runtime) -> Iterator[Finding]:
    """The warning that a driver is older than the compiler of an image's PTX, on a device that runs PTX only."""
    newest = runtime.stack.toolkit_driver if runtime.stack else None
    if equipment.driver is not None and newest is not None and at_least(equipment.driver, newest) is False:
        sentence = "driver {} is older than that of CUDA {}, {}, and may not compile the PTX in the image"
        yield Finding(Reason.IMAGE_COMPILED_AT_START, sentence, (equipment.driver, runtime.backend_version, newest))


def _of_device(equipment: Equipment) -> str | None:
    return equipment.accelerator.min_driver if equipment.accelerator else None


def _needed(runtime: Runtime) -> str | None:
    """The oldest driver on which the image runs: from its own row, else from its release of CUDA or ROCm."""
    return runtime.min_driver or runtime.driver_window[0] or (runtime.stack.min_driver if runtime.stack else None)


def _tested(runtime: Runtime | None) -> tuple[str | None, str | None]:
    """The oldest and the newest tested driver: the image's own window, else that of its release."""
    if runtime is None:
        return None, None
    if runtime.driver_window != (None, None):
        return None, runtime.driver_window[1]
    if runtime.min_driver or runtime.stack is None:
        return None, None
    return runtime.stack.tested_from, runtime.stack.tested_to


def _forward(equipment: Equipment, runtime: Runtime) -> bool:
    """Whether the image's compatibility package makes an older driver sufficient."""
    if equipment.driver is None or runtime.stack is None or not _may_forward(equipment, runtime):
        return False
    branches = (first for first in runtime.stack.forward_drivers if release(first)[:1] == release(equipment.driver)[:1])
    return any(at_least(equipment.driver, first) for first in branches)


def _may_forward(equipment: Equipment, runtime: Runtime) -> bool:
    """Whether the image has a compatibility package that works on the device."""
    return (
        equipment.accelerator is not None and FORWARD in runtime.features and FORWARD in equipment.accelerator.features
    )
