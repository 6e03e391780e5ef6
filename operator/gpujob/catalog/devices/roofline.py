"""The roofline of an accelerator: its speed on a kind of work in a number format, by its data sheet.

An Amdahl-like form of the roofline model (Williams, Waterman, Patterson 2009): dense products bound one part of the time of a
step, memory the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from gpujob.catalog.entities import Accelerator
from gpujob.values.vocabulary import Precision, RunFormat, WorkKind

REFERENCE: Final = "H100-SXM"
"""The accelerator of speed 1: the one measured beside the most others."""

REFERENCE_ARCHITECTURE: Final = "9.0"
REFERENCE_TFLOPS: Final = 989.0
REFERENCE_GB_S: Final = 3350.0
REFERENCE_NARROW: Final = 1979 / 989
"""Its dense 16-bit TFLOPS and bandwidth, and the ratio of its 8-bit rate. They only set the scale, so a catalog needs no row of it."""

COMPUTE_SHARE: Final[Mapping[WorkKind, float]] = {
    WorkKind.TRAINING: 0.45,
    WorkKind.FINE_TUNING: 0.45,
    WorkKind.INFERENCE: 0.4,
}
"""The fraction of the reference's time in 16 bits that dense products bound. Between 0.35 and 0.75 these values give the smallest
errors for accelerators that are left out of the fit (python -m bench.speeds).
"""

BALANCED: Final = REFERENCE_TFLOPS / REFERENCE_GB_S / 2 * 1000
"""The sequences at which one step of generation computes as long as it reads on the reference, at equal numbers of read and written
tokens: each generated token multiplies every parameter for two tokens (4 operations), and a step reads it once (2 bytes).
"""

READ_AT_INFERENCE: Final[Mapping[RunFormat, float]] = {RunFormat.FP8: 0.5, RunFormat.INT8: 0.5, RunFormat.FP4: 0.25}
"""Relative memory reads of a format at inference, which reads weights and KV cache. Training reads activations and states, whose
width does not change.
"""

WITHOUT_TF32: Final[Mapping[str, float]] = {
    "6.0": 0.5, "7.0": 0.125, "7.5": 0.125, "gfx908": 0.25, "gfx90a": 0.25, "gfx950": 0.0625,
    "gfx1100": 0.5, "gfx1101": 0.5, "gfx1102": 0.5, "gfx1200": 0.25, "gfx1201": 0.25,
}  # fmt: skip
"""32-bit rates relative to the 16-bit ones by architecture, from the vendors' data sheets; half with TF32."""

_SLOWEST_FP32: Final = 0.125

FORMATS: Final[Mapping[Precision, RunFormat]] = {
    Precision.BF16: RunFormat.BF16,
    Precision.FP16: RunFormat.FP16,
    Precision.FP32: RunFormat.FP32,
    Precision.FP8: RunFormat.FP8,
}


def share_of(sequences: int) -> float:
    """The fraction of the reference's time that dense products bound where so many sequences are served at once.

    One step of generation reads all weights once, whatever the number of sequences. From about 100 sequences on reads of the KV
    cache grow with the products, and the fraction stays that of the measured offline runs.
    """
    return min(COMPUTE_SHARE[WorkKind.INFERENCE], sequences / (sequences + BALANCED))


def peak(accelerator: Accelerator, run: RunFormat | None) -> float | None:
    """Dense TFLOPS in a number format; None if unknown. Without a format mixed precision: the faster of the device's two 16-bit
    formats.

    FP8 is twice the 16-bit rate on every part that has it and runs in 16 bits elsewhere, FP4 twice that of FP8. BF16 without BF16
    units is emulated in FP32, at an eighth of the FP16 rate (T4: 8.1 of 65, V100: 15.7 of 125 TFLOPS).
    """
    wide = accelerator.bf16_tflops or accelerator.fp16_tflops
    if wide is None:
        return None
    match run:
        case RunFormat.FP16:
            return accelerator.fp16_tflops or wide
        case RunFormat.BF16:
            return wide if "BF16" in accelerator.features else wide / 8
        case RunFormat.FP32:
            tf32 = "TF32" in accelerator.features
            return wide * (0.5 if tf32 else WITHOUT_TF32.get(accelerator.architecture, _SLOWEST_FP32))
        case RunFormat.INT8:
            return 2 * wide
        case RunFormat.FP8 if accelerator.features & {"FP8OCP", "FP8FNUZ"}:
            return accelerator.fp8_tflops or 2 * wide
        case RunFormat.FP4 if "MXFP" in accelerator.features:
            return 2 * (accelerator.fp8_tflops or 2 * wide)
    return wide


def is_narrow(accelerator: Accelerator, run: RunFormat | None) -> bool:
    """Whether a device computes a format in fewer than 16 bits."""
    wide = accelerator.bf16_tflops or accelerator.fp16_tflops
    return run in READ_AT_INFERENCE and peak(accelerator, run) != wide


def reference_is_narrow(run: RunFormat | None) -> bool:
    """Whether the reference computes a format in fewer than 16 bits; it has no FP4."""
    return run in (RunFormat.FP8, RunFormat.INT8)


class Times(NamedTuple):
    """The two parts of an accelerator's time by its data sheet, in the time of the reference in 16 bits."""

    products: float
    """Dense products."""
    memory: float

    @property
    def roofline(self) -> float:
        """The upper bound of the speed."""
        return 1 / (self.products + self.memory)

    @property
    def bound(self) -> float:
        """The fraction of its time that dense products bound: 0 if memory alone does."""
        return self.products * self.roofline


def reference_times(kind: WorkKind, run: RunFormat | None, share: float | None = None) -> Times:
    """`times` of the reference itself."""
    faster = REFERENCE_NARROW if reference_is_narrow(run) else 0.5 if run is RunFormat.FP32 else 1.0
    share = COMPUTE_SHARE[kind] if share is None else share
    read = READ_AT_INFERENCE[run] if run and kind is WorkKind.INFERENCE and reference_is_narrow(run) else 1.0
    return Times(share / faster, (1 - share) * read)


def times(accelerator: Accelerator, kind: WorkKind, run: RunFormat | None, share: float | None = None) -> Times | None:
    """The time of a device on a kind of work in a number format; None if a figure is unknown. `share` is the fraction of the
    reference's time in 16 bits that products bound (`COMPUTE_SHARE` of the kind if None).
    """
    tflops, bandwidth = peak(accelerator, run), accelerator.bandwidth_gb_s
    if not tflops or not bandwidth:
        return None
    share = COMPUTE_SHARE[kind] if share is None else share
    read = READ_AT_INFERENCE[run] if run and kind is WorkKind.INFERENCE and is_narrow(accelerator, run) else 1.0
    return Times(share * REFERENCE_TFLOPS / tflops, (1 - share) * read * REFERENCE_GB_S / bandwidth)


def roofline(
    accelerator: Accelerator, kind: WorkKind, run: RunFormat | None, share: float | None = None
) -> float | None:
    """The upper bound of a device's speed, 1 for the reference in 16 bits; None if a figure is unknown. `share` as in `times`."""
    found = times(accelerator, kind, run, share)
    return found and found.roofline


def has_roofline(accelerator: Accelerator) -> bool:
    """Whether the figures of a roofline are known."""
    return roofline(accelerator, WorkKind.TRAINING, None) is not None
