"""The folders that images are made of: Debian's packages unpacked, never installed, and a shell.

A tree has what its packages need and nothing of a Debian system beyond that, so it is small; its Python is the one that
this machine's Debian has.
"""

import compileall
import os
import shutil
import subprocess
from pathlib import Path
from py_compile import PycInvalidationMode

from tests.e2e.cluster.state import ClusterError

_PYTHON = ("python3", "libstdc++6", "libgomp1")
_MERGED = ("bin", "sbin", "lib", "lib64")
_UNUSED = ("usr/share/doc", "usr/share/locale", "usr/share/man", "usr/share/lintian", "var/cache", "var/lib/apt")


def shell(tree: Path) -> None:
    """A tree with busybox under all its names, as far as the tree has no better program of that name."""
    _skeleton(tree)
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, tree / "usr/bin/busybox")
    names = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    for name in names:
        if not os.path.lexists(tree / "usr/bin" / name):
            (tree / "usr/bin" / name).symlink_to("busybox")


def python(tree: Path) -> str:
    """A tree with Debian's Python, a shell and what wheels expect of a system; gives the version, such as 3.11."""
    _skeleton(tree)
    _unpack(_PYTHON, tree)
    shell(tree)
    (tree / "usr/bin/python").symlink_to("python3")
    version = os.readlink(tree / "usr/bin/python3").removeprefix("python")
    # Nothing is compiled at a start: an image has a root file system that cannot be written.
    compileall.compile_dir(tree / "usr/lib", quiet=2, workers=0, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    return version


def _skeleton(tree: Path) -> None:
    for name in ("usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "tmp", "proc", "sys", "dev", "run"):
        (tree / name).mkdir(parents=True, exist_ok=True)
    (tree / "tmp").chmod(0o1777)
    for name in _MERGED:
        if not os.path.lexists(tree / name):
            (tree / name).symlink_to(f"usr/{name}")
    (tree / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    (tree / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")


def _unpack(packages: tuple[str, ...], tree: Path) -> None:
    """Fetches packages with all that they need, and unpacks them."""
    archives = tree.with_name(f"{tree.name}-packages")
    (archives / "partial").mkdir(parents=True)
    # To apt it looks as if nothing were installed.
    options = ("Dir::State::status=/dev/null", f"Dir::Cache::archives={archives}", "Debug::NoLocking=1")
    wanted = ["--yes", "--quiet", "--download-only", "--no-install-recommends", *packages]
    fetch = ["apt-get", *(f"--option={each}" for each in options), "install", *wanted]
    if subprocess.run(fetch, check=False, capture_output=True).returncode:
        # A new machine knows no packages yet.
        subprocess.run(["apt-get", "update", "--quiet=2"], check=False)
        done = subprocess.run(fetch, check=False, capture_output=True, text=True)
        if done.returncode:
            raise ClusterError(f"packages for images could not be fetched: {done.stderr.strip()}")
    for archive in sorted(archives.glob("*.deb")):
        unpacked = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE)
        extract = ["tar", "--extract", "--keep-directory-symlink", "--directory", str(tree)]
        subprocess.run(extract, stdin=unpacked.stdout, check=True)
        if unpacked.wait():
            raise ClusterError(f"{archive.name} could not be unpacked")
    shutil.rmtree(archives)
    for unused in _UNUSED:
        shutil.rmtree(tree / unused, ignore_errors=True)
