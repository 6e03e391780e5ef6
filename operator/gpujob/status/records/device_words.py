"""What the last lines of a program report about a device that is broken.

Any program can print such lines, so they decide no more than a retry elsewhere. docs/life.md shows the same rows, and the words that
look alike and are the program's own. Names and sentences are those of cudaGetErrorString and cudaGetErrorName (CUDA 11.8 to 13.0),
hipGetErrorString (ROCm 6 and 7), ROCr (core/runtime/runtime.cpp), NVML (nvml.h) and the amdgpu driver (amdgpu_ras.c); the numbers of
Xid are those of NVIDIA's catalog (docs.nvidia.com/deploy/xid-errors, Analyzing Xid Errors) whose resolution is a reset, a restart of
the machine, a workflow for hardware or, for contained memory errors, a restart of the application.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from gpujob.status.records.last_words import LONGEST
from gpujob.values.untrusted import one_line

XIDS: Final = frozenset(
    {46, 48, 62, 63, 64, 74, 79, 94, 95, 109, 110, 119, 120, 136, 140, 143}
    | set(range(144, 151))
    | {156, 158, 167, 169, 171, 172}
)
"""Numbers of Xid that mean the device, its memory, its links or its firmware. Most others are raised by a faulty program."""

GO_ON: Final = frozenset({63, 94})
"""Those of `XIDS` after which the device works on for a program that runs on: a row of memory was replaced, or an error was contained
in the program that met it."""

MOST_CHARACTERS: Final = 80
"""Of the words that are repeated."""


class Word(NamedTuple):
    """One row of the table: how it is called there, what it says, its source, and the pattern of a line."""

    called: str
    says: str
    source: str
    pattern: re.Pattern[str]


def _word(called: str, says: str, source: str, pattern: str) -> Word:
    return Word(called, says, source, re.compile(pattern, re.IGNORECASE))


WORDS: Final = (
    _word("uncorrectable ECC error encountered, cudaErrorECCUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE, hipErrorECCNotCorrectable",
          "memory of the GPU is broken", "cudaError_t 214, hipError_t 214",
          r"uncorrectable ECC error|CUDA_ERROR_ECC_UNCORRECTABLE|cudaErrorECCUncorrectable|hipErrorECCNotCorrectable"),
    _word("uncorrectable NVLink error, cudaErrorNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE",
          "a link between GPUs is broken", "cudaError_t 220",
          r"uncorrectable NVLink error|cudaErrorNvlinkUncorrectable|CUDA_ERROR_NVLINK_UNCORRECTABLE"),
    _word("Invalid access of peer GPU memory over nvlink or a hardware error, cudaErrorContained, CUDA_ERROR_CONTAINED",
          "the GPU contained an error of its hardware, or lost a peer over NVLink", "cudaError_t 721",
          r"peer GPU memory over nvlink or a hardware error|cudaErrorContained|CUDA_ERROR_CONTAINED"),
    _word("CUDA-capable device(s) is/are busy or unavailable, cudaErrorDevicesUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE",
          "the driver gives no context on the GPU that the pod has", "cudaError_t 46",
          r"CUDA-capable device(?:\(s\) is/are|s are) busy or unavailable|cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE"),
    _word("system not yet initialized, cudaErrorSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY",
          "the node's fabric manager does not run", "cudaError_t 802",
          r"CUDA\b.{0,80}system not yet initialized|cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY"),
    _word("GPU has fallen off the bus, GPU is lost, GPU requires reset",
          "the GPU does not answer", "NVRM, NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED",
          r"fallen off the bus|\bGPU is lost\b|NVML_ERROR_GPU_IS_LOST|\bGPU requires reset\b|NVML_ERROR_RESET_REQUIRED"),
    _word("GPU recovery action changed … (GPU Reset Required), (Drain and Reset), (Node Reboot Required)",
          "the driver asks for a reset", "Xid 154",
          r"recovery action changed .{0,60}to .{0,20}(?:GPU Reset Required|Node Reboot Required|Drain and Reset)\)?"),
    _word("HW Exception by GPU node-N … reason :GPU Hang, or ECC",
          "the GPU hangs or has a memory error (ROCm)", "ROCr, HSA_EVENTID_HW_EXCEPTION",
          r"HW Exception by GPU node-\d{1,4}.{0,120}reason ?: ?(?:GPU Hang|ECC)"),
    _word("N uncorrectable hardware errors detected, uncorrectable hardware error(…) detected, RAS poison, poison consumption",
          "memory or a block of the GPU is broken (AMD)", "amdgpu_ras.c, amdgpu_umc.c",
          r"uncorrectable hardware errors?(?: ?\([A-Z_]{1,40}\))? detected|\bRAS (?:poison|uncorrectable)"
          r"(?:: \d{1,9} in \w{1,20} of [0-9a-f:.]{7,12} at [-0-9:]{10}T[0-9:]{8}Z)?|poison consumption"),
)  # fmt: skip
"""The rows before those of Xid, in the order of the search."""

_XID: Final = re.compile(
    r"\bXid\b(?: ?\((?:PCI:)?[0-9a-f:.]{1,20}\))?(?: (?:error|event|code|number|id)s?){0,2} ?[:=#]? ?(\d{1,3})\b(?![:.][0-9a-f])",
    re.IGNORECASE,
)
"""The number of an Xid. The address of a device stands before it and has numbers too."""

_OF_DEVICE: Final = re.compile(r" of GPU-[0-9a-f-]{8,36} at [-0-9]{10}T[0-9:]{8}Z")
"""The device and the time, as the reporter says them behind the number (gpujob_runner/report/readings/driver_events.py)."""


_EXPORTED: Final = re.compile(r"(?:Xid-(\d{1,3})|RAS-(\w{1,20}))")
"""A fault as the reporter exports it (gpujob_device_fault_timestamp_seconds)."""


def broken_under_program(fault: str) -> str:
    """An exported fault of a device under a program that runs on, as words; empty where the device works on, or for an unknown one."""
    found = _EXPORTED.fullmatch(fault)
    if found is None:
        return ""
    if found[2]:
        return f"an uncorrectable RAS error in {found[2]}"
    return f"Xid {found[1]}" if int(found[1]) in XIDS - GO_ON else ""


def broken_device(text: Any) -> str:
    """The words of a termination message by which a device is broken, on one line; empty where there are none."""
    if not isinstance(text, str):
        return ""
    lines = [line[:1024] for line in text[-LONGEST:].splitlines()]
    return next(_found(lines), "")


def _found(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        for word in WORDS:
            if found := word.pattern.search(line):
                yield one_line(found[0][:MOST_CHARACTERS])
        for found in _XID.finditer(line):
            if int(found[1]) in XIDS:
                said = _OF_DEVICE.match(line, found.end())
                yield f"Xid {found[1]}{said[0] if said else ''}"
