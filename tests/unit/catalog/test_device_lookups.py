"""Which accelerator a label means."""

from __future__ import annotations

import pytest

from gpujob.catalog.entities import Accelerator
from gpujob.catalog.files.load import load_catalog

CATALOG = load_catalog()


def name(row: Accelerator | None) -> str | None:
    return row.id if row else None


@pytest.mark.parametrize(
    ("device_id", "memory", "units", "expected"),
    [
        ("74a1", None, None, "MI300X"),
        ("74A1", 192, 304, "MI300X"),
        ("0x74a1", 192, None, "MI300X"),
        ("74b5", 192, 304, "MI300X"),
        ("74a1", 24, 38, "MI300X"),  # a CPX partition: the card is known, its size is the fleet's business
        ("74a5", 256, 304, "MI325X"),
        ("75a3", 288, 256, "MI355X"),
        ("740c", 64, 104, "MI250"),
        ("740c", 64, 110, "MI250X"),
        ("740c", 64, None, "MI250"),  # equal but for speed: the slower is promised
        ("7408", 64, 110, "MI250X"),
        ("744c", 24, 96, "RX-7900-XTX"),
        ("744c", 24, None, "RX-7900-XTX"),
        ("744c", 20, None, "RX-7900-XT"),
        ("744c", 16, None, "RX-7900-GRE"),
        ("744c", None, 84, "RX-7900-XT"),
        ("744c", None, None, None),
        ("744c", 12, None, None),
        ("744c", 24, 80, None),
        ("7448", 45, 96, "W7900"),
        ("7550", 16, 64, "RX-9070-XT"),
        ("7550", 12, None, "RX-9070-GRE"),
        ("7550", None, None, None),
        ("747e", 16, None, "RX-7800-XT"),
        ("747e", 12, None, "RX-7700-XT"),
        ("7551", 32, 64, "R9700"),
        ("66a1", None, None, "MI60"),  # refused whichever it is
        ("7360", 8, None, "Radeon-PRO-V520"),
        ("ffff", 192, 304, None),
        ("", None, None, None),
    ],
)
def test_by_device_id(device_id: str, memory: float | None, units: int | None, expected: str | None) -> None:
    assert name(CATALOG.by_device_id(device_id, memory, units)) == expected


@pytest.mark.parametrize(
    ("device_id", "memory", "units", "product", "expected"),
    [
        ("740c", 64, 104, "AMD_Instinct_MI250X", "MI250X"),
        ("740c", 64, None, "AMD Instinct MI250X", "MI250X"),
        ("740c", 64, 110, "AMD_Instinct_MI250", "MI250"),
        # The product names both, or neither.
        ("740c", 64, 110, "AMD_Instinct_MI250X_/_MI250", "MI250X"),
        ("740c", 64, 104, "AMD_Instinct_MI250X_/_MI250", "MI250"),
        ("740c", 64, 110, "AMD_Instinct_MI300X_OAM", "MI250X"),
        ("744c", 20, None, "AMD_Radeon_RX_7900_XT", "RX-7900-XT"),
        ("744c", None, None, "AMD_Radeon_RX_7900_XTX", "RX-7900-XTX"),
        ("7550", None, None, "AMD_Radeon_RX_9070", "RX-9070"),
        ("ffff", None, None, "AMD_Instinct_MI250X", None),
    ],
)
def test_of_several_rows_of_a_device_id_the_product_decides(
    device_id: str, memory: float | None, units: int | None, product: str, expected: str | None
) -> None:
    assert name(CATALOG.by_device_id(device_id, memory, units, product)) == expected


