"""`python -m tests.parts`: the whole suite as pytest processes side by side; `make test` runs it.

First the fault plans of a seed are played in virtual time (tests/simulation), and as many random orders of gangs as 45 seconds of CPU
allow: they use every core and wait for nothing. Then two kinds of parts run side by side:

- End-to-end tests and programs that hang or save wait most of the time, and a cluster of theirs must answer in time. A few of them run
  at once, each with a cluster of its own. tests/balance.py shares their files out by the seconds they took.
- Tests that compute, and at last a minute of properties on random examples (tests/search.py), take in the background what the others
  leave of the cores.

Every file of tests belongs to exactly one part. The output ends with what failed, each part's summary and their sum.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tests.balance import REPORTS, ROOT, measured, shares

SLOWEST = "--durations=25"
WITHOUT = ("--ignore=tests/e2e", "--ignore=tests/unit/runner")
BY_FILE = ("--dist=loadfile", "--no-loadscope-reorder")
"""Whole files go to the processes, in the order in which tests/conftest.py puts them: the longest first."""


AT_ONCE = max(2, (os.cpu_count() or 1) * 3 // 2)
"""How many parts in the foreground run at once: a cluster with its tests uses about 0.4 of a core."""
BACKGROUND_NICE = 10


class When(Enum):
    """When a part runs."""

    AHEAD = "before all others, alone"
    FOREGROUND = "as soon as one of the places is free"
    BACKGROUND = "one after another, beside those in the foreground and behind them where both want a core"


@dataclass(frozen=True)
class Part:
    """One pytest process: its name, its arguments, and when it runs."""

    name: str
    arguments: tuple[str, ...]
    when: When = When.FOREGROUND
    module: str = "pytest"
    """The module that runs; it takes arguments of pytest."""


def shared(name: str, count: int, files: Iterable[Path]) -> list[Part]:
    """`count` parts of about the same length, the longest file first in each."""
    paths = [str(file.relative_to(ROOT)) for file in files]
    return [Part(f"{name}-{n}", tuple(share)) for n, share in enumerate(shares(paths, count, measured()), 1)]


REAL_NODES = sorted((ROOT / "tests/e2e/node").rglob("test_*.py"))
SIMULATED_NODES = sorted({*(ROOT / "tests/e2e").rglob("test_*.py")} - {*REAL_NODES})

PARTS = (
    Part("plans", (), When.AHEAD, module="tests.simulation"),
    Part("gangs", ("--cpu-seconds=45",), When.AHEAD, module="tests.simulation"),
    *shared("nodes", 2, REAL_NODES),
    Part("contract", ("tests/contract", "-m", "e2e")),
    *shared("kwok", 3, SIMULATED_NODES),
    Part("runner", ("tests/unit/runner",)),
    # What the tests of a file share, such as a program that is packed once, is made in one process.
    Part("core", ("tests", *WITHOUT, "-m", "not e2e", "--numprocesses=auto", *BY_FILE), When.BACKGROUND),
    Part("search", ("--seconds=60",), When.BACKGROUND, module="tests.search"),
)


@dataclass
class Outcome:
    """What a part printed and its exit status; a status other than 0 is a failure."""

    name: str
    lines: list[str] = field(default_factory=list)
    status: int | None = None
    cpu: float = 0.0
    """Seconds of CPU of its processes and of those that they waited for: tests, operators, control planes, not what pods run."""

    def failures(self) -> list[str]:
        """The lines FAILED and ERROR of the summary; a part that ends otherwise has one line that says so."""
        found = [line for line in self.lines if line.startswith(("FAILED ", "ERROR "))]
        if self.status and not found:
            found = [f"ERROR {self.name}: pytest ended with exit status {self.status}, its last line is: {self.last()}"]
        return found

    def last(self) -> str:
        """The last line that is not blank: pytest's summary, where pytest came to its end."""
        return next((line for line in reversed(self.lines) if line.strip()), "nothing printed")


