"""Clusters and jobs for properties: plausible ones, odd ones and hostile ones."""

from __future__ import annotations

import copy
import json
import re
from typing import Any, Final

import orjson
from builders import A100, H100, L4, MI210, MI250X, MI300X, T4, Object, gpupool, manifest, node, pod, runtime_class
from hypothesis import strategies as st

from gpujob.placement.report import decision_json
from gpujob.placement.scoring.candidate import Fix

DEVICES: Final = (MI300X, MI210, MI250X, H100, A100, L4, T4)
RESOURCES: Final = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "amd.com/cpx_nps4",
    "nvidia.com/mig-1g.5gb",
    "nvidia.com/gpu.shared",
    "amd.com/spx_nps1",
    "nvidia.com/mig-3g.40gb",
    "nvidia.com/mig-1g.5gb.shared",
)

junk = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just([]), st.just({}))
odd_values = st.one_of(
    st.sampled_from(
        [
            "",
            "0",
            "8",
            "-1",
            "8.5",
            "1e3",
            "1e30",
            "many",
            "9" * 20,
            "192G",
            "81559",
            "true",
            "{}",
            "{0}",
            "24G",
            "cpx_nps4",
            "1g.5gb",
            "NVIDIA-H100-80GB-HBM3-SHARED",
            "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
            "time-slicing",
            "74a1",
            "l4",
        ]
    ),
    st.text(max_size=12),
)
device_labels = st.sampled_from(
    [
        "amd.com/gpu.vram", "amd.com/gpu.device-id", "amd.com/gpu.product-name", "beta.amd.com/gpu.vram.64G",
        "beta.amd.com/gpu.device-id.740f", "amd.com/gpu.driver-version", "amd.com/gpu.compute-memory-partition",
        "nvidia.com/gpu.product", "nvidia.com/gpu.memory", "nvidia.com/gpu.count", "nvidia.com/gpu.replicas",
        "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor", "nvidia.com/cuda.driver-version.full",
        "nvidia.com/cuda.driver.major", "nvidia.com/mig.config.state", "cloud.google.com/gke-accelerator",
        "karpenter.k8s.aws/instance-gpu-name", "karpenter.sh/capacity-type", "kubernetes.io/arch",
        "node.kubernetes.io/instance-type", "topology.kubernetes.io/region", "amd.com/compute-memory-partition",
        "amd.com/gpu.vram.24G", "amd.com/gpu.device-id.74a5", "amd.com/gpu.cu-count", "amd.com/gpu.cu-count.38",
        "nvidia.com/gpu.sharing-strategy", "nvidia.com/mig-1g.5gb.memory", "nvidia.com/mig-1g.5gb.replicas",
        "nvidia.com/mig.strategy", "cloud.google.com/gke-gpu-partition-size", "k8s.amazonaws.com/accelerator",
        "cloud.google.com/gke-gpu-sharing-strategy", "cloud.google.com/gke-max-shared-clients-per-gpu",
        "karpenter.k8s.aws/instance-gpu-memory", "karpenter.azure.com/sku-gpu-name",
        "feature.node.kubernetes.io/amd-gpu-mi300x",
    ]
)  # fmt: skip
taints = st.sampled_from(
    ["nvidia.com/gpu=present:NoSchedule", "team=x:NoSchedule", "team=x:PreferNoSchedule", "amd-dcm=up:NoExecute"]
)
handlers = st.sampled_from([None, None, None, ("", "runc"), ("", "nvidia"), ("nvidia", "nvidia-cdi")])
prices = st.one_of(st.none(), st.sampled_from(["1", "2.5", "0", "free", "-1", "0.1/h"]))


upkeep = st.sampled_from(
    [
        {},
        {},
        {},
        {"cloud.google.com/scheduled-maintenance-time": "1783000000"},
        {"amd.com/nic-health": "failed", "nvidia.com/gpu.deploy.operands": "false"},
    ]
)
"""Labels of nodes of which maintenance is announced, or a fault is reported."""

unlike = st.sampled_from(
    [
        {},
        {},
        {},
        {"karpenter.sh/capacity-type": "spot"},
        {"karpenter.sh/capacity-type": "reserved", "nvidia.com/cuda.driver-version.full": "550.54.15"},
        {"nvidia.com/cuda.driver-version.full": "470.10.1", "amd.com/gpu.driver-version": "5.16.9"},
        {"nvidia.com/cuda.driver-version.full": None, "amd.com/gpu.driver-version": None},
    ]
)
"""Labels that make a node of a pool unlike the others."""


