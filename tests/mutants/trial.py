"""One copy of the source that takes one fault after the other, and the tests that have to notice it."""

from __future__ import annotations

import compileall
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.changes import Change

REPOSITORY = Path(__file__).parent.parent.parent
SOURCE = REPOSITORY / "operator"


class Copy:
    """A copy of operator/ that Python finds before the original."""

    def __init__(self, folder: Path) -> None:
        self._operator = folder / "operator"
        shutil.copytree(SOURCE, self._operator, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(self._operator, quiet=2)

    def noticed(self, path: Path, change: Change, tests: Sequence[str], seconds: float) -> bool:
        """Whether one of these tests fails on the fault, or does not end within `seconds`."""
        target = self._operator / path.relative_to(SOURCE)
        kept = target.read_bytes()
        try:
            self._write(target, change.apply(kept))
            return self._fails(tests, seconds)
        finally:
            self._write(target, kept)

    def _write(self, target: Path, content: bytes) -> None:
        target.write_bytes(content)
        # Two versions of one second and one size look alike to Python.
        for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*.pyc"):
            compiled.unlink()

    def _fails(self, tests: Sequence[str], seconds: float) -> bool:
        environment = os.environ | {
            "PYTHONPATH": f"{self._operator}{os.pathsep}{REPOSITORY}", "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        command = [
            sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist",
            "-m", "not e2e", *tests,
        ]  # fmt: skip
        with subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return True
        # 0 is green; 1 a failure; 2 to 4 a module or a conftest that cannot be imported; 5 no test.
        if process.returncode == 5:
            raise RuntimeError(f"no test was found among {len(tests)}: {output.decode()[-500:]}")
        return process.returncode != 0
