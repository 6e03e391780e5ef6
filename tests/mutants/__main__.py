"""`python -m tests.mutants`: a random sample of faults for each folder of gpujob, and how many of them the pure tests notice."""

from __future__ import annotations

import argparse
import os
import pickle
import queue
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from tests.mutants.changes import Change, changes
from tests.mutants.coverage_by_test import FOLDER, Record
from tests.mutants.coverage_by_test import PACKAGE as TRACED
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.in_process import Trial
from tests.mutants.trial import REPOSITORY, SOURCE, Copy

PACKAGE = SOURCE / "gpujob"
RECORD = REPOSITORY / ".mutants"
WHOLE = ("test_fault_plans.py", "test_outages.py", "test_budgets_of_namespaces.py")
"""Tests of the simulation that run the whole operator in seconds."""
ALONE = "(files)"
"""The name of the modules that are in no folder."""
FURTHER = {"fleet": ("unit/placement", "cases"), "placement": ("cases",)}
"""Folders of tests whose subject a folder is too: what a fleet shows is mostly tested by what is placed on it."""


MODULES = frozenset(path for path, *_ in EQUIVALENT)
"""Modules with changes that change nothing."""

Tests = Callable[[Path, int], list[str]]
"""The tests, in pytest's words, that have to notice a fault in a line of a module."""


@dataclass(frozen=True)
class Mutant:
    """A fault of one module."""

    folder: str
    path: Path
    change: Change

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.change.before, self.change.after))
        return (
            f"{self.path.relative_to(REPOSITORY)}:{self.change.line}: {self.change.kind}: {before!r} becomes {after!r}"
        )


@dataclass(frozen=True)
class Verdict:
    """Whether tests noticed a mutant, and how many came by its line."""

    mutant: Mutant
    noticed: bool
    tests: int


def main(words: Sequence[str]) -> int:
    """The exit status: 1 where a folder is below --at-least."""
    options = _options(words)
    began = time.monotonic()
    chosen = {
        name: each for name, each in mutants(options.only).items() if not options.folders or name in options.folders
    }
    drawn = {name: sample(each, options.samples, f"{options.seed}/{name}") for name, each in sorted(chosen.items())}
    print(f"{sum(map(len, drawn.values()))} mutants, seed {options.seed}, {options.samples} of each folder", flush=True)
    own = "the tests of its own room, tests/unit/FOLDER, and those about what is made of it"
    print(f"each is tried by {own if options.own_tests else 'the tests that run its line'}", flush=True)
    verdicts = []
    for name, each in drawn.items():
        if options.own_tests:
            verdicts += tried_by_own_tests(name, each, options.seconds, options.processes)
        else:
            verdicts += tried(each, recorded(name).tests, options.seconds, options.processes)
    print("\n".join(table(verdicts)))
    print(f"{time.monotonic() - began:.0f} s")
    shares = [percent for *_, percent in _rows(verdicts)]
    return int(any(percent < options.at_least for percent in shares))


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    today = int(datetime.now(UTC).strftime("%Y%m%d"))
    parser.add_argument(
        "--seed", type=int, default=today, help="which mutants are drawn; the date without it, such as 20261201"
    )
    parser.add_argument("--samples", type=int, default=10, help="mutants of each folder")
    parser.add_argument("--folders", nargs="*", default=[], help="folders of gpujob; all without it")
    parser.add_argument(
        "-k",
        dest="only",
        default="",
        metavar="PART[:LINE]",
        help="only modules with this part in their path, only this line",
    )
    parser.add_argument(
        "--own-tests",
        action="store_true",
        help="only the tests of the folder's own room and of those in FURTHER: no record, and a lower bound in minutes",
    )
    parser.add_argument("--at-least", type=float, default=0, help="percent of each folder that tests have to notice")
    parser.add_argument("--seconds", type=float, default=300, help="the time for the tests of one mutant")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="mutants at one time")
    return parser.parse_args(words)


def recorded(folder: str) -> Record:
    """Which of a folder's tests run which of its lines, by one run of these tests; kept until its source or one of them changes."""
    files, kept = files_of_tests(folder), RECORD / folder
    done = kept / "done"
    sources = [*files, *(PACKAGE.glob("*.py") if folder == ALONE else (PACKAGE / folder).rglob("*.py"))]
    if not done.exists() or done.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        print(f"recording which tests run which line of {folder}: {len(files)} files of tests", flush=True)
        kept.mkdir(parents=True, exist_ok=True)
        for old in kept.iterdir():
            old.unlink()
        command = [
            sys.executable, "-m", "pytest", "-q", "-m", "not e2e", "-p", "no:cacheprovider", "-p",
            "tests.mutants.coverage_by_test", "--numprocesses=auto", "--dist=worksteal", *map(str, files),
        ]  # fmt: skip
        package = "gpujob" if folder == ALONE else f"gpujob.{folder}"
        environment = os.environ | {FOLDER: str(kept), TRACED: package}
        subprocess.run(command, check=True, cwd=REPOSITORY, env=environment, stdout=sys.stderr)
        done.touch()
    return Record(kept)


