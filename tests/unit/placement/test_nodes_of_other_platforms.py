"""A node of another operating system or CPU architecture takes nothing from the other nodes of its GPUPool."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from builders import ANY_IMAGES, H100, Nvidia, Object, decision, fleet, gpupool, images, node, pod

from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.gpupools.selection import admin_pool
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.sources.build import read_fleet
from gpujob.fleet.sources.cluster_file import read_cluster
from gpujob.fleet.sources.incremental import FleetIndex
from gpujob.placement.report.summary import summary
from gpujob.values.vocabulary import Reason, Verdict

GB200 = Nvidia("NVIDIA-GB200", 189471, "blackwell", (10, 0), mig=True)
RACK = {"rack": "a"}
MINE = gpupool("mine", RACK, accelerator="H100-SXM", price={"perGPUHour": "1"})
WINDOWS, ARM = {"kubernetes.io/os": "windows"}, {"kubernetes.io/arch": "arm64"}
BOTH_CPUS = images(
    {"name": "cuda", "backend": "CUDA", "architectures": ["9.0", "10.0"], "cpuArchitectures": ["amd64", "arm64"]}
)
ARM_ALONE = images({"name": "cuda", "backend": "CUDA", "architectures": ["9.0"], "cpuArchitectures": ["arm64"]})


def in_rack(name: str, *more: dict[str, Any], **of: Any) -> Object:
    labels = {key: value for each in more for key, value in each.items()}
    return node(name, H100, labels={**RACK, **labels}, **of)


def reporting(name: str, platform: dict[str, str], *more: dict[str, Any]) -> Object:
    """A node whose platform the kubelet reports, and no label."""
    unlabelled = dict.fromkeys(("kubernetes.io/os", "kubernetes.io/arch"))
    found = in_rack(name, unlabelled, *more)
    found["status"]["nodeInfo"] = platform
    return found


def whole(*objects: Object) -> Pool:
    found = fleet(*objects, catalog=ANY_IMAGES).pool("mine")
    assert found is not None
    return found


ODD = [
    (in_rack("b", WINDOWS), "windows/amd64"),
    (in_rack("b", {"beta.kubernetes.io/os": "windows"}), "windows/amd64"),
    (in_rack("b", ARM), "arm64"),
    (in_rack("b", {"kubernetes.io/arch": None, "beta.kubernetes.io/arch": "arm64"}), "arm64"),
    (reporting("b", {"operatingSystem": "windows", "architecture": "amd64"}), "windows/amd64"),
    (reporting("b", {"operatingSystem": "linux", "architecture": "arm64"}), "arm64"),
]


@pytest.mark.parametrize(("odd", "platform"), ODD)
@pytest.mark.parametrize("spec", [{"gpusPerNode": 8}, {"nodes": 2, "gpusPerNode": 8}, {"gpuMemory": "60G"}])
def test_an_odd_node_is_left_out_with_a_warning_that_names_it(odd: Object, platform: str, spec: dict[str, Any]) -> None:
    found = decision(in_rack("a"), odd, in_rack("c"), MINE, **spec)
    assert found.choice is not None, summary(found)
    assert "b" not in found.choice.nodes
    pool = whole(in_rack("a"), odd, in_rack("c"), MINE)
    assert (pool.problem, [each.name for each in pool.nodes]) == (None, ["a", "c"])
    (warning,) = [each.message for each in pool.warnings if each.reason is Reason.PLATFORMS_DIFFER]
    assert warning == f"most of its hosts are amd64; node b is {platform} and a part of its own"


@pytest.mark.parametrize(("odd", "platform"), ODD)
def test_a_gang_that_would_need_the_odd_node_has_too_few_nodes(odd: Object, platform: str) -> None:
    found = decision(in_rack("a"), odd, in_rack("c"), MINE, nodes=3, gpusPerNode=8)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert "the pool has 2 nodes" in summary(found), platform


def test_the_part_of_other_hosts_runs_what_is_built_for_them() -> None:
    busy = pod("p", "a", {"nvidia.com/gpu": 8})
    found = decision(in_rack("a"), in_rack("b", ARM), busy, MINE, catalog=BOTH_CPUS, gpusPerNode=8)
    assert found.choice is not None, summary(found)
    assert found.choice.nodes == ("b",)
    pool = found.choice.candidate.pool
    assert (pool.name, pool.family, pool.host_architecture) == ("mine/arm64", "mine", "arm64")
    alone = decision(in_rack("a"), in_rack("b", ARM), MINE, catalog=ARM_ALONE, placement={"pools": {"allow": ["mine"]}})
    assert alone.choice is not None, summary(alone)
    assert alone.choice.nodes == ("b",)


def test_a_gang_is_never_on_hosts_of_both_kinds() -> None:
    objects = (in_rack("a"), in_rack("b", ARM), MINE)
    found = decision(*objects, catalog=BOTH_CPUS, nodes=2, gpusPerNode=8)
    assert found.verdict is Verdict.IMPOSSIBLE


@pytest.mark.parametrize("windows", [1, 2, 3])
def test_linux_nodes_are_the_pool_whatever_their_number(windows: int) -> None:
    others = [in_rack(f"w{number}", WINDOWS) for number in range(windows)]
    pool = whole(in_rack("z"), *others, MINE)
    assert [each.name for each in pool.nodes] == ["z"]
    assert decision(in_rack("z"), *others, MINE, gpusPerNode=8).verdict is Verdict.PLACED


def test_a_pool_of_windows_hosts_alone_runs_nothing() -> None:
    found = decision(in_rack("w", WINDOWS), in_rack("v", WINDOWS), MINE, gpusPerNode=8)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert "hosts are windows/amd64" in summary(found)


def test_devices_with_hosts_of_their_own_need_no_label_of_the_architecture() -> None:
    bare = {"kubernetes.io/arch": None}
    nodes = [node("a", GB200, 4, labels={**RACK, **ARM}), node("b", GB200, 4, labels={**RACK, **bare})]
    pool = gpupool("mine", RACK, price={"perGPUHour": "1"})
    found = decision(*nodes, pool, catalog=BOTH_CPUS, nodes=2, gpusPerNode=4)
    assert found.choice is not None, summary(found)
    assert found.choice.nodes == ("a", "b")


def test_the_odd_node_counts_in_the_size_of_a_pool_that_grows() -> None:
    provision = {"maxNodes": 4}
    grows = gpupool("mine", RACK, accelerator="H100-SXM", price={"perGPUHour": "1"}, provision=provision)
    pool = whole(in_rack("a"), in_rack("b", WINDOWS), grows)
    assert pool.growth is not None
    assert pool.growth.count == 2
    (part,) = [each for each in fleet(in_rack("a"), in_rack("b", WINDOWS), grows).pools if each.part_of]
    assert part.growth is None


def test_better_nodes_of_the_other_hosts_are_parts_of_their_own() -> None:
    spot = {"karpenter.sh/capacity-type": "spot"}
    objects = (in_rack("a"), in_rack("b"), in_rack("c", ARM), in_rack("d", ARM, spot), MINE)
    found = fleet(*objects, catalog=BOTH_CPUS)
    there = {pool.name: [each.name for each in pool.nodes] for pool in found.pools}
    assert there == {
        "mine": ["a", "b"],
        "mine/arm64": ["c", "d"],
        "mine/arm64/ondemand": ["c"],
        "mine/arm64/spot": ["d"],
    }
    assert {pool.family for pool in found.pools} == {"mine"}


def test_an_unreadable_pool_keeps_its_odd_nodes_too() -> None:
    unread = gpupool("mine", RACK, price={"perGPUHour": "x"})
    found = fleet(in_rack("a"), in_rack("b", ARM), unread)
    assert all(pool.problem is not None and pool.family == "mine" for pool in found.pools)


def test_nodes_that_come_one_by_one_make_the_same_pools() -> None:
    raw = (in_rack("a"), in_rack("b", WINDOWS), in_rack("c", ARM), in_rack("d", ARM))
    there = read_cluster([*raw, MINE])
    admins = [admin_pool(each) for each in there.admin_pools]
    expected = read_fleet(there.nodes, (), ANY_IMAGES, admins)
    for order in permutations(there.nodes):
        index = FleetIndex(ANY_IMAGES)
        index.put_admin_pools(admins)
        for each in order:
            index.put_node(each, groups_of(each, ANY_IMAGES))
            index.fleet()
        assert index.fleet().pools == expected.pools
