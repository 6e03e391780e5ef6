"""The nearest fix of a refused word is what its sentence says, and never sends the job to the other vendor."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, MI300X, T4, Object, demand, fleet, gpupool, node

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.suggestions.search import with_fix
from gpujob.values.vocabulary import Verdict

CATALOG = load_catalog()
CHEAP_AMD = (node("m", MI300X, price="1"), node("h", H100, price="2.5"))
CHEAP_NVIDIA = (node("m", MI300X, price="3"), node("h", H100, price="2.5"))


def decided(*objects: Object, **spec: Any) -> Decision:
    """The decision with its nearest fix, by the shipped catalog."""
    known = fleet(*objects, catalog=CATALOG)
    return with_fix(decide(demand(**spec), known, CATALOG), known, CATALOG)


def changes(*objects: Object, **spec: Any) -> list[tuple[str, object]]:
    """The fields of the nearest fix and their values; empty without a fix. The job is placed with it, on the pool that it names."""
    fix = decided(*objects, **spec).fix
    if fix is None:
        return []
    after = choose(fix.demand, fleet(*objects, catalog=CATALOG), CATALOG)
    assert after.choice is not None
    assert after.choice.candidate.pool.name == fix.pool
    return [(change.field, change.after) for change in fix.changes]


@pytest.mark.parametrize(
    ("word", "fleet_", "vendor"),
    [
        ("CUDA", CHEAP_AMD, "NVIDIA"), ("cuDNN", CHEAP_AMD, "NVIDIA"), ("NCCL", CHEAP_AMD, "NVIDIA"),
        ("cublas", CHEAP_AMD, "NVIDIA"), ("ROCm", CHEAP_NVIDIA, "AMD"), ("HIP", CHEAP_NVIDIA, "AMD"),
        ("RCCL", CHEAP_NVIDIA, "AMD"), ("MIOpen", CHEAP_NVIDIA, "AMD"), ("hipBLASLt", CHEAP_NVIDIA, "AMD"),
    ],
)  # fmt: skip
def test_the_stack_of_a_vendor_becomes_the_vendor(word: str, fleet_: tuple[Object, ...], vendor: str) -> None:
    found = decided(*fleet_, requires=[word])
    assert f"write placement.vendors: [{vendor}] in its place" in found.problems[0].message
    expected = [("spec.placement.vendors", [vendor]), ("spec.requires", None)]
    assert changes(*fleet_, requires=[word]) == expected
    assert changes(*fleet_, requires=["BF16", word]) == [expected[0], ("spec.requires", ["BF16"])]


@pytest.mark.parametrize(
    ("spec", "fix"),
    [
        # The job says the vendor already.
        ({"requires": ["CUDA"], "placement": {"vendors": ["NVIDIA"]}}, [("spec.requires", None)]),
        ({"requires": ["RCCL"], "images": {"rocm": {"image": "own:1"}}}, [("spec.requires", None)]),
        # Its fields or words name both.
        ({"requires": ["CUDA"], "placement": {"vendors": ["AMD"]}}, []),
        (
            {"requires": ["ROCm"], "images": {"cuda": {"image": "own:1"}}},
            [("spec.placement.vendors", ["AMD"]), ("spec.images", None), ("spec.requires", None)],
        ),
        ({"requires": ["CUDA", "ROCm"]}, [("spec.requires", None)]),
        # No image of the catalog is known to have the library; an own one is taken to have it.
        ({"requires": ["TensorRT"]}, []),
        ({"requires": ["MIGraphX"], "images": {"cuda": {"image": "own:1"}}}, []),
        ({"requires": ["TensorRT"], "images": {"cuda": {"image": "own:1"}}}, [("spec.requires", None)]),
        (
            {"requires": ["AITER"], "images": {"cuda": {"image": "own:1"}, "rocm": {"image": "own:1"}}},
            [("spec.placement.vendors", ["AMD"]), ("spec.requires", None)],
        ),
        ({"requires": ["ZLUDA"]}, [("spec.requires", ["CustomCUDAKernels"])]),
        ({"requires": ["zluda", "BF16"]}, [("spec.requires", ["BF16", "CustomCUDAKernels"])]),
        ({"requires": ["NVLink"]}, []),
        ({"requires": ["NVLink"], "placement": {"accelerators": {"allow": ["H100"]}}}, [("spec.requires", None)]),
        ({"requires": ["RDMA"]}, []),
        ({"requires": ["RDMA"], "placement": {"pools": {"allow": ["h100-sxm-ondemand"]}}}, [("spec.requires", None)]),
    ],
)  # fmt: skip
def test_a_word_that_is_no_feature_becomes_what_its_sentence_says(
    spec: dict[str, Any], fix: list[tuple[str, object]]
) -> None:
    assert changes(*CHEAP_AMD, **spec) == fix


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            {"requires": ["CUDA"], "placement": {"vendors": ["NVIDIA"]}},
            "requires: CUDA is no feature; leave it out, because the job runs on NVIDIA only",
        ),
        (
            {"requires": ["TensorRT"], "images": {"cuda": {"image": "own:1"}}},
            "requires: TensorRT is no feature; leave it out, because the job has spec.images.cuda",
        ),
        (
            {"requires": ["InfiniBand"], "placement": {"pools": {"allow": ["h100-sxm-ondemand"]}}},
            "requires: InfiniBand is no feature; leave it out, because the job has spec.placement.pools",
        ),
    ],
)
def test_a_word_that_another_field_says_is_to_be_left_out(spec: dict[str, Any], sentence: str) -> None:
    assert [finding.message for finding in decided(*CHEAP_AMD, **spec).problems] == [sentence]


def test_a_layer_for_cuda_programs_stays_on_cuda_or_has_no_fix() -> None:
    found = decided(node("m", MI300X, price="1"), requires=["ZLUDA"])
    assert found.verdict is Verdict.MISCONFIGURED
    assert found.fix is None


def test_a_network_is_named_by_the_pools_that_have_it() -> None:
    fast = gpupool("fast", {"net": "ib"}, fabric={"capabilities": ["IPC_LOCK"]})
    objects = (*CHEAP_AMD, fast, node("f", H100, price="4", labels={"net": "ib"}))
    expected = [("spec.placement.pools.allow", ["fast"]), ("spec.requires", None)]
    assert changes(*objects, requires=["InfiniBand"]) == expected


@pytest.mark.parametrize(
    ("objects", "words", "fix"),
    [
        (CHEAP_AMD, ["FP8"], ["FP8OCP"]),
        (CHEAP_AMD, ["fp-8", "BF16"], ["BF16", "FP8OCP"]),
        # The other format is another program.
        ((node("m", MI300X, price="1"),), ["FP8"], None),
        ((node("t", T4, price="1"),), ["fp8"], None),
    ],
)
def test_a_name_of_two_number_formats_is_taken_for_that_of_published_checkpoints(
    objects: tuple[Object, ...], words: list[str], fix: list[str] | None
) -> None:
    assert changes(*objects, requires=words) == ([("spec.requires", fix)] if fix else [])
