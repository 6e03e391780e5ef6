"""What DRA drivers publish, written as NVIDIA's and AMD's drivers write it; it goes with the test."""

from __future__ import annotations

from typing import Any

from tests.e2e.api_server import NODES, ApiServer, Object
from tests.e2e.cluster import eventually, simulated_nodes
from tests.e2e.conftest import MADE_BY, ready_nodes

DRA = "/apis/resource.k8s.io/v1"
SLICES, CLASSES, TAINT_RULES = f"{DRA}/resourceslices", f"{DRA}/deviceclasses", f"{DRA}/devicetaintrules"
CLAIMS, TEMPLATES = DRA + "/namespaces/{}/resourceclaims", DRA + "/namespaces/{}/resourceclaimtemplates"
NVIDIA, AMD = "gpu.nvidia.com", "gpu.amd.com"

H100: Object = {
    "type": {"string": "gpu"},
    "productName": {"string": "NVIDIA H100 80GB HBM3"},
    "cudaComputeCapability": {"version": "9.0.0"},
    "driverVersion": {"version": "580.126.20"},
}
A100: Object = {
    **H100,
    "productName": {"string": "NVIDIA A100-SXM4-80GB"},
    "cudaComputeCapability": {"version": "8.0.0"},
}
MIG: Object = {**H100, "type": {"string": "mig"}, "profile": {"string": "1g.10gb"}}
MI300X: Object = {
    "type": {"string": "amdgpu"},
    "productName": {"string": "AMD_Instinct_MI300X_OAM"},
    "deviceID": {"string": "0x74a1"},
    "driverVersion": {"version": "6.16.13"},
}
MEMORY = {"gpu": "81559Mi", "mig": "9984Mi", "amdgpu": "196592Mi"}


def device(name: str, attributes: Object, **more: Any) -> Object:
    """A device with the memory that drivers say of its kind."""
    memory = {"memory": {"value": MEMORY[attributes["type"]["string"]]}}
    return {"name": name, "attributes": attributes, "capacity": memory, **more}


class Drivers:
    """Writes what drivers publish; takes it back when the test is over."""

    def __init__(self, api: ApiServer, prefix: str) -> None:
        self.api, self.prefix = api, prefix
        self._made: list[tuple[str, str]] = []

    def node(self, name: str) -> str:
        """A node with CPU and memory alone."""
        made = simulated_nodes({"mi210": 1})[0]
        name = f"{self.prefix}-{name}"
        labels = {key: value for key, value in made["metadata"]["labels"].items() if "amd.com" not in key}
        made["metadata"] |= {"name": name, "labels": {**labels, "kubernetes.io/hostname": name, MADE_BY: self.prefix}}
        for offered in ("capacity", "allocatable"):
            made["status"][offered].pop("amd.com/gpu")
        self._create(NODES, made)
        eventually(lambda: name in ready_nodes(self.api), 60, what="a node that is ready", every=0.1)
        return name

    def publish(self, node: str, driver: str, *devices: Object, generation: int = 1) -> None:
        """A ResourceSlice of a node."""
        pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": list(devices)}
        self._make(SLICES, "ResourceSlice", f"{node}-{driver}-{generation}", spec)

    def device_class(self, name: str, expression: str, resource: str = "") -> None:
        """A DeviceClass."""
        spec: Object = {"selectors": [{"cel": {"expression": expression}}]}
        self._make(CLASSES, "DeviceClass", name, spec | ({"extendedResourceName": resource} if resource else {}))

    def taint(self, name: str, **selector: str) -> None:
        """A DeviceTaintRule that keeps pods off the devices that match."""
        taint = {"key": "example.com/broken", "effect": "NoSchedule"}
        self._make(TAINT_RULES, "DeviceTaintRule", name, {"deviceSelector": selector, "taint": taint})

    def untaint(self, name: str) -> None:
        """Takes a DeviceTaintRule back."""
        self.api.delete(TAINT_RULES, name)

    def _make(self, path: str, kind: str, name: str, spec: Object) -> None:
        self._create(path, {"apiVersion": DRA[6:], "kind": kind, "metadata": {"name": name}, "spec": spec})

    def _create(self, path: str, body: Object) -> None:
        self.api.create(path, body)
        self._made.append((path, body["metadata"]["name"]))

    def clear(self) -> None:
        """Takes back everything, the last first."""
        for path, name in reversed(self._made):
            self.api.delete(path, name)


WHOLE = f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == 'gpu'"
