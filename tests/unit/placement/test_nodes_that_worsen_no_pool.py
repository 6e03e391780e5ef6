"""A node that joins a GPUPool and cannot be used, or whose devices are not known, takes nothing from the jobs of the others."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, L4, MI300X, Amd, Nvidia, Object, demand, fleet, gpupool, node

from gpujob.api.kinds.gpupool import GPUPool
from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.gpupools.selection import admin_pool
from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.sources.build import read_fleet
from gpujob.fleet.sources.incremental import FleetIndex
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.summary import summary
from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Reason, Verdict

CATALOG = load_catalog()
SPOT = {"karpenter.sh/capacity-type": "spot"}
OF_POOL = {"pool": "hd"}
PRIVILEGED: Object = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "default", "labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
}


def decided(*objects: Object, **spec: Any) -> Decision:
    """The decision, of which `choose` has the same verdict."""
    asked, there = demand(**spec).but(namespace="default"), fleet(*objects, PRIVILEGED)
    found = decide(asked, there, CATALOG)
    assert choose(asked, there, CATALOG).verdict is found.verdict
    return found


def hosts(accelerator: str) -> Object:
    return gpupool("hd", OF_POOL, accelerator=accelerator, deviceMode="HostDevices")


def plain(name: str, gpu: Nvidia | Amd, count: int = 8, ready: bool = True, **labels: str) -> Object:
    """A node of the pool without a device plugin."""
    devices: dict[str, str] = {}
    return node(name, gpu, count, devices=devices, ready=ready, labels={**OF_POOL, **labels})


@pytest.mark.parametrize(("gpu", "name"), [(H100, "H100-SXM"), (MI300X, "MI300X"), (L4, "L4")])
def test_a_host_that_is_not_ready_keeps_no_job_from_the_others(gpu: Any, name: str) -> None:
    nodes = [plain("a", gpu, ready=False), plain("b", gpu), hosts(name)]
    found = decided(*nodes, gpusPerNode=8)
    assert found.choice is not None, summary(found)
    assert found.choice.nodes == ("b",)
    assert decided(*nodes, nodes=2, gpusPerNode=8).verdict is Verdict.WAITING
    assert decided(*nodes, nodes=3, gpusPerNode=8).verdict is Verdict.IMPOSSIBLE


@pytest.mark.parametrize(("spot", "away", "verdict"), [
    ("a", "a", Verdict.PLACED), ("a", "b", Verdict.WAITING), ("b", "b", Verdict.PLACED), ("b", "a", Verdict.WAITING),
])  # fmt: skip
def test_capacity_types_of_hosts_count_also_while_one_is_not_ready(spot: str, away: str, verdict: Verdict) -> None:
    nodes = [plain(name, H100, ready=name != away, **(SPOT if name == spot else {})) for name in "ab"]
    assert decided(*nodes, hosts("H100-SXM"), gpusPerNode=8).verdict is verdict


@pytest.mark.parametrize("spec", [{"gpusPerNode": 4}, {"gpusPerNode": 8}, {"nodes": 2, "gpusPerNode": 4}])
def test_hosts_of_two_sizes_must_be_fixed_for_every_job(spec: dict[str, int]) -> None:
    nodes = [plain("a", H100, 4), plain("b", H100, 8), plain("c", H100, 4)]
    found = decided(*nodes, hosts("H100-SXM"), **spec)
    assert summary(found) == (
        "pool hd must be fixed first: spec.deviceMode HostDevices assigns whole nodes, and these have 4 and 8 GPUs; "
        "narrow spec.nodeSelector"
    )


def test_a_host_of_which_the_number_of_gpus_is_not_known_makes_no_two_sizes() -> None:
    nodes = [plain("a", H100, 4), node("b", labels=OF_POOL)]
    found = decided(*nodes, hosts("H100-SXM"), gpusPerNode=4)
    assert found.choice is not None, summary(found)
    assert found.choice.nodes == ("a",)
    waiting = summary(decided(*nodes, hosts("H100-SXM"), nodes=2, gpusPerNode=4))
    assert "the number of GPUs of node b is unknown; set spec.gpusPerNode in GPUPool hd" in waiting


def driver(version: str | None) -> dict[str, Any]:
    """Labels of a node of the pool that show this driver, or none: CUDA's version shows the oldest that has it."""
    keys = ("driver-version.full", "driver.major", "driver-version.major", "driver.minor", "driver.rev", "runtime.major",
            "runtime.minor", "runtime-version.full", "runtime-version.major", "runtime-version.minor")  # fmt: skip
    return {**NEW, **{f"nvidia.com/cuda.{key}": None for key in keys}, "nvidia.com/cuda.driver-version.full": version}


