"""Which last lines of a program mean a broken device, and which look alike and are the program's own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from gpujob.status.records.device_words import MOST_CHARACTERS, WORDS, XIDS, broken_device

PAGE = (Path(__file__).parents[3] / "docs" / "life.md").read_text()

BROKEN = {
    "RuntimeError: CUDA error: uncorrectable ECC error encountered": "uncorrectable ECC error",
    "[rank3]: torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered": "uncorrectable ECC error",
    "node-7:1204:1311 [3] NCCL WARN Cuda failure 214 'uncorrectable ECC error encountered'": "uncorrectable ECC error",
    "RuntimeError: HIP error: uncorrectable ECC error encountered": "uncorrectable ECC error",
    "hipErrorECCNotCorrectable (214)": "hipErrorECCNotCorrectable",
    "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC": "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA error: uncorrectable NVLink error detected during the execution": "uncorrectable NVLink error",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE": "CUDA_ERROR_NVLINK_UNCORRECTABLE",
    "torch.AcceleratorError: CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error":
        "peer GPU memory over nvlink or a hardware error",
    "CUDA error: CUDA-capable device(s) is/are busy or unavailable": "CUDA-capable device(s) is/are busy or unavailable",
    "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable": "CUDA-capable devices are busy or unavailable",
    "RuntimeError: CUDA error: system not yet initialized": "CUDA error: system not yet initialized",
    "GPU 0000:3b:00.0: GPU has fallen off the bus.": "fallen off the bus",
    "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system": "GPU is lost",
    "pynvml.NVMLError: GPU requires reset": "GPU requires reset",
    "NVRM: Xid (PCI:0000:07:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)":
        "recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    "HW Exception by GPU node-9 (Agent handle: 0x631351bb5a20) reason :GPU Hang":
        "HW Exception by GPU node-9 (Agent handle: 0x631351bb5a20) reason :GPU Hang",
    "HW Exception by GPU node-1 (Agent handle: 0x1) reason :ECC": "HW Exception by GPU node-1 (Agent handle: 0x1) reason :ECC",
    "amdgpu: socket: 0, die: 0, 1 uncorrectable hardware errors detected in total in umc block":
        "uncorrectable hardware errors detected",
    "amdgpu 0000:c1:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!":
        "uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected",
    "amdgpu 0000:03:00.0: amdgpu: RAS poison consumption handling": "RAS poison",
    "NVRM: Xid (PCI:0000:07:00): 79, pid=1234, GPU has fallen off the bus.": "fallen off the bus",
    "NVRM: Xid (PCI:0000:13:00): 95, pid=7, Uncontained ECC": "Xid 95",
    "XID 48 An uncorrectable double bit error (DBE) has been detected on GPU": "Xid 48",
    "[gpu-health] [CRITICAL] GPU-1234: XID: NVRM: Xid (PCI:0000:c6:00): 119, Timeout waiting for RPC": "Xid 119",
    "found Xid error 74 on GPU 3": "Xid 74", "Xid=94": "Xid 94", "xid: 62": "Xid 62", "Xid code 140": "Xid 140",
    "Xid (0000:07:00): 145": "Xid 145",
}  # fmt: skip

PROGRAMS = [
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "RuntimeError: CUDA error: device-side assert triggered",
    "RuntimeError: CUDA error: unspecified launch failure",
    "CUDA error: misaligned address", "CUDA error: an illegal instruction was encountered", "CUDA error: hardware stack error",
    "CUDA error: the launch timed out and was terminated", "CUDA error: invalid device ordinal",
    "CUDA error: no kernel image is available for execution on the device",
    "RuntimeError: HIP error: invalid device function", "hipErrorNoBinaryForGpu: Unable to find code object for all current devices!",
    "RuntimeError: No CUDA GPUs are available", "torch.OutOfMemoryError: CUDA out of memory.",
    "Memory access fault by GPU node-4 (Agent handle: 0x1) on address 0x7f. Reason: Page not present or supervisor privilege.",
    ":0:rocdevice.cpp:2984: HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception. code: 0x1016",
    "torch.distributed.DistBackendError: NCCL error, unhandled system error (run with NCCL_DEBUG=INFO for details)",
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    # The address of a device has numbers too.
    "NVRM: Xid (PCI:0000:48:00): 13, Graphics SM Warp Exception on (GPC 7, TPC 0, SM 1)",
    "NVRM: Xid (PCI:0000:79:00): 31, pid=3, MMU Fault", "NVRM: Xid (PCI:0000:63:00): 43, pid=3", "Xid (PCI:0000:95:00.0): 45",
    "Xid (0000:74:00): 68", "NVRM: Xid (PCI:0000:07:00): 137, NVLink Privilege Error",
    "Xid 790", "Xid 1948", "Xid 0000:79", "no Xid in 79 minutes", "SXid 79", "taxid 48", "ValueError: 79",
    "system not yet initialized", "uncorrectable error", "recovery action changed from 0x2 to 0x0 (None)",
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), BROKEN.items())
def test_a_broken_device(line: str, said: str) -> None:
    assert broken_device(line) == said[:MOST_CHARACTERS]
    # Wherever it stands in what the program printed last, and whatever follows it.
    assert broken_device(f"step 1\n{line}\n{torchrun()}") == said[:MOST_CHARACTERS]


@pytest.mark.parametrize("line", PROGRAMS)
def test_a_line_that_only_looks_alike(line: str) -> None:
    assert broken_device(line) == ""


def torchrun() -> str:
    """The summary that torchrun prints after the error of a worker."""
    rule = "=" * 60
    rows = [f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : 1 (pid: {rank})" for rank in range(8)]
    return "\n".join(("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", rule, *rows, rule))


@pytest.mark.parametrize("text", [None, 7, [], {}, "", "\n" * 5000, "\x00", "Xid" * 2000])
def test_what_is_no_text_or_says_nothing(text: Any) -> None:
    assert broken_device(text) == ""


def test_hostile_lines_are_bounded_and_stay_one_line() -> None:
    began = time.process_time()
    for line in (
        "HW Exception by GPU node-1 " * 200,
        "recovery action changed (" * 400,
        "Xid " * 5000,
        "CUDA " * 2000,
        "Xid (" + "0:" * 4000,
    ):
        broken_device(line)
    assert time.process_time() - began < 1.0
    said = broken_device(
        "HW Exception by GPU node-1 \x1b[31m" + "\u202e" + "x" * 40 + " reason :GPU Hang " + "y" * 4000
    )
    assert said.isprintable()
    assert broken_device("uncorrectable ECC error" + " " * 5000) == ""


@pytest.mark.parametrize("number", sorted(XIDS))
def test_each_number_of_the_catalog(number: int) -> None:
    assert broken_device(f"NVRM: Xid (PCI:0000:07:00): {number}, pid=1") == f"Xid {number}"


def test_the_page_has_the_rows_and_the_numbers() -> None:
    for word in WORDS:
        assert f"| {word.called} | {word.says} | {word.source} |" in PAGE
    (row,) = (line for line in PAGE.splitlines() if line.startswith("| Xid 46"))
    numbers: set[int] = set()
    for part in row.split("|")[1].replace("Xid", "").split(","):
        first, _, last = part.strip().partition(" to ")
        numbers |= set(range(int(first), int(last or first) + 1))
    assert numbers == XIDS
