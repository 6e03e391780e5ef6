"""Starts KWOK, which answers for the simulated nodes: keeps their leases, runs and ends their pods as stages.yaml says.

Used by all three kinds of cluster. Only nodes with the annotation `kwok.x-k8s.io/node: fake` are touched.
"""

import random
import socket
from pathlib import Path

from . import processes
from .eventually import eventually
from .probe import answers
from .processes import Process
from .state import ClusterError

STAGES = Path(__file__).resolve().parent / "stages.yaml"
# Below the range of outgoing connections: the port of a stopped server stays free until the server starts again.
_PORTS = range(20000, 30000)


def free_ports(names: tuple[str, ...]) -> dict[str, int]:
    """One free port of this machine for each name."""
    ports: dict[str, int] = {}
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(ports) == len(names):
            return ports
        if _is_free(port):
            ports[names[len(ports)]] = port
    raise ClusterError("no free port between 20000 and 30000")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def command(program: Path, kubeconfig: Path, port: int) -> list[str | Path]:
    """The command line of KWOK."""
    return [
        program,
        f"--kubeconfig={kubeconfig}",
        f"--config={STAGES}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        f"--server-address=127.0.0.1:{port}",
    ]


def start(cluster_dir: Path, program: Path, kubeconfig: Path) -> Process:
    """Starts KWOK against any cluster and waits until it is ready."""
    port = free_ports(("kwok",))["kwok"]
    log = cluster_dir / "logs" / "kwok.log"
    process = processes.start("kwok", command(program, kubeconfig, port), log=log)
    eventually(lambda: alive(process, log) and answers(f"http://127.0.0.1:{port}/readyz"), what="KWOK that is ready")
    return process


def alive(process: Process, log: Path) -> bool:
    """True while the process runs; ClusterError with the end of its log when it does not."""
    if process.alive:
        return True
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
    raise ClusterError(f"{process.name} ended; the end of {log}:\n{tail}")
