"""Every device against every shipped image and feature, held against figures of the vendors' documentation typed here.

The tables are those of PyTorch's build scripts, ROCm's compatibility matrix and the packages' documentation (November
2026); a row of the catalog that says more or less than they do fails.
"""

from __future__ import annotations

import pytest

from gpujob.catalog.devices.architecture import runs_on
from gpujob.catalog.entities import Accelerator
from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.images.runtime import Runtime
from gpujob.catalog.images.versions import at_least
from gpujob.values.vocabulary import Backend

CATALOG = load_catalog()

CUDA_RUNS = {
    # Capability: runs code of CUDA 12.6 images, of CUDA 13 images.
    "5.0": (True, False), "6.0": (True, False), "6.1": (True, False), "7.0": (True, False), "7.5": (True, True),
    "8.0": (True, True), "8.6": (True, True), "8.9": (True, True), "9.0": (True, True), "10.0": (False, True),
    "10.3": (False, True), "12.0": (False, True), "12.1": (False, True),
}  # fmt: skip

ROCM_RUNS = {
    # Architecture: rocm/pytorch images, Primus, vLLM 0.28 on ROCm 7.2, vLLM 0.27 on ROCm 10.
    "gfx908": (True, False, False, False),
    "gfx90a": (True, False, True, False),
    "gfx942": (True, True, True, True),
    "gfx950": (True, True, True, True),
    "gfx1030": (True, False, False, False),
    "gfx1100": (True, False, True, True),
    "gfx1101": (True, False, True, True),
    "gfx1102": (True, False, False, True),
    "gfx1150": (True, False, False, True),
    "gfx1151": (True, False, False, True),
    "gfx1200": (True, False, True, True),
    "gfx1201": (True, False, True, True),
    "gfx1250": (False, False, False, False),
    "gfx1011": (False, False, False, False),
    "gfx906": (False, False, False, False),
    "gfx900": (False, False, False, False),
}

FROM_TURING = {"7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1"}
BY_AMDS_GUIDE = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201"}
OF_OTHERS = {
    # Images of vLLM for CUDA, SGLang, JAX and TensorFlow: the architectures that run them.
    "vllm-0.28.0-cuda13.0": FROM_TURING,
    "vllm-0.28.0-cuda12.9": FROM_TURING,
    "sglang-0.5.18-cuda13.0": FROM_TURING - {"7.5"},
    "sglang-0.5.18-rocm7.2-mi30x": {"gfx942"},
    "sglang-0.5.18-rocm7.2-mi35x": {"gfx950"},
    "sglang-0.5.13.post1-rocm7.14": {"gfx942", "gfx950"},
    "jax-0.8.1-cuda13.1": FROM_TURING,
    "jax-0.11.0-rocm10.0": BY_AMDS_GUIDE,
    "jax-0.10.0-rocm10.0": BY_AMDS_GUIDE,
    "jax-0.10.0-rocm7.14": BY_AMDS_GUIDE,
    "jax-0.9.1-rocm7.14": BY_AMDS_GUIDE,
    "jax-0.8.2-rocm7.2.4": {"gfx90a", "gfx942", "gfx950"},
    "tensorflow-2.17.0-cuda12.8": FROM_TURING,
    "tensorflow-2.21-rocm10.0": BY_AMDS_GUIDE,
    "tensorflow-2.20-rocm10.0": BY_AMDS_GUIDE,
    "tensorflow-2.20-rocm7.14.1": BY_AMDS_GUIDE,
}

