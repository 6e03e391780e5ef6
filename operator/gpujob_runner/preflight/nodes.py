"""The device nodes of a container: those that exist, and those that the program's user may open."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpujob_runner.preflight.refusal import Refusal, refusal

AMD, NVIDIA = "AMD", "NVIDIA"
_CARDS = {AMD: re.compile(r"dri/renderD\d+"), NVIDIA: re.compile(r"nvidia\d+|dxg")}
_OTHERS = {AMD: ("kfd",), NVIDIA: ("nvidiactl", "nvidia-uvm")}


@dataclass(frozen=True)
class Nodes:
    """The nodes of devices (one each), those that refuse this user, and those that fail in another way."""

    cards: tuple[str, ...] = ()
    denied: tuple[Refusal, ...] = ()
    broken: tuple[Refusal, ...] = ()
    lacking: tuple[str, ...] = ()
    """Nodes that no device of this vendor works without and that are not there."""


def open_nodes(vendor: str, root: str = "/dev") -> Nodes:
    """Opens every node of a vendor's devices for reading and writing, as its library would."""
    if vendor not in _CARDS:
        return Nodes()
    cards = [path for path in _below(root) if _CARDS[vendor].fullmatch(os.path.relpath(path, root))]
    others = [os.path.join(root, name) for name in _OTHERS[vendor]]
    there = [path for path in others if os.path.lexists(path)]
    lacking = [path for path in others[:1] if path not in there and vendor == AMD]
    closed = [found for found in map(_try, [*there, *cards]) if found is not None]
    refused = (errno.errorcode[errno.EACCES], errno.errorcode[errno.EPERM])
    return Nodes(
        tuple(cards),
        tuple(each for each in closed if each.error in refused),
        tuple(each for each in closed if each.error not in refused),
        tuple(lacking),
    )


def _below(root: str) -> Iterator[str]:
    for folder in (root, os.path.join(root, "dri")):
        try:
            names: list[str] = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            yield os.path.join(folder, name)


def _try(path: str) -> Refusal | None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return refusal(path, error)
    return None
