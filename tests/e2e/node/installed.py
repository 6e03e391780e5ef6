"""The operator as an admin installs it: the chart with replicas of the built image, on real nodes."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.e2e.api_server import LEASE, PODS, ApiServer, Object
from tests.e2e.chart import CHART, RELEASE
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.node import machine, operator_image, programs
from tests.e2e.node.inside import CONTAINERD
from tests.e2e.operator_process import NAMESPACE

LABEL = "app.kubernetes.io/name=gpujob-operator"


def image(reference: str) -> tuple[str, ...]:
    """The values of an image that is on the nodes."""
    repository, _, tag = reference.rpartition(":")
    return (f"--set=image.repository={repository}", f"--set=image.tag={tag}", "--set=image.pullPolicy=Never")


class Installed:
    """The chart's release, its operator pods and its Lease."""

    def __init__(self, cluster: Cluster, api: ApiServer) -> None:
        self._cluster, self._api = cluster, api

    def helm(self, *words: str) -> str:
        """What helm prints; it must succeed."""
        command = [self._cluster.tool("helm"), *words, f"--namespace={NAMESPACE}"]
        done = subprocess.run(
            command, env=self._cluster.environment(), capture_output=True, text=True, check=False, timeout=180
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{self.why()}"
        return done.stdout

    def install(self, *words: str, chart: Path = CHART, reference: str = operator_image.REFERENCE) -> None:
        """Installs or upgrades to running replicas of an image, and waits until they are ready."""
        self.helm("upgrade", "--install", RELEASE, str(chart), *image(reference), "--wait", "--timeout=90s", *words)
        eventually(lambda: len(self.ready()) == 2, 60, what="two operators that are ready")

    def kubectl(self, *words: str) -> str:
        """What kubectl prints; it must succeed."""
        done = self._api.kubectl(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pods(self) -> list[Object]:
        """The operator's pods that are not about to go."""
        return [
            pod for pod in self._api.items(PODS.format(NAMESPACE), LABEL) if "deletionTimestamp" not in pod["metadata"]
        ]

    def ready(self) -> list[str]:
        """Names of the operator's pods that are ready."""
        return [
            pod["metadata"]["name"]
            for pod in self.pods()
            if any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", []))
        ]

    def node_of(self, pod: str) -> str:
        """Where a pod is."""
        return str(self._api.get(PODS.format(NAMESPACE), pod)["spec"]["nodeName"])

    def holder(self) -> str:
        """Who holds the Lease, as <pod>_<start>; empty if it is free."""
        lease = self._api.find(*LEASE.rsplit("/", 1))
        return str((lease or {}).get("spec", {}).get("holderIdentity") or "")

    def leader(self, instead_of: str = "", timeout: float = 40) -> str:
        """The pod that leads, once that is one of the present ones and no longer the holder `instead_of`."""

        def found() -> str:
            holder = self.holder()
            pod = holder.rpartition("_")[0]
            return pod if holder != instead_of and pod in self.ready() else ""

        return str(eventually(found, timeout, what=f"a leader; the Lease is held by {self.holder()!r}; {self.why()}"))

    def kill(self, pod: str) -> None:
        """kill -9 of the operator in a pod: it has no time to give back its Lease."""
        uid = str(self._api.get(PODS.format(NAMESPACE), pod)["metadata"]["uid"])
        (pid,) = [
            int(folder.name)
            for folder in Path("/proc").glob("[0-9]*")
            if uid in _text(folder / "cgroup") and "gpujob.cluster" in _text(folder / "cmdline")
        ]
        os.kill(pid, signal.SIGKILL)

    def log(self, pod: str) -> str:
        """What an operator has logged since its start."""
        return self.kubectl("logs", pod, f"--namespace={NAMESPACE}")

    def why(self) -> str:
        """What is known of pods that do not start."""
        shown = self._api.kubectl("get", "pods", f"--namespace={NAMESPACE}", "--output=wide").stdout
        logs = self._api.kubectl("logs", f"--selector={LABEL}", f"--namespace={NAMESPACE}", "--tail=30", "--prefix")
        return f"{shown}\n{logs.stdout}{logs.stderr}"


def _text(path: Path) -> str:
    """A file of /proc; empty where its process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def put_image_on_nodes(cluster: Cluster, nodes: tuple[str, ...], archive: Path) -> None:
    """Imports the image of an archive into the containerd of each node."""

    def put(node: str) -> None:
        socket = f"/proc/{machine.pid_of(cluster, node, 'containerd')}/root{CONTAINERD}"
        ctr = str(programs.runtime() / "ctr")
        command = [ctr, "--address", socket, "--namespace", "k8s.io", "images", "import", str(archive)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    with ThreadPoolExecutor() as pool:
        list(pool.map(put, nodes))
