"""The GPUPools that docs/pools.md shows are placed on, and give to pods what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import ANY_IMAGES, H100, Object, demand, device_class, fleet, job, node, resource_slice

from gpujob.placement.scoring.candidate import Choice
from gpujob.render.children import Children, render
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all

PAGE = Path(__file__).parents[3] / "docs" / "pools.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
POOLS: dict[str, Object] = {
    found["metadata"]["name"]: found for found in map(yaml.safe_load, BLOCKS) if found.get("kind") == "GPUPool"
}


def space(level: str = "privileged", **labels: str) -> Object:
    said = {"pod-security.kubernetes.io/enforce": level, **labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": said}}


def placed(name: str, *objects: Object, **spec: Any) -> tuple[Choice, Children]:
    """The choice for a job on the page's pool of that name, and its children."""
    known = fleet(*objects, {**POOLS[name], "metadata": {"name": name}}, catalog=ANY_IMAGES)
    waiting = [PendingJob("0", "", demand(**spec), namespace="default")]
    (placing,) = place_all(waiting, known, ANY_IMAGES)
    assert placing.choice is not None, placing.decision
    assert placing.choice.candidate.pool.name == name
    return placing.choice, render(job(**spec), placing.choice, 1)


def pod_of(children: Children) -> dict[str, Any]:
    template: dict[str, Any] = children.job["spec"]["template"]["spec"]
    return template


def test_every_example_is_tried() -> None:
    assert POOLS.keys() == {"lab-mi210", "mi300x", "claimed", "lab", "rails"}


def test_the_pool_of_the_first_page() -> None:
    offered = {"amd.com/gpu": "4"}
    choice, children = placed("lab-mi210", node("n", labels={"rack": "lab"}, devices=offered), space())
    assert choice.candidate.price_per_hour == 450_000
    assert pod_of(children)["securityContext"]["supplementalGroups"] == [44, 109]


def test_nodes_that_an_autoscaler_adds() -> None:
    choice, children = placed("mi300x", space(), nodes=4, gpusPerNode=8)
    assert (choice.candidate.pool.total, children.job["spec"]["parallelism"]) == (0, 4)
    required = pod_of(children)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["mi300x"]} in term["matchExpressions"]


def test_claims_beside_a_device_plugin() -> None:
    device = {"type": "gpu", "productName": "NVIDIA H100 80GB HBM3", "cudaComputeCapability": {"version": "9.0.0"}}
    devices = [{"name": f"gpu-{index}", "memory": "81559Mi", **device} for index in range(8)]
    whole = "device.driver == 'gpu.nvidia.com'"
    objects = [
        node("n", H100, labels={"rack": "dra"}),
        resource_slice("n", "gpu.nvidia.com", *devices),
        device_class("gpu.nvidia.com", whole),
    ]
    _, children = placed("claimed", *objects, gpusPerNode=2)
    assert children.claims is not None
    train = pod_of(children)["containers"][0]
    assert train["resources"]["claims"] == [{"name": "gpus"}]
    assert "nvidia.com/gpu" not in train["resources"]["limits"]


def test_host_devices() -> None:
    choice, children = placed("lab", node("n", labels={"rack": "lab"}), space(team="vision"), gpusPerNode=8)
    assert choice.candidate.pool.total == 8
    assert pod_of(children)["containers"][0]["securityContext"] == {"privileged": True}


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_fabric(nodes: int) -> None:
    rails = [
        node(name, H100, labels={"rack": "rails", "example.com/leaf": "l1"}, allocatable={"rdma/hca": "1"})
        for name in ("n", "m")
    ]
    _, children = placed("rails", *rails, space(), nodes=nodes, gpusPerNode=8)
    pod = pod_of(children)
    train = pod["containers"][0]
    assert ("rdma/hca" in train["resources"]["limits"], "hostNetwork" in pod) == (nodes > 1, nodes > 1)
    assert {"name": "NCCL_SOCKET_IFNAME", "value": "=eth0"} in train["env"]
