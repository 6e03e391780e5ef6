"""When a runtime contradicts itself: a tag does not prove what an image contains, and a wrong row wastes devices.

A rebuilt ROCm image with torch from the default index has a +cu130 build and fails on every AMD node; such a row is rejected
alone, before any placement.
"""

from __future__ import annotations

import re
from typing import Final

from gpujob.catalog.images.runtime import Runtime
from gpujob.catalog.images.versions import Release, at_least, release
from gpujob.values.errors import CatalogInvalid
from gpujob.values.vocabulary import Backend

_BUILD: Final = re.compile(r"(cu|rocm)([0-9][0-9.]*)", re.IGNORECASE)
OLDEST_IMAGE: Final = 17
"""The year of NVIDIA's first images: 17.10."""
_KINDS: Final = {Backend.CUDA: "compute capabilities such as 9.0", Backend.ROCM: "gfx architectures such as gfx942"}


def checked(runtime: Runtime) -> Runtime:
    """The runtime itself; raises CatalogInvalid with one sentence that names row, field, found and wanted."""
    problem = _unreadable(runtime) or _wrong_release(runtime) or _wrong_build(runtime) or _wrong_architectures(runtime)
    if problem:
        raise CatalogInvalid(f"runtime {runtime.name}: {problem}")
    return runtime


def _unreadable(runtime: Runtime) -> str | None:
    versions = {
        "framework.version": runtime.framework_version,
        "backendVersion": runtime.backend_version,
        "python": runtime.python,
        "minDriver": runtime.min_driver,
        "driverWindow.min": runtime.driver_window[0],
        "driverWindow.max": runtime.driver_window[1],
    }
    bad = [name for name, text in versions.items() if text is not None and not release(text)]
    return f"{bad[0]} {versions[bad[0]]!r} holds no version number such as 2.14.1" if bad else _wrong_window(runtime)


def _wrong_window(runtime: Runtime) -> str | None:
    oldest, newest = runtime.driver_window
    if (oldest or newest) and runtime.backend is Backend.CUDA:
        return "driverWindow is of the amdgpu module, which a CUDA image does not use; write minDriver"
    if oldest and newest and at_least(newest, oldest) is False:
        return f"driverWindow.max {newest} is older than driverWindow.min {oldest}"
    return None


def _wrong_release(runtime: Runtime) -> str | None:
    """The number is that of NVIDIA's image (25.09), which would be newer than any PyTorch."""
    if runtime.framework != "pytorch" or runtime.framework_release[0] < OLDEST_IMAGE:
        return None
    found = f"framework.version {runtime.framework_version} is that of an image, named by year and month"
    return f"{found}; write that of the PyTorch inside, such as 2.14.0a0"


def _wrong_build(runtime: Runtime) -> str | None:
    """The conflict between the build's local version (2.12.0+cu130) and the backend."""
    build = _BUILD.fullmatch(runtime.framework_version.partition("+")[2])
    if build is None:
        return None
    backend, numbers = _backend_of(build)
    found = f"framework.version {runtime.framework_version} is a {backend} {'.'.join(map(str, numbers))} build"
    if backend is not runtime.backend:
        return f"{found}, but backend is {runtime.backend}; a build for {runtime.backend} is wanted"
    if any(ours != theirs for ours, theirs in zip(numbers, runtime.backend_release, strict=False)):
        return f"{found}, but backendVersion is {runtime.backend_version}; the two must agree"
    return None


def _backend_of(build: re.Match[str]) -> tuple[Backend, Release]:
    if build[1].lower() == "rocm":
        return Backend.ROCM, release(build[2])
    digits = build[2].replace(".", "")
    return Backend.CUDA, (int(digits[:-1] or 0), int(digits[-1]))


def _wrong_architectures(runtime: Runtime) -> str | None:
    wanted = _KINDS[runtime.backend]
    if not runtime.architectures:
        return f"architectures is empty; list the {wanted} that are compiled in"
    foreign = [text for text in runtime.architectures if text.startswith("gfx") is (runtime.backend is Backend.CUDA)]
    if foreign:
        return f"architectures has {foreign[0]}, but backend is {runtime.backend}; {wanted} are wanted"
    return "cpuArchitectures is empty; list amd64, arm64 or both" if not runtime.cpu_architectures else None
