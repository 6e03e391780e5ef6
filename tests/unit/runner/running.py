"""Runs programs as a pod does: the reporter's folder on PYTHONPATH, its variables set, nothing else of this repository."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
ON_PATH = ROOT / "operator" / "gpujob_runner" / "onpath"
PROGRAMS = Path(__file__).parent / "programs"


def run(
    arguments: Sequence[str], folder: Path, *, behind: Sequence[Path] = (), timeout: float = 60.0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs this Python with `arguments`; `behind` are the user's own PYTHONPATH, a variable set to "" is not set."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join(map(str, (ON_PATH, *behind))),
        "GPUJOB_REPORT_PORT": "0",
        "GPUJOB_RUN_FOLDER": str(folder),
        "POD_IP": "127.0.0.1",
        # Threads that wait for each other's sums take a third of the CPU of a small training.
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    environment = {name: value for name, value in environment.items() if value}
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
