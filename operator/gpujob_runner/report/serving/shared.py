"""The folder by which the processes of a pod know each other: one file of figures each, and who serves.

A process shows that it lives by a lock on `<pid>.lock`, which the kernel takes away with the process (fcntl locks are not
inherited by forked children). Figures of a process without its lock are removed by the next reader.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import Any

LARGEST_FILE = 256 * 1024
MOST_PROCESSES = 64


class Shared:
    """This process's place in the folder; a folder that cannot be used leaves each process alone."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "report")
        self._own = str(os.getpid())
        self._lock: int | None = None
        self._turn: int | None = None

    def write(self, figures: dict[str, Any]) -> None:
        """Replaces the figures of this process, atomically."""
        if self._lock is None:
            self._join()
        self._put(self._own + ".json", json.dumps(figures))

    def others(self) -> list[dict[str, Any]]:
        """The figures of the other living processes; what cannot be read is left out."""
        found = []
        try:
            names = sorted(name[:-5] for name in os.listdir(self._folder) if name.endswith(".lock"))
        except OSError:
            return []
        for name in [name for name in names if name.isdigit() and name != self._own][:MOST_PROCESSES]:
            if self._lives(name):
                figures = self._figures_of(name)
                if figures is not None:
                    found.append(figures)
            else:
                self._remove(name)
        return found

    def may_serve(self) -> bool:
        """Whether this process is the one to serve: the first to ask, until it ends. True where there is no folder."""
        if self._turn is None:
            try:
                os.makedirs(self._folder, exist_ok=True)
                turn = os.open(self._path("turn"), os.O_RDWR | os.O_CREAT, 0o600)
            except OSError:
                return True
            if not _locked(turn):
                os.close(turn)
                return False
            self._turn = turn
        return True

    def note_port(self, port: int) -> None:
        """Records the served port, for a process that bound any free one."""
        with contextlib.suppress(OSError):
            self._put("port", str(port))

    def leave(self) -> None:
        """Removes the figures of this process."""
        if self._lock is not None:
            self._remove(self._own)
            os.close(self._lock)
            self._lock = None
        if self._turn is not None:
            os.close(self._turn)
            self._turn = None

    def _join(self) -> None:
        """Takes the lock before it gets its name, so that no process finds it unlocked."""
        os.makedirs(self._folder, exist_ok=True)
        fresh = self._path(self._own + ".joining")
        lock = os.open(fresh, os.O_RDWR | os.O_CREAT, 0o600)
        if not _locked(lock):
            os.close(lock)
            raise OSError(f"{fresh} is locked by another process")
        os.replace(fresh, self._path(self._own + ".lock"))
        self._lock = lock

    def _put(self, name: str, text: str) -> None:
        """Writes a file atomically."""
        fresh = self._path(self._own + ".new")
        with open(fresh, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(fresh, self._path(name))

    def _lives(self, name: str) -> bool:
        try:
            lock = os.open(self._path(name + ".lock"), os.O_RDWR)
        except OSError:
            return False
        try:
            return not _locked(lock)
        finally:
            os.close(lock)

    def _figures_of(self, name: str) -> dict[str, Any] | None:
        try:
            with open(self._path(name + ".json"), encoding="utf-8") as file:
                figures = json.loads(file.read(LARGEST_FILE))
        except (OSError, ValueError):
            return None
        return figures if isinstance(figures, dict) else None

    def _remove(self, name: str) -> None:
        for ending in (".json", ".new", ".lock"):
            with contextlib.suppress(OSError):
                os.unlink(self._path(name + ending))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)


def _locked(file: int) -> bool:
    """Takes the lock of an open file for this process; False if another has it."""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
