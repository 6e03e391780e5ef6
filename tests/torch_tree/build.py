"""Builds the tree: wheels pinned by hash, what no test needs taken away, stand-ins for CUDA, compiled to bytecode."""

import compileall
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from py_compile import PycInvalidationMode

from tests.e2e.cluster.binaries import cache
from tests.e2e.cluster.locks import locked
from tests.e2e.cluster.state import REPOSITORY, ClusterError

from . import stand_ins

LOCK = REPOSITORY / "requirements" / "torch.txt"
_KEPT_SECONDS = 14 * 24 * 3600
_TOOLS = ("gcc", "nm", "readelf", "strip")
_UNUSED = ("torch/include", "torch/share", "torch/test", "torch/lib/libtorch_cuda_linalg.so", "bin", "share")
"""Headers, C++ tests and a library that is only loaded for linear algebra on a GPU."""
_UNUSED_SUFFIXES = (".a", ".pyi", ".h", ".hpp")
_WITH_TESTS = ("numpy", "sympy", "networkx", "mpmath")
_STRIPPED = ("libtorch_cpu.so", "libtorch_cuda.so", "libtorch_python.so")


def missing(python: str = "") -> str:
    """What this machine lacks to build the tree, in one sentence; empty where it exists or can be built."""
    if _folder(python).exists():
        return ""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return "the tree of PyTorch is built on Linux on x86-64 only"
    if absent := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"building the tree of PyTorch needs {', '.join(absent)}: install gcc and binutils"
    return "" if _uv() else "building the tree of PyTorch needs uv: run `make .venv/ready`"


def path(python: str = "") -> Path:
    """The folder to put on sys.path; `python` is a version such as 3.11, by default the one of this interpreter.

    The first call takes a minute or two and about 1.3 GB of disk; ClusterError says what it lacks.
    """
    target = _folder(python)
    if target.exists():
        in_use(target)
        return target
    with locked(cache() / "torch.lock"):
        if not target.exists():
            if why := missing(python):
                raise ClusterError(why)
            began = time.monotonic()
            print(f"building a PyTorch for the CPU in {target}, 1 to 2 minutes the first time", flush=True)
            unfinished = target.with_name(target.name + ".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            _install(unfinished, python)
            _slim(unfinished)
            unfinished.rename(target)
            in_use(target)
            remove_unused("torch")
            print(f"  built after {time.monotonic() - began:.0f} s", flush=True)
    return target


def _folder(python: str) -> Path:
    """Named after all that goes into it."""
    recipe = [
        python or _own(),
        LOCK.read_text(),
        *(each.read_text() for each in sorted(Path(__file__).parent.glob("*.py"))),
    ]
    return cache() / f"torch-{hashlib.sha256(chr(10).join(recipe).encode()).hexdigest()[:12]}"


def in_use(folder: Path) -> None:
    """Notes that a folder of the cache is wanted."""
    os.utime(folder)


def remove_unused(kind: str) -> None:
    """Removes what was unused for two weeks; each of these folders takes gigabytes."""
    for folder in cache().glob(f"{kind}-*"):
        if time.time() - folder.stat().st_mtime > _KEPT_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _own() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _uv() -> str:
    local = REPOSITORY / ".uv" / "bin" / "uv"
    return shutil.which("uv") or (str(local) if local.exists() else "")


def _install(target: Path, python: str) -> None:
    """Installs exactly what is pinned; copied, for what follows changes the files and uv's cache must stay whole."""
    command = [
        *(
            _uv(),
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--link-mode=copy",
            "--only-binary=:all:",
        ),
        *("--python", sys.executable, "--python-version", python or _own(), "--target", target, "-r", LOCK),
    ]
    done = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"the wheels of {LOCK.name} could not be installed: {done.stderr.strip()[-500:]}")


def _slim(tree: Path) -> None:
    for name in _UNUSED:
        found = tree / name
        shutil.rmtree(found) if found.is_dir() else found.unlink(missing_ok=True)
    for name in _WITH_TESTS:
        for found in [each for each in (tree / name).rglob("tests") if each.is_dir()]:
            shutil.rmtree(found)
    for found in [each for each in tree.rglob("*") if each.suffix in _UNUSED_SUFFIXES]:
        found.unlink()
    libraries = tree / "torch" / "lib"
    for stripped in _STRIPPED:
        subprocess.run(["strip", "--strip-unneeded", libraries / stripped], check=True)
    stand_ins.make(libraries, real=tree / "nvidia")
    # Images have a root file system that cannot be written; without bytecode each start would compile everything again.
    compileall.compile_dir(tree, quiet=2, workers=0, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
