"""Small builders of what tests are about: nodes, pods and pools as the API server has them, jobs, and fleets of these.

Nodes carry the labels that the real labellers write, by the makers of the simulated nodes of the end-to-end tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpujob.api.kinds.gpujob import GPUJob
from gpujob.api.manifest import read_gpujob
from gpujob.catalog.catalog import Catalog
from gpujob.catalog.files.load import load_catalog, read_catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
from gpujob.placement.engine.decide import decide
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.from_manifest import demand_of
from gpujob.placement.scoring.candidate import Decision
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import QueueDecision, place_all
from tests.e2e.cluster.nodes import Amd, Nvidia

Object = dict[str, Any]

MI210: Final = Amd("740f", "AMD_Instinct_MI210", 64, 104)
MI250X: Final = Amd("7408", "AMD_Instinct_MI250X", 64, 110)
MI300X: Final = Amd("74a1", "AMD_Instinct_MI300X_OAM", 192, 304)
MI325X: Final = Amd("74a5", "AMD_Instinct_MI325_OAM", 256, 304)
MI355X: Final = Amd("75a3", "AMD_Instinct_MI355_OAM", 288, 256)
H100: Final = Nvidia("NVIDIA-H100-80GB-HBM3", 81559, "hopper", (9, 0), mig=True)
H200: Final = Nvidia("NVIDIA-H200", 143771, "hopper", (9, 0), mig=True)
A100: Final = Nvidia("NVIDIA-A100-SXM4-80GB", 81920, "ampere", (8, 0), mig=True)
A100_40: Final = Nvidia("NVIDIA-A100-SXM4-40GB", 40960, "ampere", (8, 0), mig=True)
L4: Final = Nvidia("NVIDIA-L4", 23034, "ada-lovelace", (8, 9), mig=False)
L40S: Final = Nvidia("NVIDIA-L40S", 46068, "ada-lovelace", (8, 9), mig=False)
T4: Final = Nvidia("Tesla-T4", 15360, "turing", (7, 5), mig=False)
V100: Final = Nvidia("Tesla-V100-SXM2-32GB", 32768, "volta", (7, 0), mig=False)


def node(
    name: str,
    gpu: Amd | Nvidia | None = None,
    count: int = 8,
    *,
    labels: Mapping[str, Any] | None = None,
    devices: Mapping[str, Any] | None = None,
    allocatable: Mapping[str, Any] | None = None,
    capacity: Mapping[str, Any] | None = None,
    taints: Iterable[str] = (),
    ready: bool = True,
    cordoned: bool = False,
    price: str | None = None,
    handlers: Iterable[str] | None = None,
) -> Object:
    """A Node with `count` devices of `gpu` and 128 cores, 1 Ti of memory, 1 Ti of disk.

    `labels` are added to those of the device (None removes one); `devices` replaces its resource; `allocatable` and
    `capacity` are added to what the node offers and has. A taint is written key[=value]:effect. `handlers` are the names
    that its container runtime reports, None where it reports none.
    """
    machine = {"cpu": "128", "memory": "1024Gi", "ephemeral-storage": "1000Gi", "pods": "110"}
    offered = devices if devices is not None else ({gpu.resource: str(count)} if gpu else {})
    written: dict[str, Any] = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64"}
    written |= gpu.labels(count, "Server") if gpu else {}
    written |= labels or {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "labels": {key: value for key, value in written.items() if value is not None},
            "annotations": {"gpujob.dev/price-per-gpu-hour": price} if price is not None else {},
        },
        "spec": {"taints": [_taint(text) for text in taints]} | ({"unschedulable": True} if cordoned else {}),
        "status": {
            "capacity": {**machine, **offered, **(capacity or {})},
            "allocatable": {**machine, **offered, **(allocatable or {})},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            **({"runtimeHandlers": [{"name": each} for each in handlers]} if handlers is not None else {}),
        },
    }


def runtime_class(name: str, handler: Any, **more: Any) -> Object:
    """A RuntimeClass, and what it asks of a node."""
    kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": handler}
    return kind | more


def _taint(text: str) -> Object:
    key, _, effect = text.rpartition(":")
    key, equals, value = key.partition("=")
    return {"key": key, "effect": effect} | ({"value": value} if equals else {})


def pod(name: str, on: str, gpus: Mapping[str, Any] | None = None, phase: str = "Running", **requests: Any) -> Object:
    """A Pod on a node that takes devices (resource: count) and, by its requests, cpu and memory."""
    limits = {key: str(count) for key, count in (gpus or {}).items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-of-{name}"},
        "spec": {
            "nodeName": on,
            "containers": [{"name": "main", "resources": {"requests": {**limits, **requests}, "limits": limits}}],
        },
        "status": {"phase": phase},
    }


def resource_slice(on: str, driver: str, *devices: Mapping[str, Any], version: str = "v1", **pool: Any) -> Object:
    """A ResourceSlice of a node; a device is {name, memory, attributes...}, a version attribute is written {"version": x}."""
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{on}-{driver}-{pool.get('generation', 1)}"},
        "spec": {
            "driver": driver,
            "nodeName": on,
            "pool": {"name": on, "generation": 1, "resourceSliceCount": 1, **pool},
            "devices": [_slice_device(version, **device) for device in devices],
        },
    }


def _slice_device(version: str, name: str, memory: str | None = None, **attributes: Any) -> Object:
    own = ("taints", "consumesCounters", "allowMultipleAllocations")
    more = {key: attributes.pop(key) for key in own if key in attributes}
    said = {key: value if isinstance(value, dict) else {"string": value} for key, value in attributes.items()}
    body = {"attributes": said, "capacity": {"memory": {"value": memory}} if memory else {}, **more}
    return {"name": name, "basic": body} if version == "v1beta1" else {"name": name, **body}


def resource_claim(
    name: str, driver: str, pool: str, *devices: str, pod_uid: str = "", extended: bool = False
) -> Object:
    """A ResourceClaim to which devices are allocated."""
    results = [{"request": "gpu", "driver": driver, "pool": pool, "device": device} for device in devices]
    reserved = [{"resource": "pods", "name": "p", "uid": pod_uid}] if pod_uid else []
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"} if extended else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved},
    }


def device_class(name: str, expression: str, resource: str | None = None) -> Object:
    """A DeviceClass, with the resource name by which pods can ask for its devices."""
    named = {"extendedResourceName": resource} if resource else {}
    spec = {"selectors": [{"cel": {"expression": expression}}], **named}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def taint_rule(name: str, effect: str = "NoSchedule", **selector: str) -> Object:
    """A DeviceTaintRule of the devices that a selector matches."""
    spec = {"deviceSelector": selector, "taint": {"key": "example.com/broken", "value": "yes", "effect": effect}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}


def gpupool(name: str, labels: Mapping[str, str], created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Object:
    """An admin's GPUPool that claims the nodes with these labels."""
    return {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPUPool",
        "metadata": {"name": name, "creationTimestamp": created},
        "spec": {"nodeSelector": {"matchLabels": dict(labels)}, **spec},
    }


