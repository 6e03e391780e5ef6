"""Xid of NVIDIA and counted errors of AMD, as the reporter says them, and what the operator reads of such a line."""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpujob.status.records.device_words import broken_device
from gpujob_runner.report.readings import driver_events
from gpujob_runner.report.readings.driver_events import DriverEvents, uncorrectable, xids

UUID = "GPU-2847135a-3f5c-ef37-6867-47d8eae9230c"
AT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
NOT_SUPPORTED, LOST = 3, 15


class Nvml:
    """NVML's calls with these answers to nvmlEventSetWait: (return code, kind, number); then it is lost."""

    def __init__(self, *answers: tuple[int, int, int], init: int = 0, register: int = 0, uuid: int = 0) -> None:
        self.answers, self.init, self.register, self.uuid = list(answers), init, register, uuid
        self.registered = 0

    def nvmlInit_v2(self) -> int:  # noqa: N802
        return self.init

    def nvmlEventSetCreate(self, found: Any) -> int:  # noqa: N802
        return 0

    def nvmlDeviceGetCount_v2(self, number: Any) -> int:  # noqa: N802
        number._obj.value = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, device: Any) -> int:  # noqa: N802
        device._obj.value = 4096 + index
        return 0

    def nvmlDeviceRegisterEvents(self, device: Any, kinds: Any, events: Any) -> int:  # noqa: N802
        assert kinds.value == driver_events.XID
        self.registered += 1
        return self.register

    def nvmlEventSetWait_v2(self, events: Any, event: Any, milliseconds: int) -> int:  # noqa: N802
        code, kind, number = self.answers.pop(0) if self.answers else (LOST, 0, 0)
        event._obj.kind, event._obj.data, event._obj.device = kind, number, 4096
        return code

    def nvmlDeviceGetUUID(self, device: Any, text: Any, length: int) -> int:  # noqa: N802
        assert device.value == 4096
        text.value = UUID.encode()
        return self.uuid


def test_each_xid_with_its_device_until_nvml_fails() -> None:
    nvml = Nvml((10, 0, 0), (0, 8, 79), (0, 2, 5), (10, 0, 0), (0, 8, 31))
    assert list(xids(nvml)) == [(79, UUID), (31, UUID)]
    assert nvml.registered == 2
    assert list(xids(Nvml((0, 8, 79), uuid=LOST))) == [(79, "a GPU")]


@pytest.mark.parametrize("nvml", [Nvml((0, 8, 79), init=9), Nvml((0, 8, 79), register=NOT_SUPPORTED)])
def test_a_driver_without_such_events_says_nothing(nvml: Nvml) -> None:
    assert list(xids(nvml)) == []


def test_an_xid_is_said_at_once_and_again_at_the_end() -> None:
    said: list[str] = []
    events = DriverEvents(said.append)
    events.watch_nvidia(Nvml((0, 8, 79), (0, 8, 31)))
    until(lambda: len(said) == 2)
    assert re.fullmatch(rf"the driver reports Xid 79 of {UUID} at {AT}", said[0])
    events.repeat()
    assert said[2:] == said[:2]
    now = time.time()
    assert [(what, device, abs(at - now) < 60) for what, device, at in events.faults()] == [
        ("Xid-79", UUID, True), ("Xid-31", UUID, True),
    ]  # fmt: skip


def test_old_lines_are_not_said_again_and_a_storm_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    events = DriverEvents(said.append)
    events.watch_nvidia(Nvml(*[(0, 8, 79)] * 100))
    until(lambda: len(said) == driver_events.MOST_SAID)
    monkeypatch.setattr(driver_events, "RECENT", -1.0)
    events.repeat()
    assert len(said) == driver_events.MOST_SAID
    assert len(events.faults()) == 1


def test_a_machine_without_nvml_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_events, "NVML", "libno-such-thing.so.9")
    DriverEvents(pytest.fail).watch_nvidia()


def until(there: Callable[[], bool]) -> None:
    for _ in range(500):
        if there():
            return
        time.sleep(0.01)
    raise TimeoutError


