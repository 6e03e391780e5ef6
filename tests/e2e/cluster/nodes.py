"""Simulated GPU nodes as Kubernetes objects: pure functions, used by `up --nodes`, tests and benchmarks.

Labels are those that the real labellers write: AMD's node labeller with the GPU Operator's arguments on nodes of one
kind of GPU, NVIDIA's GPU Feature Discovery, and the cloud's own for instance type, region and zone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Amd:
    """One AMD device as the node labeller sees it; on an MI250X a device is one of the card's two dies."""

    device_id: str
    product: str
    vram_gib: int
    compute_units: int

    resource = "amd.com/gpu"

    def labels(self, count: int, machine: str) -> dict[str, str]:
        """All labels of a node with `count` of these and no others; the driver's version has no counting twin."""
        kinds = {
            "cu-count": str(self.compute_units),
            "device-id": self.device_id,
            "family": "AI",
            "product-name": self.product,
            "simd-count": str(self.compute_units * 4),
            "vram": f"{self.vram_gib}G",
        }
        labels = {"amd.com/gpu.driver-version": "6.16.13"}
        for key, value in kinds.items():
            labels[f"amd.com/gpu.{key}"] = value
            labels[f"beta.amd.com/gpu.{key}"] = value
            labels[f"beta.amd.com/gpu.{key}.{value}"] = str(count)
        return labels


