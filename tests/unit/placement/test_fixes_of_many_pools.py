"""A pool more takes no fix away: of the changes that are pursued each kind has its turn, however many pools propose it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from builders import (
    A100,
    A100_40,
    H100,
    L4,
    L40S,
    MI210,
    MI250X,
    MI300X,
    T4,
    Nvidia,
    Object,
    demand,
    fleet,
    gpupool,
    node,
)

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.scoring.candidate import Fix
from gpujob.placement.suggestions.search import with_fix
from gpujob.values.vocabulary import Verdict

CATALOG = load_catalog()
SERVED = {"name": "llama-3.1-70b", "method": "Inference", "precision": "FP16"}
BUSY_SERVER = {**SERVED, "inference": {"concurrency": 128, "maxTokens": 8192}}
NODES = [
    node("a", MI300X, 4, price="0.50"),
    node("b", MI300X, 3, price="2.25"),
    node("c", MI300X, 5, price="1"),
    node("d", MI300X, 6, price="1.50"),
    node("e", MI300X, 7, price="3"),
    node("f", MI300X, 8, price="4", cordoned=True),
    node("g", MI300X, 8, price="5", ready=False),
]


def fix_of(objects: list[Object], **spec: Any) -> Fix:
    """The fix of an impossible job, which is verified to help."""
    known = fleet(*objects)
    found = with_fix(decide(demand(**spec), known, CATALOG), known, CATALOG)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert found.fix is not None, found.hopeless
    assert choose(found.fix.demand, known, CATALOG).verdict in (Verdict.PLACED, Verdict.WAITING)
    return found.fix


@pytest.mark.parametrize("pools", range(2, len(NODES) + 1))
@pytest.mark.parametrize(
    ("limits", "fields"),
    [
        ({"capacityTypes": ["Reserved"]}, {"capacityTypes", "maxPricePerHour"}),
        ({"vendors": ["NVIDIA"]}, {"vendors", "maxPricePerHour"}),
        ({"accelerators": {"allow": ["MI250X"]}}, {"accelerators.allow", "maxPricePerHour"}),
        ({"vendors": ["NVIDIA"], "capacityTypes": ["Spot"]}, {"vendors", "capacityTypes", "maxPricePerHour"}),
    ],
)
def test_the_fix_of_two_pools_stays_with_more(pools: int, limits: dict[str, Any], fields: set[str]) -> None:
    fix = fix_of(NODES[:pools], model=BUSY_SERVER, placement={"maxPricePerHour": "0.30", **limits})
    assert {change.field for change in fix.changes} == {f"spec.placement.{name}" for name in fields}
    price = next(change.after for change in fix.changes if change.field.endswith("maxPricePerHour"))
    assert price == "2.00"


SOUGHT = {"memory": "9000Gi", "ephemeralStorage": "9000Gi", "cpu": 500}


@pytest.mark.parametrize(
    ("asked", "cap"),
    [
        (("memory", "ephemeralStorage"), "0.10"),
        (("cpu", "memory", "ephemeralStorage"), None),
        (("cpu", "memory", "ephemeralStorage"), "0.10"),
    ],
)
def test_ways_to_make_a_model_lighter_displace_no_other_changes(asked: tuple[str, ...], cap: str | None) -> None:
    """The model fits tightly on fewer GPUs too, and each of its fields answers that."""
    model = {"name": "llama-3.1-70b", "method": "Inference", "inference": {"concurrency": 64, "maxTokens": 8192}}
    placement = {"maxPricePerHour": cap} if cap else {}
    resources = {each: SOUGHT[each] for each in asked}
    fix = fix_of([node("a", MI300X, price="1")], model=model, placement=placement, resources=resources)
    fields = {f"spec.resources.{each}" for each in asked} | {f"spec.placement.{each}" for each in placement}
    assert {change.field for change in fix.changes} == fields


@pytest.mark.parametrize("beside", [[], [node("h", A100_40)], [node("h", A100_40), node("i", T4)]])
def test_a_fix_of_four_changes_stays_beside_a_healthy_node(beside: list[Object]) -> None:
    burst = gpupool(
        "burst",
        {"pool": "burst"},
        accelerator="A100-80GB",
        price={"perGPUHour": "5"},
        provision={"maxNodes": 1, "gpusPerNode": 1},
    )
    model = {
        "name": "llama-3.1-70b", "method": "Full", "gradientCheckpointing": "None", "sharding": "ZeRO2",
        "sequenceLength": 16384,
    }  # fmt: skip
    fix = fix_of(
        [*beside, burst], model=model, gpusPerNode=7, placement={"accelerators": {"allow": ["T4"]}, "waitSeconds": 600}
    )
    assert len(fix.changes) <= 4


@pytest.mark.parametrize(
    "beside", [[], [node("t", A100_40, 1, price="1", cordoned=True)], [node("m", MI210, 1, price="2")]]
)
def test_a_change_that_answers_more_than_its_own_reason_is_pursued_too(beside: list[Object]) -> None:
    """Without gpusPerNode the model takes what a node has: it answers the missing memory and the missing GPUs."""
    objects = [node("a", A100_40, 4, price="1"), *beside]
    model = {"name": "llama-3.1-70b", "method": "Inference", "inference": {"concurrency": 128, "maxTokens": 8192}}
    fix = fix_of(objects, model=model, gpusPerNode=8, placement={"maxPricePerHour": "0.30", "objective": "Cost"})
    assert {change.field for change in fix.changes} >= {"spec.placement.maxPricePerHour"}


A10G = Nvidia("NVIDIA-A10G", 23028, "ampere", (8, 6), mig=False)
KARPENTER = {"karpenter.sh/nodepool": "kp"}


def driver(version: str) -> dict[str, str | None]:
    """The labels of a driver."""
    major, minor, _ = version.split(".")
    numbers = {"nvidia.com/cuda.driver-version.major": major, "nvidia.com/cuda.driver-version.minor": minor}
    return {"nvidia.com/cuda.driver-version.full": version, **numbers}


@pytest.mark.parametrize("more", [[], [node("zz", A100, price="0.5", taints=["team=a:NoSchedule"])]])
def test_a_node_with_a_taint_hides_no_fix_of_pools_that_are_joined(more: list[Object]) -> None:
    """Four changes with which nodes of several pools together hold the model, beside a pool that no job can use."""
    new, old = driver("580.95.05"), driver("570.86.15")
    zone = "topology.kubernetes.io/zone"
    small = {"cpu": "16", "memory": "128Gi"}
    nodes = [
        node("n4", A10G, 3, labels={**driver("535.104.05"), **KARPENTER, zone: "c"}, allocatable={"memory": "128Gi"},
             taints=["karpenter.sh/disrupted:NoSchedule"]),
        node("n6", A10G, 2, labels={**new, zone: "a"}, price="2.25"),
        node("n8", A10G, 3, labels={**new, **KARPENTER, zone: "a"}, price="0.5", allocatable=small),
        node("n9", A10G, 8, labels={**new, "karpenter.sh/capacity-type": "reserved", zone: "c"}, price="1", allocatable=small),
        node("n10", A10G, 4, labels={**old, zone: "c"}, price="2.25"),
        node("n11", A10G, 8, labels={**old, zone: "b"}, price="2", cordoned=True, allocatable=small),
    ]  # fmt: skip
    fix = fix_of(
        [*nodes, *more],
        model={"name": "llama-3.1-70b", "method": "Full", "gradientCheckpointing": "None", "batchPerGPU": 4, "precision": "BF16"},
        placement={"accelerators": {"deny": ["A100"]}, "capacityTypes": ["Spot"], "waitSeconds": 600},
    )  # fmt: skip
    assert {change.field: change.after for change in fix.changes} == {
        "spec.placement.capacityTypes": ["OnDemand", "Reserved", "Spot"],
        "spec.model.batchPerGPU": 1,
        "spec.model.gradientCheckpointing": "Layers",
        "spec.model.method": "LoRA",
    }


KINDS = (MI250X, A100_40, L4, A10G, T4, H100, MI300X, L40S)
VERSIONS = {
    True: ("6.14.14", "6.2.4", "6.10.5", "6.12.12"),
    False: ("580.95.05", "535.104.05", "550.54.15", "570.10.01"),
}


def many(number: int) -> list[Object]:
    """Nodes of unlike pools: of eight devices in turn, with one of four drivers, three sizes and three prices each."""
    choices, objects = random.Random(5), list[Object]()
    for index in range(number):
        device, of_amd = KINDS[index % len(KINDS)], KINDS[index % len(KINDS)] in (MI250X, MI300X)
        gpus, price, version = choices.choice([3, 5, 8]), choices.choice("123"), choices.choice(VERSIONS[of_amd])
        labels = {"amd.com/gpu.driver-version": version} if of_amd else driver(version)
        zone = {
            "topology.kubernetes.io/zone": choices.choice("ab"),
            "topology.kubernetes.io/region": choices.choice("r"),
        }
        objects.append(node(f"n{index}", device, gpus, price=price, labels={**labels, **zone}))
    return objects


@pytest.mark.parametrize(
    ("spec", "cap", "fields"),
    [
        ({"method": "QLoRA", "sequenceLength": 131072}, "5", {"spec.model.sequenceLength"}),
        ({"method": "Full", "sequenceLength": 16384}, "0.50",
         {"spec.model.gradientCheckpointing", "spec.placement.maxPricePerHour"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("number", [40, 70])
def test_many_unlike_pools_displace_no_change(number: int, spec: dict[str, Any], cap: str, fields: set[str]) -> None:
    fix = fix_of(many(number), model={"name": "llama-3.1-70b", **spec}, placement={"maxPricePerHour": cap})
    assert {change.field for change in fix.changes} == fields


TAINTED = node("c", MI300X, 5, price="1", taints=["dedicated=ml:NoExecute"])


@pytest.mark.parametrize("beside", [[], [TAINTED], [TAINTED, node("d", L40S, 4, price="2", cordoned=True)]])
def test_changes_for_a_pool_that_no_job_can_use_displace_no_others(beside: list[Object]) -> None:
    """The device that the job names is behind a taint, and four changes lead to another."""
    fix = fix_of(
        [node("a", H100, 8, price="1"), *beside],
        model={"name": "llama-3.1-70b", "method": "LoRA", "sequenceLength": 131072},
        requires=["FlashAttention"],
        placement={
            "maxPricePerHour": "0.50",
            "accelerators": {"allow": ["MI250X", "MI300X"]},
            "vendors": ["AMD"],
        },
    )
    assert {change.field: change.after for change in fix.changes} == {
        "spec.placement.accelerators.allow": ["MI250X", "MI300X", "H100-SXM"],
        "spec.placement.maxPricePerHour": "8.00",
        "spec.placement.vendors": ["AMD", "NVIDIA"],
        "spec.model.sequenceLength": 2030,
    }


@pytest.mark.parametrize("number", [10, 16])
def test_many_ways_to_make_a_model_lighter_leave_a_fix(number: int) -> None:
    model = {"name": "llama-3.1-70b", "method": "Full", "sequenceLength": 131072}
    fix = fix_of(many(number), model=model, placement={"maxPricePerHour": "0.50"})
    assert len(fix.changes) <= 3


def test_a_change_of_the_job_goes_before_a_fault_of_a_pool() -> None:
    """A pool whose devices nothing identifies lacks nothing but that after two changes; others fit after three."""
    small = {"cpu": "96", "memory": "256Gi"}
    v100 = Nvidia("Tesla-V100-SXM2-16GB", 16384, "volta", (7, 0), mig=False)
    objects = [
        node("a", None, devices={"nvidia.com/gpu": "4"}, allocatable=small, price="3"),
        node(
            "b",
            v100,
            2,
            price="3",
            allocatable={"cpu": "32", "memory": "256Gi"},
            labels={"karpenter.sh/capacity-type": "spot"},
        ),
        node("c", v100, 2, price="1", allocatable={"cpu": "192", "memory": "256Gi"}),
    ]
    model = {"name": "qwen2.5-14b", "method": "Full", "sequenceLength": 32768}
    fix = fix_of(objects, model=model, resources={"cpu": 300, "memory": "200Gi"})
    assert len(fix.changes) == 3