@st.composite
def good_nodes(draw: st.DrawFn, name: str) -> Object:
    """A node as a real labeller leaves it, in any state."""
    gpu = draw(st.sampled_from(DEVICES))
    count = draw(st.sampled_from([1, 2, 4, 8]))
    healthy = draw(st.integers(0, count)) if draw(st.booleans()) else count
    memory = draw(st.sampled_from(["16Gi", "256Gi", "1024Gi"]))
    return node(
        name, gpu, count, allocatable={gpu.resource: str(healthy), "memory": memory}, capacity={"memory": memory},
        handlers=draw(handlers),
        taints=draw(st.lists(taints, max_size=2, unique=True)), ready=draw(st.sampled_from([True, True, True, False])),
        cordoned=draw(st.sampled_from([False, False, False, True])), price=draw(prices),
        labels={"pool": draw(st.sampled_from(["a", "b", "c"])), **draw(upkeep), **draw(unlike)},
    )  # fmt: skip


@st.composite
def cut_nodes(draw: st.DrawFn, name: str) -> Object:
    """A node whose devices are cut or shared, labelled as the labellers do, or before that was done."""
    gpu, devices, labels = draw(
        st.sampled_from(
            [
                (MI300X, {"amd.com/cpx_nps4": "64"}, {}),
                (MI300X, {"amd.com/gpu": "64"}, {"amd.com/gpu.compute-memory-partition": "cpx_nps4"}),
                (MI300X, {"amd.com/gpu": "8", "amd.com/cpx_nps4": "64"}, {}),
                (MI300X, {"amd.com/spx_nps1": "4", "amd.com/cpx_nps4": "32"}, {}),
                (A100, {"nvidia.com/mig-1g.10gb": "56"}, {"nvidia.com/mig.strategy": "mixed"}),
                (H100, {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "28"}, {"nvidia.com/mig.strategy": "mixed"}),
                (H100, {"nvidia.com/gpu": "32"}, {"nvidia.com/gpu.replicas": "4"}),
                (T4, {"nvidia.com/gpu.shared": "32"}, {"nvidia.com/gpu.sharing-strategy": "mps"}),
            ]
        )
    )
    pools = {"pool": draw(st.sampled_from(["a", "b", "c"]))}
    return node(name, gpu, 8, devices=devices, labels={**labels, **pools}, price=draw(prices))


@st.composite
def odd_nodes(draw: st.DrawFn, name: str) -> Object:
    """A node with invented labels and figures."""
    gpu = draw(st.sampled_from([None, *DEVICES]))
    devices = draw(st.dictionaries(st.sampled_from(RESOURCES), odd_values | st.integers(-1, 100), max_size=3))
    found = node(
        name, gpu, draw(st.integers(0, 9)), labels=draw(st.dictionaries(device_labels, odd_values, max_size=6)),
        allocatable=devices, capacity=draw(st.just({}) | st.just(devices)), price=draw(prices | st.text(max_size=5)),
    )  # fmt: skip
    if draw(st.booleans()):
        part = draw(st.sampled_from(["spec", "status", "metadata"]))
        members = list(found[part]) or ["taints"]
        found[part] = {**found[part], draw(st.sampled_from(members)): draw(junk)}
        found["metadata"]["name"] = name
    return found


@st.composite
def clusters(draw: st.DrawFn, odd: bool = True, admin: bool = True, most: int = 5) -> list[Object]:
    """Nodes, pods on them, sometimes GPUPools that claim some, and a RuntimeClass whose handler not all of them have."""
    names = [f"n{number}" for number in range(draw(st.integers(1, most)))]
    kinds = [good_nodes, cut_nodes, odd_nodes] if odd else [good_nodes, cut_nodes]
    nodes = [draw(draw(st.sampled_from(kinds))(name)) for name in names]
    amounts = odd_values if odd else st.sampled_from(["1", "2", "4"])
    pods = [
        pod(
            f"p{number}", draw(st.sampled_from(names)), {draw(st.sampled_from(RESOURCES[:2])): draw(amounts)},
            draw(st.sampled_from(["Running", "Pending", "Succeeded", "Failed"])), memory=draw(amounts),
            cpu=draw(st.sampled_from(["100m", "1", "64", "127.9"])),
        )
        for number in range(draw(st.integers(0, 4)))
    ]  # fmt: skip
    pools = draw(st.lists(admin_pools(), max_size=2, unique_by=lambda pool: pool["metadata"]["name"])) if admin else []
    classes = draw(st.sampled_from([[], [], [runtime_class("nvidia", "nvidia")], [runtime_class("nvidia", ["runc"])]]))
    return [*nodes, *pods, *pools, *classes]