NEW = {"pool": "pa"}
POOL = gpupool("pa", {"pool": "pa"})
UNREAD = [
    node("b", None, devices={"nvidia.com/gpu": "4"}, labels=NEW),
    node("b", L4, 2, devices={"nvidia.com/gpu": "4"}, labels=NEW),
    node("b", None, devices={"amd.com/gpu": "4"}, labels=NEW),
]


@pytest.mark.parametrize("unread", UNREAD[:2])
def test_a_node_whose_devices_are_not_known_takes_no_pool_from_its_jobs(unread: Object) -> None:
    there = node("a", L4, 4, labels=NEW)
    for spec in ({"gpusPerNode": 1}, {"gpusPerNode": 4}, {"gpuMemory": "16G"}):
        found = decided(there, unread, POOL, **spec)
        assert found.choice is not None, summary(found)
        assert found.choice.nodes == ("a",)
    waiting = decided(there, unread, POOL, nodes=2, gpusPerNode=4)
    assert waiting.verdict is Verdict.WAITING
    assert "node b" in summary(waiting)
    assert decided(unread, POOL, gpusPerNode=4).verdict is Verdict.MISCONFIGURED


def test_the_wait_for_an_unknown_node_names_it() -> None:
    found = decided(node("a", L4, 4, labels=NEW), UNREAD[0], POOL, nodes=2, gpusPerNode=4)
    assert summary(found) == (
        "may fit pool pa once its nodes can be used: needs 4 free GPUs on each of 2 nodes, 4 of 4 are free; 1 node has room; "
        "node b: no label or catalog row identifies the devices of nvidia.com/gpu; set spec.accelerator in a GPUPool for them"
    )


def test_the_accelerator_that_an_admin_names_makes_the_node_a_known_one() -> None:
    named = gpupool("pa", {"pool": "pa"}, accelerator="L4")
    found = decided(node("a", L4, 4, labels=NEW), UNREAD[0], named, nodes=2, gpusPerNode=4)
    assert found.verdict is Verdict.PLACED


OLD = driver("470.10.1")
UPGRADE = {"nvidia.com/gpu-driver-upgrade-state": "pod-restart-required"}


@pytest.mark.parametrize(("other", "verdict", "on"), [
    (node("b", L4, 4, labels=driver("580.95.05")), Verdict.PLACED, "b"),
    (node("b", L4, 4, labels=driver("580.95.05"), cordoned=True), Verdict.WAITING, None),
    (node("b", L4, 4, labels={**driver("580.95.05"), "nvidia.com/mig.config.state": "pending"}), Verdict.WAITING, None),
    (node("b", L4, 4, labels={**OLD, **UPGRADE}), Verdict.WAITING, None),
    (node("b", L4, devices={}, labels=driver("580.95.05")), Verdict.MISCONFIGURED, None),
    (node("b", L4, devices={}, labels=driver(None)), Verdict.MISCONFIGURED, None),
    (node("b", None, devices={"nvidia.com/gpu": "4"}, labels=NEW), Verdict.MISCONFIGURED, None),
    (node("b", L4, 4, labels=driver(None)), Verdict.PLACED, "b"),
    (node("b", L4, 4, labels=OLD), Verdict.IMPOSSIBLE, None),
])  # fmt: skip
@pytest.mark.parametrize("third", [(), (node("c", L4, 4, labels=OLD),), (node("c", L4, 4, labels=driver("470.99.1")),)])
def test_a_driver_that_is_too_old_says_nothing_of_another_node(
    other: Object, verdict: Verdict, on: str | None, third: tuple[Object, ...]
) -> None:
    found = decided(node("a", L4, 4, labels=OLD), other, *third, POOL, gpusPerNode=4)
    assert found.verdict is verdict, summary(found)
    assert (found.choice.nodes if found.choice else None) == ((on,) if on else None)