FEATURES = {
    # Architecture: what its devices can do, without the words that only images have.
    "3.7": set(),
    "5.2": set(),
    "6.0": {"BitsAndBytes"},
    "6.1": {"BitsAndBytes"},
    "7.0": {"BitsAndBytes"},
    "7.5": {"BitsAndBytes", "XFormers"},
    "8.0": {"BF16", "TF32", "FlashAttention", "TorchCompile", "BitsAndBytes", "XFormers", "TransformerEngine"},
    "8.6": {"BF16", "TF32", "FlashAttention", "TorchCompile", "BitsAndBytes", "XFormers", "TransformerEngine"},
    "8.9": {
        "BF16",
        "TF32",
        "FP8OCP",
        "FlashAttention",
        "TorchCompile",
        "BitsAndBytes",
        "XFormers",
        "TransformerEngine",
    },
    "9.0": {
        "BF16",
        "TF32",
        "FP8OCP",
        "FlashAttention",
        "TorchCompile",
        "BitsAndBytes",
        "XFormers",
        "TransformerEngine",
    },
    "10.0": {"BF16", "TF32", "FP8OCP", "MXFP", "TorchCompile", "BitsAndBytes", "XFormers", "TransformerEngine"},
    "10.3": {"BF16", "TF32", "FP8OCP", "MXFP", "TorchCompile", "BitsAndBytes", "XFormers", "TransformerEngine"},
    "11.0": {"BF16", "TF32", "FP8OCP", "MXFP"},
    "12.0": {"BF16", "TF32", "FP8OCP", "MXFP", "TorchCompile", "BitsAndBytes", "TransformerEngine"},
    "12.1": {"BF16", "TF32", "FP8OCP", "MXFP", "TorchCompile", "BitsAndBytes"},
    "gfx908": {"BF16", "TorchCompile", "BitsAndBytes"},
    "gfx90a": {"BF16", "FlashAttention", "TorchCompile", "BitsAndBytes", "XFormers"},
    "gfx942": {
        "BF16",
        "TF32",
        "FP8FNUZ",
        "FlashAttention",
        "TorchCompile",
        "BitsAndBytes",
        "XFormers",
        "TransformerEngine",
    },
    "gfx950": {"BF16", "FP8OCP", "MXFP", "FlashAttention", "TorchCompile", "BitsAndBytes", "TransformerEngine"},
    "gfx1250": {"BF16", "FP8OCP", "BitsAndBytes"},
    "gfx1030": {"TorchCompile", "BitsAndBytes"},
    "gfx1100": {"BF16", "FlashAttention", "TorchCompile", "BitsAndBytes"},
    "gfx1101": {"BF16", "FlashAttention", "TorchCompile", "BitsAndBytes"},
    "gfx1102": {"BF16", "FlashAttention", "TorchCompile", "BitsAndBytes"},
    "gfx1151": {"BF16", "TorchCompile", "BitsAndBytes"},
    "gfx1200": {"BF16", "FP8OCP", "FlashAttention", "TorchCompile", "BitsAndBytes"},
    "gfx1201": {"BF16", "FP8OCP", "FlashAttention", "TorchCompile", "BitsAndBytes"},
    "gfx1011": set(),
    "gfx906": set(),
    "gfx900": set(),
}

BITS_AND_BYTES_SINCE = {"gfx908": "7.14", "gfx1030": "7.14", "gfx1250": "7.14"}

each_device = pytest.mark.parametrize("device", CATALOG.accelerators, ids=lambda row: row.id)


def rocm_column(row: Runtime) -> int:
    """The column of ROCM_RUNS that an image is in."""
    if row.framework == "vllm":
        return 3 if row.backend_release[0] == 10 else 2
    return 1 if row.name.startswith("primus") else 0


@pytest.mark.parametrize("capability", CUDA_RUNS)
def test_cuda_images_run_where_their_wheels_have_code(capability: str) -> None:
    for row in CATALOG.runtimes:
        if row.backend is Backend.CUDA and row.name not in OF_OTHERS:
            column = 0 if row.backend_release[0] == 12 else 1
            assert runs_on(capability, row.architectures) is CUDA_RUNS[capability][column], row.name


@pytest.mark.parametrize("gfx", ROCM_RUNS)
def test_rocm_images_run_where_they_have_code(gfx: str) -> None:
    for row in CATALOG.runtimes:
        of_one_family = "gfx94x" in row.name or "rdna" in row.name
        if row.backend is Backend.ROCM and not of_one_family and row.name not in OF_OTHERS:
            assert runs_on(gfx, row.architectures) is ROCM_RUNS[gfx][rocm_column(row)], row.name


@pytest.mark.parametrize("name", OF_OTHERS)
def test_images_of_other_frameworks_run_where_they_have_code(name: str) -> None:
    (row,) = (row for row in CATALOG.runtimes if row.name == name)
    known = CUDA_RUNS if row.backend is Backend.CUDA else ROCM_RUNS
    assert {each for each in known if runs_on(each, row.architectures)} == OF_OTHERS[name]


def test_every_image_is_in_one_of_the_tables() -> None:
    others = {row.name for row in CATALOG.runtimes if row.framework in ("sglang", "jax", "tensorflow")}
    assert others <= set(OF_OTHERS) <= {row.name for row in CATALOG.runtimes}


