"""How long the command line takes to start: CPU of each verb as a multiple of `python -c pass`, all in one run.

    python bench/cli_start.py [RUNS]

Runs of all commands alternate, so that a busy machine slows all alike; the median of the ratios is printed. Compile the
byte code first (`python -m compileall`), and run without PYTHONDONTWRITEBYTECODE: that is how an installed program runs.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = ("--cluster", str(ROOT / "examples" / "clusters" / "mixed.yaml"))
JOB = ("-f", str(ROOT / "examples" / "01-hello-gpu.yaml"))
COMMANDS = {
    "--version": ("--version",),
    "--help": ("--help",),
    "pools -o json": ("pools", *FILES, "-o", "json"),
    "pools": ("pools", *FILES),
    "plan -o json": ("plan", *JOB, *FILES, "-o", "json"),
    "plan": ("plan", *JOB, *FILES),
    "render": ("render", *JOB, *FILES),
}


def cpu_ms(command: list[str]) -> float:
    """User and system time of one run, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main(runs: int) -> None:
    """Prints a line for each command: the ratio, and the least milliseconds."""
    program = [sys.executable, str(Path(sys.executable).with_name("gpujob"))]
    empty: list[float] = []
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        empty.append(cpu_ms([sys.executable, "-c", "pass"]))
        for name, arguments in COMMANDS.items():
            taken[name].append(cpu_ms([*program, *arguments]))
    print(f"{'python -c pass':16}    1.0   {min(empty):4.0f} ms")
    for name, times in taken.items():
        ratio = statistics.median(mine / base for mine, base in zip(times, empty, strict=True))
        print(f"{name:16} {ratio:6.1f}   {min(times):4.0f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 11)
