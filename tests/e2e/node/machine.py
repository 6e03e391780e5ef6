"""One node from outside: its files, its namespaces, and its first process."""

import ipaddress
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster import Cluster, eventually, processes
from tests.e2e.cluster.nodes import POOLS
from tests.e2e.cluster.processes import Process
from tests.e2e.cluster.state import REPOSITORY, ClusterError, require

from . import cgroups, devices, network, programs, store
from .needs import CNI_PLUGINS
from .slots import Slot

DNS_ADDRESS = "10.96.0.10"
DOMAIN = "gpu.test"
"""Not the usual cluster.local, for nothing may rely on that."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A node to be: its number gives its addresses, its pool the labels that the vendor's labeller writes."""

    number: int
    name: str
    vendor: str
    pool: str

    @property
    def resource(self) -> str:
        """What its device plugin offers."""
        return f"{self.vendor}.com/gpu"

    @property
    def labels(self) -> dict[str, str]:
        """The labels of a node of its kind, on premises."""
        return POOLS[self.pool].gpu.labels(devices.GPUS, "Super-Server")


def prepare(machine: Machine, slot: Slot) -> None:
    """Makes a node's folder, with all images."""
    (slot.dir / machine.name).mkdir()
    store.link(store.build(), slot.dir / machine.name / "containerd")


def start(machine: Machine, machines: tuple[Machine, ...], slot: Slot, cluster: Cluster, switch: Process) -> Process:
    """Starts a prepared node of `cluster`; it is Ready a few seconds later, and ends with the thread that called."""
    folder = slot.dir / machine.name
    cgroups.make(slot.cgroup(machine.name))
    _write_files(machine, machines, slot, cluster, folder)
    namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command = [
        *network.ENDS_WITH_US,
        "unshare",
        *namespaces,
        "--",
        sys.executable,
        "-m",
        "tests.e2e.node.inside",
        str(folder / "plan.json"),
    ]
    environment = {**cluster.environment(), "PYTHONPATH": str(REPOSITORY)}
    process = processes.start(
        _process_name(machine), command, log=_logs(cluster) / f"{machine.name}.log", env=environment
    )
    child = eventually(lambda: _child(process.pid), 10, what=f"the first process of {machine.name}")
    network.plug_in(slot, switch, machine.number, child)
    return process


def pid_of(cluster: Cluster, node: str, program: str) -> int:
    """The process id, on this machine, of a node's kubelet, kube-proxy, containerd or deviceplugin: to send signals to."""
    process = require(cluster.dir).process(f"node-{node}")
    first = _child(process.pid) if process else 0
    for child in _children(first):
        if Path(f"/proc/{child}/comm").read_text().strip() == program:
            return child
    raise ClusterError(f"no {program} runs on {node}")


def _process_name(machine: Machine) -> str:
    return f"node-{machine.name}"


def _child(pid: int) -> int:
    """The child of `unshare`, which is the first process of the new namespace."""
    return next(iter(_children(pid)), 0)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _logs(cluster: Cluster) -> Path:
    return cluster.dir / "logs"


def _write_files(machine: Machine, machines: tuple[Machine, ...], slot: Slot, cluster: Cluster, folder: Path) -> None:
    (folder / "cni").mkdir()
    (folder / "cni" / "10-bridge.conflist").write_text(json.dumps(_cni(slot.pods(machine.number))))
    (folder / "resolv.conf").write_text("")
    (folder / "kubelet.json").write_text(json.dumps(_kubelet(slot.cgroup(machine.name), folder)))
    (folder / "containerd.toml").write_text(_CONTAINERD.format(folder=folder, plugins=CNI_PLUGINS, pause=store.PAUSE))
    others = [each for each in machines if each.number != machine.number]
    plan = {
        "name": machine.name,
        "vendor": machine.vendor,
        "folder": str(folder),
        "logs": str(_logs(cluster)),
        "address": slot.address(machine.number),
        "gateway": slot.host,
        "others": {slot.pods(each.number): slot.address(each.number) for each in others},
        "runtime": str(programs.runtime()),
        "programs": _programs(machine, slot, cluster, folder),
    }
    (folder / "plan.json").write_text(json.dumps(plan))


def _programs(machine: Machine, slot: Slot, cluster: Cluster, folder: Path) -> dict[str, list[str]]:
    kubernetes, own = programs.kubernetes(), programs.own()
    labels = ",".join(f"{key}={value}" for key, value in machine.labels.items())
    return {
        "kubelet": [
            f"{kubernetes}/kubelet",
            f"--kubeconfig={cluster.kubeconfig}",
            f"--config={folder}/kubelet.json",
            f"--hostname-override={machine.name}",
            f"--node-ip={slot.address(machine.number)}",
            f"--node-labels={labels}",
        ],
        "kube-proxy": [
            f"{kubernetes}/kube-proxy",
            f"--kubeconfig={cluster.kubeconfig}",
            f"--hostname-override={machine.name}",
            "--proxy-mode=nftables",
            f"--cluster-cidr={slot.pods(machine.number)}",
        ],
        "deviceplugin": [f"{own}/deviceplugin", f"-resource={machine.resource}", f"-gpus={devices.GPUS}"],
    }


def _kubelet(cgroup: str, folder: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "failSwapOn": False,
        # Device counts reach the API server within a second, not ten.
        "nodeStatusUpdateFrequency": "1s",
        # Only this machine reaches its port, on a switch of its own.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        # The disk is shared with everything else on this machine, and images are not to be fetched again.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "clusterDomain": DOMAIN,
        "clusterDNS": [DNS_ADDRESS],
        "resolvConf": f"{folder}/resolv.conf",
    }


def _cni(pods: str) -> dict[str, object]:
    gateway = str(next(ipaddress.ip_network(pods).hosts()))
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "pods0",
                "isGateway": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": pods, "gateway": gateway}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


_CONTAINERD = """version = 2
root = "{folder}/containerd"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
    runtime_type = "io.containerd.runc.v2"
"""
