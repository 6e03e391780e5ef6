"""Pools of one kind change no fix, however many there are and in whatever they differ that the fix is not about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from builders import ANY_IMAGES, H100, L4, MI300X, Object, demand, fleet, node

from gpujob.placement.engine.decide import decide
from gpujob.placement.scoring.equal_pools import kinds_by_device
from gpujob.placement.suggestions.search import with_fix
from gpujob.values.vocabulary import Verdict

TRAINED = {"name": "llama-3.1-8b", "method": "LoRA", "batchPerGPU": 64, "gradientCheckpointing": "Layers"}


def by_price(number: int) -> Object:
    return node(f"n{number:02d}", H100, price=f"{2 + number / 100:.2f}")


def by_taint(number: int) -> Object:
    return node(f"n{number:02d}", H100, price="2.00", taints=[f"team=t{number:02d}:PreferNoSchedule"])


def by_instance_type(number: int) -> Object:
    return node(f"n{number:02d}", H100, price="2.00", labels={"node.kubernetes.io/instance-type": f"own-{number:02d}"})


def by_driver(number: int) -> Object:
    return node(
        f"n{number:02d}", H100, price="2.00", labels={"nvidia.com/cuda.driver-version.full": f"580.{95 + number}.05"}
    )


def fixed(objects: list[Object], **spec: Any) -> list[tuple[str, object]]:
    found = fleet(*objects, catalog=ANY_IMAGES)
    decided = decide(demand(**spec), found, ANY_IMAGES)
    assert decided.verdict is Verdict.IMPOSSIBLE
    fix = with_fix(decided, found, ANY_IMAGES).fix
    assert fix is not None
    return [(change.field, change.after) for change in fix.changes]


@pytest.mark.parametrize("equal", [by_price, by_taint, by_instance_type, by_driver])
@pytest.mark.parametrize(
    "spec",
    [
        {"gpuMemory": "90G"},
        {"gpusPerNode": 16},
        {"nodes": 1, "gpusPerNode": 9, "gpuMemory": "90G"},
        {"requires": ["BF16", "FP8FNUZ"]},
        {"placement": {"maxPricePerHour": "1.00"}},
        {"placement": {"vendors": ["AMD"]}},
        {"placement": {"accelerators": {"deny": ["H100-SXM"]}}},
        {"placement": {"capacityTypes": ["Spot"]}},
        {"model": TRAINED, "gpusPerNode": 1},
        {"gpuMemory": "90G", "placement": {"maxPricePerHour": "1.00"}},
    ],
    ids=str,
)
def test_more_of_a_kind_change_no_fix(equal: Callable[[int], Object], spec: dict[str, Any]) -> None:
    one, *others = [fixed([equal(number) for number in range(count)], **spec) for count in (1, 6, 7, 19)]
    assert others == [one] * 3


def test_of_pools_that_differ_in_price_the_cheapest_sets_the_limit() -> None:
    pools = [by_price(number) for number in (9, 3, 7, 1, 8, 5, 4, 6, 2)]
    assert fixed(pools, placement={"maxPricePerHour": "1.00"}) == [("spec.placement.maxPricePerHour", "2.01")]


@pytest.mark.parametrize("count", [1, 6, 7, 12])
def test_a_nearer_fix_on_another_kind_is_found_behind_many_equal_pools(count: int) -> None:
    # 185G needs a smaller job on an H100, and only a little less on an MI300X.
    many = [by_price(number) for number in range(count)]
    assert fixed([*many, node("m", MI300X, price="9")], gpuMemory="210G") == [("spec.gpuMemory", "205G")]
    assert fixed([*many, node("l", L4, price="9")], gpuMemory="90G") == fixed(many, gpuMemory="90G")


def test_each_device_has_its_turn_before_a_second_kind_of_one() -> None:
    """Few kinds are searched one by one: many of a near device displaced all of the others."""
    objects = [
        node("a", H100, 4, price="1", taints=["team=a:NoSchedule"]),
        *(node(f"h{size}", H100, size, price=f"{size}") for size in (3, 5, 8)),
        node("l", L4, 2, price="9", taints=["team=a:NoSchedule"]),
        node("m", MI300X, 2, price="9"),
    ]
    found = kinds_by_device(decide(demand(gpusPerNode=16), fleet(*objects, catalog=ANY_IMAGES), ANY_IMAGES).candidates)
    devices = [(each.pool.accelerator_id, len(each.reasons)) for each in found]
    assert [device for device, _ in devices] == ["H100-SXM", "MI300X", "L4", "H100-SXM", "H100-SXM", "H100-SXM"]
    assert [reasons for _, reasons in devices] == [1, 1, 2, 1, 1, 2]
