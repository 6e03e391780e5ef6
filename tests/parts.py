"""`python -m tests.parts`: the whole suite as pytest processes side by side; `make test` runs it.

Beside them the properties are tried on random examples for a minute (tests/search.py), with a seed that is printed. Before them the
fault plans of a seed are played in virtual time (tests/simulation), and as many random orders of gangs as 45 seconds of CPU allow: they
use every core and wait for nothing, so they take a minute and a half alone and would take five beside the others.

End-to-end tests wait for a control plane most of the time, so several processes of them run, each with a cluster of its own, and other
tests run meanwhile. tests/balance.py shares their files out by the seconds they took, so any of these files may run in any process.
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
from dataclasses import dataclass, field
from pathlib import Path

from tests.balance import REPORTS, ROOT, measured, shares

SLOWEST = "--durations=25"
WITHOUT = ("--ignore=tests/e2e", "--ignore=tests/unit/runner")
BY_FILE = ("--dist=loadfile", "--no-loadscope-reorder")
"""Whole files go to the processes, in the order in which tests/conftest.py puts them: the longest first."""


@dataclass(frozen=True)
class Part:
    """One pytest process: its name, its arguments, and its niceness."""

    name: str
    arguments: tuple[str, ...]
    nice: int = 0
    module: str = "pytest"
    """The module that runs; it takes arguments of pytest."""
    ahead: bool = False
    """Whether the parts after it begin when it has ended."""


def shared(name: str, count: int, files: Iterable[Path]) -> list[Part]:
    """`count` parts of about the same length, the longest file first in each."""
    paths = [str(file.relative_to(ROOT)) for file in files]
    return [Part(f"{name}-{n}", tuple(share)) for n, share in enumerate(shares(paths, count, measured()), 1)]


REAL_NODES = sorted((ROOT / "tests/e2e/node").rglob("test_*.py"))
PRETENDED_NODES = sorted({*(ROOT / "tests/e2e").rglob("test_*.py")} - {*REAL_NODES})

PARTS = (
    Part("plans", (), module="tests.simulation", ahead=True),
    Part("gangs", ("--cpu-seconds=45",), module="tests.simulation", ahead=True),
    *shared("nodes", 2, REAL_NODES),
    *shared("kwok", 2, PRETENDED_NODES),
    Part("contract", ("tests/contract", "-m", "e2e")),
    # Programs that hang, save or go on for as long as their reporter needs to see it.
    Part("runner", ("tests/unit/runner",), nice=5),
    # It computes, and the others wait for replies: they come first where both want a core. What the tests of a file share, such as
    # a program that is packed once, is made in one process.
    Part("core", ("tests", *WITHOUT, "-m", "not e2e", "--numprocesses=auto", *BY_FILE), nice=5),
    Part("search", ("--seconds=60",), nice=5, module="tests.search"),
)


@dataclass
class Outcome:
    """What a part printed and its exit status; a status other than 0 is a failure."""

    name: str
    lines: list[str] = field(default_factory=list)
    status: int | None = None

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
    parts = [f"{outcome.name:8} {outcome.last()}" for outcome in outcomes]
    words = sorted(counts, key=lambda word: (word not in ("failed", "errors"), word))
    total = ", ".join(f"{counts[word]} {word}" for word in words) or "no tests ran"
    minutes, rest = divmod(int(seconds), 60)
    return [
        title,
        *failures,
        *parts,
        f" {total} in {seconds:.2f}s ({minutes // 60}:{minutes % 60:02}:{rest:02}) ".center(100, "="),
    ]


def run(parts: Sequence[Part], more: Sequence[str] = (), *, together: bool = True) -> list[Outcome]:
    """Runs the parts with further arguments of pytest and prints their lines as they come; SIGTERM interrupts all of them."""
    printing = threading.Lock()
    processes: list[subprocess.Popen[str]] = []

    def interrupt(*_: object) -> None:
        for process in processes:
            process.send_signal(signal.SIGINT)

    def start(part: Part) -> tuple[Outcome, threading.Thread]:
        kept = ("-o", f"cache_dir=.pytest_cache/{part.name}", f"--junitxml={REPORTS / part.name}.xml")
        command = [sys.executable, "-m", part.module, *part.arguments, SLOWEST, *kept, *more]
        # Python writes what it compiled: of the 1.8 s of CPU of an operator's start 0.45 would be compiling, hundreds of times.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["COLUMNS"] = "160"
        process = subprocess.Popen(
            ["nice", "-n", str(part.nice), *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", env=environment,
        )  # fmt: skip
        processes.append(process)
        outcome = Outcome(part.name)
        reader = threading.Thread(target=follow, args=(process, outcome))
        reader.start()
        return outcome, reader

    def follow(process: subprocess.Popen[str], outcome: Outcome) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            outcome.lines.append(line.rstrip("\n"))
            with printing:
                print(f"{outcome.name:8} | {line}", end="", flush=True)
        outcome.status = process.wait()

    before = signal.signal(signal.SIGTERM, interrupt)
    # A terminal sends Ctrl-C to all processes; each part ends its own cluster, and this one waits for that.
    ctrl_c = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        outcomes = []
        readers = []
        for part in parts:
            outcome, reader = start(part)
            outcomes.append(outcome)
            readers.append(reader)
            if part.ahead or not together:
                reader.join()
        for reader in readers:
            reader.join()
        return outcomes
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, ctrl_c)


def main(more: Sequence[str]) -> int:
    """The exit status: 0 where every part is green."""
    # A cluster that the user names is one for all parts.
    together = not (os.environ.get("CLUSTER") or os.environ.get("CLUSTER_DIR"))
    began = time.monotonic()
    outcomes = run(PARTS, more, together=together)
    print("\n".join(summary(outcomes, time.monotonic() - began)))
    return int(any(outcome.status != 0 for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
