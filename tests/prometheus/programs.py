"""Where prometheus and promtool are: on the PATH, in the user's cache, or out of Debian's package, which is not installed.

The package is fetched by apt, which checks it against the archive's signed lists, and unpacked into the cache. Where there
is neither, tests are skipped with what is missing.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.e2e.cluster.binaries import cache
from tests.e2e.cluster.locks import locked

OLDEST = (2, 42)
"""The Prometheus of Debian 12; older ones are not tried."""

_FOLDER = "prometheus-debian"
_TIMEOUT = 300


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`; skips the test where there is none."""
    found, why = _find()
    if found is None:
        pytest.skip(f"{name} is missing: {why}")
    return str(found / name)


@functools.cache
def _find() -> tuple[Path | None, str]:
    """The folder of both programs, or why there is none."""
    on_path = shutil.which("prometheus")
    if on_path and shutil.which("promtool") and _version(on_path) >= OLDEST:
        return Path(on_path).parent, ""
    kept = cache() / _FOLDER / "usr" / "bin"
    if (kept / "promtool").exists():
        return kept, ""
    if not all(map(shutil.which, ("apt-get", "dpkg-deb"))):
        return None, f"no Prometheus of {_words(OLDEST)} or newer on the PATH, and no apt-get to fetch Debian's package"
    with locked(cache() / f"{_FOLDER}.lock"):
        why = "" if (kept / "promtool").exists() else _unpack(cache() / _FOLDER)
    return (None, why) if why else (kept, "")


def _unpack(target: Path) -> str:
    """Brings the package into a folder; what went wrong, or nothing."""
    with tempfile.TemporaryDirectory() as name:
        fetch = ["apt-get", "download", "--quiet=2", "prometheus"]
        done = _run(fetch, name)
        if done.returncode and os.geteuid() == 0:
            # A new machine has no list of packages yet.
            _run(["apt-get", "update", "--quiet=2"], name)
            done = _run(fetch, name)
        packages = sorted(Path(name).glob("prometheus_*.deb"))
        if done.returncode or not packages:
            return f"`apt-get download prometheus` failed: {done.stderr.strip()[-200:]}"
        unfinished = target.with_name(target.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        done = _run(["dpkg-deb", "--extract", str(packages[0]), str(unfinished)], name)
        if done.returncode:
            return f"Debian's package cannot be unpacked: {done.stderr.strip()[-200:]}"
        version = _version(str(unfinished / "usr" / "bin" / "prometheus"))
        if version < OLDEST:
            return f"Debian's package has Prometheus {_words(version)}; {_words(OLDEST)} or newer is needed"
        shutil.rmtree(target, ignore_errors=True)
        unfinished.rename(target)
    return ""


def _run(command: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_TIMEOUT)


def _version(path: str) -> tuple[int, ...]:
    """Of what calls itself `prometheus, version 2.42.0+ds (…)`; nothing readable is older than all."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=30)
        words = (done.stdout + done.stderr).split("version ", 1)[1].split(".")
        return int(words[0]), int(words[1])
    except (OSError, IndexError, ValueError, subprocess.TimeoutExpired):
        return ()


def _words(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version)) or "unknown"
