"""The reporter of this process: begun by its first step, forgotten by its forked children.

One thread serves the figures, or writes them into the pod's folder where another process of the pod serves. Everything that can
wait happens there, every two seconds.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from importlib import import_module
from typing import Any

from gpujob_runner.report import guard, settings
from gpujob_runner.report.rank import Rank
from gpujob_runner.report.readings import torch_state
from gpujob_runner.report.readings.ledger import Ledger
from gpujob_runner.report.serving.exposition import exposed
from gpujob_runner.report.serving.listener import Listener
from gpujob_runner.report.serving.server import metrics_server
from gpujob_runner.report.serving.shared import Shared
from gpujob_runner.report.standstill.page import aged, ranks_page
from gpujob_runner.report.standstill.stack import phase_of_threads, stack_of
from gpujob_runner.report.watch import job_environment

__all__ = ["Process", "begin", "current", "ledger", "rank"]

SECONDS_BETWEEN_BEATS = 2.0
SECONDS_LATE = 1.0
"""How much later than asked this thread wakes up where the process does not get to run."""
SECONDS_BETWEEN_BINDS = 15.0
SECONDS_UNTIL_STACKS = 4.0
"""Without a sign of work, after which the stacks are read: less than any hang, more than most steps."""
SECONDS_UNTIL_STACK = 20.0
"""Without a sign of work, after which the stack of the training thread is exported."""

current: Process | None = None
rank: Rank | None = None
"""The figures of `current`: what a step needs of it."""
started = time.time()
ledger = Ledger()
"""The batches fetched by this process; there before the first step is, and the same in forked children, begun again."""


class Process:
    """A process that trains, and its thread."""

    def __init__(self, asked: settings.Settings) -> None:
        self.settings = asked
        self._pid = os.getpid()
        self.rank = Rank(asked, started)
        self.rank.ledger = ledger
        _, self.rank.world_size = torch_state.place_in_job(job_environment())
        self.devices = torch_state.Devices()
        self.shared = Shared(asked.folder)
        self.server: Listener | None = None
        self._memory: dict[int, dict[str, float]] = {}
        self._trains = threading.get_ident()
        self._stack: list[str] = []
        self._last_try = float("-inf")
        self._port_reported = False
        self._driver: Any | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beats, name="gpujob-reporter", daemon=True)

    def start(self) -> None:
        """Starts the thread, and ends it before the interpreter does."""
        self._thread.start()
        atexit.register(self.stop)

    def stop(self) -> None:
        """Ends the thread and gives up port and files; waits a second at most. Does nothing in a forked child."""
        if os.getpid() != self._pid:
            return
        try:
            atexit.unregister(self.stop)
            self._over.set()
            self._thread.join(1.0)
            if self._driver is not None:
                self._driver.repeat()
            if self.server is not None:
                self.server.close()
            self.shared.leave()
        except Exception as error:
            guard.failed("stop", error)

    def abandon(self) -> None:
        """In a forked child: closes what was inherited, touches nothing that the parent still uses."""
        if self.server is not None:
            self.server.close_inherited()

    def figures(self) -> dict[str, Any]:
        """The figures of this process as they are written and served; memory is that of the last beat."""
        place, self.rank.world_size = torch_state.place_in_job(job_environment())
        device = max(self._memory, key=lambda index: self._memory[index]["reserved_bytes"], default=None)
        figures = self.rank.figures()
        figures["on_device"] = float(device is not None) if self.rank.counted else None
        figures["devices"] = {str(index): state for index, state in self._memory.items()}
        figures["device_faults"] = [] if self._driver is None else self._driver.faults()
        figures["process_info"] = {
            **torch_state.info(device),
            "steps_from": self.rank.steps_from,
            "samples_from": self.rank.samples_from,
            "tokens_from": self.rank.tokens_from,
        }
        figures["reporter_failures_total"] = dict(guard.failures)
        return {
            "rank": place,
            "world_size": self.rank.world_size,
            "figures": figures,
            "beat": time.monotonic(),
            "stack": self._stack,
        }

    def page(self) -> str:
        """The answer of /metrics: this process and every other of the pod."""
        return exposed(self._processes(), self.settings.job_uid, self.settings.attempt)

    def ranks(self) -> str:
        """The answer of /ranks."""
        return ranks_page(self._processes(), self.settings.job_uid, self.settings.attempt)

    def _processes(self) -> list[dict[str, Any]]:
        now = time.monotonic()
        return [self.figures(), *(aged(other, now) for other in self.shared.others())]

    def _beats(self) -> None:
        while True:
            self._beat()
            due = time.perf_counter() + SECONDS_BETWEEN_BEATS
            if self._over.wait(SECONDS_BETWEEN_BEATS):
                return
            if (now := time.perf_counter()) - due >= SECONDS_LATE:
                self.rank.froze(due, now)

    def _beat(self) -> None:
        """One round: find a phase, read memory, write the figures, and serve if no other process does."""
        for part, work in (
            ("stall", self._read_stacks),
            ("driver", self._watch_driver),
            ("memory", self._read_memory),
            ("folder", self._write),
            ("server", self._serve),
        ):
            if guard.is_off(part):
                continue
            try:
                work()
            except Exception as error:
                guard.failed(part, error)

    def _read_stacks(self) -> None:
        """Reads the stacks of the threads if no step shows what they do."""
        rank, still = self.rank, self.rank.still()
        if not rank.phases.is_reported and (still >= SECONDS_UNTIL_STACKS or rank.phases.is_seen):
            rank.phases.notice(phase_of_threads())
        self._stack = stack_of(self._trains) if still >= SECONDS_UNTIL_STACK else []

    def _watch_driver(self) -> None:
        """One process of the pod reports errors of its devices' drivers, once the program uses them."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or not cuda.is_initialized() or not self.shared.may_serve():
            return
        is_amd = getattr(getattr(sys.modules["torch"], "version", None), "hip", None)
        if self._driver is None:
            # Of ctypes some Pythons have none.
            events = import_module("gpujob_runner.report.readings.driver_events")
            self._driver = events.DriverEvents(guard.say)
            if not is_amd:
                self._driver.watch_nvidia()
        if is_amd:
            self._driver.count_amd()

    def _read_memory(self) -> None:
        self._memory = self.devices.figures()

    def _write(self) -> None:
        # Only the serving process reads the files, and has its own figures at hand.
        if self.server is None:
            self.shared.write(self.figures())

    def _serve(self) -> None:
        clock = time.monotonic()
        if self.server is not None or clock - self._last_try < SECONDS_BETWEEN_BINDS:
            return
        if not self.shared.may_serve():
            return
        self._last_try = clock
        try:
            self.server = metrics_server(self.settings.address, self.settings.port, self.page, self.ranks)
        except OSError as error:
            if not self._port_reported:
                self._port_reported = True
                guard.say(
                    f"port {self.settings.port} is not free for the reporter ({error.strerror}), tried again from time to time"
                )
            return
        self.shared.note_port(self.server.port)
        self.server.start()


def begin() -> Process:
    """Starts the reporter of this process; called by its first step."""
    global current, rank
    asked = settings.read(job_environment())
    if asked is None:
        raise RuntimeError(f"{settings.PORT} is no port")
    process = Process(asked)
    current, rank = process, process.rank
    process.start()
    return process


def _forget() -> None:
    """In a forked child: it trains nothing until it takes a step itself."""
    global current, rank, started
    inherited, current, rank = current, None, None
    ledger.forget()
    guard.failures.clear()
    started = time.time()
    if inherited is not None:
        try:
            inherited.abandon()
        except Exception as error:
            guard.failed("fork", error)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
