"""A large fleet as the API server lists it: 10,000 nodes in 100 pools, partly full, and jobs of which no two are alike.

Nodes carry the labels of the real labellers (GPU Feature Discovery, AMD's node labeller, Node Feature Discovery, a
cloud's own), and the 50 images that a kubelet reports, since a cold list is read with all of them. Seeds are fixed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from gpujob.api.manifest import read_gpujob
from gpujob.catalog.catalog import Catalog
from gpujob.catalog.files.load import load_catalog
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.from_manifest import demand_of
from gpujob.values.quantity import GI

Object = dict[str, Any]

NODES_A_POOL: Final = 100
RUNTIMES: Final = 30
GPUS: Final = 8
NAMESPACES: Final = 20


@dataclass(frozen=True, slots=True)
class Device:
    """One model in the terms of its labeller: `memory` is MiB for NVIDIA, GiB for AMD."""

    vendor: str
    product: str
    memory: int
    code: str
    """Compute capability, or PCI device id."""
    units: int = 0


DEVICES: Final = (
    *(
        Device("nvidia", product, memory, compute)
        for product, memory, compute in (
            ("Tesla-T4", 15360, "7.5"), ("Tesla-V100-SXM2-32GB", 32768, "7.0"), ("NVIDIA-A10G", 23028, "8.6"),
            ("NVIDIA-L4", 23034, "8.9"), ("NVIDIA-L40S", 46068, "8.9"), ("NVIDIA-A100-SXM4-40GB", 40960, "8.0"),
            ("NVIDIA-A100-SXM4-80GB", 81920, "8.0"), ("NVIDIA-H100-80GB-HBM3", 81559, "9.0"),
            ("NVIDIA-H200", 143771, "9.0"), ("NVIDIA-B200", 183359, "10.0"), ("NVIDIA-A30", 24576, "8.0"),
            ("NVIDIA-RTX-A6000", 49140, "8.6"),
        )
    ),
    *(
        Device("amd", product, memory, code, units)
        for product, memory, code, units in (
            ("AMD_Instinct_MI100", 32, "738c", 120), ("AMD_Instinct_MI210", 64, "740f", 104),
            ("AMD_Instinct_MI250X", 64, "7408", 110), ("AMD_Instinct_MI300X_OAM", 192, "74a1", 304),
            ("AMD_Instinct_MI325_OAM", 256, "74a5", 304), ("AMD_Instinct_MI355_OAM", 288, "75a3", 256),
            ("AMD_Instinct_MI300X_VF", 192, "74b5", 304), ("AMD_Instinct_MI350_OAM", 288, "75a0", 256),
        )
    ),
)  # fmt: skip
"""Twenty models; each has five pools, one a region."""

REGIONS: Final = ("us-east-1", "us-west-2", "eu-west-1", "ap-south-1", "sa-east-1")


def nodes() -> Iterator[Object]:
    """All nodes, pool after pool."""
    for number, device in enumerate(DEVICES):
        for region in REGIONS:
            for index in range(NODES_A_POOL):
                yield _node(f"{region}-{number:02d}-{index:03d}", number, device, region, index)


def _node(name: str, number: int, device: Device, region: str, index: int) -> Object:
    resource = f"{device.vendor}.com/gpu"
    # No two machines have quite the same memory: the kernel keeps some kilobytes more or less.
    memory = f"{1056 * 1024**2 - 4 * (index % 7)}Ki"
    machine = {"cpu": "128", "memory": memory, "ephemeral-storage": "966367641600", "pods": "250", resource: str(GPUS)}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": f"gpu{number}.48xlarge", "topology.kubernetes.io/region": region,
            "topology.kubernetes.io/zone": f"{region}{'abc'[index % 3]}", "example.com/rack": f"r{index // 8}",
            **_of_device(device), **_of_host(),
        }, "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
        "spec": {"providerID": f"aws:///{region}a/i-{name}", "taints": [
            {"key": resource, "value": "present", "effect": "NoSchedule"}
        ]},
        "status": {
            "capacity": machine, "allocatable": machine,
            "conditions": [{"type": kind, "status": str(kind == "Ready"), "reason": "Kubelet", "message": "as it should be"}
                           for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")],
            "images": [{"names": [f"registry.example/team{i}/image@sha256:{i:064x}", f"registry.example/team{i}/image:{i}"],
                        "sizeBytes": 10**9 + i} for i in range(50)],
            "nodeInfo": {"kernelVersion": "6.8.0", "osImage": "Ubuntu 24.04", "containerRuntimeVersion": "containerd://2.1"},
        },
    }  # fmt: skip


def _of_device(device: Device) -> dict[str, str]:
    if device.vendor == "amd":
        kinds = {"cu-count": device.units, "device-id": device.code, "family": "AI", "product-name": device.product,
                 "simd-count": device.units * 4, "vram": f"{device.memory}G"}  # fmt: skip
        labels = {"amd.com/gpu.driver-version": "6.16.13"}
        for kind, value in kinds.items():
            labels[f"amd.com/gpu.{kind}"] = labels[f"beta.amd.com/gpu.{kind}"] = str(value)
            labels[f"beta.amd.com/gpu.{kind}.{value}"] = str(GPUS)
        return labels
    major, minor = device.code.split(".")
    told = {
        "cuda.driver-version.full": "580.95.05", "cuda.driver-version.major": "580", "cuda.driver-version.minor": "95",
        "cuda.driver-version.revision": "05", "cuda.runtime-version.full": "13.0", "cuda.driver.major": "580",
        "cuda.driver.minor": "95", "cuda.driver.rev": "05", "gfd.timestamp": "1764201600", "gpu.compute.major": major,
        "gpu.compute.minor": minor, "gpu.count": str(GPUS), "gpu.family": "family", "gpu.machine": "Server",
        "gpu.memory": str(device.memory), "gpu.mode": "compute", "gpu.present": "true", "gpu.product": device.product,
        "gpu.replicas": "1", "gpu.sharing-strategy": "none", "mig.capable": "false", "mig.strategy": "single",
        "mps.capable": "false", "vgpu.present": "false",
    }  # fmt: skip
    return {f"nvidia.com/{key}": value for key, value in told.items()}


def _of_host() -> dict[str, str]:
    flags = (
        "ADX",
        "AESNI",
        "AVX",
        "AVX2",
        "AVX512BW",
        "AVX512CD",
        "AVX512DQ",
        "AVX512F",
        "FMA3",
        "SHA",
        "VAES",
        "XSAVE",
    )
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.{flag}": "true" for flag in flags}
    return labels | {"feature.node.kubernetes.io/kernel-version.full": "6.8.0-generic"}


def pods() -> Iterator[Object]:
    """On every node a daemon; on two of three nodes jobs that hold one to eight GPUs."""
    chance = random.Random(1)
    for node in nodes():
        name = node["metadata"]["name"]
        yield pod(f"daemon-{name}", name, {"cpu": "200m", "memory": "256Mi"})
        left = GPUS if chance.random() < 0.67 else 0
        while left > 0:
            gpus = min(left, chance.choice((1, 1, 2, 4, 8)))
            resource = next(key for key in node["status"]["capacity"] if key.endswith("/gpu"))
            asked = {"cpu": str(12 * gpus), "memory": f"{100 * gpus}Gi", resource: str(gpus)}
            yield pod(f"job-{left}-{name}", name, asked)
            left -= gpus if chance.random() < 0.8 else GPUS


def pod(name: str, node: str, requests: dict[str, str], phase: str = "Running") -> Object:
    """A pod of one container that is bound to a node."""
    limits = {key: value for key, value in requests.items() if "/" in key}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "1", "labels": {}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "registry.example/image:1", "resources": {
            "requests": requests, "limits": limits}}]},
        "status": {"phase": phase, "podIP": "10.0.0.1", "containerStatuses": [{"name": "main", "ready": True}]},
    }  # fmt: skip


def catalog() -> Catalog:
    """The shipped catalog with 30 of its images, each with a size of its own, as an admin would write it."""
    shipped = load_catalog()
    cuda = [row for row in shipped.runtimes if row.backend == "CUDA"]
    rocm = [row for row in shipped.runtimes if row.backend == "ROCm"]
    chosen = [*cuda[: RUNTIMES // 2], *rocm[: RUNTIMES - RUNTIMES // 2]]
    return replace(
        shipped, runtimes=tuple(replace(row, size_bytes=8 * GI + i * GI // 4) for i, row in enumerate(chosen))
    )


def gpupools() -> Iterator[Object]:
    """Ten of the pools are an admin's, with prices of his own."""
    for number in (7, 15):
        for region in REGIONS:
            labels = {
                "node.kubernetes.io/instance-type": f"gpu{number}.48xlarge",
                "topology.kubernetes.io/region": region,
            }
            name = f"ours-{number}-{region}"
            yield {
                "apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUPool",
                "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1",
                             "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"nodeSelector": {"matchLabels": labels}, "price": {"perGPUHour": "2.50"}},
            }  # fmt: skip


