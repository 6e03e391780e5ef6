"""The control groups above the pods of a node; both versions of cgroups."""

import time
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PATIENCE = 5.0


def make(name: str) -> None:
    """Makes the group in each hierarchy; the kubelet wants to find it."""
    for hierarchy in _hierarchies():
        (hierarchy / name).mkdir(exist_ok=True)
    if _unified():
        _delegate(_ROOT)
        _delegate(_ROOT / name)


def remove(name: str) -> None:
    """Removes the group with all below it; its processes have ended or are about to."""
    for hierarchy in _hierarchies():
        end = time.monotonic() + _PATIENCE
        while (hierarchy / name).exists():
            _remove_below(hierarchy / name)
            if time.monotonic() > end:
                raise RuntimeError(f"{hierarchy / name} still has processes")
            time.sleep(0.02)


def _remove_below(folder: Path) -> None:
    """Removes what is empty, from below; what still has processes stays."""
    with suppress(OSError):
        for below in [each for each in folder.iterdir() if each.is_dir()]:
            _remove_below(below)
    with suppress(OSError):
        folder.rmdir()


def _unified() -> bool:
    return (_ROOT / "cgroup.controllers").exists()


def _hierarchies() -> list[Path]:
    if _unified():
        return [_ROOT]
    folders = [each for each in _ROOT.iterdir() if each.is_dir() and not each.is_symlink()]
    return [each for each in folders if (each / "cgroup.procs").exists()]


def _delegate(group: Path) -> None:
    controllers = (group / "cgroup.controllers").read_text().split()
    (group / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in controllers))
