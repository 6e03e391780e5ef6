"""Which of the pools and images that fit is chosen."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, ANY_IMAGES, H100, L4, MI210, MI300X, MI355X, Object, decision, images, node, pod

from gpujob.catalog.catalog import Catalog
from gpujob.placement.scoring.candidate import best_per_pool
from gpujob.values.vocabulary import Outcome, Reason, Verdict

UNPRICED = {"amd.com/gpu.device-id": "738c", "amd.com/gpu.vram": "32G"}


def order(*objects: Object, **spec: Any) -> list[str]:
    """Accelerators of the pools that fit, best first."""
    found = best_per_pool(decision(*objects, **spec))
    return [c.pool.accelerator_id for c in found if c.outcome in (Outcome.CHOSEN, Outcome.FITS)]


def test_the_cheaper_pool_is_first_and_one_without_a_price_last() -> None:
    unpriced = node("u", labels=UNPRICED, devices={"amd.com/gpu": "8"})
    nodes = [unpriced, node("a", H100, price="2"), node("b", MI300X, price="1")]
    assert order(*nodes) == ["MI300X", "H100-SXM", "MI100"]
    assert order(*nodes, placement={"maxPricePerHour": "5"}) == ["MI300X", "H100-SXM"]


def test_at_one_price_fewer_warning_then_more_speed_then_less_memory_then_the_name() -> None:
    smaller = {"nvidia.com/gpu.memory": "70000"}
    nodes = [
        node("a", MI355X, price="1"),
        node("b", MI210, price="1"),
        node("c", A100, price="1", labels=smaller),
        node("d", MI300X, price="1"),
    ]
    assert order(*nodes, placement={"objective": "Cost"}) == ["MI355X", "MI300X", "MI210", "A100-80GB"]
    same = [node("a", L4, 1, price="1", labels={"kubernetes.io/arch": "amd64"}), node("b", L4, 1, price="1.0")]
    found = decision(*same)
    assert [c.pool.name for c in found.candidates] == sorted(c.pool.name for c in found.candidates)


def test_a_device_of_unknown_memory_comes_after_known_ones() -> None:
    unknown = node("u", devices={"amd.com/gpu": "1"}, labels={"amd.com/gpu.device-id": "74a2"}, price="1")
    assert order(unknown, node("a", MI300X, price="1")) == ["MI300X", "MI308X"]


def test_the_price_is_that_of_the_whole_job() -> None:
    found = decision(node("a", H100, price="2.10"), gpusPerNode=8)
    assert found.candidates[0].price_per_hour == 16_800_000


def test_outcomes_are_ranked_before_prices() -> None:
    found = decision(
        node("fits", H100, price="9"),
        node("busy", MI300X, price="1", cordoned=True),
        node("unknown", devices={"amd.com/gpu": "8"}, price="0"),
        node("rejected", L4, 4, price="0"),
        gpuMemory="64G",
    )
    assert [c.outcome for c in best_per_pool(found)] == [
        Outcome.CHOSEN, Outcome.BUSY, Outcome.MISCONFIGURED, Outcome.REJECTED,
    ]  # fmt: skip


ROWS = [
    {"name": "old", "backend": "CUDA", "architectures": ["9.0"], "framework": {"name": "pytorch", "version": "2.9"}},
    {"name": "new", "backend": "CUDA", "architectures": ["9.0"], "framework": {"name": "pytorch", "version": "2.14"}},
    {
        "name": "newest-backend", "backend": "CUDA", "architectures": ["9.0"], "backendVersion": "13.10",
        "framework": {"name": "pytorch", "version": "2.14"},
    },
    {
        "name": "foreign", "backend": "CUDA", "architectures": ["9.0"], "preference": 99,
        "framework": {"name": "vllm", "version": "9"},
    },
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "spec", "name"),
    [
        (ROWS[:2], {}, "new"),
        (ROWS, {}, "newest-backend"),
        ([*ROWS, {**ROWS[0], "name": "preferred", "preference": 1}], {}, "preferred"),
        (ROWS, {"framework": {"version": "<2.10"}}, "old"),
        (ROWS, {"framework": {"name": "vllm"}}, "foreign"),
        ([{**ROWS[1], "name": "b"}, {**ROWS[1], "name": "a"}], {}, "a"),
    ],
)
def test_of_the_images_that_run_the_preferred_then_the_newest_is_taken(
    rows: list[Object], spec: Object, name: str
) -> None:
    found = decision(node("n", H100), catalog=images(*rows), **spec)
    assert found.choice is not None
    assert found.choice.candidate.runtime.name == name


@pytest.mark.parametrize(
    ("objects", "spec", "verdict"),
    [
        ([node("n", H100)], {}, Verdict.PLACED),
        ([node("n", H100, cordoned=True), node("m", devices={"amd.com/gpu": "1"})], {}, Verdict.WAITING),
        ([node("n", L4, 4), node("m", devices={"amd.com/gpu": "1"})], {"gpuMemory": "64G"}, Verdict.MISCONFIGURED),
        ([node("n", L4, 4)], {"gpuMemory": "64G"}, Verdict.IMPOSSIBLE),
        ([node("n", H100)], {"requires": ["BF61"]}, Verdict.MISCONFIGURED),
        ([node("n", H100)], {"placement": {"pools": {"allow": ["nowhere"]}}}, Verdict.MISCONFIGURED),
        ([node("n", H100)], {"placement": {"accelerators": {"allow": ["H1OO"]}}}, Verdict.MISCONFIGURED),
        ([node("n", H100)], {"images": {"cuda": {"image": "own:1", "runtime": "none"}}}, Verdict.MISCONFIGURED),
        ([node("n")], {}, Verdict.IMPOSSIBLE),
    ],
)
def test_verdicts(objects: list[Object], spec: Object, verdict: Verdict) -> None:
    assert decision(*objects, **spec).verdict is verdict


def test_own_images_are_tried_where_they_are_for() -> None:
    nodes = [node("n", H100, price="2"), node("a", MI300X, price="1")]
    one = decision(*nodes, images={"cuda": {"image": "own:cuda"}})
    assert one.choice is not None
    assert (one.choice.candidate.runtime.image, one.choice.nodes) == ("own:cuda", ("n",))
    assert Reason.IMAGE_UNCHECKED in {warning.reason for warning in one.choice.candidate.warnings}
    both = decision(*nodes, images={"cuda": {"image": "own:cuda"}, "rocm": {"image": "own:rocm", "runtime": "rocm"}})
    assert both.choice is not None
    assert both.choice.candidate.runtime.image == "own:rocm"
    assert Reason.IMAGE_UNCHECKED not in {warning.reason for warning in both.choice.candidate.warnings}


@pytest.mark.parametrize(("backend", "image", "other"), [
    ("cuda", "rocm/pytorch:rocm6.4_ubuntu24.04", "ROCm"),
    ("cuda", "own/train:rocm6", "ROCm"),
    ("cuda", "own/train:cu124", ""),
    ("cuda", "own/both:cuda12-rocm6", ""),
    ("cuda", "own/procmail:1", ""),
    ("rocm", "nvcr.io/nvidia/pytorch:25.01-py3", "CUDA"),
    ("rocm", "own/train:torch2.6-cu126", "CUDA"),
    ("rocm", "rocm/pytorch", ""),
    ("rocm", "own:1", ""),
])  # fmt: skip
def test_an_image_with_the_name_of_the_other_stack_gets_a_warning(backend: str, image: str, other: str) -> None:
    placed = decision(node("n", H100), node("a", MI300X), images={backend: {"image": image}})
    assert placed.choice is not None
    said = [each.message for each in placed.choice.candidate.warnings if each.reason is Reason.IMAGE_UNCHECKED]
    assert len(said) == 1
    assert (f"{image} has the name of an image for {other}" in said[0]) if other else "has the name" not in said[0]


def test_a_catalog_without_images_of_a_stack_refuses_its_pools_by_name() -> None:
    found = decision(node("a", MI300X), catalog=images(ROWS[0]))
    assert found.verdict is Verdict.IMPOSSIBLE
    assert [r.message for r in found.candidates[0].reasons] == ["the catalog has no image for ROCm"]


def test_equal_choices_have_equal_digests_and_other_choices_others() -> None:
    one, two = decision(node("a", H100)), decision(node("a", H100, price="7"))
    assert one.digest == two.digest
    assert one.digest != decision(node("b", H100)).digest
    assert len(one.digest) == 16


def test_a_device_that_no_build_supports_is_refused_by_name() -> None:
    v520 = node("v", devices={"amd.com/gpu": "1"}, labels={"node.kubernetes.io/instance-type": "g4ad.xlarge"})
    found = decision(v520, catalog=None)
    assert [r.message for r in found.candidates[0].reasons][:1] == [
        "Radeon-PRO-V520 (gfx1011) is supported by no current framework build"
    ]


def test_a_gang_of_one_vendor_only() -> None:
    found = decision(node("a", MI300X), node("n", H100), nodes=2)
    assert found.verdict is Verdict.IMPOSSIBLE


def test_pods_take_part_in_the_choice() -> None:
    nodes = [node("a", MI300X, price="1"), node("n", H100, price="2")]
    full = pod("p", "a", {"amd.com/gpu": 8})
    assert decision(*nodes).candidates[0].pool.accelerator_id == "MI300X"
    assert decision(*nodes, full).candidates[0].pool.accelerator_id == "H100-SXM"


def test_the_catalog_of_a_test_is_the_shipped_one_but_for_its_images() -> None:
    assert isinstance(ANY_IMAGES, Catalog)
    assert {runtime.name for runtime in ANY_IMAGES.runtimes} == {"cuda", "rocm"}
