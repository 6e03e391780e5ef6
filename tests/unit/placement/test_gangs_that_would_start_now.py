"""A job that waits says which other gang would start now: as many GPUs in another shape, and the largest smaller one."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ANY_IMAGES, H100, MI300X, Object, demand, fleet, gpupool, node, pod

from gpujob.placement.engine.decide import decide
from gpujob.placement.suggestions.smaller_gang import starts_now
from gpujob.values.vocabulary import Verdict


def busy(name: str, free: int, gpu: Any = MI300X) -> list[Object]:
    """A node of eight of which so many are free."""
    return [node(name, gpu, price="2"), *([pod(f"p-{name}", name, {gpu.resource: 8 - free})] if free < 8 else [])]


def sentences(*objects: list[Object], **spec: Any) -> list[str]:
    found = fleet(*(each for some in objects for each in some), catalog=ANY_IMAGES)
    decided = decide(demand(**spec), found, ANY_IMAGES)
    assert decided.verdict is Verdict.WAITING
    return [start.sentence(start.pool) for start in starts_now(decided, found, ANY_IMAGES)]


@pytest.mark.parametrize(
    ("free", "spec", "starts"),
    [
        # One of two nodes is free.
        ((8, 0), {"nodes": 2, "gpusPerNode": 8}, ["nodes: 1 fits mi300x-ondemand"]),
        # Half of each: four pods of four do not go on two nodes, two of four do.
        ((4, 4), {"nodes": 2, "gpusPerNode": 8}, ["gpusPerNode: 4 fits mi300x-ondemand"]),
        # As many GPUs over more nodes come first.
        ((4, 4), {"gpusPerNode": 8}, ["nodes: 2, gpusPerNode: 4 fits mi300x-ondemand", "gpusPerNode: 4 fits mi300x-ondemand"]),
        # As many GPUs on fewer nodes.
        ((8, 0), {"nodes": 2, "gpusPerNode": 4}, ["nodes: 1, gpusPerNode: 8 fits mi300x-ondemand", "nodes: 1 fits mi300x-ondemand"]),
        # Fewer nodes of the same size come before parts of each, and these are of any number.
        ((8, 7), {"nodes": 2, "gpusPerNode": 8}, ["nodes: 1 fits mi300x-ondemand", "gpusPerNode: 7 fits mi300x-ondemand"]),
        ((6, 5, 5), {"nodes": 3, "gpusPerNode": 6}, ["nodes: 1 fits mi300x-ondemand", "gpusPerNode: 5 fits mi300x-ondemand"]),
        ((7,), {"gpusPerNode": 8}, ["gpusPerNode: 7 fits mi300x-ondemand"]),
        ((6,), {"gpusPerNode": 7}, ["gpusPerNode: 6 fits mi300x-ondemand"]),
        ((3,), {"gpusPerNode": 5}, ["gpusPerNode: 3 fits mi300x-ondemand"]),
        # Fewer of both.
        ((3, 0), {"nodes": 2, "gpusPerNode": 8}, ["nodes: 1, gpusPerNode: 3 fits mi300x-ondemand"]),
        # A gang over many nodes, of which most are free.
        ((8,) * 13 + (0,) * 3, {"nodes": 16, "gpusPerNode": 8}, ["nodes: 13 fits mi300x-ondemand"]),
        # Nothing is free, and one GPU has no smaller gang.
        ((0, 0), {"nodes": 2, "gpusPerNode": 8}, []),
        ((0,), {}, []),
    ],
)  # fmt: skip
def test_what_would_start_now(free: tuple[int, ...], spec: dict[str, Any], starts: list[str]) -> None:
    assert sentences(*(busy(f"n{number}", left) for number, left in enumerate(free)), **spec) == starts


def test_another_pool_may_have_room_for_less() -> None:
    assert sentences(busy("m", 0), busy("h", 2, H100), gpusPerNode=4) == ["gpusPerNode: 2 fits h100-sxm-ondemand"]


def test_an_entry_of_shapes_is_named() -> None:
    shapes = [{"accelerator": "MI300X", "nodes": 2, "gpusPerNode": 8}]
    assert sentences(busy("a", 8), busy("b", 0), shapes=shapes) == ["shapes[0].nodes: 1 fits mi300x-ondemand"]


def test_nodes_that_must_be_added_do_not_start_now() -> None:
    added = {"maxNodes": 1, "gpusPerNode": 8, "cpu": "64", "memory": "500Gi", "driverVersion": "6.16.6"}
    pool = gpupool("cloud", {"a": "b"}, accelerator="MI300X", provision=added)
    held = [
        node("n", MI300X, labels={"a": "b"}),
        pod("p", "n", {"amd.com/gpu": 8}),
        node("o", MI300X, cordoned=True, labels={"a": "b"}),
    ]
    asked = {"nodes": 2, "gpusPerNode": 8, "placement": {"pools": {"allow": ["cloud"]}}}
    assert sentences(held, [pool], **asked) == []


def test_the_model_still_has_to_fit() -> None:
    model = {"name": "llama-3.1-70b", "method": "Inference", "inference": {"maxTokens": 2048, "concurrency": 1}}
    assert sentences(busy("h", 5, H100), gpusPerNode=8, model=model) == ["gpusPerNode: 4 fits h100-sxm-ondemand"]
    assert sentences(busy("h", 1, H100), gpusPerNode=8, model=model) == []


@pytest.mark.parametrize(("free", "starts"), [(7, 4), (6, 4), (3, 2)])
def test_a_smaller_gang_divides_the_heads_of_its_model(free: int, starts: int) -> None:
    model = {"name": "llama-3.1-70b", "method": "Inference", "inference": {"maxTokens": 2048, "concurrency": 1}}
    assert sentences(busy("m", free), gpusPerNode=8, model=model) == [f"gpusPerNode: {starts} fits mi300x-ondemand"]


def test_a_number_of_gpus_that_the_model_gives_has_no_smaller_one() -> None:
    model = {"name": "llama-3.1-70b", "method": "Inference", "inference": {"maxTokens": 2048, "concurrency": 1}}
    assert sentences(busy("h", 1, H100), model=model) == []


def test_a_pool_with_room_for_the_job_is_named_by_the_sentence_alone() -> None:
    waits = {"objective": "Cost", "waitSeconds": 60}
    cheap = [node("m", MI300X, price="1"), pod("p", "m", {"amd.com/gpu": 8})]
    assert sentences(cheap, busy("h", 8, H100), gpusPerNode=8, placement=waits) == []


def test_a_gang_that_would_wait_for_a_better_pool_does_not_start_now() -> None:
    cheap = [node("a", MI300X, price="1"), pod("p", "a", {"amd.com/gpu": 4})]
    dear = [node("b", MI300X, price="2"), pod("q", "b", {"amd.com/gpu": 2})]
    waits = {"objective": "Cost", "waitSeconds": 600}
    nodes = "nodes: 2, gpusPerNode: 4 fits "
    found = sentences(cheap, dear, gpusPerNode=8, placement=waits)
    assert [each.removeprefix(nodes) == each for each in found] == [False, True]
    assert found[1].startswith("gpusPerNode: 4 fits mi300x-ondemand-")
    without = sentences(cheap, dear, gpusPerNode=8, placement={"objective": "Cost"})
    assert without[1].startswith("gpusPerNode: 6 fits mi300x-ondemand-")


WAITS = {"objective": "Cost", "waitSeconds": 600}


@pytest.mark.parametrize(("wait", "starts"), [
    # The smaller gang would wait for the other shape on the faster pool.
    ({"waitSeconds": 600}, []),
    ({}, ["shapes[0].gpusPerNode: 4 fits h100-sxm-ondemand"]),
])  # fmt: skip
def test_the_other_shapes_of_the_job_stay(wait: dict[str, Any], starts: list[str]) -> None:
    shapes = [{"accelerator": "H100", "gpusPerNode": 8}, {"accelerator": "MI300X", "gpusPerNode": 5}]
    placement = {"objective": "Speed", **wait}
    assert sentences(busy("h", 4, H100), busy("m", 0), shapes=shapes, placement=placement) == starts


@pytest.mark.parametrize(("cheap", "starts"), [
    # Up to four would wait for the cheaper pool of four, which is taken.
    (4, ["gpusPerNode: 6 fits mi300x-ondemand"]),
    (7, []),
])  # fmt: skip
def test_the_largest_gang_may_start_where_smaller_ones_would_wait(cheap: int, starts: list[str]) -> None:
    taken = [node("h", H100, cheap, price="1"), pod("q", "h", {"nvidia.com/gpu": cheap})]
    assert sentences(busy("m", 6), taken, gpusPerNode=7 if cheap == 4 else 8, placement=WAITS) == starts


@pytest.mark.parametrize(
    ("free", "spec", "starts"),
    [
        # The larger gang starts on nodes that can be added.
        (2, {"nodes": 3, "gpusPerNode": 8}, "nodes: 2 fits grows once nodes are added"),
        (0, {"nodes": 3, "gpusPerNode": 8}, "nodes: 2 fits grows once nodes are added"),
        # A price limit holds for their hosts too.
        (2, {"nodes": 3, "gpusPerNode": 8, "placement": {"maxPricePerHour": "120"}}, "nodes: 2 fits grows once nodes are added"),
    ],
)  # fmt: skip
def test_nodes_that_can_be_added_count(free: int, spec: dict[str, Any], starts: str) -> None:
    new = {"gpusPerNode": 8, "cpu": 96, "memory": "1000Gi", "ephemeralStorage": "1000Gi"}
    pool = gpupool("grows", {"pool": "grows"}, accelerator="MI300X", provision=new | {"maxNodes": 3})
    there = [node("a", MI300X, labels={"pool": "grows"}, price="2"), pod("p", "a", {MI300X.resource: 8 - free})]
    assert starts in sentences([pool, *there], **spec)