class Amd:
    """A container's /dev/dri with one of two cards that sysfs shows."""

    def __init__(self, folder: Path) -> None:
        self.dri, self.drm = folder / "dri", folder / "drm"
        self.dri.mkdir()
        for number, device in ((128, "0000:c1:00.0"), (129, "0000:c6:00.0")):
            home = folder / device
            (home / "ras").mkdir(parents=True)
            (self.drm / f"renderD{number}").mkdir(parents=True)
            (self.drm / f"renderD{number}" / "device").symlink_to(home)
        (self.dri / "renderD128").touch()
        (self.dri / "card1").touch()
        self.folder = folder

    def counts(self, errors: int, block: str = "umc", device: str = "0000:c1:00.0") -> None:
        (self.folder / device / "ras" / f"{block}_err_count").write_text(f"ue: {errors}\nce: 7\n")


@pytest.fixture
def amd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Amd:
    monkeypatch.setattr(driver_events, "SECONDS_BETWEEN_COUNTS", 0.0)
    return Amd(tmp_path)


def test_errors_that_are_counted_while_the_program_runs(amd: Amd) -> None:
    said: list[str] = []
    events = DriverEvents(said.append, str(amd.dri), str(amd.drm))
    amd.counts(3)
    amd.counts(1, device="0000:c6:00.0")
    events.count_amd()
    events.count_amd()
    # What was there before is not this program's, and a device that the container does not have is another one's.
    amd.counts(9, device="0000:c6:00.0")
    events.count_amd()
    assert said == []
    amd.counts(5)
    amd.counts(1, "gfx")
    events.count_amd()
    events.count_amd()
    assert len(said) == 2
    assert re.fullmatch(rf"the driver reports RAS uncorrectable: 1 in gfx of 0000:c1:00.0 at {AT}", said[0])
    assert re.fullmatch(rf"the driver reports RAS uncorrectable: 2 in umc of 0000:c1:00.0 at {AT}", said[1])
    assert [each[:2] for each in events.faults()] == [["RAS-gfx", "0000:c1:00.0"], ["RAS-umc", "0000:c1:00.0"]]


def test_a_container_without_devices_or_counters(tmp_path: Path, amd: Amd) -> None:
    DriverEvents(pytest.fail, str(tmp_path / "none"), str(tmp_path)).count_amd()
    DriverEvents(pytest.fail, str(amd.dri), str(amd.drm)).count_amd()


@pytest.mark.parametrize(("text", "count"), [("ue: 4\nce: 1\n", 4), ("ce: 1\n", None), ("ue: many", None), ("", None)])
def test_a_counter(tmp_path: Path, text: str, count: int | None) -> None:
    (tmp_path / "umc_err_count").write_text(text)
    assert uncorrectable(str(tmp_path / "umc_err_count")) == count
    assert uncorrectable(str(tmp_path / "gone")) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"Xid 79 of {UUID} at 2026-11-30T00:12:13Z", f"Xid 79 of {UUID} at 2026-11-30T00:12:13Z"),
        (f"Xid 48 of {UUID}", "Xid 48"), ("Xid 94 of a GPU at 2026-11-30T00:12:13Z", "Xid 94"),
        # Of a program that is wrong.
        (f"Xid 31 of {UUID} at 2026-11-30T00:12:13Z", ""), (f"Xid 13 of {UUID} at 2026-11-30T00:12:13Z", ""),
        ("RAS uncorrectable: 2 in umc of 0000:c1:00.0 at 2026-11-30T00:12:13Z",) * 2,
        ("RAS uncorrectable: many in umc", "RAS uncorrectable"),
    ],
)  # fmt: skip
def test_the_operator_reads_device_and_time(line: str, words: str) -> None:
    text = f"Traceback (most recent call last):\nRuntimeError: CUDA error: unknown error\ngpujob: the driver reports {line}\n"
    assert broken_device(text) == words


def test_an_event_is_as_large_as_nvmls() -> None:
    assert ctypes.sizeof(driver_events.Event) == 32