@dataclass(frozen=True, slots=True)
class Nvidia:
    """One NVIDIA GPU as GPU Feature Discovery sees it."""

    product: str
    memory_mib: int
    family: str
    compute: tuple[int, int]
    mig: bool

    resource = "nvidia.com/gpu"

    def labels(self, count: int, machine: str) -> dict[str, str]:
        """All labels of a node with `count` of these, neither shared nor sliced, under the GPU Operator's defaults."""
        labels = {
            "cuda.driver-version.full": "580.95.05",
            "cuda.driver-version.major": "580",
            "cuda.driver-version.minor": "95",
            "cuda.driver-version.revision": "05",
            "cuda.driver.major": "580",
            "cuda.driver.minor": "95",
            "cuda.driver.rev": "05",
            "cuda.runtime-version.full": "13.0",
            "cuda.runtime-version.major": "13",
            "cuda.runtime-version.minor": "0",
            "cuda.runtime.major": "13",
            "cuda.runtime.minor": "0",
            "gfd.timestamp": "1764201600",
            "gpu.compute.major": str(self.compute[0]),
            "gpu.compute.minor": str(self.compute[1]),
            "gpu.count": str(count),
            "gpu.family": self.family,
            "gpu.machine": machine,
            "gpu.memory": str(self.memory_mib),
            "gpu.mode": "compute",
            "gpu.present": "true",
            "gpu.product": self.product,
            "gpu.replicas": "1",
            "gpu.sharing-strategy": "none",
            "mig.capable": str(self.mig).lower(),
            "mig.strategy": "single",
            "mps.capable": "false",
            "vgpu.present": "false",
        }
        return {f"nvidia.com/{key}": value for key, value in labels.items()}


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes of one kind. `instance` is empty on premises, which have no instance type and no region."""

    gpu: Amd | Nvidia
    gpus: int
    cpus: int
    memory_gib: int
    disk_gib: int
    instance: str = ""
    region: str = ""
    zones: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    tainted: bool = False
    """With the taint that most clusters put on their dear GPUs: `<resource>=present:NoSchedule`."""


def _aws(pool: str) -> dict[str, str]:
    return {"eks.amazonaws.com/capacityType": "ON_DEMAND", "eks.amazonaws.com/nodegroup": pool}


_VIRGINIA = ("us-east-1a", "us-east-1b")
_MI210 = Amd("740f", "AMD_Instinct_MI210", 64, 104)
_MI250X = Amd("7408", "AMD_Instinct_MI250X", 64, 110)
_MI300X = Amd("74a1", "AMD_Instinct_MI300X_OAM", 192, 304)
_MI300X_VF = Amd("74b5", "AMD_Instinct_MI300X_VF", 192, 304)
_H100 = Nvidia("NVIDIA-H100-80GB-HBM3", 81559, "hopper", (9, 0), mig=True)
_A100 = Nvidia("NVIDIA-A100-SXM4-80GB", 81920, "ampere", (8, 0), mig=True)
_A100_40 = Nvidia("NVIDIA-A100-SXM4-40GB", 40960, "ampere", (8, 0), mig=True)
_L4 = Nvidia("NVIDIA-L4", 23034, "ada-lovelace", (8, 9), mig=False)
_T4 = Nvidia("Tesla-T4", 15360, "turing", (7, 5), mig=False)

POOLS: dict[str, Pool] = {
    "mi300x": Pool(
        _MI300X_VF,
        gpus=8,
        cpus=96,
        memory_gib=1850,
        disk_gib=1000,
        instance="Standard_ND96isr_MI300X_v5",
        region="eastus2",
        zones=("eastus2-1",),
        labels={"kubernetes.azure.com/agentpool": "mi300x"},
        tainted=True,
    ),
    "mi300x-oci": Pool(
        _MI300X,
        gpus=8,
        cpus=224,
        memory_gib=2048,
        disk_gib=1000,
        instance="BM.GPU.MI300X.8",
        region="us-chicago-1",
        zones=("US-CHICAGO-1-AD-1",),
        tainted=True,
    ),
    "mi210": Pool(_MI210, gpus=4, cpus=128, memory_gib=512, disk_gib=1800),
    "mi250x": Pool(_MI250X, gpus=8, cpus=128, memory_gib=512, disk_gib=1800),
    "h100": Pool(_H100, 8, 192, 2048, 1000, "p5.48xlarge", "us-east-1", _VIRGINIA, _aws("h100"), tainted=True),
    "a100": Pool(_A100, 8, 96, 1152, 1000, "p4de.24xlarge", "us-east-1", _VIRGINIA, _aws("a100"), tainted=True),
    "a100-40": Pool(_A100_40, 8, 96, 1152, 1000, "p4d.24xlarge", "us-east-1", _VIRGINIA, _aws("a100-40"), tainted=True),
    "l4": Pool(_L4, 4, 48, 192, 500, "g6.12xlarge", "us-east-1", _VIRGINIA, _aws("l4")),
    "t4": Pool(_T4, 4, 48, 192, 500, "g4dn.12xlarge", "us-east-1", _VIRGINIA, _aws("t4")),
}


def default_fleet() -> dict[str, int]:
    """A small mixed fleet: 116 devices of seven models on 19 nodes."""
    return {"mi300x": 2, "mi210": 3, "mi250x": 2, "h100": 3, "a100": 3, "l4": 3, "t4": 3}


def simulated_nodes(fleet: Mapping[str, int]) -> list[Node]:
    """The nodes of a fleet, as a map of pool to number of nodes. Equal fleets give equal nodes."""
    return [_node(pool, index) for pool, count in fleet.items() for index in range(count)]


def node_list(nodes: Iterable[Node]) -> dict[str, Any]:
    """The nodes as one v1 List, for `kubectl create -f -`."""
    return {"apiVersion": "v1", "kind": "List", "items": list(nodes)}


def _node(name: str, index: int) -> Node:
    pool = POOLS[name]
    hostname = f"{name}-{index}"
    taint = {"key": pool.gpu.resource, "value": "present", "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": hostname,
            "labels": _labels(pool, hostname, index),
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": [taint]} if pool.tainted else {},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": _address(name, index)},
                {"type": "Hostname", "address": hostname},
            ],
            "capacity": _resources(pool, reserved=False),
            "allocatable": _resources(pool, reserved=True),
            "nodeInfo": _NODE_INFO,
        },
    }


def _labels(pool: Pool, hostname: str, index: int) -> dict[str, str]:
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": hostname,
        "kubernetes.io/os": "linux",
    }
    if pool.instance:
        labels["node.kubernetes.io/instance-type"] = pool.instance
        labels["topology.kubernetes.io/region"] = pool.region
        labels["topology.kubernetes.io/zone"] = pool.zones[index % len(pool.zones)]
    return labels | dict(pool.labels) | pool.gpu.labels(pool.gpus, pool.instance or "Super-Server")


def _address(name: str, index: int) -> str:
    """An address of 10.64.0.0/10 that no other node has: 64 pools of 65,536 nodes."""
    number = list(POOLS).index(name)
    return f"10.{64 + number}.{index // 256 % 256}.{index % 256}"


def _resources(pool: Pool, *, reserved: bool) -> dict[str, str]:
    """What a node has, or the part of it that is left for pods, in the forms and odd figures that a kubelet writes."""
    memory_ki = pool.memory_gib * 1024 * 1024 * 98 // 100 - 212
    disk_ki = pool.disk_gib * 1024 * 1024 - 2060
    return {
        "cpu": f"{pool.cpus * 1000 - 250}m" if reserved else str(pool.cpus),
        "memory": f"{memory_ki - 4 * 1024 * 1024 if reserved else memory_ki}Ki",
        "ephemeral-storage": str(disk_ki * 1024 * 9 // 10) if reserved else f"{disk_ki}Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "pods": "110",
        pool.gpu.resource: str(pool.gpus),
    }


_NODE_INFO = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "containerd://2.1.4",
    "kernelVersion": "6.8.0-79-generic",
    "kubeProxyVersion": "",
    "kubeletVersion": "v1.37.2",
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "Ubuntu 24.04.3 LTS",
    "systemUUID": "",
}
