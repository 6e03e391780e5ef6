"""What placement says of drivers, releases, overrides and images of unknown contents: each sentence once."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, L40S, MI300X, MI355X, V100, decision, images, node

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.files.load import load_catalog
from gpujob.placement.scoring.candidate import Candidate
from gpujob.values.vocabulary import Outcome, Reason, Verdict
from tests.e2e.cluster.nodes import Amd, Nvidia

MI350P = Amd("75a8", "AMD_Instinct_MI350P", 144, 128)
RX7600 = Amd("7480", "AMD_Radeon_RX_7600", 8, 32)
RUBIN = Nvidia("NVIDIA-R100", 294912, "rubin", (13, 0), mig=True)
ROCM = {"name": "rocm", "backend": "ROCm", "architectures": ["gfx942", "gfx950", "gfx1100"]}
CUDA = {"name": "cuda", "backend": "CUDA", "architectures": ["8.0", "9.0", "12.0+PTX"]}


def candidate(gpu: Amd | Nvidia, catalog: Catalog, labels: dict[str, Any] | None = None, **spec: Any) -> Candidate:
    """The first candidate on one node of this device."""
    return decision(
        node("n", gpu, 1, labels=labels, price="1"), catalog=catalog, command=["python"], **spec
    ).candidates[0]


def driver(version: str | None) -> dict[str, Any]:
    """Labels of a node with this amdgpu module, or of one whose labels do not say it."""
    return {"amd.com/gpu.driver-version": version}


def cuda_driver(version: str) -> dict[str, Any]:
    """Labels of a node with this NVIDIA driver."""
    return {"nvidia.com/cuda.driver-version.full": version}


def said(found: Candidate, reason: Reason) -> list[str]:
    """The messages of a candidate's warnings and reasons of one word."""
    return [each.message for each in (*found.warnings, *found.reasons) if each.reason is reason]


@pytest.mark.parametrize(
    ("row", "module", "reason", "sentence"),
    [
        ({}, "6.10.5", Reason.DRIVER_UNTESTED,
         "driver 6.10.5 is older than those that ROCm 7.2 was tried with, 6.12.12 and newer"),
        ({}, "6.19.14", Reason.DRIVER_UNTESTED,
         "driver 6.19.14 is newer than those that ROCm 7.2 was tried with, up to 6.16.13"),
        ({}, None, Reason.DRIVER_UNKNOWN, "no label has the driver; the image needs 6.12.12"),
        ({"driverWindow": {"max": "6.16.99"}}, None, Reason.DRIVER_UNKNOWN,
         "no label has the driver; the image needs at most 6.16.99"),
        ({"driverWindow": {"min": "6.14"}}, "6.12.12", Reason.DRIVER_TOO_OLD, "has driver 6.12.12, needs 6.14"),
        ({"driverWindow": {"min": "6.16.6"}}, "6.16", Reason.DRIVER_UNKNOWN,
         "labels say driver 6.16, the image needs 6.16.6"),
        ({"minDriver": "6.16"}, "6.14.14", Reason.DRIVER_TOO_OLD, "has driver 6.14.14, needs 6.16"),
        ({"backendVersion": "6.3"}, "6.12.12", Reason.DRIVER_UNKNOWN,
         "the driver that ROCm 6.3 needs is unknown; set driverWindow in the image's GPURuntime"),
    ],
)  # fmt: skip
def test_amdgpu_modules(row: dict[str, Any], module: str | None, reason: Reason, sentence: str) -> None:
    found = candidate(MI300X, images({**ROCM, **row}), driver(module))
    assert said(found, reason) == [sentence]
    assert (found.outcome is Outcome.REJECTED) is (reason is Reason.DRIVER_TOO_OLD)


@pytest.mark.parametrize("module", ["6.10.0", "6.12.12", "6.16.99"])
def test_a_module_inside_the_window_is_no_warning(module: str) -> None:
    window = {"driverWindow": {"min": "6.10.0", "max": "6.16.99"}}
    assert not candidate(MI300X, images({**ROCM, **window}), driver(module)).warnings


