"""`python -m tests.mutants`: a random sample of faults for each folder of gpujob, and how many of them the tests of its room notice."""

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
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from tests.mutants.changes import Change, changes
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.in_process import Trial
from tests.mutants.trial import REPOSITORY, SOURCE, Copy

PACKAGE = SOURCE / "gpujob"
PLACED = ("unit/fleet", "unit/placement", "cases")
STORIES = ("answers_that_prove_nothing", "budgets_of_namespaces", "creations_that_arrive_late", "creations_without_an_answer",
           "fault_plans", "outages")  # fmt: skip
ROOMS: Final = {
    "fleet": PLACED,
    "placement": PLACED,
    "cluster": ("unit/cluster", *(f"simulation/test_{name}.py" for name in STORIES)),
}
"""The rooms of tests/, or files of them, whose subject a folder is, where it is not the one of its name alone: what a fleet shows is
mostly tested by what is placed on it, and the layer of the cluster by whole operators in virtual time."""

MODULES = frozenset(path for path, *_ in EQUIVALENT)
"""Modules with changes that change nothing."""


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
    """Whether tests noticed a mutant; how many run its statement, None where it shows in all that import its module."""

    mutant: Mutant
    noticed: bool
    tests: int | None = None


def main(words: Sequence[str]) -> int:
    """The exit status: 1 where a folder is below --at-least."""
    options = _options(words)
    began = time.monotonic()
    chosen = {
        name: each for name, each in mutants(options.only).items() if not options.folders or name in options.folders
    }
    drawn = {name: sample(each, options.samples, f"{options.seed}/{name}") for name, each in sorted(chosen.items())}
    print(f"{sum(map(len, drawn.values()))} mutants, seed {options.seed}, {options.samples} of each folder", flush=True)
    rooms: dict[tuple[str, ...], list[Mutant]] = {}
    for name, each in drawn.items():
        rooms.setdefault(rooms_of(name), []).extend(each)
    verdicts = []
    for room, each in rooms.items():
        verdicts += (found := tried(room, each, options.seconds, options.processes))
        for verdict in found:
            print(f"{'noticed ' if verdict.noticed else 'SURVIVED'} {verdict.mutant}", flush=True)
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
    parser.add_argument("--at-least", type=float, default=0, help="percent of each folder that tests have to notice")
    parser.add_argument("--seconds", type=float, default=300, help="the time for the tests of one mutant")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="mutants at one time")
    return parser.parse_args(words)


def mutants(only: str = "") -> dict[str, list[Mutant]]:
    """The mutants of each folder: all but those that change nothing (`equivalent`), of modules with `only` in their path, which may
    end with a colon and the number of one line."""
    part, _, line = only.partition(":")
    found: dict[str, list[Mutant]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        if part in path.as_posix():
            found.setdefault(parts[0], []).extend(
                Mutant(parts[0], path, each)
                for each in changes_of(path)
                if line in ("", str(each.line)) and not _same(path, each)
            )
    return {name: each for name, each in found.items() if each}


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


def rooms_of(folder: str) -> tuple[str, ...]:
    """The rooms of the tests that have to notice a fault of a folder."""
    return ROOMS.get(folder, (f"unit/{folder}",))


def tried(rooms: Sequence[str], drawn: Sequence[Mutant], seconds: float, processes: int) -> list[Verdict]:
    """The verdicts of the tests of these rooms: in forks of one process, and alone where that notices nothing and the fault shows when
    a module is imported."""
    paths = [str(REPOSITORY / "tests" / room) for room in rooms]
    folders = sorted({str(PACKAGE / mutant.folder) for mutant in drawn})
    order = paths, folders, [(mutant.path, mutant.change) for mutant in drawn], seconds
    with tempfile.NamedTemporaryFile() as answer:
        command = [sys.executable, "-m", "tests.mutants.in_process", answer.name]
        subprocess.run(command, check=True, cwd=REPOSITORY, input=pickle.dumps(order), stdout=subprocess.DEVNULL)
        found = {mutant: Trial(*each) for mutant, each in zip(drawn, pickle.load(answer), strict=True)}
    known = {mutant: Verdict(mutant, trial.noticed, trial.tests) for mutant, trial in found.items()}
    alone = {mutant: trial.again for mutant, trial in found.items() if trial.again}
    known |= {verdict.mutant: verdict for verdict in tried_alone(alone, seconds, processes)}
    return [known[mutant] for mutant in drawn]


def tried_alone(drawn: Mapping[Mutant, Sequence[str]], seconds: float, processes: int) -> list[Verdict]:
    """The verdicts of the tests of each mutant, which import it, in the order of the mutants."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(processes) as pool:
        copies: queue.Queue[Copy] = queue.Queue()
        for number in range(processes):
            copies.put(Copy(Path(name) / str(number)))

        def one(mutant: Mutant) -> Verdict:
            copy = copies.get()
            try:
                noticed = copy.noticed(mutant.path, mutant.change, drawn[mutant], seconds)
            finally:
                copies.put(copy)
            return Verdict(mutant, noticed)

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
    for verdict in verdicts:
        if not verdict.noticed:
            run = "when its module is imported" if verdict.tests is None else f"in {verdict.tests} tests"
            lines.append(f"  {verdict.mutant} (it runs {run})")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
