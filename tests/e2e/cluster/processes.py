"""Starting and ending processes so that only our own are ever touched; used by control_plane, kwok and state.

A pid alone is not an identity, for pids are used again. A process is known by its pid and the moment it started.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Process:
    """One process that was started for a cluster."""

    name: str
    pid: int
    started: str

    @property
    def alive(self) -> bool:
        """Whether exactly this process still runs; a process that ended and was not collected counts as ended."""
        return started_at(self.pid) == self.started


def started_at(pid: int) -> str | None:
    """When `pid` started, in a form only good for comparing; None when no such process runs."""
    if pid in _children and _children[pid].poll() is not None:
        del _children[pid]
        return None
    return _started_at_linux(pid) if sys.platform == "linux" else _started_at_ps(pid)


def _started_at_linux(pid: int) -> str | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, ticks_since_boot = fields[0], fields[19]
    if state in "ZX" and not _threads_left(pid):
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{ticks_since_boot}"


def _threads_left(pid: int) -> bool:
    """Whether threads outlive the first one, which shows as a zombie then: they still hold sockets and files."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def _started_at_ps(pid: int) -> str | None:
    answer = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, moment = answer.stdout.strip().partition(" ")
    return moment.strip() if state and not state.startswith("Z") else None


def start(name: str, command: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None) -> Process:
    """Starts `command` in a session of its own, so that it outlives the caller; both outputs are added to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=dict(os.environ if env is None else env),
        )
    _children[child.pid] = child
    return Process(name, child.pid, started_at(child.pid) or "ended at once")


def send(process: Process, number: int) -> None:
    """Sends a signal to exactly this process; nothing when it has ended."""
    if process.alive:
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return


def end(processes: Iterable[Process], grace: float) -> None:
    """Asks the processes to end, wakes the paused ones, and kills what still runs after `grace` seconds."""
    asked = [process for process in processes if process.alive]
    for process in asked:
        send(process, signal.SIGTERM)
        send(process, signal.SIGCONT)
    if not _gone(asked, grace):
        for process in asked:
            send(process, signal.SIGKILL)
        if not _gone(asked, 5):
            names = ", ".join(f"{process.name} (pid {process.pid})" for process in asked if process.alive)
            raise RuntimeError(f"still running after SIGKILL: {names}")


def _gone(processes: Sequence[Process], timeout: float) -> bool:
    end_of_wait = time.monotonic() + timeout
    while any(process.alive for process in processes):
        if time.monotonic() >= end_of_wait:
            return False
        time.sleep(0.02)
    return True
