"""Errors that the driver reports of this container's devices while the program runs: NVIDIA's Xid, AMD's counters of RAS.

Both come to a container without rights: NVML gives the events of the devices that the container has to any user
(nvmlEventSetWait, event nvmlEventTypeXidCriticalError), and sysfs gives the counters of amdgpu to every reader
(ras/*_err_count of amdgpu_ras.c, mode 0444). Each is said in one line on the error stream, so that the last lines of a container
that fails have it, and exported, so that the operator knows it where the program runs on.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

XID = 8
"""nvmlEventTypeXidCriticalError."""
WAIT = 1000
"""Milliseconds of one wait for an event of NVML."""
MOST_SAID = 32
"""Lines of one process: a broken device may raise an event each second."""
RECENT = 300.0
"""Seconds for which a line is said again at the end of the program, whose own last lines may have pushed it out."""
SECONDS_BETWEEN_COUNTS = 10.0
NVML = "libnvidia-ml.so.1"


class Event(ctypes.Structure):
    """nvmlEventData_t."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("kind", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class DriverEvents:
    """Reports the errors of drivers from its creation on; `say` writes one line."""

    def __init__(self, say: Callable[[str], None], dri: str = "/dev/dri", drm: str = "/sys/class/drm") -> None:
        self._say, self._dri, self._drm = say, dri, drm
        self._said: list[tuple[float, str]] = []
        self._first_of: dict[tuple[str, str], float] = {}
        self._counts: dict[str, int] = {}
        self._counted = float("-inf")
        self._first = True

    def watch_nvidia(self, library: Any = None) -> None:
        """Waits for Xid in a thread of its own, which hears of one before the program does; none where there is no NVML."""
        with contextlib.suppress(OSError):
            nvml = library or ctypes.CDLL(NVML)
            threading.Thread(target=self._follow, args=(nvml,), name="gpujob-driver", daemon=True).start()

    def count_amd(self) -> None:
        """Compares the counted uncorrectable errors of the container's devices with those of before, every ten seconds at most."""
        clock = time.monotonic()
        if clock - self._counted < SECONDS_BETWEEN_COUNTS:
            return
        self._counted = clock
        for name, device, block, count in self._errors():
            more = count - self._counts.get(name, count if self._first else 0)
            self._counts[name] = count
            if more > 0:
                self._report(f"RAS uncorrectable: {more} in {block} of {device}", f"RAS-{block}", device)
        self._first = False

    def repeat(self) -> None:
        """Repeats recent lines at the end of the program."""
        since = time.monotonic() - RECENT
        for clock, line in self._said[-4:]:
            if clock >= since:
                self._say(line)

    def faults(self) -> list[list[Any]]:
        """[what, device, Unix time of the first] of each kind of error and device: what is exported while the program runs on."""
        return [[what, device, at] for (what, device), at in list(self._first_of.items())]

    def _report(self, what: str, kind: str, device: str) -> None:
        if len(self._first_of) < MOST_SAID:
            self._first_of.setdefault((kind, device), time.time())
        if len(self._said) >= MOST_SAID:
            return
        line = f"the driver reports {what} at {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}"
        self._said.append((time.monotonic(), line))
        self._say(line)

    def _follow(self, nvml: Any) -> None:
        for number, device in xids(nvml):
            self._report(f"Xid {number} of {device}", f"Xid-{number}", device)

    def _errors(self) -> Iterator[tuple[str, str, str, int]]:
        """(file, PCI address, block, uncorrectable errors) of each counter of the devices that the container has."""
        try:
            cards = sorted(name for name in os.listdir(self._dri) if name.startswith("renderD"))
        except OSError:
            return
        for card in cards:
            home = os.path.join(self._drm, card, "device")
            try:
                counters = sorted(name for name in os.listdir(os.path.join(home, "ras")) if name.endswith("_err_count"))
            except OSError:
                continue
            device = os.path.basename(os.path.realpath(home))
            for counter in counters:
                path = os.path.join(home, "ras", counter)
                if (count := uncorrectable(path)) is not None:
                    yield path, device, counter[: -len("_err_count")], count


def uncorrectable(path: str) -> int | None:
    """The number behind "ue:" of a counter; None where it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            lines = file.read(256).splitlines()
    except OSError:
        return None
    counts = (line[3:].strip() for line in lines if line.startswith("ue:"))
    return next((int(number) for number in counts if number.isdigit()), None)


def xids(nvml: Any) -> Iterator[tuple[int, str]]:
    """(number, UUID of the device) of each Xid from now on; ends where NVML has no such events, or fails."""
    events = ctypes.c_void_p()
    if nvml.nvmlInit_v2() or nvml.nvmlEventSetCreate(ctypes.byref(events)):
        return
    number, found = ctypes.c_uint(), 0
    if nvml.nvmlDeviceGetCount_v2(ctypes.byref(number)):
        return
    for index in range(number.value):
        device = ctypes.c_void_p()
        if not nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
            found += not nvml.nvmlDeviceRegisterEvents(device, ctypes.c_ulonglong(XID), events)
    while found:
        event = Event()
        answer = nvml.nvmlEventSetWait_v2(events, ctypes.byref(event), WAIT)
        if answer == 0 and event.kind == XID:
            yield int(event.data), _uuid(nvml, event.device)
        elif answer not in (0, TIMEOUT):
            return


TIMEOUT = 10
"""NVML_ERROR_TIMEOUT."""


def _uuid(nvml: Any, device: Any) -> str:
    text = ctypes.create_string_buffer(96)
    if nvml.nvmlDeviceGetUUID(ctypes.c_void_p(device), text, 96):
        return "a GPU"
    return text.value.decode("ascii", "replace")
