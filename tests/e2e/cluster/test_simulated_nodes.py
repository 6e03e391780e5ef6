"""Simulated nodes carry what the real labellers write: these tests need no cluster."""

import json
import re

import pytest

from .nodes import POOLS, default_fleet, node_list, simulated_nodes

_LABEL_VALUE = re.compile(r"^$|^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")


@pytest.mark.parametrize("pool", POOLS)
def test_every_label_is_one_that_kubernetes_takes(pool: str) -> None:
    (node,) = simulated_nodes({pool: 1})
    for key, value in node["metadata"]["labels"].items():
        assert len(key.rpartition("/")[2]) <= 63, key
        assert _LABEL_VALUE.match(value), (key, value)


@pytest.mark.parametrize("pool", POOLS)
def test_pods_may_have_all_devices_but_not_all_memory(pool: str) -> None:
    (node,) = simulated_nodes({pool: 1})
    capacity, allocatable = node["status"]["capacity"], node["status"]["allocatable"]
    assert capacity.keys() == allocatable.keys()
    resource = POOLS[pool].gpu.resource
    assert capacity[resource] == allocatable[resource] == str(POOLS[pool].gpus)
    assert int(allocatable["memory"].removesuffix("Ki")) < int(capacity["memory"].removesuffix("Ki"))


def test_amd_labels_come_plain_with_the_old_prefix_and_counted() -> None:
    (node,) = simulated_nodes({"mi250x": 1})
    labels = node["metadata"]["labels"]
    assert labels["amd.com/gpu.vram"] == labels["beta.amd.com/gpu.vram"] == "64G"
    assert labels["beta.amd.com/gpu.vram.64G"] == "8"
    assert labels["amd.com/gpu.device-id"] == "7408"
    assert labels["amd.com/gpu.simd-count"] == "440"
    assert "beta.amd.com/gpu.driver-version" not in labels
    assert not any(key.startswith("nvidia.com/") for key in labels)


def test_nvidia_labels_hold_the_whole_gpu_in_mib_and_the_old_names_of_versions() -> None:
    (node,) = simulated_nodes({"t4": 1})
    labels = node["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "Tesla-T4"
    assert (labels["nvidia.com/gpu.memory"], labels["nvidia.com/gpu.count"]) == ("15360", "4")
    assert labels["nvidia.com/cuda.driver.rev"] == labels["nvidia.com/cuda.driver-version.revision"] == "05"
    assert labels["nvidia.com/mig.capable"] == "false"


def test_only_clouds_write_instance_type_and_region() -> None:
    mi210, h100 = simulated_nodes({"mi210": 1, "h100": 1})
    assert "node.kubernetes.io/instance-type" not in mi210["metadata"]["labels"]
    assert "topology.kubernetes.io/zone" not in mi210["metadata"]["labels"]
    assert h100["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "p5.48xlarge"
    assert h100["metadata"]["labels"]["topology.kubernetes.io/zone"] == "us-east-1a"


def test_a_fleet_has_distinct_names_and_addresses_and_is_the_same_each_time() -> None:
    nodes = simulated_nodes({"l4": 300, "t4": 300})
    assert len({node["metadata"]["name"] for node in nodes}) == 600
    assert len({node["status"]["addresses"][0]["address"] for node in nodes}) == 600
    assert nodes == simulated_nodes({"l4": 300, "t4": 300})


def test_the_default_fleet_is_as_large_as_its_docstring_says() -> None:
    items = node_list(simulated_nodes(default_fleet()))["items"]
    devices = sum(int(node["status"]["capacity"][POOLS[_pool(node)].gpu.resource]) for node in items)
    assert default_fleet.__doc__ is not None
    assert f"{devices} devices of {len(default_fleet())} models on {len(items)} nodes" in _in_figures(
        default_fleet.__doc__
    )
    assert json.loads(json.dumps(items)) == items


def _pool(node: dict[str, dict[str, str]]) -> str:
    return node["metadata"]["name"].rpartition("-")[0]


def _in_figures(text: str) -> str:
    return text.replace("seven", "7")