def quotas() -> Iterator[Object]:
    """Namespaces that may still take a few GPUs, of one vendor or of both."""
    for number in range(NAMESPACES):
        hard = {"requests.nvidia.com/gpu": str(8 + number), "pods": "100"}
        if number % 2:
            hard["requests.amd.com/gpu"] = "16"
        name = f"quota-{number}"
        yield {
            "metadata": {"name": name, "namespace": f"team-{number}", "uid": f"uid-{name}", "resourceVersion": "1"},
            "spec": {"hard": hard}, "status": {"hard": hard, "used": {"requests.nvidia.com/gpu": "4", "pods": "3"}},
        }  # fmt: skip


def demands(count: int) -> list[Demand]:
    """What so many jobs ask, no two alike: sizes differ to the mebibyte, wishes are mixed, one in five has a quota."""
    chance = random.Random(2)
    found = [demand_of(read_gpujob(_manifest(number, chance))) for number in range(count)]
    return [
        replace(each, namespace=f"team-{number % NAMESPACES}") if number % 5 == 0 else each
        for number, each in enumerate(found)
    ]


def _model(number: int, chance: random.Random) -> Object:
    """A model instead of a size; no two sequences are equally long, so that no estimate is made for two jobs."""
    model: Object = {"sequenceLength": 1024 + number, "method": chance.choice(("Full", "LoRA", "Inference"))}
    if chance.random() < 0.5:
        return model | {"parameters": chance.choice(("1B", "8B", "34B", "180B"))}
    return model | {"name": chance.choice(("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B"))}