def summary(outcomes: Iterable[Outcome], seconds: float) -> list[str]:
    """The closing lines: what failed, the last line of each part, and their sum in pytest's form."""
    outcomes = list(outcomes)
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        for number, word in re.findall(r"(\d+) ([a-z]+)", outcome.last().partition(" in ")[0]):
            counts["errors" if word == "error" else word] += int(number)
    failures = [line for outcome in outcomes for line in outcome.failures()]
    title = " short test summary of all parts ".center(100, "=")
    parts = [f"{outcome.name:8} {outcome.last()} {outcome.cpu:.0f} s of CPU" for outcome in outcomes]
    words = sorted(counts, key=lambda word: (word not in ("failed", "errors"), word))
    total = ", ".join(f"{counts[word]} {word}" for word in words) or "no tests ran"
    minutes, rest = divmod(int(seconds), 60)
    return [
        title,
        *failures,
        *parts,
        f" {total} in {seconds:.2f}s ({minutes // 60}:{minutes % 60:02}:{rest:02}) ".center(100, "="),
    ]


class Running:
    """The processes of the parts, their lines as they come, and their end when SIGTERM or Ctrl-C asks for it."""

    def __init__(self, more: Sequence[str]) -> None:
        self.more = more
        self.stopped = False
        self.processes: list[subprocess.Popen[str]] = []
        self.lock = threading.Lock()

    def stop(self, *_: object) -> None:
        """Starts no part any more and interrupts those that run: each ends its own cluster."""
        self.stopped = True
        for process in self.processes:
            process.send_signal(signal.SIGINT)

    def run(self, part: Part) -> Outcome:
        """What came of one part."""
        with self.lock:
            process = None if self.stopped else self.started(part)
        outcome = Outcome(part.name, [] if process else ["not started"], None if process else -signal.SIGINT)
        if process:
            assert process.stdout is not None
            for line in process.stdout:
                outcome.lines.append(line.rstrip("\n"))
                with self.lock:
                    print(f"{part.name:8} | {line}", end="", flush=True)
            _, status, usage = os.wait4(process.pid, 0)
            outcome.status = process.returncode = os.waitstatus_to_exitcode(status)
            outcome.cpu = usage.ru_utime + usage.ru_stime
        return outcome

    def started(self, part: Part) -> subprocess.Popen[str]:
        """The process of a part, in a session of its own."""
        kept = ("-o", f"cache_dir=.pytest_cache/{part.name}", f"--junitxml={REPORTS / part.name}.xml")
        command = [sys.executable, "-m", part.module, *part.arguments, SLOWEST, *kept, *self.more]
        # Python writes what it compiled: of the 1.8 s of CPU of an operator's start 0.45 would be compiling, hundreds of times.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["COLUMNS"] = "160"
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment,
            start_new_session=True,
        )  # fmt: skip
        self.processes.append(process)
        if self.stopped:
            process.send_signal(signal.SIGINT)
        if part.when is When.BACKGROUND:
            behind(process.pid, BACKGROUND_NICE)
        return process


def behind(pid: int, nice: int) -> None:
    """Lets a process and those that it will start come after the others where they want the same core."""
    os.setpriority(os.PRIO_PROCESS, pid, nice)
    # Linux shares a core between sessions first (sched(7), the autogroup feature): niceness alone counts within a session only.
    group = Path(f"/proc/{pid}/autogroup")
    if group.exists():
        group.write_text(str(nice))


def run(parts: Sequence[Part], more: Sequence[str] = (), *, at_once: int = AT_ONCE) -> list[Outcome]:
    """Runs the parts with further arguments of pytest and prints their lines as they come; SIGTERM and Ctrl-C end all of them."""
    running = Running(more)
    before = {number: signal.signal(number, running.stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with ThreadPoolExecutor(at_once) as foreground, ThreadPoolExecutor(1) as background:
            outcomes = [running.run(part) for part in parts if part.when is When.AHEAD]
            rest = [part for part in parts if part.when is not When.AHEAD]
            places = {When.FOREGROUND: foreground, When.BACKGROUND: background}
            futures = [places[part.when].submit(running.run, part) for part in rest]
            return outcomes + [future.result() for future in futures]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(more: Sequence[str]) -> int:
    """The exit status: 0 where every part is green."""
    # A cluster that the user names is one for all parts.
    at_once = 1 if os.environ.get("CLUSTER") or os.environ.get("CLUSTER_DIR") else AT_ONCE
    began = time.monotonic()
    outcomes = run(PARTS, more, at_once=at_once)
    print("\n".join(summary(outcomes, time.monotonic() - began)))
    return int(any(outcome.status != 0 for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
