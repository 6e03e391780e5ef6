"""The cluster that the user's kubeconfig names (CLUSTER=existing); called by choice. Installs nothing unasked."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from . import binaries, kwok, processes
from .state import Cluster, ClusterError, record, save


def up(cluster_dir: Path) -> Cluster:
    """The user's cluster, when it answers."""
    bin_dir = None if shutil.which("kubectl") else binaries.build(binaries.CLIENTS)
    cluster = Cluster(kind="existing", dir=cluster_dir, kubeconfig=named_kubeconfig(), bin_dir=bin_dir)
    cluster = replace(cluster, server=server_of(cluster))
    require_answer(cluster)
    save(cluster)
    return start_missing(cluster)


def start_missing(cluster: Cluster) -> Cluster:
    """Looks whether the cluster answers; with CLUSTER_KWOK=1 KWOK is started, as a process on this machine."""
    require_answer(cluster)
    process = cluster.process("kwok")
    if os.environ.get("CLUSTER_KWOK") != "1" or (process is not None and process.alive):
        return cluster
    program = binaries.build(binaries.CLIENTS) / "kwok"
    return record(cluster.dir, kwok.start(cluster.dir, program, cluster.kubeconfig))


def down(cluster: Cluster) -> None:
    """Ends what runs on this machine; the user's cluster stays as it is."""
    processes.end((*cluster.clients, *cluster.processes), grace=4)


def named_kubeconfig() -> Path:
    """The file that KUBECONFIG names, or ~/.kube/config."""
    named = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if os.pathsep in named:
        raise ClusterError("KUBECONFIG names several files: merge them with `kubectl config view --flatten`")
    path = Path(named).expanduser().absolute()
    if not path.is_file():
        raise ClusterError(f"CLUSTER=existing needs a kubeconfig, and {path} is not a file: set KUBECONFIG")
    return path


def server_of(cluster: Cluster) -> str:
    """The address that the kubeconfig's current context names."""
    return _kubectl(cluster, "config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}").stdout


def why_silent(cluster: Cluster) -> str:
    """Why the API server does not answer; empty when it does."""
    asked = _kubectl(cluster, "get", "--raw=/readyz")
    if asked.returncode == 0:
        return ""
    return (asked.stderr.strip().splitlines() or ["it gave no reason"])[-1]


def require_answer(cluster: Cluster) -> None:
    """ClusterError, in one sentence, when the API server does not answer."""
    why = why_silent(cluster)
    if why:
        raise ClusterError(f"the cluster of {cluster.kubeconfig} ({cluster.server}) does not answer: {why}")


def _kubectl(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [cluster.tool("kubectl"), f"--kubeconfig={cluster.kubeconfig}", "--request-timeout=5s", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
