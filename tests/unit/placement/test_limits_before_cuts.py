"""A price limit is raised before the program of a job is cut: less memory or a feature less does not run for less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import ANY_IMAGES, H100, H200, L4, MI300X, T4, Object, demand, fleet, gpupool, images, node

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.summary import summary
from gpujob.placement.suggestions.search import with_fix

LIMIT = "spec.placement.maxPricePerHour"
SMALL = {"cpu": "16", "memory": "60Gi", "ephemeral-storage": "100Gi"}
CHEAP = node("t", T4, price="0.98", allocatable=SMALL, capacity=SMALL)
UNPRICED = replace(ANY_IMAGES, prices=())
DEAR = node("h", H100, price="6.88")


def change(*objects: Object, catalog: Catalog = ANY_IMAGES, **spec: Any) -> tuple[str, object]:
    """The one field of the nearest fix and its value; the job is placed with it."""
    known = fleet(*objects, catalog=catalog)
    fix = with_fix(decide(demand(**spec), known, catalog), known, catalog).fix
    assert fix is not None
    assert choose(fix.demand, known, catalog).choice is not None
    (only,) = fix.changes
    return only.field, only.after


@pytest.mark.parametrize(
    ("spec", "limit"),
    [
        ({"gpuMemory": "60G"}, "1"),
        ({"gpuMemory": "16G"}, "0.98"),
        ({"requires": ["TF32"]}, "0.98"),
        ({"requires": ["BF16"]}, "3"),
        ({"resources": {"memory": "200Gi"}}, "1"),
        ({"resources": {"cpu": "17"}}, "1"),
        ({"resources": {"ephemeralStorage": "150Gi"}}, "2"),
        ({"resources": {"sharedMemory": "61Gi"}}, "1.50"),
        ({"model": {"name": "llama-3.2-1b"}, "gpusPerNode": 1}, "1"),
    ],
)
def test_a_limit_rises_before_the_program_is_cut(spec: dict[str, Any], limit: str) -> None:
    known = (CHEAP, DEAR)
    assert change(*known, **spec, placement={"maxPricePerHour": limit}) == (LIMIT, "6.88")


def test_it_rises_no_further_than_to_the_cheapest_device_that_is_large_enough() -> None:
    known = (CHEAP, DEAR, node("l", L4, price="1.20"), node("m", MI300X, price="5"))
    assert change(*known, gpuMemory="20G", placement={"maxPricePerHour": "1"}) == (LIMIT, "1.20")
    assert change(*known, gpuMemory="60G", placement={"maxPricePerHour": "1"}) == (LIMIT, "5.00")


def test_a_package_that_only_a_dearer_device_has_raises_the_limit() -> None:
    spec = {"requires": ["FlashAttention"], "placement": {"maxPricePerHour": "0.98"}}
    assert change(CHEAP, DEAR, catalog=load_catalog(), **spec) == (LIMIT, "6.88")


def test_a_version_that_only_a_dearer_pool_has_raises_the_limit() -> None:
    catalog = images(
        {
            "name": "cuda",
            "backend": "CUDA",
            "framework": {"name": "pytorch", "version": "2.9.0"},
            "architectures": ["7.5"],
        },
        {
            "name": "rocm",
            "backend": "ROCm",
            "framework": {"name": "pytorch", "version": "2.14.0"},
            "architectures": ["gfx942"],
        },
    )
    known = (node("t", T4, price="0.98"), node("m", MI300X, price="5"))
    spec = {"framework": {"version": ">=2.14"}, "placement": {"maxPricePerHour": "1"}}
    assert change(*known, catalog=catalog, **spec) == (LIMIT, "5.00")


def test_the_same_number_in_the_unit_that_was_meant_is_no_cut() -> None:
    known = (node("h", H100, price="2"), node("m", MI300X, price="5"))
    assert change(*known, gpuMemory="80Gi", placement={"maxPricePerHour": "2"}) == ("spec.gpuMemory", "80G")


def test_without_a_limit_or_without_a_larger_device_less_is_the_nearest() -> None:
    assert change(CHEAP, gpuMemory="60G") == ("spec.gpuMemory", "15G")
    assert change(CHEAP, gpuMemory="60G", placement={"maxPricePerHour": "1"}) == ("spec.gpuMemory", "15G")


SPOT = {"karpenter.sh/capacity-type": "spot"}
SLICES = {"nvidia.com/mig.strategy": "mixed"}


@pytest.mark.parametrize(
    ("objects", "spec", "limit"),
    [
        # A shape of another card.
        ((CHEAP, DEAR, node("m", MI300X, price="6")),
         {"shapes": [{"accelerator": "MI300X", "gpusPerNode": 1}, {"accelerator": "H100", "gpusPerNode": 1}]}, "6.00"),
        ((CHEAP, node("l", L4, price="3")), {"shapes": [{"accelerator": "L4", "gpusPerNode": 1}]}, "3.00"),
        # One more capacity type, said by the job or not.
        ((node("s", L4, price="0.4", labels=SPOT), node("l", L4, price="1.15")), {}, "1.15"),
        ((node("o", H100, price="1"), node("s", H100, price="4", labels=SPOT)),
         {"placement": {"capacityTypes": ["Spot"]}}, "4.00"),
        # Parts of a device.
        ((node("h", H100, devices={"nvidia.com/mig-3g.40gb": "2"}, labels=SLICES, price="0.5"), node("m", MI300X, price="5")),
         {}, "5.00"),
        # Fewer nodes, or fewer GPUs.
        ((node("a", L4, 1, price="0.5"), node("b", H100, price="4"), node("c", H100, price="4")), {"nodes": 2}, "8.00"),
        ((node("a", L4, 1, price="0.5"), node("b", H100, 4, price="4")), {"gpusPerNode": 4}, "16.00"),
    ],
)  # fmt: skip
def test_a_limit_rises_before_a_list_is_widened_or_the_gang_is_cut(
    objects: tuple[Object, ...], spec: dict[str, Any], limit: str
) -> None:
    placement = {**spec.get("placement", {}), "maxPricePerHour": "0.75"}
    assert change(*objects, **{**spec, "placement": placement}) == (LIMIT, limit)


def test_without_a_dearer_pool_that_suits_the_list_is_widened() -> None:
    spot = node("s", L4, price="0.4", labels=SPOT)
    assert change(spot, placement={"maxPricePerHour": "0.5"}) == (
        "spec.placement.capacityTypes",
        ["OnDemand", "Reserved", "Spot"],
    )
    few = node("a", L4, 1, price="0.5")
    assert change(few, nodes=2, placement={"maxPricePerHour": "0.5"}) == ("spec.nodes", 1)


@pytest.mark.parametrize(("nodes", "limit"), [(1, "20"), (2, "40"), (2, "47.99")])
def test_a_limit_that_is_enough_after_another_change_is_left_alone(nodes: int, limit: str) -> None:
    of_karpenter = {"karpenter.sh/nodepool": "gpu"}
    known = [node(f"n{index}", H100, price="2", labels=of_karpenter) for index in range(nodes)]
    spec = {"nodes": 3, "gpusPerNode": 8, "placement": {"maxPricePerHour": limit}}
    assert change(*known, **spec) == ("spec.nodes", nodes)


@pytest.mark.parametrize(("old", "gang", "fits"), [(1, 2, 1), (1, 3, 2), (2, 3, 1)])
def test_fewer_nodes_are_the_fix_where_the_kubelets_of_some_mount_no_image(old: int, gang: int, fits: int) -> None:
    known = [node(f"n{index}", H100) for index in range(gang)]
    for index, each in enumerate(known):
        version, runtime = ("v1.28.0", "containerd://1.7.0") if index < old else ("v1.36.0", "containerd://2.2.0")
        each["status"]["nodeInfo"] = {"kubeletVersion": version, "containerRuntimeVersion": runtime}
    code = {"code": {"image": {"reference": "registry.example.com/code:1"}}, "nodes": gang}
    assert change(*known, **code) == ("spec.nodes", fits)


@pytest.mark.parametrize(("leaves", "fits"), [("ab", 1), ("aab", 2), ("aabbb", 3)])
def test_fewer_nodes_are_the_fix_where_no_domain_of_the_fabric_has_more(leaves: str, fits: int) -> None:
    pool = gpupool("lab", {"rack": "a"}, fabric={"topologyKey": "leaf"})
    known = [node(f"n{i}", H100, labels={"rack": "a", "leaf": leaf}) for i, leaf in enumerate(leaves)]
    assert change(pool, *known, nodes=len(leaves)) == ("spec.nodes", fits)


def asked(gpus: int, **placement: Any) -> dict[str, Any]:
    return {"gpusPerNode": gpus, "placement": placement}


SPOT = {"karpenter.sh/capacity-type": "spot"}


@pytest.mark.parametrize(
    ("objects", "spec", "right"),
    [
        # A shape gets another device, or a list another entry, and the program and its gang stay as they are.
        ([DEAR, node("m", MI300X)],
         {"gpuMemory": "100G", "shapes": [{"accelerator": "MI355X", "gpusPerNode": 8}, {"accelerator": "H100", "gpusPerNode": 4}]},
         ("spec.shapes[0].accelerator", "MI300X")),
        ([DEAR, node("e", H200)], {"gpuMemory": "90G", "placement": {"accelerators": {"allow": ["H100"]}}},
         ("spec.placement.accelerators.allow", ["H100", "H200"])),
        ([DEAR, node("e", H200)], {"gpuMemory": "90G", "placement": {"accelerators": {"deny": ["H200"]}}},
         ("spec.placement.accelerators.deny", None)),
        ([node("l", L4, 4), node("s", L4, 8, labels=SPOT)], asked(5),
         ("spec.placement.capacityTypes", ["OnDemand", "Reserved", "Spot"])),
        ([node("l", L4, 7), node("s", L4, 8, labels={"pool": "x"}), gpupool("x", {"pool": "x"})],
         asked(8, pools={"deny": ["x"]}), ("spec.placement.pools.deny", None)),
        # A vendor that the job does not name comes after that.
        ([node("l", L4, 7), node("m", MI300X)], asked(8, vendors=["NVIDIA"]), ("spec.gpusPerNode", 7)),
        ([node("l", L4, 1), node("m", MI300X)], asked(8, accelerators={"allow": ["L4"]}), ("spec.gpusPerNode", 1)),
        ([DEAR, node("m", MI300X)], {"gpuMemory": "100G", "placement": {"vendors": ["NVIDIA"]}}, ("spec.gpuMemory", "84G")),
        ([node("m", MI300X)], asked(8, vendors=["NVIDIA"]), ("spec.placement.vendors", ["AMD", "NVIDIA"])),
    ],
)  # fmt: skip
def test_the_program_is_cut_after_the_lists_and_before_the_vendor(
    objects: list[Object], spec: dict[str, Any], right: tuple[str, object]
) -> None:
    assert change(*objects, **spec) == right


@pytest.mark.parametrize(
    ("there", "spec", "why", "change"),
    [
        # The number of nodes, that of GPUs and what a pod needs lack whatever the limit is.
        ((CHEAP,), {"nodes": 2}, "needs 2 nodes with 8 GPUs each", ("spec.nodes", 1)),
        ((CHEAP,), {"gpusPerNode": 16}, "needs 16 GPUs on one node", ("spec.gpusPerNode", 8)),
        ((CHEAP,), {"resources": {"memory": "70Gi"}}, "needs 70Gi memory on one node", None),
        ((CHEAP,), {"resources": {"ephemeralStorage": "200Gi"}}, "needs 200Gi ephemeral-storage on one node", None),
    ],
)
def test_the_price_is_the_last_reason(
    there: tuple[Object, ...], spec: dict[str, Any], why: str, change: tuple[str, object] | None
) -> None:
    limit = {"placement": {"maxPricePerHour": "0.97" if change is None else "7.85"}, "gpusPerNode": 8, **spec}
    known = fleet(*there, catalog=ANY_IMAGES)
    found = with_fix(decide(demand(**limit), known, ANY_IMAGES), known, ANY_IMAGES)
    assert f"can never run it: {why}" in summary(found)
    assert change is None or (found.fix is not None and [(c.field, c.after) for c in found.fix.changes] == [change])


@pytest.mark.parametrize(
    ("placement", "change"),
    [
        # The job names the one device or pool that it wants: an admin can give it a price.
        ({"accelerators": {"allow": ["H200"]}}, (LIMIT, None)),
        ({"pools": {"allow": ["h200-ondemand"]}}, (LIMIT, None)),
        # With several names, or none, a known price goes before none at all.
        ({"accelerators": {"allow": ["H200", "T4"]}}, (LIMIT, "0.98")),
        ({}, (LIMIT, "0.98")),
    ],
)
def test_the_device_that_a_job_names_has_no_price(placement: dict[str, Any], change: tuple[str, object]) -> None:
    known = fleet(CHEAP, DEAR, node("g", H200), catalog=UNPRICED)
    limited = demand(placement={"maxPricePerHour": "0.90", **placement})
    found = with_fix(decide(limited, known, UNPRICED), known, UNPRICED)
    assert found.fix is not None
    assert [(each.field, each.after) for each in found.fix.changes] == [change]
    assert ("give the pool a price in a GPUPool" in summary(found)) is (change[1] is None)
