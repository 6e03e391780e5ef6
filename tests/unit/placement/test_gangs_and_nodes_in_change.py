"""A gang waits for a node whose cards are being divided, or whose plugin is down, as for any node that cannot be used now."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, H100, MI300X, Object, decision, demand, fleet, gpupool, node

from gpujob.api.kinds.gpupool import GPUPool
from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.gpupools.selection import admin_pool
from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.sources.build import read_fleet
from gpujob.fleet.sources.incremental import FleetIndex
from gpujob.placement.engine.choose import choose
from gpujob.placement.report.summary import summary
from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Verdict

CATALOG = load_catalog()
PAIR = {"nodes": 2, "gpusPerNode": 8}
MIG, DCM = "nvidia.com/mig.config.state", "dcm.amd.com/gpu-config-profile-state"
MIXED = {"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-1g.10gb.memory": "9856"}
CPX = {"amd.com/compute-partitioning-supported": "true", "amd.com/gpu.compute-memory-partition": "cpx_nps4"}


def sliced(name: str, state: str | None = "pending", devices: dict[str, str] | None = None, **more: Any) -> Object:
    """A node of 8 A100 in slices that are being changed."""
    slices = {"nvidia.com/mig-1g.10gb": "56"} if devices is None else devices
    return node(name, A100, devices=slices, labels={**MIXED, MIG: state}, **more)


def decided(*objects: Object, **spec: Any) -> Decision:
    """The decision, of which `choose` has the same verdict."""
    found = decision(*objects, catalog=CATALOG, **spec)
    assert choose(demand(**spec), fleet(*objects), CATALOG).verdict is found.verdict
    return found


@pytest.mark.parametrize(("there", "changed"), [
    (node("a", A100), sliced("b")),
    (node("a", A100), sliced("b", devices={"nvidia.com/mig-1g.10gb": "0"})),
    (node("a", A100), sliced("b", devices={"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "28"})),
    (node("a", A100, price="2"), sliced("b", price="3")),
    (node("a", MI300X), node("b", MI300X, 64, labels={**CPX, DCM: "inprogress"})),
    (node("a", MI300X), node("b", MI300X, 64, labels=CPX, taints=["amd-dcm=up:NoExecute"])),
    (sliced("a"), sliced("b", devices={"nvidia.com/mig-2g.20gb": "24"})),
    (sliced("a"), node("b", A100, labels={MIG: "rebooting"})),
])  # fmt: skip
def test_a_gang_waits_for_a_node_whose_cards_are_being_divided(there: Object, changed: Object) -> None:
    found = decided(there, changed, **PAIR)
    assert found.verdict is Verdict.WAITING
    assert "node b" in summary(found)
    assert decided(there, changed, nodes=3, gpusPerNode=8).verdict is Verdict.IMPOSSIBLE


def test_the_wait_names_the_change() -> None:
    found = decided(node("a", A100), sliced("b"), **PAIR)
    assert summary(found).endswith(
        "once its nodes can be used: needs 8 free GPUs on each of 2 nodes, 8 of 8 are free; 1 node has room; node b: "
        "nvidia.com/mig.config.state is pending"
    )


def test_of_other_models_nothing_becomes_such_a_node() -> None:
    assert decided(node("a", H100), sliced("b"), **PAIR).verdict is Verdict.IMPOSSIBLE
    assert decided(node("a", A100), sliced("b", state="success"), **PAIR).verdict is Verdict.IMPOSSIBLE


def test_parts_of_cards_wait_for_whole_ones_that_are_being_divided() -> None:
    parts = {"placement": {"devices": ["Partition"]}}
    there, changed = sliced("a", state=None), node("b", A100, labels={MIG: "pending"})
    assert decided(there, changed, nodes=2, gpusPerNode=1, **parts).verdict is Verdict.WAITING
    assert decided(node("b", MI300X, labels={DCM: "inprogress"}), gpusPerNode=16, **parts).verdict is Verdict.WAITING


def test_each_job_is_placed_on_the_other_nodes() -> None:
    nodes = [node("a", A100), node("b", A100, price="1"), sliced("c", price="1")]
    for spec in ({"gpusPerNode": 8}, PAIR):
        found = decided(*nodes, **spec)
        assert found.choice is not None
        assert set(found.choice.nodes) <= {"a", "b"}
    assert decided(*nodes, nodes=3, gpusPerNode=8).verdict is Verdict.WAITING


def test_a_limit_holds_for_the_nodes_that_the_gang_waits_for() -> None:
    nodes = [node("a", A100, price="2"), node("b", A100, price="9"), sliced("c", price="2")]
    for limit, verdict in ((33, Verdict.WAITING), (31, Verdict.IMPOSSIBLE)):
        assert decided(*nodes, **PAIR, placement={"maxPricePerHour": limit}).verdict is verdict


@pytest.mark.parametrize("allowed", ["a100-80gb", "a100-80gb-ondemand"])
def test_the_name_of_the_whole_cards_names_what_may_become_one(allowed: str) -> None:
    found = decided(node("a", A100), sliced("b"), **PAIR, placement={"pools": {"allow": [allowed]}})
    assert found.verdict is Verdict.WAITING


def test_a_model_counts_on_as_many_cards_as_the_other_node_has() -> None:
    model = {"name": "Qwen/Qwen2.5-72B", "method": "Full", "sharding": "FSDP"}
    nodes = [node("a", A100), node("b", A100)]
    assert decided(*nodes, model=model, nodes=2).verdict is decided(nodes[0], sliced("b"), model=model, nodes=2).verdict


@pytest.mark.parametrize("resource", [None, "nvidia.com/gpu"])
def test_an_admin_s_pool_keeps_its_jobs_and_the_node(resource: str | None) -> None:
    named = {"resourceName": resource} if resource else {}
    pool = gpupool("lab", {"nvidia.com/gpu.present": "true"}, **named)
    nodes = [node("a", A100), sliced("b")]
    assert decided(*nodes, pool, gpusPerNode=8).verdict is Verdict.PLACED
    found = decided(*nodes, pool, **PAIR)
    assert summary(found).startswith("may fit pool lab once its nodes can be used: ")
    assert summary(found).endswith("1 node has room; node b: nvidia.com/mig.config.state is pending")
    assert decided(*nodes, pool, nodes=3, gpusPerNode=8).verdict is Verdict.IMPOSSIBLE
    assert decided(nodes[1], pool, gpusPerNode=8).verdict is Verdict.WAITING


def test_a_gang_waits_for_a_node_whose_device_plugin_is_down() -> None:
    down = node("b", H100, devices={})
    found = decided(node("a", H100), down, **PAIR)
    assert found.verdict is Verdict.WAITING
    assert summary(found).endswith(
        "8 of 16 are free, 8 cannot be used (labels of node b show NVIDIA devices but no device plugin offers "
        "nvidia.com/gpu; install or restart the plugin); 1 node has room"
    )
    assert decided(down, node("c", H100, devices={}, price="1"), **PAIR).verdict is Verdict.MISCONFIGURED
    assert decided(node("a", H100), node("b", A100, devices={}), **PAIR).verdict is Verdict.IMPOSSIBLE


@pytest.mark.parametrize("pools", [(), (gpupool("lab", {"nvidia.com/gpu.present": "true"}),)])
def test_the_index_follows_a_change(pools: tuple[Object, ...]) -> None:
    """The fleet of the index equals the one that is read at once, before, in and after a change."""
    index = FleetIndex(CATALOG)
    admins = [admin_pool(GPUPool.model_validate(each)) for each in pools]
    index.put_admin_pools(admins)
    nodes: dict[str, Node] = {}
    for raw in (node("a", A100), sliced("b"), sliced("b", devices={"nvidia.com/mig-1g.10gb": "0"}), node("b", A100)):
        parsed = read_node(raw)
        index.put_node(parsed, groups_of(parsed, CATALOG))
        nodes[parsed.name] = parsed
        assert index.fleet() == read_fleet(nodes.values(), (), CATALOG, admins)


NVIDIA = {"nvidia.com/gpu": "8"}
UNREAD = node("b", devices=NVIDIA)


@pytest.mark.parametrize(("there", "unread"), [
    (node("a", A100), UNREAD),
    (node("a", A100, price="1"), node("b", devices=NVIDIA, price="3")),
    (node("a", A100), node("b", devices=NVIDIA, labels={"karpenter.sh/capacity-type": "reserved"})),
    (node("a", MI300X), node("b", devices={"amd.com/gpu": "8"})),
    (node("a", devices=NVIDIA, price="1"), node("b", devices=NVIDIA, price="3")),
    (node("a", A100), node("b", devices=NVIDIA, labels={"node.kubernetes.io/instance-type": "p4d.24xlarge",
                                                        "karpenter.k8s.aws/instance-gpu-name": "h100"})),
])  # fmt: skip
def test_a_node_that_nothing_identifies_may_be_one_more_of_a_gang(there: Object, unread: Object) -> None:
    found = decided(there, unread, **PAIR)
    allowed = decided(there, unread, **PAIR, placement={"accelerators": {"allow": ["A100", "MI300X"]}})
    contradicts = "instance-gpu-name" in str(unread)
    assert found.verdict is (Verdict.IMPOSSIBLE if contradicts else Verdict.MISCONFIGURED)
    assert allowed.verdict is found.verdict
    assert contradicts or "must be fixed first: node" in summary(found)
    assert decided(there, unread, nodes=3, gpusPerNode=8).verdict is Verdict.IMPOSSIBLE


@pytest.mark.parametrize(("there", "other"), [
    (node("a", A100), node("b", devices={"amd.com/gpu": "8"})),
    (node("a", A100), node("b", devices={"nvidia.com/mig-1g.10gb": "8"})),
    (node("a", A100), node("b", devices=NVIDIA, labels={"kubernetes.io/arch": "arm64"})),
    (node("a", A100), node("b", devices={"nvidia.com/gpu": "4"})),
])  # fmt: skip
def test_a_node_of_other_resources_is_no_part_of_a_gang(there: Object, other: Object) -> None:
    assert decided(there, other, **PAIR).verdict is Verdict.IMPOSSIBLE


def test_a_job_on_one_node_needs_no_fix_of_another() -> None:
    assert decided(node("a", A100), UNREAD, gpusPerNode=8).verdict is Verdict.PLACED
    two = decided(node("a", A100), node("c", A100), UNREAD, **PAIR)
    assert two.choice is not None
    assert two.choice.nodes == ("a", "c")


def test_the_index_joins_nodes_that_nothing_identifies() -> None:
    index, nodes = FleetIndex(CATALOG), dict[str, Node]()
    cordoned = {**UNREAD, "spec": {"unschedulable": True}}
    for raw in (node("a", A100), UNREAD, cordoned, UNREAD, node("c", devices=NVIDIA, price="3"), node("b", A100)):
        parsed = read_node(raw)
        nodes[parsed.name] = parsed
        index.put_node(parsed, groups_of(parsed, CATALOG))
        assert index.fleet() == read_fleet(nodes.values(), (), CATALOG)