def test_the_row_s_own_word_counts_more_than_that_of_its_release() -> None:
    assert not candidate(MI300X, images({**ROCM, "minDriver": "6.2"}), driver("6.3.6")).warnings
    older = images({**CUDA, "minDriver": "535"})
    assert candidate(H100, older, cuda_driver("550.54.15")).outcome is Outcome.CHOSEN


def test_an_unknown_release_of_cuda_is_a_warning() -> None:
    found = candidate(H100, images({**CUDA, "backendVersion": "14.0"}))
    assert said(found, Reason.DRIVER_UNKNOWN) == [
        "the driver that CUDA 14.0 needs is unknown; set minDriver in the image's GPURuntime"
    ]


def test_forward_compatibility_is_for_the_branches_that_are_named() -> None:
    forward = images({**CUDA, "architectures": ["8.6"], "features": ["ForwardCompatibility"]})
    outcomes = {}
    for version in ("470.57.02", "535.54.03", "535.104.05", "545.23.08", "550.54.15", "570.26", "580.65.06"):
        outcomes[version] = candidate(L40S, forward, cuda_driver(version)).outcome is Outcome.CHOSEN
    assert outcomes == {
        "470.57.02": False, "535.54.03": False, "535.104.05": True, "545.23.08": False, "550.54.15": True,
        "570.26": True, "580.65.06": True,
    }  # fmt: skip
    found = candidate(L40S, forward, cuda_driver("550.54.15"))
    assert said(found, Reason.DRIVER_FORWARD) == [
        "driver 550.54.15 is older than 580: the compatibility package in the image must make up for it"
    ]


def test_a_model_that_came_with_a_later_release() -> None:
    found = candidate(MI350P, images(ROCM), driver("6.19.14"))
    assert said(found, Reason.ARCH_UNSUPPORTED) == ["MI350P needs ROCm 7.13, image has ROCm 7.2"]
    newer = images({**ROCM, "backendVersion": "7.14.1"})
    assert candidate(MI350P, newer, driver("6.19.14")).outcome is Outcome.CHOSEN
    assert said(candidate(MI350P, newer, driver("6.16.13")), Reason.DRIVER_TOO_OLD) == [
        "has driver 6.16.13, needs 6.19"
    ]
    assert said(candidate(MI355X, newer, driver("6.12.12")), Reason.DRIVER_TOO_OLD) == [
        "has driver 6.12.12, needs 6.14"
    ]


def test_code_that_the_driver_compiles_is_a_warning() -> None:
    found = candidate(RUBIN, images(CUDA))
    assert found.outcome is Outcome.CHOSEN
    assert said(found, Reason.IMAGE_COMPILED_AT_START) == [
        "image has no machine code for compute capability 13.0: the driver compiles its PTX when the program starts"
    ]


def test_ptx_of_a_newer_toolkit_than_the_driver_comes_after_that_of_an_older_one() -> None:
    labels = dict.fromkeys(key for key in RUBIN.labels(1, "") if "cuda.driver" in key) | cuda_driver("580.95.05")
    newer = {**CUDA, "name": "newer", "backendVersion": "13.2"}
    found = candidate(RUBIN, images(newer), labels)
    assert said(found, Reason.IMAGE_COMPILED_AT_START)[1:] == [
        "driver 580.95.05 is older than that of CUDA 13.2, 595.45.04, and may not compile the PTX in the image"
    ]
    older = {**CUDA, "name": "older", "backendVersion": "13.0"}
    found = candidate(RUBIN, images(newer, older), labels)
    assert (found.runtime.name, len(said(found, Reason.IMAGE_COMPILED_AT_START))) == ("older", 1)
    assert not said(candidate(H100, images(newer), labels), Reason.IMAGE_COMPILED_AT_START)


def test_machine_code_comes_before_what_must_be_compiled() -> None:
    native = {**CUDA, "name": "native", "architectures": ["13.0"], "framework": {"name": "pytorch", "version": "2.9"}}
    found = candidate(RUBIN, images(CUDA, native))
    assert found.runtime.name == "native"


def override(version: str) -> dict[str, Any]:
    """The part of a job that asks for an override."""
    return {"envByBackend": {"rocm": [{"name": "HSA_OVERRIDE_GFX_VERSION", "value": version}]}}


