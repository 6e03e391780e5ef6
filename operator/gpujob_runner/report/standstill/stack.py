"""Where the threads of this process are: the training thread's stack by `faulthandler`, and whether one compiles or saves."""

from __future__ import annotations

import dis
import faulthandler
import os
import re
import sys
import threading
from collections.abc import Iterable
from types import FrameType

from gpujob_runner.report.standstill.phases import COMPILING, SAVING

MOST_LINES = 24
LONGEST_LINE = 200
MOST_BYTES = 128 * 1024
DEEPEST = 256
"""Frames of a thread that are searched for a phase."""

COMPILERS = (
    "torch/_dynamo/convert_frame.py",
    "torch/_inductor/graph.py",
    "torch/_inductor/scheduler.py",
    "torch/_inductor/async_compile.py",
    "torch/_inductor/select_algorithm.py",
    "torch/_inductor/codegen/",
    "triton/compiler/",
    "torch/utils/cpp_extension.py",
)
"""Files that are on a stack only while something is compiled; without those that a compiled program runs through."""

SAVERS = {
    "torch/serialization.py": ("save", "_save", "_legacy_save"),
    "safetensors/torch.py": ("save_file", "save_model"),
}
"""Functions that write a checkpoint, by their file."""

COPIES = ("item", "tolist", "numpy", "cpu", "synchronize", "float", "int", "bool")
"""What waits for a device without a frame of Python, by the name that the program calls: methods of a tensor, and functions of one."""

_FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$')


def stack_of(thread: int) -> list[str]:
    """The frames of a thread (by its ident), innermost first, each as "function (file:line)"; empty where it is not there.

    faulthandler needs a real file, so that one in memory is used.
    """
    file = os.memfd_create("gpujob-stack")
    try:
        faulthandler.dump_traceback(file, all_threads=True)
        text = os.pread(file, MOST_BYTES, 0).decode("ascii", "replace")
    finally:
        os.close(file)
    frame_now = sys._current_frames().get(thread)
    waits = copy_in(frame_now) if frame_now is not None else None
    del frame_now
    wanted, found, inside = f"hread 0x{thread:016x}", list[str](), False
    for line in text.split("\n"):
        frame = _FRAME.match(line)
        if frame is None:
            if found:
                break
            inside = wanted in line
        elif inside and len(found) < MOST_LINES:
            if waits and not found:
                found.append(f"{waits} (of a tensor)")
            found.append(f"{frame[3]} ({_short(frame[1])}:{frame[2]})"[:LONGEST_LINE])
    return found


def copy_in(frame: FrameType) -> str | None:
    """The name of `COPIES` that a frame calls just now; None where it calls something else. The bytecode says it, since the source may
    lie on the very file system that hangs."""
    before: list[dis.Instruction] = []
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset > frame.f_lasti:
            break
        if instruction.opname not in _NO_OPERANDS:
            before.append(instruction)
    if len(before) < 3 or not before[-1].opname.startswith("CALL"):
        return None
    loaded, argument = before[-2], before[-3]
    if loaded.opname.startswith("LOAD_") and argument.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
        loaded = argument if loaded.opname not in ("LOAD_METHOD", "LOAD_ATTR") else loaded
    return str(loaded.argval) if loaded.argval in COPIES else None


_NO_OPERANDS = ("CACHE", "PRECALL", "PUSH_NULL", "NOP", "EXTENDED_ARG")
"""Instructions between the name of what is called and the call."""


def _short(path: str) -> str:
    """A path without the folder that packages are installed in."""
    return re.split(r"/(?:site|dist)-packages/", path)[-1][-120:]


def phase_of_threads() -> str | None:
    """The phase that a thread of this process is in, by what it executes; None where none shows one."""
    own = threading.get_ident()
    frames = [frame for ident, frame in sys._current_frames().items() if ident != own]
    try:
        return next((phase for frame in frames if (phase := _phase_of(_calls(frame)))), None)
    finally:
        del frames


def _calls(frame: FrameType | None) -> Iterable[tuple[str, str]]:
    """(file, function) of each frame of a stack, innermost first."""
    for _ in range(DEEPEST):
        if frame is None:
            return
        yield frame.f_code.co_filename, frame.f_code.co_name
        frame = frame.f_back


def _phase_of(calls: Iterable[tuple[str, str]]) -> str | None:
    for file, function in calls:
        if any(part in file for part in COMPILERS):
            return COMPILING
        if any(file.endswith(name) and function in functions for name, functions in SAVERS.items()):
            return SAVING
    return None