def files_of_tests(folder: str) -> list[Path]:
    """The files of pure tests for a folder of gpujob: those of the room of its name, those that import it, and some that run the whole
    operator. The tests of the other rooms run most of its lines too, and would take hours to record."""
    tests, package = REPOSITORY / "tests", "gpujob" if folder == ALONE else f"gpujob.{folder}"
    known = [path for room in ("unit", "properties") for path in (tests / room).rglob("test_*.py")]
    near = [path for path in known if path.parent.name == folder or f"from {package}" in path.read_text()]
    return sorted([*near, *(tests / "simulation" / name for name in WHOLE)])


def mutants(only: str = "") -> dict[str, list[Mutant]]:
    """The mutants of each folder: all but those that change nothing (`equivalent`), of modules with `only` in their path, which may
    end with a colon and the number of one line."""
    part, _, line = only.partition(":")
    found: dict[str, list[Mutant]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        name = parts[0] if len(parts) > 1 else ALONE
        if part in path.as_posix():
            found.setdefault(name, []).extend(
                Mutant(name, path, each)
                for each in changes_of(path)
                if line in ("", str(each.line)) and not _same(path, each)
            )
    return found


@cache
def changes_of(path: Path) -> list[Change]:
    """The changes of a module, those that change nothing among them."""
    return changes(path.read_bytes())


def place(path: Path, change: Change) -> tuple[str, str, str, str]:
    """What names a change in `equivalent`: its module, the text of its line, what is there and what becomes of it."""
    line = path.read_text().splitlines()[change.line - 1].strip()
    return path.relative_to(PACKAGE).as_posix(), line, change.before, change.after


def _same(path: Path, change: Change) -> bool:
    return path.relative_to(PACKAGE).as_posix() in MODULES and place(path, change) in EQUIVALENT


def sample(mutants: list[Mutant], number: int, seed: str) -> list[Mutant]:
    """Some of them, the same for the same seed and the same source."""
    return random.Random(seed).sample(mutants, min(number, len(mutants)))


def tried_by_own_tests(folder: str, drawn: Sequence[Mutant], seconds: float, processes: int) -> list[Verdict]:
    """The verdicts of all tests of the room of a folder's name and of its FURTHER ones: in forks of one process, and alone where that
    notices nothing and the fault shows when a module is imported."""
    tests = REPOSITORY / "tests"
    own = tests / "unit" / ("" if folder == ALONE else folder)
    if not own.is_dir():
        return tried(drawn, lambda path, line: [], seconds, processes)
    rooms = [str(room) for room in (own, *(tests / name for name in FURTHER.get(folder, ())))]
    order = rooms, PACKAGE / folder, [(mutant.path, mutant.change) for mutant in drawn], seconds
    with tempfile.NamedTemporaryFile() as answer:
        command = [sys.executable, "-m", "tests.mutants.in_process", answer.name]
        subprocess.run(command, check=True, cwd=REPOSITORY, input=pickle.dumps(order), stdout=subprocess.DEVNULL)
        found = {mutant: Trial(*each) for mutant, each in zip(drawn, pickle.load(answer), strict=True)}
    alone = [mutant for mutant, trial in found.items() if trial.imported and not trial.noticed]
    known = {mutant: Verdict(mutant, trial.noticed, trial.tests) for mutant, trial in found.items()}
    known |= {verdict.mutant: verdict for verdict in tried(alone, lambda path, line: rooms, seconds, processes)}
    return [known[mutant] for mutant in drawn]


def tried(drawn: Sequence[Mutant], tests_of: Tests, seconds: float, processes: int) -> list[Verdict]:
    """The verdicts in the order of the mutants; each is printed as it falls."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(processes) as pool:
        copies: queue.Queue[Copy] = queue.Queue()
        for number in range(processes):
            copies.put(Copy(Path(name) / str(number)))

        def one(mutant: Mutant) -> Verdict:
            tests = tests_of(mutant.path, mutant.change.line)
            copy = copies.get()
            try:
                noticed = bool(tests) and copy.noticed(mutant.path, mutant.change, tests, seconds)
            finally:
                copies.put(copy)
            print(f"{'noticed ' if noticed else 'SURVIVED'} {len(tests):5} tests  {mutant}", flush=True)
            return Verdict(mutant, noticed, len(tests))

        return list(pool.map(one, drawn))


def _rows(verdicts: Iterable[Verdict]) -> list[tuple[str, int, int, float]]:
    folders: dict[str, list[bool]] = {}
    for verdict in verdicts:
        folders.setdefault(verdict.mutant.folder, []).append(verdict.noticed)
    return [(name, len(each), sum(each), 100 * sum(each) / len(each)) for name, each in sorted(folders.items())]


def table(verdicts: Sequence[Verdict]) -> list[str]:
    """Folder by folder how many were noticed, then each that was not."""
    rows = _rows(verdicts)
    lines = [f"{'FOLDER':12} {'MUTANTS':>7} {'NOTICED':>7} {'PERCENT':>7}"]
    lines += [f"{name:12} {number:7} {noticed:7} {percent:7.1f}" for name, number, noticed, percent in rows]
    if total := len(verdicts):
        noticed = sum(verdict.noticed for verdict in verdicts)
        lines.append(f"{'all':12} {total:7} {noticed:7} {100 * noticed / total:7.1f}")
    lines += ["", "not noticed:"]
    return lines + [f"  {verdict.mutant} ({verdict.tests} tests run it)" for verdict in verdicts if not verdict.noticed]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