def test_an_override_is_said_where_it_is_set_and_where_it_is_not() -> None:
    found = candidate(RX7600, images(ROCM), **override("11.0.0"))
    assert said(found, Reason.ARCH_OVERRIDDEN) == [
        "HSA_OVERRIDE_GFX_VERSION 11.0.0 makes RX-7600 (gfx1102) pass for gfx1100, which AMD does not support"
    ]
    found = candidate(MI300X, images(ROCM), **override("11.0.0"))
    assert said(found, Reason.OVERRIDE_NOT_SET) == [
        "HSA_OVERRIDE_GFX_VERSION is not set here: MI300X (gfx942) has code of its own in the image"
    ]
    found = candidate(RX7600, images(ROCM), **override("12.0.0"))
    assert found.outcome is Outcome.REJECTED
    assert said(found, Reason.OVERRIDE_NOT_SET) == [
        "HSA_OVERRIDE_GFX_VERSION is not set here: RX-7600 (gfx1102) cannot pass for gfx1200 with this image"
    ]


def test_an_override_that_is_not_needed_is_not_set() -> None:
    own = images({**ROCM, "architectures": ["gfx1100", "gfx1102"]})
    assert said(candidate(RX7600, own, **override("11.0.0")), Reason.ARCH_OVERRIDDEN) == []


@pytest.mark.parametrize(
    "value", [{"valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}, {"value": "11"}, {"value": "9.4.99"}]
)
def test_an_override_that_cannot_be_read_must_be_mended(value: dict[str, Any]) -> None:
    spec = {"envByBackend": {"rocm": [{"name": "HSA_OVERRIDE_GFX_VERSION", **value}]}}
    found = decision(node("n", RX7600, 1), catalog=images(ROCM), **spec)
    assert [problem.reason for problem in found.problems] == [Reason.INVALID_SPEC]


def test_a_native_image_comes_before_an_override() -> None:
    older = {"framework": {"name": "pytorch", "version": "2.9"}, "architectures": ["gfx1102"], "name": "native"}
    found = candidate(RX7600, images(ROCM, {**ROCM, **older}), **override("11.0.0"))
    assert found.runtime.name == "native"


@pytest.mark.parametrize(
    ("gpu", "driver", "need"),
    [
        (H100, "450.80.02", "525.60.13"),
        (V100, "450.80.02", "525.60.13"),
        (Nvidia("NVIDIA-B200", 183359, "blackwell", (10, 0), mig=True), "550.54", "570.26"),
    ],
)
def test_the_driver_that_is_asked_for_is_the_oldest_that_any_image_of_the_pool_needs(
    gpu: Nvidia, driver: str, need: str
) -> None:
    labels = {"nvidia.com/cuda.driver-version.full": driver}
    found = decision(node("n", gpu, labels=labels), catalog=load_catalog())
    assert found.verdict is Verdict.IMPOSSIBLE
    assert found.candidates[0].reasons[0].message == f"has driver {driver}, needs {need}"
    newer = decision(node("n", gpu, labels={"nvidia.com/cuda.driver-version.full": need}), catalog=load_catalog())
    assert newer.verdict is Verdict.PLACED


@pytest.mark.parametrize(
    ("module", "release"),
    [
        # Of images that were not tried with a module the one nearest to it, older or newer.
        ("6.10.5", "7.2"),
        ("6.3.6", "7.2"),
        ("6.13.0", "7.2"),
        ("9.9.9", "10.0"),
        # Among modules that both were tried with, and if none is known, the newer release.
        ("6.16.13", "10.0"),
        (None, "10.0"),
    ],
)
def test_the_image_nearest_to_an_untested_driver(module: str | None, release: str) -> None:
    both = images({**ROCM, "name": "new", "backendVersion": "10.0"}, {**ROCM, "name": "old"})
    assert candidate(MI300X, both, driver(module)).runtime.name == {"7.2": "old", "10.0": "new"}[release]


def test_a_plain_image_goes_before_a_nearer_driver() -> None:
    both = images({**ROCM, "name": "new", "backendVersion": "10.0", "preference": 10}, {**ROCM, "name": "old"})
    assert candidate(MI300X, both, driver("6.10.5")).runtime.name == "new"
