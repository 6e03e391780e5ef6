"""What people call an accelerator: families, any case and separators, sizes, brands and what labellers write."""

from __future__ import annotations

import pytest

from gpujob.catalog.files.load import load_catalog


@pytest.mark.parametrize(
    ("word", "ids"),
    [
        ("H100", {"H100-SXM", "H100-PCIe", "H100-NVL"}),
        ("h100", {"H100-SXM", "H100-PCIe", "H100-NVL"}),
        ("NVIDIA H100", {"H100-SXM", "H100-PCIe", "H100-NVL"}),
        ("h100-80gb", {"H100-SXM", "H100-PCIe"}),
        ("H100 NVL", {"H100-NVL"}),
        ("h100sxm", {"H100-SXM"}),
        ("H100-SXM5", {"H100-SXM"}),
        ("A100", {"A100-40GB", "A100-80GB"}),
        ("a100 80gb", {"A100-80GB"}),
        ("A100-SXM4-40GB", {"A100-40GB"}),
        ("V100", {"V100-16GB", "V100-32GB"}),
        ("MI300", {"MI300A", "MI300X"}),
        ("mi300-x", {"MI300X"}),
        ("AMD Instinct MI325X", {"MI325X"}),
        ("MI350", {"MI350X", "MI350P"}),
        ("GH200", {"GH200-96GB"}),
        ("rtx4090", {"RTX-4090"}),
        ("GeForce RTX 3090", {"RTX-3090"}),
        ("tesla_t4", {"T4"}),
        ("NVIDIA-H100-80GB-HBM3", {"H100-SXM"}),
        # A model of a bare name is itself alone.
        ("L4", {"L4"}),
        ("A10", {"A10"}),
        ("H200", {"H200"}),
        ("MI250", {"MI250"}),
    ],
)
def test_a_word_means_each_of_its_boards_and_sizes(word: str, ids: set[str]) -> None:
    assert load_catalog().named(word) == tuple(sorted(ids))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("A6000", "RTX A6000", "rtxa6000"), "RTX-A6000"),
        (("4090", "RTX 4090", "GeForce RTX 4090"), "RTX-4090"),
        (("3090",), "RTX-3090"),
        (("5090",), "RTX-5090"),
        (("6000 Ada", "RTX 6000 Ada Generation", "6000ada"), "RTX-6000-Ada"),
        (("4000 Ada",), "RTX-4000-Ada"),
        (("RTX PRO 6000 Blackwell", "RTX PRO 6000", "PRO 6000", "rtx-pro-6000-blackwell-server-edition", "RTX PRO 6000 Server Edition",
          "RTX PRO 6000 Max-Q", "RTX PRO 6000 Blackwell Workstation Edition"), "RTX-PRO-6000"),
        (("RTX PRO 4500 Blackwell", "Pro 4500"), "RTX-PRO-4500"),
        (("7900XTX", "7900 XTX", "RX7900XTX", "Radeon RX 7900 XTX"), "RX-7900-XTX"),
        (("7800 XT",), "RX-7800-XT"),
        (("9070", "RX 9070"), "RX-9070"),
        (("9070XT",), "RX-9070-XT"),
        (("6800",), "RX-6800"),
        (("W7900", "Radeon PRO W7900", "PRO W7900"), "W7900"),
        (("V710", "PRO V710"), "Radeon-PRO-V710"),
        (("MI300X OAM", "MI 300 X"), "MI300X"),
        (("MI355X-OAM",), "MI355X"),
        (("DGX Spark",), "GB10"),
        (("Jetson Thor",), "Thor"),
        (("Strix Halo", "Ryzen AI Max"), "Ryzen-AI-Max"),
    ],
)  # fmt: skip
def test_a_short_name_of_one_row_means_it(words: tuple[str, ...], expected: str) -> None:
    assert {word: load_catalog().members(word) for word in words} == {word: {expected} for word in words}


@pytest.mark.parametrize(
    "word", ["6000", "RTX 6000", "4500", "7900", "max", "9060 XT", "Blackwell", "Pro", "A4000", "Radeon"]
)
def test_a_short_name_of_several_cards_means_none(word: str) -> None:
    assert load_catalog().members(word) == frozenset()


@pytest.mark.parametrize("word", ["", "H", "RTX", "A1", "mi3", "B100", "H100-24GB", "80GB", "nvidia", "gpu-"])
def test_a_word_that_names_no_model_means_nothing(word: str) -> None:
    assert load_catalog().named(word) == ()


@pytest.mark.parametrize(
    ("word", "ids"),
    [
        ("H100", {"H100-SXM", "H100-PCIe", "H100-NVL", "H100-96GB-HBM3", "H100-64GB-HBM2"}),
        ("NVIDIA-H100", {"H100-SXM", "H100-PCIe", "H100-NVL", "H100-96GB-HBM3", "H100-64GB-HBM2"}),
        ("H100-96GB", {"H100-NVL", "H100-96GB-HBM3"}),
        ("H100-SXM", {"H100-SXM"}),
        ("GH200", {"GH200-96GB", "GH200-144G-HBM3e"}),
        ("V100", {"V100-16GB", "V100-32GB", "Tesla-V100-SXM2-12GB"}),
        ("A100", {"A100-40GB", "A100-80GB"}),
        # Another model's name that begins with the same letters, or has further words, is no member.
        ("RTX-4090", {"RTX-4090"}),
        ("H200", {"H200", "H200-NVL"}),
        ("H200-SXM", {"H200"}),
        ("H200-NVL", {"H200-NVL"}),
        ("MI250", {"MI250"}),
        ("A100-PCIe", {"A100-40GB", "A100-80GB"}),
        ("A100 SXM4", {"A100-40GB", "A100-80GB"}),
        ("V100-PCIE", {"V100-16GB", "V100-32GB"}),
        ("A100-NVL", set()),
        ("A5000", {"RTX-A5000"}),
        ("RTX A5000", {"RTX-A5000"}),
        ("RTX-5000", set()),
        ("L4-PCIe", set()),
        ("NVIDIA", set()),
    ],
)
def test_a_job_s_word_means_its_boards_and_what_has_no_row(word: str, ids: set[str]) -> None:
    unlisted = (
        "H100-96GB-HBM3",
        "H100-64GB-HBM2",
        "GH200-144G-HBM3e",
        "Tesla-V100-SXM2-12GB",
        "A100X",
        "RTX-A5000",
        "GeForce-RTX-4090-D",
    )
    assert load_catalog().members(word, unlisted) == ids
