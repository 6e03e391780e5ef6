"""Invariants of the shipped accelerators: what a mistyped row would break."""

from __future__ import annotations

from datetime import date

import pytest

from gpujob.catalog.entities import Accelerator
from gpujob.catalog.files.load import load_catalog
from gpujob.values.quantity import GI, MI
from gpujob.values.vocabulary import Vendor

CATALOG = load_catalog()
ROWS = CATALOG.accelerators
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)


def model(name: str) -> Accelerator:
    found = CATALOG.accelerator(name)
    assert found is not None
    return found


def test_no_shipped_row_is_refused() -> None:
    assert CATALOG.refused == ()


def test_ids_are_unique_and_short() -> None:
    assert len({row.id.casefold() for row in ROWS}) == len(ROWS)
    assert all(len(row.id) <= 63 and not set(row.id) & set(" _/") for row in ROWS)


@each_row
def test_every_row_says_where_it_comes_from(row: Accelerator) -> None:
    assert row.source
    assert date.fromisoformat(row.checked_on)


@each_row
def test_memory_only_shrinks_from_the_nominal_size_to_what_a_framework_gets(row: Accelerator) -> None:
    sizes = [size for size in (row.nominal_bytes, row.driver_bytes, row.torch_bytes) if size is not None]
    assert sizes == sorted(sizes, reverse=True)
    if row.driver_bytes and row.nominal_bytes:
        assert row.driver_bytes > row.nominal_bytes * 0.9


@each_row
def test_fp8_is_twice_bf16_as_dense_figures_are(row: Accelerator) -> None:
    if row.bf16_tflops and row.fp8_tflops:
        assert row.fp8_tflops == pytest.approx(2 * row.bf16_tflops, rel=0.015)


@each_row
def test_figures_and_features_of_number_formats_agree(row: Accelerator) -> None:
    if row.bf16_tflops:
        assert "BF16" in row.features
    if row.fp8_tflops:
        assert row.features & {"FP8OCP", "FP8FNUZ"}


@each_row
def test_features_are_known_words_of_the_accelerator_level(row: Accelerator) -> None:
    assert all("accelerator" in CATALOG.features[word].levels for word in row.features)


@each_row
def test_vendor_and_architecture_agree(row: Accelerator) -> None:
    assert row.architecture.startswith("gfx") is (row.vendor is Vendor.AMD)
    assert all(word == word.lower() and len(word) == 4 for word in row.device_ids)
    if row.device_ids or row.compute_units:
        assert row.vendor is Vendor.AMD


@each_row
def test_every_name_of_a_row_finds_it_with_its_own_memory(row: Accelerator) -> None:
    gib = row.nominal_bytes / GI if row.nominal_bytes else None
    for product in row.products:
        assert CATALOG.by_product(product, gib) is row
    for value in row.gke:
        assert CATALOG.by_gke(value) is row
    for name in row.cloud_names:
        assert CATALOG.by_cloud_name(name, int(gib * 1024) if gib else None) is row


@each_row
def test_every_device_id_finds_its_row_by_memory_and_compute_units(row: Accelerator) -> None:
    if row.support != "unsupported":
        gib = row.nominal_bytes / GI if row.nominal_bytes else None
        assert {CATALOG.by_device_id(word, gib, row.compute_units) for word in row.device_ids} <= {row}


def test_what_the_architecture_is_without_pytorch_is_refused_by_name() -> None:
    refused = {row.id for row in ROWS if row.support == "unsupported"}
    assert refused == {"Radeon-PRO-V520", "MI60", "MI50", "MI25", "K80"}
    assert all(not row.features for row in ROWS if row.id in refused)


def test_a_card_of_two_devices_has_half_its_figures_in_each() -> None:
    card = {"MI250": (128, 3277, 362.1), "MI250X": (128, 3277, 383)}
    assert {row.id for row in ROWS if row.devices_per_card > 1} == {*card, "M60", "K80"}
    for name, (gib, bandwidth, tflops) in card.items():
        row = model(name)
        assert row.nominal_bytes == gib * GI / row.devices_per_card
        assert row.bandwidth_gb_s == pytest.approx(bandwidth / row.devices_per_card)
        assert row.bf16_tflops == pytest.approx(tflops / row.devices_per_card)


def test_figures_that_sources_often_get_wrong() -> None:
    assert model("H100-SXM").fp16_tflops == model("H100-SXM").bf16_tflops == 989  # 1979 is with sparsity
    assert model("H100-SXM").fp8_tflops == 1979
    assert model("MI300X").fp16_tflops == pytest.approx(1307, rel=0.001)
    assert "FP8FNUZ" in model("MI300X").features
    assert "FP8OCP" not in model("MI300X").features
    assert "FP8OCP" in model("MI355X").features
    assert "FP8FNUZ" not in model("MI355X").features
    assert model("MI325X").nominal_bytes == 256 * GI
    assert model("MI455X").nominal_bytes == 432 * GI
    assert model("MI455X").architecture == "gfx1250"
    assert not model("T4").features & {"BF16", "FlashAttention", "TorchCompile"}
    assert not model("V100-32GB").features & {"BF16", "FlashAttention", "TorchCompile"}


def test_an_80_gb_card_holds_eighty_gigabytes_but_not_eighty_gibibytes() -> None:
    usable = model("H100-SXM").usable_bytes
    assert usable is not None
    assert 80 * 10**9 < usable < 80 * GI


def test_usable_memory_without_a_framework_figure_is_the_drivers_less_one_percent() -> None:
    assert model("L40S").torch_bytes is None
    assert model("L40S").usable_bytes == 46068 * MI * 99 // 100
    assert model("MI308X").usable_bytes is None


def test_devices_that_share_memory_with_their_host_have_no_figure_of_their_own() -> None:
    integrated = {row.id for row in ROWS if row.integrated}
    assert integrated == {"MI300A", "Ryzen-AI-Max", "GB10", "Thor"}
    assert all(model(name).usable_bytes is None for name in integrated)


def test_every_feature_word_is_used_at_each_of_its_levels() -> None:
    by_level = {
        "accelerator": frozenset().union(*(row.features for row in ROWS)),
        "runtime": frozenset().union(*(row.features for row in CATALOG.runtimes)),
    }
    for word, feature in CATALOG.features.items():
        assert feature.name == word
        assert all(word in by_level[level] for level in feature.levels)
        assert feature.source
        assert feature.description
        assert date.fromisoformat(feature.checked_on)
