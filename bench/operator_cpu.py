"""CPU of the operator for each job until it runs, without a control plane: `python -m bench.operator_cpu [JOBS] [OTHER_TREE]`.

The operator runs as it is installed against the stub of `bench.api_stub`. With another checkout the two run at the same time, each
with its own stub, and the ratio of their times is what counts. `--profile FILE` writes a cProfile of the operator. `--waiting`:
JOBS are of 80 demands that wait, and the memory of the process, its CPU at rest and how soon a job behind them is placed are measured.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from bench.api_stub import ROOT, certificate, operator_on_stub

TURNS: Final = 4
REST: Final = 20.0
"""Seconds over which a process at rest is looked at."""

PLACED: Final = 20
"""Jobs with room that are submitted behind those that wait."""

Figures = dict[str, float]


def until_running(tree: Path, jobs: int, folder: Path, name: str, profile: str = "") -> Figures:
    """CPU milliseconds of the operator of one checkout for each job, and its writes."""
    with operator_on_stub(tree, folder, name, profile) as (pid, ask):
        ask("/run?jobs=10")
        before = cpu_seconds(pid)
        found: dict[str, Any] = ask(f"/run?jobs={jobs}")
        return {"ms a job": 1000 * (cpu_seconds(pid) - before) / jobs, **found["writes"]}


def while_waiting(tree: Path, jobs: int, folder: Path, name: str, _: str = "") -> Figures:
    """CPU and memory of the operator of one checkout until all jobs have their status, and at rest."""
    with operator_on_stub(tree, folder, name) as (pid, ask):
        ask("/run?jobs=1")
        empty, before = memory(pid), cpu_seconds(pid)
        ask(f"/wait?jobs={jobs}")
        spent = 1000 * (cpu_seconds(pid) - before) / jobs
        time.sleep(REST)
        at_rest = cpu_seconds(pid)
        time.sleep(REST)
        rest = 1000 * (cpu_seconds(pid) - at_rest) / REST
        held, most = memory(pid), memory(pid, "VmHWM")
        placed: Any = ask(f"/place?jobs={PLACED}")
        return {
            "ms a job": spent,
            "MiB without jobs": empty,
            "MiB": held,
            "most MiB": most,
            "millicores": rest,
            "s until one behind them is placed": statistics.median(placed),
            "most s": max(placed),
        }


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int, which: str = "VmRSS") -> float:
    """MiB of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{which}:"))


def main() -> None:
    """Prints a line for each checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", type=int, nargs="?", default=300)
    parser.add_argument("other", type=Path, nargs="?")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--waiting", action="store_true")
    parser.add_argument("--profile", default="")
    options = parser.parse_args()
    trees = {"now": ROOT} | ({"before": options.other.absolute()} if options.other else {})
    measure = while_waiting if options.waiting else until_running
    taken: dict[str, list[Figures]] = {name: [] for name in trees}
    with certificate() as folder:
        for _ in range(1 if options.profile else options.turns):
            # At the same time: what else runs on the machine makes both figures larger.
            with ThreadPoolExecutor() as pool:
                turns = {
                    name: pool.submit(measure, tree, options.jobs, folder, name, options.profile)
                    for name, tree in trees.items()
                }
            for name, turn in turns.items():
                taken[name].append(turn.result())
    for name, found in taken.items():
        print(
            f"{name}: "
            + "; ".join(f"{what} {', '.join(f'{one.get(what, 0):.2f}' for one in found)}" for what in found[0])
        )
    if options.other:
        ratios = [
            now["ms a job"] / before["ms a job"] for now, before in zip(taken["now"], taken["before"], strict=True)
        ]
        print(f"now / before: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
