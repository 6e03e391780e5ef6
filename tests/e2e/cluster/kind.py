"""A cluster by kind, where a Docker engine answers; called by choice. kind comes from the Go module of all tools."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from . import binaries, kwok, processes
from .state import Cluster, ClusterError, record, save


def docker_answers() -> bool:
    """Whether a Docker engine, not only its client, is there."""
    if shutil.which("docker") is None:
        return False
    try:
        return subprocess.run(["docker", "info"], capture_output=True, timeout=10, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def name_of(cluster_dir: Path) -> str:
    """kind's name for the cluster of a folder."""
    return f"gpujob-{hashlib.sha256(str(cluster_dir).encode()).hexdigest()[:8]}"


def up(cluster_dir: Path) -> Cluster:
    """A new kind cluster with KWOK beside it."""
    kubeconfig, bin_dir = cluster_dir / "kubeconfig", binaries.build(binaries.CLIENTS)
    cluster = Cluster(kind="kind", dir=cluster_dir, kubeconfig=kubeconfig, bin_dir=bin_dir)
    save(cluster)
    return start_missing(cluster)


def start_missing(cluster: Cluster) -> Cluster:
    """Creates the cluster where kind has not written its kubeconfig, and starts KWOK where it does not run."""
    if not cluster.kubeconfig.exists():
        _kind(
            "create", "cluster", f"--name={name_of(cluster.dir)}", f"--kubeconfig={cluster.kubeconfig}", "--wait=120s"
        )
    process = cluster.process("kwok")
    if process is not None and process.alive:
        return cluster
    return record(cluster.dir, kwok.start(cluster.dir, Path(cluster.tool("kwok")), cluster.kubeconfig))


def down(cluster: Cluster) -> None:
    """Ends the clients, then the cluster."""
    processes.end((*cluster.clients, *cluster.processes), grace=4)
    _kind("delete", "cluster", f"--name={name_of(cluster.dir)}", f"--kubeconfig={cluster.kubeconfig}")


def _kind(*arguments: str) -> None:
    program = binaries.build(binaries.KIND) / "kind"
    if subprocess.run([program, *arguments], check=False).returncode:
        raise ClusterError(f"`kind {' '.join(arguments[:2])}` failed; its own words are above")