@each_device
def test_a_device_can_do_what_its_architecture_can(device: Accelerator) -> None:
    assert device.features - {"ForwardCompatibility"} == FEATURES[device.architecture]


@each_device
def test_a_device_of_another_stack_never_has_its_features(device: Accelerator) -> None:
    nvidia = not device.architecture.startswith("gfx")
    assert not (nvidia and "FP8FNUZ" in device.features)
    assert nvidia or "ForwardCompatibility" not in device.features


def test_packages_that_a_card_has_only_from_a_release_on() -> None:
    assert CATALOG.features["BitsAndBytes"].since == BITS_AND_BYTES_SINCE
    others = [row.name for row in CATALOG.features.values() if row.since and row.name != "BitsAndBytes"]
    assert not others


def test_only_grace_graviton_and_tegra_hosts_are_always_arm64() -> None:
    arm = {row.id for row in CATALOG.accelerators if row.host_architecture == "arm64"}
    assert arm == {"GH200-96GB", "GB200", "GB300", "GB10", "T4G", "Thor"}


def test_devices_that_need_a_certain_driver_or_release() -> None:
    needs = {row.id: (row.min_driver, row.min_backend) for row in CATALOG.accelerators if row.architecture == "gfx950"}
    assert needs == {"MI350X": ("6.14", "7.0"), "MI355X": ("6.14", "7.0"), "MI350P": ("6.19", "7.13")}
    radeon = {
        row.id: row.min_driver for row in CATALOG.accelerators if row.architecture == "gfx1201" and row.min_driver
    }
    assert radeon == {"R9700": "6.19", "R9600D": "6.19"}
    blackwell = {row.min_driver for row in CATALOG.accelerators if row.architecture in ("10.0", "10.3", "12.0", "12.1")}
    assert blackwell == {"570.26"}
    rest = {row.id for row in CATALOG.accelerators if row.min_driver} - {*needs, *radeon}
    assert all(not row.architecture.startswith("gfx") for row in CATALOG.accelerators if row.id in rest)


@pytest.mark.parametrize(
    ("backend", "version", "driver", "enough"),
    [
        # minor_version_compat_min of CUDA's release notes.
        ("CUDA", "13.3", "580", True), ("CUDA", "13.0", "579.99", False), ("CUDA", "12.9", "525.60.13", True),
        ("CUDA", "12.6", "525.60.12", False), ("CUDA", "11.8", "450.80.02", True), ("CUDA", "11.8", "450.51", False),
    ],
)  # fmt: skip
def test_releases_of_cuda_run_on_the_driver_of_their_major_version(
    backend: str, version: str, driver: str, *, enough: bool
) -> None:
    major = version.partition(".")[0]
    (row,) = (row for row in CATALOG.stacks if (row.backend, row.version) == (backend, major))
    assert row.min_driver is not None
    assert at_least(driver, row.min_driver) is enough


def test_each_row_of_cuda_s_minor_releases_is_as_its_major_one_but_for_the_toolkit() -> None:
    rows = {row.version: row for row in CATALOG.stacks if row.backend is Backend.CUDA}
    minor = {version: row for version, row in rows.items() if "." in version}
    assert {version: row.toolkit_driver for version, row in minor.items()} == {
        "12.8": "570.26", "12.9": "575.51.03", "13.0": "580.65.06", "13.1": "590.44.01", "13.2": "595.45.04"
    }  # fmt: skip
    for version, row in minor.items():
        major = rows[version.partition(".")[0]]
        assert (row.min_driver, row.forward_drivers) == (major.min_driver, major.forward_drivers)


@pytest.mark.parametrize(
    ("version", "first", "last"),
    [("7.2", "6.12.12", "6.16.13"), ("7.14", "6.14.14", "6.19.14"), ("10.0", "6.14.14", None)],
)
def test_modules_that_releases_of_rocm_were_tried_with(version: str, first: str, last: str | None) -> None:
    (row,) = (row for row in CATALOG.stacks if (row.backend, row.version) == (Backend.ROCM, version))
    assert (row.tested_from, row.tested_to, row.min_driver) == (first, last, None)


def test_every_shipped_image_is_of_a_release_whose_driver_is_known() -> None:
    without = [row.name for row in CATALOG.runtimes if row.stack is None]
    assert without == ["vllm-0.19.1-rocm7.13-gfx94x"]
