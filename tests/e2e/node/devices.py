"""/dev of a node: the few nodes that every system has, and those of its vendor's driver, which is not there.

The simulated nodes are not open to everybody, and they are none of those that every container may open. /dev/kfd has
the number of a driver that opens without effect; the others have numbers without a driver, so opening them gives ENXIO
("No such device or address") exactly where control group and file mode both allow it.
"""

import os
import stat
from pathlib import Path

RENDER_GROUP = 991
"""The group that owns AMD's nodes; no group of that number need exist."""
GPUS = 4
_COMMON = {
    "null": (1, 3, 0o666),
    "zero": (1, 5, 0o666),
    "full": (1, 7, 0o666),
    "random": (1, 8, 0o666),
    "urandom": (1, 9, 0o666),
    "kmsg": (1, 11, 0o600),
    "tty": (5, 0, 0o666),
}
_BTRFS_CONTROL = (10, 234)
_FOR_EXPERIMENTS = range(120, 128)
"""Majors that the kernel's list of devices sets aside for local and experimental use."""
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}


def populate(dev: Path, vendor: str) -> None:
    """Fills an empty /dev; `vendor` is amd or nvidia."""
    for name, (major, minor, mode) in _COMMON.items():
        _make(dev / name, major, minor, mode)
    for name, target in _LINKS.items():
        (dev / name).symlink_to(target)
    major = _without_driver()
    if vendor == "amd":
        _make(dev / "kfd", *_BTRFS_CONTROL, 0o660, RENDER_GROUP)
        (dev / "dri").mkdir(mode=0o755)
        for number in range(GPUS):
            _make(dev / "dri" / f"renderD{128 + number}", major, 128 + number, 0o660, RENDER_GROUP)
    else:
        _make(dev / "nvidiactl", major, 255, 0o666)
        for number in range(GPUS):
            _make(dev / f"nvidia{number}", major, number, 0o666)


def _make(path: Path, major: int, minor: int, mode: int, group: int = 0) -> None:
    os.mknod(path, stat.S_IFCHR | mode, os.makedev(major, minor))
    os.chown(path, 0, group)
    path.chmod(mode)


def _without_driver() -> int:
    text = Path("/proc/devices").read_text().partition("Block devices:")[0]
    taken = {int(line.split()[0]) for line in text.splitlines() if line[:3].strip().isdecimal()}
    return next(major for major in _FOR_EXPERIMENTS if major not in taken)
