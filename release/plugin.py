"""The command line as a plugin for krew: an archive for each platform, and the manifest that names them.

https://krew.sigs.k8s.io/docs/developer-guide/. PyInstaller puts Python and the locked dependencies into the archive, so that users
need neither; it makes a program for the machine that it runs on. The licences of all parts are in the archive too.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

NAME: Final = "gpujob"
PROGRAM: Final = f"kubectl-{NAME}"
ENTRY: Final = Path(__file__).parent / "plugin_entry.py"
_ROOT: Final = Path(__file__).resolve().parents[1]
_CPUS: Final = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_LICENCES: Final = ("LICEN", "COPYING", "NOTICE", "AUTHORS")


@dataclass(frozen=True, slots=True)
class Archive:
    """A built archive: its file name, the platform in krew's words, and the SHA-256 of its bytes."""

    name: str
    system: str
    cpu: str
    sha256: str


def build(folder: Path, version: str) -> Path:
    """Makes the archive for this machine in `folder`; its path. This Python must have the command line and PyInstaller."""
    tree, work = folder / PROGRAM, folder / "build"
    shutil.rmtree(tree, ignore_errors=True)
    command = [
        sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level=WARN", "--onedir", f"--name={PROGRAM}",
        # The catalog is data of the package; the runner's files are what `render` makes a ConfigMap of.
        "--collect-data=gpujob", f"--add-data={_ROOT / 'operator' / 'gpujob_runner'}:gpujob_runner",
        # Named by text: rich loads its tables of Unicode by the version, pydantic its core.
        "--collect-submodules=rich._unicode_data", f"--distpath={folder}", f"--workpath={work}", f"--specpath={work}", str(ENTRY),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    shutil.rmtree(work)
    shutil.copyfile(_ROOT / "LICENSE", tree / "LICENSE")
    _copy_licences(tree / "LICENSES")
    path = folder / f"{PROGRAM}-v{version}-{_system()}-{_cpu()}.tar.gz"
    path.write_bytes(packed(tree))
    shutil.rmtree(tree)
    return path


def packed(tree: Path) -> bytes:
    """The files of a folder as .tar.gz; the bytes depend on names, contents and rights to execute alone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            entry = tarfile.TarInfo(str(path.relative_to(tree)))
            if path.is_symlink():
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, os.readlink(path), 0o755
                archive.addfile(entry)
            elif path.is_file():
                # Each name is a file of its own: krew unpacks no links between names.
                entry.size, entry.mode = path.stat().st_size, 0o755 if path.stat().st_mode & 0o100 else 0o644
                with path.open("rb") as content:
                    archive.addfile(entry, content)
    return gzip.compress(buffer.getvalue(), mtime=0)


def read_archive(path: Path) -> Archive:
    """What a file name and its bytes say of an archive that `build` made."""
    system, cpu = path.name.removesuffix(".tar.gz").rsplit("-", 2)[-2:]
    return Archive(path.name, system, cpu, hashlib.sha256(path.read_bytes()).hexdigest())


def manifest(version: str, address: str, archives: Iterable[Archive]) -> dict[str, Any]:
    """The plugin's manifest; the archives are below `address`."""
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": NAME},
        "spec": {
            "version": f"v{version}",
            "homepage": "https://gpujob.dev",
            "shortDescription": "Plan and explain PyTorch jobs on GPUs",
            "description": (
                "Says where a PyTorch job would run on the AMD and NVIDIA GPUs of a cluster, why there, and for how much, as\n"
                "gpujob-operator decides it; shows running jobs, their logs and costs; finds what keeps jobs from the GPUs.\n"
            ),
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": each.system, "arch": each.cpu}},
                    "uri": f"{address}/{each.name}",
                    "sha256": each.sha256,
                    "files": [{"from": "*", "to": "."}],
                    "bin": PROGRAM,
                }
                for each in sorted(archives, key=lambda each: each.name)
            ],
        },
    }


def _copy_licences(folder: Path) -> None:
    """The licences of the distributions that this Python has, and of Python itself."""
    for each in distributions():
        name = each.metadata["Name"].lower()
        for file in each.files or ():
            if any(word in file.name.upper() for word in _LICENCES) and not file.suffix.startswith(".py"):
                licence = Path(str(each.locate_file(file)))
                if licence.is_file():
                    (folder / name).mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(licence, folder / name / file.name)
    places = (Path(shutil.__file__).parent / "LICENSE.txt", Path(sys.base_prefix) / "LICENSE.txt")
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise FileNotFoundError(f"this Python has no licence to pack at {' or '.join(map(str, places))}")
    (folder / "python").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(found, folder / "python" / "LICENSE.txt")


def _system() -> str:
    return platform.system().lower()


def _cpu() -> str:
    return _CPUS[platform.machine()]