def _manifest(number: int, chance: random.Random) -> Object:
    spec: Object = {"gpuMemory": f"{chance.choice((12, 20, 36, 60, 70, 120, 170, 250)) * 1024 + number % 1000}Mi"}
    kind = chance.random()
    if kind < 0.15:
        # Of two, one leaves the number of GPUs to what the model needs on each pool.
        spec = {"model": _model(number, chance)} | ({"nodes": 1, "gpusPerNode": 8} if kind < 0.07 else {})
    elif kind < 0.35:
        spec["shapes"] = [{"nodes": 1, "gpusPerNode": 8, "accelerator": "MI300X"}, {"nodes": 2, "gpusPerNode": 8}]
    else:
        spec |= {"nodes": chance.choice((1, 1, 1, 2, 4, 16)), "gpusPerNode": chance.choice((1, 1, 2, 4, 8))}
    placement: Object = {"objective": chance.choice(("Value", "Cost", "Speed"))}
    wishes: tuple[tuple[float, str, Any], ...] = (
        (0.2, "vendors", [chance.choice(("AMD", "NVIDIA"))]),
        (0.2, "accelerators", {"deny": chance.sample(["MI300X", "H100-SXM", "L4", "T4", "A100-80GB"], 2)}),
        (0.3, "maxPricePerHour", f"{chance.choice((2, 8, 40, 200))}.{number % 100:02d}"),
        (0.1, "waitSeconds", 60 + number),
        (0.2, "capacityTypes", ["OnDemand", "Spot"]),
    )
    placement |= {field: value for share, field, value in wishes if chance.random() < share}
    if chance.random() < 0.3:
        spec["framework"] = {"version": f">=2.{chance.choice((9, 10, 11, 12, 13))},<2.{15 + number % 50}"}
    if chance.random() < 0.2:
        spec["requires"] = chance.choice((["BF16"], ["FP8OCP"], ["BF16", "FlashAttention"]))
    if chance.random() < 0.3:
        spec["resources"] = {"cpu": chance.choice((4, 8, 16)), "memory": f"{16 * 1024 + number}Mi"}
    metadata = {"name": f"job-{number}"}
    return {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPUJob",
        "metadata": metadata,
        "spec": spec | {"placement": placement},
    }
