"""Runs the probe under the program's own Python, with a time limit for each stage, and collects its output.

A device whose driver hangs keeps the probe without end; so it is a process of its own, and its last stage says where it hung.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpujob_runner.preflight.interpreter import Interpreter

IMPORT_SECONDS = 35.0
"""How long torch may take to be imported; a cold disk takes long and is no fault of the devices."""

STAGE_SECONDS = 18.0
"""How long one device may take for its memory or its product; together with the import it stays below a minute."""

ALL_SECONDS = 150.0
MOST_DEVICES = 64

_START = """import sys
path, folder = sys.argv[1], sys.argv[2]
if folder and not getattr(sys.flags, "safe_path", False):
    sys.path[0] = folder
sys.argv[:] = sys.argv[2:]
exec(compile(open(path).read(), path, "exec"))
"""


@dataclass
class Device:
    """One device in torch's view; amounts in bytes, times in seconds."""

    index: int
    name: str = ""
    free: int = 0
    total: int = 0
    seconds: float = 0.0
    product: bool | None = None
    error: str = ""


@dataclass
class Seen:
    """The output of the probe until it ended or was killed."""

    python: str = ""
    torch: str | None = None
    """torch's version; None: the image has no torch, or nothing was printed."""
    backend: str = ""
    number: str = ""
    absent: bool = False
    broken: str = ""
    """Why torch cannot be imported."""
    import_seconds: float | None = None
    count: int | None = None
    error: str = ""
    devices: list[Device] = field(default_factory=list)
    stage: str = ""
    hung: bool = False
    died: int | None = None
    """The exit code of a probe that ended before it had printed everything: a crash inside a library."""


def probe(interpreter: Interpreter, wanted: str, environment: Mapping[str, str], limits: Limits | None = None) -> Seen:
    """What torch sees under this interpreter."""
    limits = limits or Limits()
    seen = Seen()
    reading, writing = os.pipe()
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe.py")
    command = [
        interpreter.path,
        "-B",
        "-c",
        _START,
        script,
        interpreter.folder,
        str(writing),
        wanted,
        str(MOST_DEVICES),
    ]
    try:
        process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), pass_fds=(writing,),
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        os.close(reading)
        os.close(writing)
        seen.broken = f"{interpreter.path} does not start: {error.strerror}"
        return seen
    os.close(writing)
    try:
        for message in _lines(reading, seen, limits):
            _take(seen, message)
    finally:
        os.close(reading)
        _end(process, seen)
    return seen


@dataclass(frozen=True)
class Limits:
    """Seconds that the stages may take."""

    importing: float = IMPORT_SECONDS
    stage: float = STAGE_SECONDS
    all: float = ALL_SECONDS


def _lines(reading: int, seen: Seen, limits: Limits) -> Iterator[dict[str, Any]]:
    """The probe's lines until it ends, or until a stage takes too long."""
    last = time.monotonic() + limits.all
    waiting = b""
    while True:
        # Until torch is there, the limit is the import's.
        limit = (
            limits.stage if seen.stage in ("imported", "counted", "device", "product", "failed") else limits.importing
        )
        left = min(limit, last - time.monotonic())
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            seen.hung = True
            return
        chunk = os.read(reading, 65536)
        if not chunk:
            return
        waiting += chunk
        *whole, waiting = waiting.split(b"\n")
        for line in whole:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict):
                yield message


def _take(seen: Seen, message: Mapping[str, Any]) -> None:
    seen.stage = str(message.get("stage"))
    if seen.stage == "began":
        seen.python = str(message.get("python"))
    elif seen.stage == "absent":
        seen.absent = True
    elif seen.stage == "found":
        seen.torch, seen.backend, seen.number = (str(message.get(key)) for key in ("torch", "backend", "number"))
    elif seen.stage == "broken":
        seen.broken = str(message.get("error"))
    elif seen.stage == "imported":
        seen.import_seconds = float(message.get("seconds") or 0.0)
    elif seen.stage == "counted":
        seen.count, seen.error = int(message.get("count") or 0), str(message.get("error") or "")
    elif seen.stage == "device":
        seen.devices.append(
            Device(
                int(message["index"]),
                str(message.get("name")),
                int(message.get("free") or 0),
                int(message.get("total") or 0),
                float(message.get("seconds") or 0.0),
            )
        )
    elif seen.stage in ("product", "failed"):
        _take_outcome(seen, message)


def _take_outcome(seen: Seen, message: Mapping[str, Any]) -> None:
    index = int(message["index"])
    if not seen.devices or seen.devices[-1].index != index:
        seen.devices.append(Device(index))
    device = seen.devices[-1]
    device.seconds += float(message.get("seconds") or 0.0)
    device.product = message.get("right") is True if seen.stage == "product" else None
    device.error = str(message.get("error") or "")


def _end(process: subprocess.Popen[bytes], seen: Seen) -> None:
    """Waits for the probe, and ends it with all that it started when it does not end by itself."""
    try:
        code = process.wait(timeout=0.0 if seen.hung else 10.0)
    except subprocess.TimeoutExpired:
        try:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=2.0)
        except (OSError, subprocess.TimeoutExpired):
            pass  # It hangs in the kernel; the container's end is all that can take it away.
        return
    if code != 0 and not seen.broken:
        seen.died = code
