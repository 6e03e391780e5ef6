"""Of a cluster and of what was started for it all ends, and nothing else does."""

import signal
import socket
import sys
from pathlib import Path

import pytest

from . import choice, processes
from .control_plane import signal_component, start_component, stop_component
from .eventually import eventually
from .kwok import free_ports
from .state import ClusterError, load, register_client, require

pytestmark = pytest.mark.e2e


def test_a_killed_process_counts_as_ended_once_its_port_is_free(tmp_path: Path) -> None:
    """The first thread of a killed process is a zombie while others, still ending, hold its sockets."""
    [port] = free_ports(("server",)).values()
    address = f"('127.0.0.1', {port})"
    server = (
        "import socket, threading, time\n"
        f"listening = socket.create_server({address})\n"
        "work = lambda: [sum(range(1000)) for _ in iter(lambda: bytearray(30_000_000), b'')]\n"
        "[threading.Thread(target=work).start() for _ in range(20)]\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    for attempt in range(5):
        log = tmp_path / f"{attempt}.log"
        process = processes.start("server", [sys.executable, "-c", server], log=log)
        eventually(lambda log=log: log.read_text() == "ready\n")  # type: ignore[misc]
        processes.send(process, signal.SIGKILL)
        while process.alive:
            pass
        socket.create_server(("127.0.0.1", port)).close()


def test_a_folder_with_other_things_in_it_is_never_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ClusterError, match="name another folder with CLUSTER_DIR"):
        choice.up(tmp_path, "binaries")
    assert not choice.down(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_down_ends_clients_too_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "short"
    made = choice.up(folder, "binaries")
    watcher = processes.start(
        "watcher",
        [made.tool("kubectl"), "get", "pods", "--watch"],
        log=folder / "logs" / "watcher.log",
        env=made.environment(),
    )
    bystander = processes.start("bystander", ["sleep", "60"], log=tmp_path / "bystander.log")
    register_client(folder, "watcher", watcher.pid)
    stop_component(folder, "kwok")
    start_component(folder, "kwok")
    now = require(folder)
    signal_component(folder, "kube-controller-manager", signal.SIGSTOP)
    assert choice.down(folder)
    assert [each.name for each in (*now.processes, *now.clients, watcher) if each.alive] == []
    assert not folder.exists()
    assert load(folder) is None
    assert bystander.alive
    processes.end([bystander], grace=2)
    assert not choice.down(folder)


def test_a_pid_that_was_used_again_is_left_alone(tmp_path: Path) -> None:
    bystander = processes.start("bystander", ["sleep", "60"], log=tmp_path / "log")
    processes.end([processes.Process("kube-apiserver", bystander.pid, "an earlier time")], grace=0)
    assert bystander.alive
    processes.end([bystander], grace=2)
    assert not bystander.alive
