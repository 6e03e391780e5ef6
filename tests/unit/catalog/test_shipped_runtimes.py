"""Invariants of the shipped container images."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import pytest
import yaml

from gpujob.api.kinds.gpuruntime import GPURuntimeSpec
from gpujob.catalog.devices.architecture import runs_on
from gpujob.catalog.files.load import _TextLoader, load_catalog
from gpujob.catalog.images.from_spec import runtime_of
from gpujob.catalog.images.runtime import Runtime
from gpujob.values.vocabulary import Backend

CATALOG = load_catalog()
TEXT = files("gpujob.catalog").joinpath("data", "runtimes.yaml").read_text(encoding="utf-8")
RAW = {row["name"]: row for row in yaml.load(TEXT, Loader=_TextLoader)["runtimes"]}
each_row = pytest.mark.parametrize("row", CATALOG.runtimes, ids=lambda row: row.name)


def test_names_are_unique() -> None:
    assert sorted(RAW) == sorted(row.name for row in CATALOG.runtimes)
    assert len(yaml.load(TEXT, Loader=_TextLoader)["runtimes"]) == len(RAW)


@each_row
def test_a_row_is_a_valid_gpuruntime_and_reads_as_one(row: Runtime) -> None:
    raw: Mapping[str, Any] = RAW[row.name]
    fields = {key: value for key, value in raw.items() if key not in ("name", "source", "checkedOn")}
    spec = GPURuntimeSpec.model_validate(fields)
    assert runtime_of(row.name, spec, source=row.source, checked_on=row.checked_on) == row


@each_row
def test_a_row_says_where_it_comes_from(row: Runtime) -> None:
    assert row.source
    assert re.fullmatch(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}", row.checked_on)


@each_row
def test_names_are_names_of_kubernetes_objects(row: Runtime) -> None:
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", row.name)


@each_row
def test_images_are_tagged_and_carry_no_registry_but_nvidias(row: Runtime) -> None:
    repository, _, tag = row.image.partition(":")
    assert tag
    assert tag != "latest"
    assert repository.count("/") == 1 or repository.startswith("nvcr.io/")


@each_row
def test_features_are_known_words_of_the_runtime_level(row: Runtime) -> None:
    assert all("runtime" in CATALOG.features[word].levels for word in row.features)


@each_row
def test_driver_follows_the_major_version_of_cuda(row: Runtime) -> None:
    oldest = {12: "525.60.13", 13: "580.65.06"}
    expected = oldest[row.backend_release[0]] if row.backend is Backend.CUDA else None
    assert row.min_driver == expected


@each_row
def test_only_rocm_is_an_open_source_stack_and_only_cuda_compiles_cuda(row: Runtime) -> None:
    assert ("OpenSourceStack" in row.features) is (row.backend is Backend.ROCM)
    assert "CustomCUDAKernels" not in row.features or row.backend is Backend.CUDA


@each_row
def test_blackwell_needs_more_than_cuda_12_6_and_volta_needs_it(row: Runtime) -> None:
    if row.backend is Backend.CUDA:
        old = row.backend_release == (12, 6)
        assert runs_on("10.0", row.architectures) is not old
        assert runs_on("7.0", row.architectures) is old


@each_row
def test_no_image_claims_devices_that_have_no_pytorch(row: Runtime) -> None:
    assert not {"gfx1011", "gfx906", "gfx900"} & set(row.architectures)


def test_plain_framework_images_come_first_newest_first() -> None:
    names = [row.name for row in CATALOG.runtimes]
    assert names[0] == "pytorch-2.14.1-cuda13.2"
    rocm = [row.name for row in CATALOG.runtimes if row.backend is Backend.ROCM]
    assert rocm[0] == "rocm10.0-py3.12-pytorch-2.13.0"
    assert names.index("ngc-26.09") < names.index("ngc-26.08")  # 2.14 and 2.14.0a0 are the same, CUDA 13.4.1 is newer
    assert rocm.index("rocm7.14.1-py3.12-pytorch-2.10.0") < rocm.index("rocm7.2.4-py3.12-pytorch-2.10.0")
    assert [row.preference for row in CATALOG.runtimes] == sorted(
        (row.preference for row in CATALOG.runtimes), reverse=True
    )


def test_every_supported_data_centre_device_has_an_image() -> None:
    for device in CATALOG.accelerators:
        if device.support == "production":
            runnable = [row for row in CATALOG.runtimes if runs_on(device.architecture, row.architectures)]
            assert any(row.framework == "pytorch" for row in runnable), device.id


def test_arm64_hosts_have_an_image_for_their_devices() -> None:
    arm = [row for row in CATALOG.runtimes if "arm64" in row.cpu_architectures]
    for capability in ("9.0", "10.0", "10.3"):
        assert any(runs_on(capability, row.architectures) for row in arm)


def test_nvidia_builds_count_as_the_release_they_name() -> None:
    releases = {row.name: row.framework_release for row in CATALOG.runtimes}
    assert releases["ngc-26.08"] == (2, 14, 0)
    assert releases["primus-26.3"] == (2, 10, 0)
