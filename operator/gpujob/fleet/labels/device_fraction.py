"""The fraction of a whole device that one Kubernetes device is: all of it, a partition, a MIG slice, a shared one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import gcd
from typing import Final

from gpujob.catalog.entities import Accelerator
from gpujob.values.quantity import GI
from gpujob.values.vocabulary import DeviceKind

Share = tuple[int, int]
"""An exact fraction of a whole device: numerator, denominator."""

LEAST_OF_SLICE: Final = (9, 10)
"""The smallest ratio of a MIG slice's memory to its eighths: 1g.18gb of an H200 reports 16.00 of 17.55 GiB, the largest observed
loss of all slices; 1g.5gb of an A100 4864 of 5067 MiB.
"""

_MIG: Final = re.compile(r"([1-9])g\.([0-9]{1,3})gb.*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Portion:
    """How a whole device is divided. The profile is in its vendor's notation: 1g.5gb, cpx_nps4."""

    kind: DeviceKind = DeviceKind.WHOLE
    profile: str = ""
    pieces: int | None = 1
    """Kubernetes devices into which one whole device is divided; None if unknown."""
    replicas: int | None = 1
    """Pods that use each piece at the same time; None if unknown."""
    stated: bool = False
    """Whether a label or resource says that the device is whole, so that its size alone proves nothing else."""
    guessed: bool = False
    """Whether nothing but the number of devices suggests that it is shared."""

    @property
    def division(self) -> tuple[str, str, int | None, int | None]:
        """The kind of the devices, whatever source it is known from; equal values are one kind."""
        return self.kind, self.profile, self.pieces, self.replicas

    def __str__(self) -> str:
        """The text in messages; empty for a whole device."""
        if self.kind is DeviceKind.SHARED:
            return " ".join(filter(None, (self.profile, "shared")))
        if self.kind is not DeviceKind.PARTITION:
            return ""
        return self.profile or (f"1/{self.pieces}" if self.pieces else "part")


WHOLE: Final = Portion()
"""All of a device."""


def completed(portion: Portion, accelerator: Accelerator) -> Portion:
    """The portion with the model's facts: the number of devices of AMD's CPX mode."""
    if portion.pieces is None and portion.profile.startswith("cpx"):
        return replace(portion, pieces=accelerator.partitions)
    return portion


def share_of(portion: Portion, accelerator: Accelerator, memory: int | None) -> Share | None:
    """The fraction of the silicon that one device is: for prices, and for several resources of one card."""
    part = _piece(portion, accelerator, memory)
    if part is None or portion.replicas is None:
        return None
    return reduced(part[0], part[1] * portion.replicas)


def _piece(portion: Portion, accelerator: Accelerator, memory: int | None) -> Share | None:
    if portion.pieces:
        return (1, portion.pieces)
    mig, eighths = _MIG.fullmatch(portion.profile), memory_eighths(portion.profile, accelerator)
    if mig and eighths:
        # A card has 7 compute and 8 memory slices; the scarcer one decides how many fit.
        compute, of_memory = (int(mig[1]), 7), (eighths, 8)
        return max(compute, of_memory, key=lambda share: share[0] / share[1])
    whole = accelerator.card_bytes
    return reduced(min(memory, whole), whole) if memory and whole else None


def memory_eighths(profile: str, accelerator: Accelerator) -> int | None:
    """Eighths of a card's memory in a MIG profile: 4 for 3g.20gb of an A100 of 40 GB."""
    mig = _MIG.fullmatch(profile)
    if mig is None or not accelerator.nominal_bytes:
        return None
    return min(8, max(1, (2 * 8 * int(mig[2]) * GI + accelerator.nominal_bytes) // (2 * accelerator.nominal_bytes)))


def slice_estimate(profile: str, accelerator: Accelerator) -> int | None:
    """The fewest usable bytes that a MIG slice can have: nine tenths of its eighths of the card; None for no MIG."""
    eighths, whole = memory_eighths(profile, accelerator), accelerator.driver_bytes
    return whole * eighths * LEAST_OF_SLICE[0] // (8 * LEAST_OF_SLICE[1]) if eighths and whole else None


def slice_bound(profile: str, accelerator: Accelerator) -> int | None:
    """The most bytes that a MIG slice can have: its eighths of the card; None for no MIG."""
    eighths, whole = memory_eighths(profile, accelerator), accelerator.card_bytes
    return whole * eighths // 8 if eighths and whole else None


def plain_profile(profile: str) -> str:
    """A MIG profile without its extensions (media engines, graphics), which change no memory: 1g.10gb of 1g.10gb+me."""
    mig = _MIG.fullmatch(profile)
    return f"{mig[1]}g.{mig[2]}gb" if mig else profile


def reduced(numerator: int, denominator: int) -> Share:
    """A fraction in lowest terms."""
    common = gcd(numerator, denominator) or 1
    return numerator // common, denominator // common