@pytest.mark.parametrize(
    ("product", "expected"),
    [
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("AMD_Instinct_MI300X_VF", "MI300X"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD_Instinct_MI325_OAM", "MI325X"),
        ("AMD Instinct MI250X / MI250", "MI250"),  # libdrm has one name for both; DRA drivers write it as it is
        ("AMD_Instinct_MI355_OAM", "MI355X"),
        ("AMD_Radeon_Graphics", None),
        ("NVIDIA-H100-80GB-HBM3", "H100-SXM"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("NVIDIA-H100-PCIe", "H100-PCIe"),
        ("NVIDIA-H100-NVL", "H100-NVL"),
        ("NVIDIA-A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA-A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100-40GB"),
        ("Tesla-T4", "T4"),
        ("Tesla-T4-SHARED", "T4"),
        ("NVIDIA-L40S", "L40S"),
        ("NVIDIA-B300-SXM6-AC", "B300"),
        ("NVIDIA-GB200", "GB200"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX-PRO-6000"),
        ("NVIDIA-H1000", None),
        ("", None),
    ],
)
def test_by_product(product: str, expected: str | None) -> None:
    assert name(CATALOG.by_product(product)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("nvidia-tesla-t4", "T4"),
        ("nvidia-tesla-a100", "A100-40GB"),
        ("nvidia-a100-80gb", "A100-80GB"),
        ("nvidia-h100-80gb", "H100-SXM"),
        ("nvidia-h100-mega-80gb", "H100-SXM"),
        ("nvidia-h200-141gb", "H200"),
        ("nvidia-l4", "L4"),
        ("nvidia-b200", "B200"),
        ("nvidia-gb200", "GB200"),
        ("nvidia-gb300", "GB300"),
        ("nvidia-rtx-pro-6000", "RTX-PRO-6000"),
        ("tpu-v5p-slice", None),
        ("", None),
    ],
)
def test_by_gke(value: str, expected: str | None) -> None:
    assert name(CATALOG.by_gke(value)) == expected


@pytest.mark.parametrize(
    ("gpu", "mebibytes", "expected"),
    [
        ("t4", 16384, "T4"),
        ("a10g", 22888, "A10G"),
        ("l4", 22888, "L4"),
        ("l40s", 45776, "L40S"),
        ("v100", 16384, "V100-16GB"),
        ("v100", 32768, "V100-32GB"),
        ("v100", None, None),
        ("a100", 40960, "A100-40GB"),
        ("a100", 81920, "A100-80GB"),
        ("h100", 81920, "H100-SXM"),
        ("h200", 144384, "H200"),
        ("b200", 183359, "B200"),
        ("b300", 275040, "B300"),
        ("rtx-pro-4500", 32768, "RTX-PRO-4500"),
        ("rtx-pro-server-6000", 98304, "RTX-PRO-6000"),
        ("radeon-pro-v520", 8192, "Radeon-PRO-V520"),
        ("inferentia", 8192, None),
        ("", None, None),
    ],
)
def test_by_the_name_that_karpenter_writes(gpu: str, mebibytes: int | None, expected: str | None) -> None:
    assert name(CATALOG.by_cloud_name(gpu, mebibytes)) == expected


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("Standard_ND96isr_MI300X_v5", "MI300X"),
        ("BM.GPU.MI300X.8", "MI300X"),
        ("BM.GPU.MI355X.8", "MI355X"),
        ("g4ad.8xlarge", "Radeon-PRO-V520"),
        ("p5.48xlarge", "H100-SXM"),
        ("ml.p5.48xlarge", "H100-SXM"),
        ("ml.g6e.48xlarge", "L40S"),
        ("ml.p4d.24xlarge", "A100-40GB"),
        ("m7i.large", None),
        ("ml.m7i.large", None),
    ],
)
def test_by_instance_type(machine: str, expected: str | None) -> None:
    assert name(CATALOG.by_instance_type(machine)) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("mi300x", "MI300X"),
        ("MI300", "MI300A MI300X"),
        ("H100", "H100-NVL H100-PCIe H100-SXM"),
        ("h100_sxm", "H100-SXM"),
        ("MI325", "MI325X"),
        ("RTX4090", "RTX-4090"),
        ("4090", "RTX-4090"),
        ("A6000", "RTX-A6000"),
        ("RTXX-4090", "RTX-4090"),
        ("Thor AGX", "Thor"),
        ("ryzen", "Ryzen-AI-Max"),
        ("NVIDIA-H100-80GB-HBM3", "H100-SXM"),
        ("NVIDIA-A100-SXM4-80GB", "A100-80GB"),
        ("AMD_Instinct_MI325_OAM", "MI325X"),
        ("nvidia-tesla-t4", "T4"),
        ("74a1", "MI300X"),
        # The board of a model whose boards are one row, and the words of machines around a model.
        ("A100-SXM", "A100"),
        ("A100 SXM", "A100"),
        ("a100_pcie", "A100"),
        ("A100 SXM4 40 GB", "A100-40GB"),
        ("V100-SXM3", "V100"),
        ("DGX H100", "H100"),
        ("MI300X_OAM", "MI300X"),
        ("Radeon Pro W7900", "W7900"),
        # Letters in another order, or too many.
        ("h100_smx", "H100-SXM"),
        ("H100-PCI", "H100-PCIe"),
        ("MI300Z", "MI300"),
        # What ends within the number means each model that it begins.
        ("mi30", "MI300A MI300X MI308X"),
        ("h10", "H100"),
        # Other models of similar letters.
        ("A800", ""),
        ("H800", ""),
        ("H300", ""),
        ("H1000", ""),
        ("MI400", ""),
        ("RTX-4080", ""),
        ("P1000", ""),
        ("B100-SXM", ""),
        ("MI", ""),
        ("nvidia", ""),
        ("quantum", ""),
        ("", ""),
    ],
)
def test_the_nearest_accelerators_are_of_the_same_model(word: str, expected: str) -> None:
    assert CATALOG.nearest_accelerators(word) == tuple(expected.split())
    assert all(map(CATALOG.named, expected.split()))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("H100 80 GB", "H100-PCIe H100-SXM"),
        ("NVIDIA H100 SXM5 80 GB", "H100-SXM"),
        ("mi300x 192 gb", "MI300X"),
        ("L4 24 G", "L4"),
        ("V100 16 GB", "V100-16GB"),
        ("nvidia-h100-mega-80gb", "H100-SXM"),
        ("nvidia-h100-80gb", "H100-SXM"),
        ("nvidia-tesla-v100", "V100-16GB"),
        ("h100 80GB hbm3", "H100-SXM"),
        ("H100-80GB-HBM3", "H100-SXM"),
        ("A100-SXM4-80GB", "A100-80GB"),
        ("H100 81 GB 2", ""),
    ],
)
def test_a_size_may_be_two_words_and_gkes_names_are_known(word: str, expected: str) -> None:
    assert CATALOG.named(word) == tuple(expected.split())