def manifest(name: str = "train", **spec: Any) -> Object:
    """A GPUJob as its author writes it."""
    return {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": name}, "spec": spec}


def job(name: str = "train", **spec: Any) -> GPUJob:
    """A GPUJob."""
    return read_gpujob(manifest(name, **spec))


def demand(**spec: Any) -> Demand:
    """What a job with this spec asks."""
    return demand_of(job(**spec))


def images(*rows: Mapping[str, Any]) -> Catalog:
    """The shipped catalog with these runtimes instead of its own."""
    import json

    return read_catalog(json.dumps({"runtimes": [_runtime(row) for row in rows]}))


def _runtime(row: Mapping[str, Any]) -> Object:
    framework = {"name": "pytorch", "version": "2.10.0"}
    release = {"CUDA": "13.0", "ROCm": "7.2"}[row["backend"]]
    return {"image": f"reg.example/{row['name']}:1", "backendVersion": release, "framework": framework, **row}


ANY_IMAGES: Final = images(
    {"name": "cuda", "backend": "CUDA", "architectures": ["5.0", "6.0", "7.0", "8.0", "9.0", "10.0", "11.0", "12.0"]},
    {
        "name": "rocm",
        "backend": "ROCm",
        "architectures": ["gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100"],
    },
)
"""One image for each vendor that runs on nearly all of its devices."""


def fleet(*objects: Object, catalog: Catalog | None = None) -> Fleet:
    """The fleet that these objects make."""
    return fleet_of(read_cluster(list(objects)), catalog or load_catalog())[0]


def pool_of(found: Fleet, name: str, resource: str | None = None) -> Pool:
    """The pool that holds a node (and, where the node has several resources, this one)."""
    holders = [
        pool
        for pool in found.whole_pools
        if resource in (None, pool.resource) and any(member.name == name for member in pool.nodes)
    ]
    assert len(holders) == 1, f"{name} is in {[pool.name for pool in holders]}"
    return holders[0]


def decision(*objects: Object, catalog: Catalog | None = None, **spec: Any) -> Decision:
    """The decision for a job of this spec on a cluster of these objects."""
    known = catalog or ANY_IMAGES
    return decide(demand(**spec), fleet(*objects, catalog=known), known)


def placings(
    jobs: Iterable[Mapping[str, Any]], *objects: Object, catalog: Catalog | None = None
) -> list[QueueDecision]:
    """What becomes of jobs with these specs, in their order."""
    known = catalog or ANY_IMAGES
    waiting = [PendingJob(f"{number:04d}", "", demand(**spec)) for number, spec in enumerate(jobs)]
    return list(place_all(waiting, fleet(*objects, catalog=known), known))