def test_nodes_of_which_no_driver_is_known_run_a_gang_beside_one_whose_driver_is_too_old() -> None:
    unknown = [node(name, L4, 4, labels=driver(None), price=price) for name, price in (("b", "1"), ("c", "2"))]
    old = node("a", L4, 4, labels=OLD, price="1")
    for pools in ((POOL,), ()):
        found = decided(old, *unknown, *pools, nodes=2, gpusPerNode=4)
        assert found.choice is not None, summary(found)
        assert found.choice.nodes == ("b", "c")


def test_an_unknown_driver_is_a_warning_where_the_others_are_new_enough() -> None:
    nodes = [
        node("a", L4, 4, labels=OLD),
        node("b", L4, 4, labels=driver(None)),
        node("c", L4, 4, labels=driver("580.95.05")),
    ]
    alone = decided(*nodes, POOL, gpusPerNode=4)
    both = decided(*nodes, POOL, nodes=2, gpusPerNode=4)
    assert alone.choice is not None
    assert both.choice is not None
    assert (alone.choice.nodes, both.choice.nodes) == (("c",), ("b", "c"))
    reasons = [{warning.reason for warning in each.candidates[0].warnings} for each in (alone, both)]
    assert [Reason.DRIVER_UNKNOWN in each for each in reasons] == [False, True]


@pytest.mark.parametrize("unread", UNREAD)
def test_the_index_follows_a_node_that_gets_its_labels(unread: Object) -> None:
    """The fleet of the index equals the one that is read at once, also when the state of an unknown node changes."""
    index, nodes = FleetIndex(CATALOG), dict[str, Node]()
    admins = [admin_pool(GPUPool.model_validate(POOL))]
    index.put_admin_pools(admins)
    cordoned = {**unread, "spec": {"unschedulable": True}}
    for raw in (node("a", L4, 4, labels=NEW), unread, cordoned, unread, node("b", L4, 4, labels=NEW)):
        parsed = read_node(raw)
        nodes[parsed.name] = parsed
        index.put_node(parsed, groups_of(parsed, CATALOG))
        assert index.fleet() == read_fleet(nodes.values(), (), CATALOG, admins)


@pytest.mark.parametrize(
    ("nodes", "verdict", "says"),
    [
        (1, Verdict.PLACED, ""),
        (2, Verdict.WAITING, "may fit pool lab once its nodes can be used: "),
        (3, Verdict.IMPOSSIBLE, "the only pool, lab, can never run it: needs 3 nodes with 8 GPUs each, "),
    ],
)
def test_a_node_of_host_devices_whose_number_is_unknown_is_none_that_fits(
    nodes: int, verdict: Verdict, says: str
) -> None:
    pool = gpupool("lab", OF_POOL, deviceMode="HostDevices", accelerator="MI300X")
    objects = (node("a", MI300X, labels=OF_POOL, devices={}), node("b", labels=OF_POOL), pool)
    found = decided(*objects, nodes=nodes, gpusPerNode=8)
    assert found.verdict is verdict
    assert summary(found).startswith(says)
    if found.choice is not None:
        assert found.choice.nodes == ("a",)