def test_a_name_of_one_model_is_its_row() -> None:
    assert name(CATALOG.device("mi-300x")) == "MI300X"
    assert name(CATALOG.device("A100 80 GB")) == "A100-80GB"
    assert CATALOG.device("A100") is None
    assert CATALOG.device("A800") is None


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("flash-attention", "FlashAttention"),
        ("flashattn", "FlashAttention"),
        ("bitsandbytes", "BitsAndBytes"),
        ("bf16", "BF16"),
        ("custom-cuda-kernels", "CustomCUDAKernels"),
        ("open-source-stack", "OpenSourceStack"),
        ("zluda", None),
    ],
)
def test_nearest_feature(word: str, expected: str | None) -> None:
    assert next(iter(CATALOG.nearest_features(word)), None) == expected


@pytest.mark.parametrize(
    ("product", "gib", "expected"),
    [
        ("A100-PCIE-80GB", None, "A100-80GB"),
        ("NVIDIA-Tesla-T4", 15.0, "T4"),
        ("NVIDIA-A100-SXM-64GB", 64.0, None),
        ("NVIDIA-A100-SXM", None, None),
        ("NVIDIA-H100-SXM5-80GB", 79.6, None),  # SXM or PCIe: unknown which of the two.
        ("NVIDIA-H100-96GB-HBM3", 95.6, None),
        ("AMD_Instinct_MI325", None, "MI325X"),
        ("AMD_Instinct_MI355_VF", None, "MI355X"),
        ("AMD_Instinct_MI300", 192, "MI300X"),
        ("AMD_Instinct_MI300", 128, "MI300A"),
        ("AMD_Instinct_MI300", None, None),
        ("AMD_Instinct_MI350", 144, "MI350P"),
        ("AMD_Instinct_MI999", 192, None),
    ],
)
def test_a_product_that_no_row_lists_is_known_by_its_words(
    product: str, gib: float | None, expected: str | None
) -> None:
    assert name(CATALOG.by_product(product, gib)) == expected
