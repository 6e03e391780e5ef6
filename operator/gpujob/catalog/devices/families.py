"""Words for more devices than one model: vendors, architectures and series, as users write them in place of a model."""

from __future__ import annotations

import re
from typing import Final

from gpujob.catalog.devices.identity import joined
from gpujob.catalog.entities import Accelerator
from gpujob.values.vocabulary import Vendor

_VENDORS: Final = {**dict.fromkeys(("nvidia", "cuda"), Vendor.NVIDIA), **dict.fromkeys(("amd", "rocm"), Vendor.AMD)}
_BRANDS: Final = {
    **dict.fromkeys(("geforce", "quadro", "tesla", "rtx"), Vendor.NVIDIA),
    **dict.fromkeys(("radeon", "instinct"), Vendor.AMD),
}
"""A vendor's lines of products; they are part of the devices' names."""
_ARCHITECTURES: Final = {
    "volta": ("7.0",),
    "turing": ("7.5",),
    "ampere": ("8.0", "8.6"),
    **dict.fromkeys(("ada", "adalovelace", "lovelace"), ("8.9",)),
    "hopper": ("9.0",),
    "blackwell": ("10.0", "10.3", "12.0", "12.1"),
    "cdna": ("gfx908",),
    "cdna2": ("gfx90a",),
    "cdna3": ("gfx942",),
    "cdna4": ("gfx950",),
    "rdna2": ("gfx1030",),
    "rdna3": ("gfx1100", "gfx1101", "gfx1102"),
    "rdna4": ("gfx1200", "gfx1201"),
}
"""The vendors' names of architectures (NVIDIA's CUDA C++ programming guide, AMD's ROCm hardware specifications)."""
_CAPABILITY: Final = re.compile(r"(?:(?:sm|cc|compute(?:capability)?)([0-9]{1,2})\.?|([0-9]{1,2})\.)([0-9])[af]?")
"""A compute capability: sm_90, compute_80, 8.0."""
_SERIES: Final = re.compile(r"(mi[0-9])00(?:s|series)?")


def is_of(word: str, device: Accelerator) -> bool:
    """Whether a word for a vendor, an architecture or a series means a device: amd, gfx942, Hopper, sm_90, 8.0, MI200."""
    plain = joined(word)
    if plain in _VENDORS:
        return _VENDORS[plain] is device.vendor
    if plain in _BRANDS:
        return plain in joined(device.name)
    if series := _SERIES.fullmatch(plain):
        return joined(device.id).startswith(series[1])
    return device.architecture in _architectures(plain)


def vendor_of(word: str) -> Vendor | None:
    """The vendor that a word for an accelerator names, whatever the model; None if it names none."""
    plain = joined(word)
    named = _architectures(plain)
    if named or re.match(r"mi[0-9]{2}", plain):
        return Vendor.NVIDIA if named and not named[0].startswith("gfx") else Vendor.AMD
    return next((vendor for brand, vendor in (_VENDORS | _BRANDS).items() if plain.startswith(brand)), None)


def _architectures(plain: str) -> tuple[str, ...]:
    capability = _CAPABILITY.fullmatch(plain)
    if capability is not None:
        return (f"{capability[1] or capability[2]}.{capability[3]}",)
    return _ARCHITECTURES.get(plain, (plain,) if plain.startswith("gfx") else ())