@st.composite
def admin_pools(draw: st.DrawFn) -> Object:
    """A GPUPool of an admin, who may be wrong."""
    spec: dict[str, Any] = {}
    if draw(st.booleans()):
        spec["accelerator"] = draw(st.sampled_from(["MI300X", "H100-SXM", "L4", "H1000"]))
    if draw(st.booleans()):
        spec["resourceName"] = draw(st.sampled_from(RESOURCES[:3]))
    if draw(st.booleans()):
        spec["price"] = draw(
            st.sampled_from(
                [
                    {"perGPUHour": "3"},
                    {"perNodeHour": "16"},
                    {"perGPUHour": 0},
                    {"ownership": {"gpuPurchase": 9000, "years": 3}},
                ]
            )
        )
    if draw(st.booleans()):
        spec["tolerations"] = [{"key": "team"}]
    if draw(st.booleans()):
        spec["runtimeClassName"] = "nvidia"
    label = draw(st.sampled_from(["a", "b", "c"]))
    created = draw(st.sampled_from(["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"]))
    return gpupool(draw(st.sampled_from(["x", "y", "l4-ondemand"])), {"pool": label}, created, **spec)


@st.composite
def specs(draw: st.DrawFn, pools: bool = True) -> Object:
    """The spec of a job; each member is there or not."""
    placement: dict[str, Any] = _some(
        draw,
        vendors=st.sampled_from([["AMD"], ["NVIDIA"], ["AMD", "NVIDIA"]]),
        accelerators=st.sampled_from([{"allow": ["MI300X"]}, {"deny": ["L4", "T4"]}, {"allow": ["H100-SXM", "MI210"]}]),
        maxPricePerHour=st.sampled_from(["0", "1", "2.5", "20", 40]),
        devices=st.sampled_from([["Partition"], ["Whole", "Partition", "Shared"], ["Integrated", "Shared"]]),
        capacityTypes=st.sampled_from([["Spot"], ["OnDemand"]]),
        objective=st.sampled_from(["Value", "Cost", "Speed"]),
    )
    if pools and draw(st.integers(0, 9)) == 0:
        placement["pools"] = draw(st.sampled_from([{"allow": ["mi300x-ondemand"]}, {"deny": ["l4-ondemand"]}]))
    spec = _some(
        draw,
        nodes=st.integers(1, 4),
        gpusPerNode=st.sampled_from([1, 2, 4, 8, 9]),
        gpuMemory=st.sampled_from(["16G", "40Gi", "80G", "80Gi", "191Gi", "1T", 10**9]),
        requires=st.sampled_from([["BF16"], ["FP8OCP"], ["BF16", "FlashAttention"], ["BF61"]]),
        resources=st.sampled_from(
            [{"cpu": "4"}, {"cpu": 500}, {"memory": "8Gi", "sharedMemory": "4Gi"}, {"memory": "900Gi"},
             {"memory": "9999Gi"}, {"ephemeralStorage": "100Gi"}, {"ephemeralStorage": "9999Gi"}]
        ),
        framework=st.sampled_from([{"version": ">=2.10"}, {"version": ">=9"}, {"python": ">=3.99"}, {"name": "jax"}]),
        images=st.sampled_from([{"cuda": {"image": "own:1"}}, {"rocm": {"image": "own:1", "runtime": "none"}}]),
        securityContext=st.just({"runAsUser": 0}),
    )  # fmt: skip
    return spec | ({"placement": placement} if placement else {})


def _some(draw: st.DrawFn, **members: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Each member with a chance of a sixth."""
    return {name: draw(values) for name, values in members.items() if draw(st.integers(0, 5)) == 0}


def manifests(spec: Object) -> Object:
    """The job's document."""
    return manifest("job", **spec)


def mended(document: Object, fix: Fix) -> Object:
    """The manifest with all changes of a fix, as JSON has them."""
    changed = copy.deepcopy(document)
    for each in fix.changes:
        change = json.loads(orjson.dumps(decision_json.change_document(each)))
        set_at(changed, change["field"], change["to"])
    return changed


def set_at(document: Any, path: str, value: Any) -> None:
    """Sets or removes a field: spec.shapes[0].nodes."""
    *parents, last = [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", path)]
    for part in parents:
        document = document[part] if isinstance(part, int) else document.setdefault(part, {})
    if value is None:
        del document[last]
    else:
        document[last] = value
