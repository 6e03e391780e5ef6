"""Which compiled code a device can run.

NVIDIA (CUDA programming guide: compute capabilities, binary and PTX compatibility). Machine code runs on devices of the
same major compute capability and an equal or higher minor one (8.6 code on 8.9). The driver compiles PTX ("12.0+PTX")
for any equal or higher capability. Code that uses one architecture's own instructions ("9.0a") runs on exactly this
one, as PTX too; code for a family ("10.0f") within its major capability. Tegra and desktop parts run no machine code of
each other.

AMD (LLVM, User Guide for AMDGPU Backend: processors, generic processors). A code object runs on exactly the gfx
architecture that it was compiled for; one for a generic processor ("gfx11-generic") on all of its family.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from typing import Final

OVERRIDE: Final = "HSA_OVERRIDE_GFX_VERSION"
"""The environment variable of ROCm's runtime that makes a device pass for another architecture."""

_CAPABILITY: Final = re.compile(r"([0-9]{1,2})\.([0-9])([af]?)(\+PTX)?", re.ASCII)
_VERSION: Final = re.compile(r"([0-9]{1,2})\.([0-9])\.([0-9]{1,2})", re.ASCII)

_TEGRA: Final = frozenset({(5, 3), (6, 2), (7, 2), (8, 7)})

GENERIC: Final[dict[str, tuple[str, ...]]] = {
    "gfx9-generic": ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"),
    "gfx9-4-generic": ("gfx940", "gfx941", "gfx942", "gfx950"),
    "gfx10-1-generic": ("gfx1010", "gfx1011", "gfx1012", "gfx1013"),
    "gfx10-3-generic": ("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    "gfx11-generic": (
        "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"
    ),
    "gfx12-generic": ("gfx1200", "gfx1201"),
}  # fmt: skip
"""The members of LLVM's generic processors."""

_RADEON: Final = ("gfx10-3-generic", "gfx11-generic", "gfx12-generic")
"""Families whose members may pass for each other: Radeon parts. Instinct parts are in none of them."""


class Fit(IntEnum):
    """How a device runs compiled code; more is better."""

    NONE = 0
    PTX = 1
    """Only through PTX, which the driver compiles when the program starts."""
    NATIVE = 2


def runs_on(device_arch: str, compiled: Iterable[str]) -> bool:
    """Whether a device ("gfx942", "8.9") runs code compiled for one of these ("gfx942", "8.6", "12.0+PTX")."""
    return fit(device_arch, compiled) is not Fit.NONE


def fit(device_arch: str, compiled: Iterable[str]) -> Fit:
    """How a device ("gfx942", "8.9") runs code compiled for these ("gfx942", "8.6", "9.0a", "12.0+PTX")."""
    return _fit_of(device_arch, tuple(compiled))


@lru_cache(maxsize=4096)  # up to 28 µs of regular expressions against 0.1: 545 of 570 calls of 300 choices
def _fit_of(device_arch: str, compiled: tuple[str, ...]) -> Fit:
    device = _CAPABILITY.fullmatch(device_arch)
    if device is None:
        return Fit.NATIVE if _runs_gfx(device_arch, compiled) else Fit.NONE
    capability = (int(device[1]), int(device[2]))
    return max((_fit(capability, architecture) for architecture in compiled), default=Fit.NONE)


def pretended(version: str) -> str | None:
    """The architecture that HSA_OVERRIDE_GFX_VERSION names: gfx1030 for "10.3.0", gfx90a for "9.0.10"; None for another text.

    The runtime writes major.minor.stepping in decimal, names write minor and stepping in hexadecimal.
    """
    found = _VERSION.fullmatch(version)
    return f"gfx{found[1]}{int(found[2]):x}{int(found[3]):x}" if found and int(found[3]) < 16 else None


def may_pass_for(device_arch: str, other: str) -> bool:
    """Whether a device can pass for another architecture: both are Radeon parts of one generic family."""
    ours = device_arch.partition(":")[0]
    return ours != other and any(ours in GENERIC[family] and other in GENERIC[family] for family in _RADEON)


def _runs_gfx(device_arch: str, compiled: Iterable[str]) -> bool:
    # A driver may append the modes of a device: gfx90a:sramecc+:xnack-
    device = device_arch.partition(":")[0]
    return any(device == architecture or device in GENERIC.get(architecture, ()) for architecture in compiled)


def _fit(device: tuple[int, int], architecture: str) -> Fit:
    code = _CAPABILITY.fullmatch(architecture)
    if code is None:
        return Fit.NONE
    compiled, own, ptx = (int(code[1]), int(code[2])), code[3], code[4] is not None
    if own == "a":
        return Fit.NATIVE if compiled == device else Fit.NONE
    same_major = compiled[0] == device[0] and compiled <= device
    mixed = compiled != device and bool({compiled, device} & _TEGRA)
    if same_major and not mixed:
        return Fit.NATIVE
    return Fit.PTX if ptx and compiled <= device and (not own or same_major) else Fit.NONE
