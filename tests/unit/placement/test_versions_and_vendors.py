"""A version that no image of the job's vendors has: the nearest one is said, and no other vendor is added in its place."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, MI210, MI300X, T4, demand, fleet, node

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.summary import summary
from gpujob.placement.scoring.candidate import Decision, best_per_pool
from gpujob.placement.suggestions.search import with_fix

CATALOG = load_catalog()
DRIVER = {"nvidia.com/cuda.driver-version.full": "580.95.05"}
FLEET = fleet(
    node("t", T4, labels=DRIVER, price="0.50"),
    node("i", MI210, price="1"),
    node("m", MI300X, price="2"),
    node("h", H100, labels=DRIVER, price="3"),
    catalog=CATALOG,
)


def decided(**spec: Any) -> Decision:
    return with_fix(decide(demand(**spec), FLEET, CATALOG), FLEET, CATALOG)


def change(found: Decision) -> tuple[str, object]:
    assert found.fix is not None
    (only,) = found.fix.changes
    return only.field, only.after


@pytest.mark.parametrize(
    "words",
    [
        {"vendors": ["NVIDIA"]},
        {"accelerators": {"allow": ["H100-SXM"]}},
        {"accelerators": {"allow": ["T4", "H100-SXM"]}},
        {"pools": {"allow": ["h100-sxm-ondemand"]}},
        {"vendors": ["NVIDIA"], "maxPricePerHour": "4"},
    ],
)
def test_the_version_changes_and_not_the_vendor(words: dict[str, Any]) -> None:
    found = decided(framework={"name": "tensorflow", "version": ">=2.20"}, placement=words)
    assert change(found) == ("spec.framework.version", "==2.17.0")
    assert found.candidates[0].reasons[0].message == "needs tensorflow >=2.20, image has tensorflow 2.17.0"


def test_of_the_other_vendor_the_same() -> None:
    found = decided(framework={"name": "tensorflow", "version": "<2.18"}, placement={"vendors": ["AMD"]})
    assert change(found) == ("spec.framework.version", "==2.20")


@pytest.mark.parametrize(
    ("name", "asked"),
    [("vllm", "<0.1"), ("jax", "<0.1"), ("jax", ">=9"), ("pytorch", "<1"), ("pytorch", ">=3"), ("sglang", ">=9"), ("vllm", ">=99")],
)  # fmt: skip
def test_the_sentence_and_the_fix_name_one_version(name: str, asked: str) -> None:
    found = decided(framework={"name": name, "version": asked})
    field, after = change(found)
    assert field == "spec.framework.version"
    assert found.fix is not None
    said = next(each for each in best_per_pool(found) if each.pool.name == found.fix.pool)
    version = str(after).removeprefix("==")
    assert f"needs {name} {asked}, image has {name} {version}" in said.reasons[0].message
    assert f"needs {name} {asked}, image has {name} " in summary(found)


def test_the_version_of_python_that_is_nearest_is_said() -> None:
    found = decided(framework={"name": "pytorch", "python": "<3.10"}, placement={"vendors": ["AMD"]})
    field, after = change(found)
    assert field == "spec.framework.python"
    assert f"image has Python {str(after).removeprefix('==')}" in found.candidates[0].reasons[0].message


@pytest.mark.parametrize("word", ["Triton", "triton", "TorchInductor", "inductor"])
def test_triton_is_in_every_pytorch_image(word: str) -> None:
    found = decided(requires=[word])
    assert [problem.message for problem in found.problems] == [
        f"requires: {word} is in every PyTorch image; write TorchCompile in its place, which has the C compiler that Triton needs"
    ]
    assert change(found) == ("spec.requires", ["TorchCompile"])


@pytest.mark.parametrize("word", ["SDPA", "FSDP", "gloo", "torchrun", "AMP"])
def test_a_part_of_pytorch_is_left_out(word: str) -> None:
    found = decided(requires=[word, "BF16"])
    assert [problem.message for problem in found.problems] == [
        f"requires: {word} is part of PyTorch, which every image of it has; leave it out"
    ]
    assert change(found) == ("spec.requires", ["BF16"])


@pytest.mark.parametrize(
    ("word", "stack", "vendor"),
    [
        ("cuSPARSE", "CUDA", "NVIDIA"),
        ("cuFFT", "CUDA", "NVIDIA"),
        ("rocFFT", "ROCm", "AMD"),
        ("hipBLAS", "ROCm", "AMD"),
    ],
)
def test_a_library_of_a_stack_means_its_vendor(word: str, stack: str, vendor: str) -> None:
    found = decided(requires=[word])
    assert [problem.message for problem in found.problems] == [
        f"requires: {word} is in every {stack} image; write placement.vendors: [{vendor}] in its place"
    ]
    assert found.fix is not None
    assert {change.field: change.after for change in found.fix.changes} == {
        "spec.placement.vendors": [vendor],
        "spec.requires": None,
    }
