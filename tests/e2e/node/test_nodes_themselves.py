"""Clusters of real nodes keep out of each other's way, and what one leaves behind when it is killed goes with the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.api_server import NODES, ApiServer
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.cluster.state import REPOSITORY
from tests.e2e.node.machine import pid_of
from tests.e2e.node.test_who_may_open_devices import RESTRICTED, look, ran
from tests.e2e.node.training import Trainers

pytestmark = [pytest.mark.e2e, pytest.mark.node]


def another() -> subprocess.Popen[str]:
    """`make nodes`, as a person starts it beside the tests."""
    command = [sys.executable, "-m", "tests.e2e.node", "up"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def kubeconfig(process: subprocess.Popen[str]) -> Path:
    """Waits until it is up."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "KUBECONFIG=" in line:
            return Path(line.strip().partition("KUBECONFIG=")[2])
    raise AssertionError("".join(lines))


def processes_of(folder: Path) -> list[str]:
    """Command lines that name a cluster's folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(str(folder) in word for word in words):
            found.append(" ".join(words))
    return found


def traces(folder: Path) -> dict[str, list[str]]:
    """What a cluster in `folder` still has on this machine."""
    number = folder.name
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in line]
    groups = [str(path) for path in Path("/sys/fs/cgroup").rglob(f"gpujob{number}-*")]
    links = [path.name for path in Path("/sys/class/net").glob(f"gpujob{number}")]
    return {"processes": processes_of(folder), "mounts": mounts, "groups": groups, "links": links}


NOTHING: dict[str, list[str]] = {"processes": [], "mounts": [], "groups": [], "links": []}


def test_a_second_cluster_has_a_place_of_its_own_and_leaves_nothing_even_after_a_kill(cluster: Cluster) -> None:
    killed = another()
    folder = kubeconfig(killed).parent
    assert folder != cluster.dir
    killed.kill()
    killed.wait()
    # The kernel ends the nodes with the process that held them; the control plane stays until it is cleaned up.
    eventually(lambda: not any("kubelet.json" in line for line in processes_of(folder)), 10, what="an end of the nodes")

    second = another()
    assert kubeconfig(second).parent == folder
    second.send_signal(signal.SIGINT)
    assert second.wait(60) == 0
    assert traces(folder) == NOTHING
    assert not folder.exists()


def test_pods_reach_the_api_server_by_its_service_and_check_whom_they_reach(team: Trainers) -> None:
    ask = """
import ssl, urllib.request
context = ssl.create_default_context(cafile="/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
print(urllib.request.urlopen("https://kubernetes.default.svc/version", context=context).status)
"""
    restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    own = {"command": ["python3", "-c", ask], "securityContext": RESTRICTED}
    pod = look(
        team.namespace, "asks", "nvidia-0", security=restricted, container=own, automountServiceAccountToken=True
    )
    assert ran(team, pod) == "200\n"


def test_a_device_that_falls_sick_is_not_offered(cluster: Cluster, api: ApiServer) -> None:
    def offered() -> str:
        return str(api.get(NODES, "nvidia-0")["status"]["allocatable"]["nvidia.com/gpu"])

    plugin = pid_of(cluster, "nvidia-0", "deviceplugin")
    os.kill(plugin, signal.SIGUSR1)
    try:
        eventually(lambda: offered() == "3", 20, what="a device less")
    finally:
        os.kill(plugin, signal.SIGUSR2)
    eventually(lambda: offered() == "4", 20, what="all devices")
