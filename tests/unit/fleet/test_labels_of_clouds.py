"""What clouds and autoscalers write of their machines, where no labeller of the vendors runs; and contradictions."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, H100, L4, MI300X, MI325X, Object, decision, fleet, gpupool, node, pool_of

from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.devices.group import TELLING
from gpujob.fleet.labels.cloud import ACCELERATOR_LABELS, FORMS, MACHINE_COUNTS
from gpujob.fleet.labels.facts import devices_of_machine
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.vendors.amd import NFD_MODEL
from gpujob.fleet.vendors.nvidia import NFD_DEVICES
from gpujob.values.vocabulary import Reason, Verdict

NVIDIA, AMD = "nvidia.com/gpu", "amd.com/gpu"
TYPE = "node.kubernetes.io/instance-type"


@pytest.mark.parametrize(
    ("labels", "resource", "name"),
    [
        ({"karpenter.k8s.aws/instance-gpu-name": "h200"}, NVIDIA, "H200"),
        ({"karpenter.k8s.aws/instance-gpu-name": "a100", "karpenter.k8s.aws/instance-gpu-memory": "81920"}, NVIDIA, "A100-80GB"),
        ({"eks.amazonaws.com/instance-gpu-name": "l40s", "eks.amazonaws.com/instance-gpu-memory": "45776"}, NVIDIA, "L40S"),
        ({"karpenter.k8s.aws/instance-family": "p5", "karpenter.k8s.aws/instance-size": "48xlarge"}, NVIDIA, "H100-SXM"),
        ({"karpenter.azure.com/sku-name": "Standard_ND96isr_MI300X_v5"}, AMD, "MI300X"),
        ({"karpenter.azure.com/sku-gpu-name": "MI300X"}, AMD, "MI300X"),
        ({"karpenter.azure.com/sku-gpu-name": "T4"}, NVIDIA, "T4"),
        (
            {"karpenter.azure.com/sku-gpu-name": "H100", "karpenter.azure.com/sku-name": "Standard_NC40ads_H100_v5"},
            NVIDIA, "H100-NVL",
        ),
        ({"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"}, NVIDIA, "H100-SXM"),
        ({"cloud.google.com/gke-accelerator": "nvidia-l40s"}, NVIDIA, "L40S"),
        ({"k8s.amazonaws.com/accelerator": "nvidia-a10g"}, NVIDIA, "A10G"),
        ({"doks.digitalocean.com/gpu-brand": "amd", "doks.digitalocean.com/gpu-model": "mi300x"}, AMD, "MI300X"),
        ({"doks.digitalocean.com/gpu-brand": "nvidia", "doks.digitalocean.com/gpu-model": "h200"}, NVIDIA, "H200"),
        ({"gpu.nvidia.com/model": "A100_NVLINK_80GB"}, NVIDIA, "A100-80GB"),
        ({"gpu.nvidia.com/class": "Tesla_V100", "gpu.nvidia.com/vram": "16"}, NVIDIA, "V100-16GB"),
        ({"gpu.nvidia.com/class": "Tesla_V100", "gpu.nvidia.com/vram": "32"}, NVIDIA, "V100-32GB"),
        ({"nebius.com/gpu-name": "B200"}, NVIDIA, "B200"),
        ({"aliyun.accelerator/nvidia_name": "NVIDIA-A10"}, NVIDIA, "A10"),
        ({"aliyun.accelerator/nvidia_name": "Tesla-V100-SXM2-16GB"}, NVIDIA, "V100-16GB"),
        ({TYPE: "gpu-h100-sxm"}, NVIDIA, "H100-SXM"),
        ({TYPE: "gpu_8x_b200_sxm6"}, NVIDIA, "B200"),
        ({TYPE: "gpu-mi300x8-1536gb"}, AMD, "MI300X"),
        ({TYPE: "BM.GPU.MI355X.8"}, AMD, "MI355X"),
        ({"feature.node.kubernetes.io/amd-gpu-mi355x": "true"}, AMD, "MI355X"),
        ({"karpenter.azure.com/sku-gpu-name": "A100"}, NVIDIA, "A100-40GB"),
        ({TYPE: "Standard_NV6ads_A10_v5"}, NVIDIA, "A10"),
        # Not a word of these: a100 of two sizes in a name, a name of a user's own.
        ({TYPE: "gpu_8x_a100"}, NVIDIA, "unknown"),
        ({TYPE: "worker-l4"}, NVIDIA, "unknown"),
        ({"nebius.com/gpu-name": "RTX6000"}, NVIDIA, "unknown"),
        ({"doks.digitalocean.com/gpu-model": "mi300x"}, NVIDIA, "unknown"),
    ],
)  # fmt: skip
def test_a_cloud_s_own_words_name_the_device(labels: dict[str, str], resource: str, name: str) -> None:
    assert pool_of(fleet(node("n", labels=labels, devices={resource: "1"})), "n", resource).accelerator_id == name


@pytest.mark.parametrize(
    ("machine", "resource", "name", "kind"),
    [
        ("standard_nd96isr_mi300x_v5", AMD, "MI300X", "Whole"),
        ("Standard_ND96isrf_MI325X_v6", AMD, "MI325X", "Whole"),
        ("Standard_ND128isr_GB300_v6", NVIDIA, "GB300", "Whole"),
        ("Standard_NCC40ads_H100_v5", NVIDIA, "H100-NVL", "Whole"),
        ("Standard_NV36adms_A10_v5", NVIDIA, "A10", "Whole"),
        ("Standard_NV6ads_A10_v5", NVIDIA, "A10", "Partition"),
        ("Standard_NV99zds_A10_v5", NVIDIA, "unknown", "Whole"),  # That series sells parts: no name of it is believed.
        ("BM.GPU.MI355X-v1.8", AMD, "MI355X", "Whole"),
        ("BM.GPU.GB200-v2.4", NVIDIA, "GB200", "Whole"),
        ("BM.GPU.L40S-NC.4", NVIDIA, "L40S", "Whole"),
        ("VM.GPU.A100.80G.1", NVIDIA, "A100-80GB", "Whole"),
        ("VM.GPU.A100.40G.1", NVIDIA, "A100-40GB", "Whole"),
        ("VM.GPU.A100.1", NVIDIA, "unknown", "Whole"),
        ("gx3d-160x1792x8mi300x", AMD, "MI300X", "Whole"),
        ("h100-80gb-sxm-ib.8x", NVIDIA, "H100-SXM", "Whole"),
        ("a100-80gb.1x", NVIDIA, "A100-80GB", "Whole"),
        ("gpu_1x_h100_pcie", NVIDIA, "H100-PCIe", "Whole"),
        ("gpu-h100-nvl", NVIDIA, "H100-NVL", "Whole"),
        ("gx3-24x120x1l40s", NVIDIA, "L40S", "Whole"),
        ("vbm-256c-2048gb-8-mi355x-gpu", AMD, "MI355X", "Whole"),
        ("mi300x-192gb-ib.8x", AMD, "MI300X", "Whole"),
        ("g6f.xlarge", NVIDIA, "L4", "Partition"),
        ("g4-standard-6", NVIDIA, "RTX-PRO-6000", "Partition"),
        ("p6e-gb200.36xlarge", NVIDIA, "GB200", "Whole"),
        ("gpu-6000adax1-48gb", NVIDIA, "RTX-6000-Ada", "Whole"),
        ("m5.8xlarge", NVIDIA, "unknown", "Whole"),
    ],
)
def test_names_of_machines_tell_their_devices(machine: str, resource: str, name: str, kind: str) -> None:
    pool = pool_of(fleet(node("n", labels={TYPE: machine}, devices={resource: "1"})), "n")
    assert (pool.accelerator_id, pool.kind) == (name, kind)


def test_an_instance_type_in_another_letter_case_has_the_same_price() -> None:
    names = ("Standard_ND96isr_MI300X_v5", "standard_nd96isr_mi300x_v5")
    one, other = (pool_of(fleet(node("n", labels={TYPE: name}, devices={AMD: "8"})), "n").price for name in names)
    assert one is not None
    assert other is not None
    assert one.per_gpu_hour == other.per_gpu_hour
    assert one.source.startswith("list price azure ")
    assert other.source.startswith("list price azure ")


def test_a_word_for_two_sizes_means_the_smaller_and_says_so() -> None:
    pool = pool_of(fleet(node("n", labels={"karpenter.azure.com/sku-gpu-name": "A100"}, devices={NVIDIA: "1"})), "n")
    assert "may say any of A100-40GB and A100-80GB: taken as the smallest of them, A100-40GB" in _said(pool)


@pytest.mark.parametrize(
    "labels",
    [
        {"kubernetes.azure.com/accelerator": "nvidia"},
        {"accelerator": "nvidia"},
        {"feature.node.kubernetes.io/pci-10de.present": "true"},
        {"feature.node.kubernetes.io/pci-0302_10de.present": "true"},
        {"k8s.amazonaws.com/accelerator": "nvidia-tesla-t4"},
        {"nebius.com/gpu-name": "H100"},
        {"gpu.nvidia.com/model": "H200"},
        {"feature.node.kubernetes.io/amd-gpu": "true"},
        {"doks.digitalocean.com/gpu-brand": "amd"},
    ],
)
def test_devices_that_only_labels_promise_lack_their_plugin(labels: dict[str, str]) -> None:
    problem = pool_of(fleet(node("n", labels=labels)), "n").problem
    assert problem is not None
    assert problem.reason is Reason.NO_DEVICE_PLUGIN


def _said(pool: Pool) -> str:
    return "; ".join(warning.message for warning in pool.warnings)


@pytest.mark.parametrize(
    ("raw", "name", "gib", "words"),
    [
        (
            node("n", L4, labels={TYPE: "p5.48xlarge"}), "L4", 22.27,
            "nvidia.com/gpu.product says L4 and instance type p5.48xlarge says H100-SXM: the former counts",
        ),
        (
            node("n", H100, 1, labels={TYPE: "g6.xlarge"}), "H100-SXM", 22.27,
            "nvidia.com/gpu.product says H100-SXM and instance type g6.xlarge says L4",
        ),
        (
            node("n", A100, labels={"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}), "A100-80GB", 39.19,
            "nvidia.com/gpu.product says A100-80GB and cloud.google.com/gke-accelerator says A100-40GB",
        ),
        (
            node("n", MI300X, labels={TYPE: "p5.48xlarge"}), "MI300X", 79.1,
            "amd.com/gpu.device-id says MI300X and instance type p5.48xlarge says H100-SXM",
        ),
        (
            node("n", MI325X, labels={"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}), "MI325X", 191.69,
            "amd.com/gpu.device-id says MI325X and amd.com/gpu.product-name says MI300X",
        ),
        (
            node("n", MI300X, labels={"feature.node.kubernetes.io/amd-gpu-mi210": "true"}), "MI300X", 63.98,
            "amd.com/gpu.device-id says MI300X and feature.node.kubernetes.io/amd-gpu-mi210 says MI210",
        ),
        (
            node("n", H100, 4, labels={TYPE: "p5.48xlarge"}), "H100-SXM", 79.1,
            "node n offers 4 devices, its machine has 8 by the cloud's labels or its instance type",
        ),
        (
            node("n", H100, labels={"nvidia.com/gpu.memory": "23034"}), "H100-SXM", 22.49,
            "labels report 22.49Gi for each device where the catalog has 79.64Gi for H100-SXM; the smaller is used",
        ),
        (
            node("n", MI300X, labels={"amd.com/gpu.vram": "100G", "beta.amd.com/gpu.vram": "100G",
                                      "beta.amd.com/gpu.vram.192G": None}), "MI300X", 100.0,
            "labels report 100Gi for each device where the catalog has 191.98Gi for MI300X; the smaller is used",
        ),
    ],
)  # fmt: skip
def test_of_labels_that_contradict_each_other_the_smaller_counts_and_is_said(
    raw: Object, name: str, gib: float, words: str
) -> None:
    pool = pool_of(fleet(raw), "n")
    assert pool.accelerator_id == name
    assert pool.memory is not None
    assert round(pool.memory / 1024**3, 2) == gib
    assert words in _said(pool)
    assert pool.problem is None
    assert decision(raw).verdict is Verdict.PLACED


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (
            node("n", MI300X, labels={"amd.com/gpu.product-name": "AMD_Instinct_MI210"}),
            "amd.com/gpu.device-id says MI300X and amd.com/gpu.product-name says MI210: the labels contradict each other",
        ),
        (
            # The size is that of a third of one and of the whole other: it says no part of what is unknown.
            node("n", MI300X, labels={"amd.com/gpu.product-name": "AMD_Instinct_MI210", "amd.com/gpu.vram": "64G",
                                      "beta.amd.com/gpu.vram": "64G", "beta.amd.com/gpu.vram.192G": None}),
            "amd.com/gpu.device-id says MI300X and amd.com/gpu.product-name says MI210: the labels contradict each other",
        ),
        (
            node("n", H100, labels={"nvidia.com/gpu.compute.major": "8", "nvidia.com/gpu.compute.minor": "9"}),
            "nvidia.com/gpu.product says H100-SXM, which has compute capability 9.0, and nvidia.com/gpu.compute says 8.9",
        ),
        (
            node(
                "n",
                labels={"cloud.google.com/gke-accelerator": "nvidia-l4", TYPE: "a3-highgpu-8g"},
                devices={NVIDIA: "8"},
            ),
            "cloud.google.com/gke-accelerator says L4 and instance type a3-highgpu-8g says H100-SXM: the labels",
        ),
    ],
)  # fmt: skip
def test_of_two_architectures_nobody_chooses_and_an_admin_s_word_ends_it(raw: Object, words: str) -> None:
    pool = pool_of(fleet(raw), "n")
    assert pool.problem is not None
    assert pool.problem.reason is Reason.LABELS_CONTRADICT
    assert words in pool.problem.message
    assert decision(raw).verdict is Verdict.MISCONFIGURED
    raw["metadata"]["labels"]["pool"] = "x"
    accelerator = "MI300X" if AMD in raw["status"]["capacity"] else "H100-SXM"
    mended = fleet(raw, gpupool("mine", {"pool": "x"}, accelerator=accelerator)).pool("mine")
    assert mended is not None
    assert mended.problem is None
    assert mended.accelerator_id == accelerator


@pytest.mark.parametrize(
    "spec", [{}, {"placement": {"accelerators": {"allow": ["H100"]}}}, {"gpuMemory": "60G"}, {"requires": ["FP8OCP"]}]
)
def test_no_fact_of_one_of_two_contradicting_labels_ends_a_job(spec: Object) -> None:
    for first, second in (("p4d.24xlarge", "h100"), ("p5.48xlarge", "a100")):
        labels = {TYPE: first, "karpenter.k8s.aws/instance-gpu-name": second}
        raw = node("n", labels=labels, devices={NVIDIA: "8"})
        assert decision(raw, **spec).verdict is Verdict.MISCONFIGURED
        assert decision(raw, placement={"accelerators": {"allow": ["L4"]}}).verdict is Verdict.IMPOSSIBLE


@pytest.mark.parametrize(
    ("machine", "count"),
    [
        ("gpu-mi300x8-1536gb", 8), ("gpu-h100x1-80gb", 1), ("gpu-h200x8-1128gb", 8), ("gpu_2x_h100_sxm5", 2),
        ("gx3d-160x1792x8mi300x", 8), ("h100-80gb-sxm-ib.8x", 8), ("p5.48xlarge", 8), ("gpu-h100-sxm", None), ("m5.large", None),
    ],
)  # fmt: skip
def test_the_number_of_devices_is_read_from_a_machine_s_name(machine: str, count: int | None) -> None:
    assert devices_of_machine({}, machine, load_catalog()) == count


def test_a_machine_s_name_says_what_a_gpupool_adds() -> None:
    pool = gpupool("new", {TYPE: "gpu-mi300x8-1536gb"}, provision={"maxNodes": 1, "driverVersion": "6.16.13"})
    found = fleet(pool).pools[0]
    assert (found.accelerator_id, found.largest, found.problem) == ("MI300X", 8, None)


def test_words_that_only_leave_the_variant_open_contradict_nothing() -> None:
    labels = {"karpenter.azure.com/sku-gpu-name": "A100", TYPE: "Standard_NC96ads_A100_v4"}
    assert "says" not in _said(pool_of(fleet(node("n", A100, 4, labels=labels)), "n"))


def test_the_price_of_an_instance_type_is_for_its_own_devices() -> None:
    region = {"topology.kubernetes.io/region": "us-east-1"}
    right = pool_of(fleet(node("n", H100, labels={TYPE: "p5.48xlarge", **region})), "n").price
    wrong = pool_of(fleet(node("n", L4, labels={TYPE: "p5.48xlarge", **region})), "n").price
    assert right is not None
    assert wrong is not None
    assert "p5.48xlarge" in right.source
    assert "p5.48xlarge" not in wrong.source


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ({TYPE: "p5.48xlarge"}, "instance type p5.48xlarge says H100-SXM"),
        ({"karpenter.azure.com/sku-gpu-name": "A100"}, "karpenter.azure.com/sku-gpu-name says A100-40GB"),
        ({TYPE: "Standard_ND96isr_MI300X_v5"}, None),
    ],
)
def test_a_pool_that_asks_a_cloud_for_other_devices_than_it_names_says_so(
    selector: dict[str, str], words: str | None
) -> None:
    admin = gpupool(
        "grows",
        selector,
        accelerator="MI300X",
        provision={"maxNodes": 1, "gpusPerNode": 8, "cpu": "96", "memory": "1Ti"},
    )
    pool = fleet(admin).pool("grows")
    assert pool is not None
    assert (words or "") in _said(pool)
    assert bool(words) == any(warning.reason is Reason.LABELS_CONTRADICT for warning in pool.warnings)


@pytest.mark.parametrize("mode", ["cpx_nps1", "dpx_nps1", "qpx_nps1"])
def test_partitions_of_one_memory_are_a_warning(mode: str) -> None:
    pool = pool_of(
        fleet(node("n", MI325X, devices={f"amd.com/{mode}": "16"}, labels={"beta.amd.com/gpu.vram.256G": None})), "n"
    )
    assert [warning.reason for warning in pool.warnings if f"in mode {mode} the" in warning.message] == [
        Reason.SHARED_DEVICE
    ]


def test_hostile_words_of_clouds_break_nothing() -> None:
    odd: list[Any] = [
        "",
        "-",
        "__",
        "nvidia",
        "amd",
        "80gb",
        "x8",
        "gpu-",
        "🔥",
        "h" * 5000,
        "A100\x00",
        "gpu-" + "h100-l4" * 20,
    ]
    keys = ["karpenter.k8s.aws/instance-gpu-name", "karpenter.azure.com/sku-gpu-name", "nebius.com/gpu-name", TYPE,
            "gpu.nvidia.com/model", "doks.digitalocean.com/gpu-model", "cloud.google.com/gke-accelerator"]  # fmt: skip
    for key in keys:
        for word in odd:
            for resource in (NVIDIA, AMD):
                raw = node("n", labels={key: word, "gpu.nvidia.com/vram": "-5"}, devices={resource: "8"})
                assert pool_of(fleet(raw), "n", resource).problem is not None


def test_every_label_of_a_cloud_reaches_the_readers() -> None:
    keys = [key for form in FORMS for key in (*form.names, form.memory, form.count, form.maker) if key]
    keys += [*ACCELERATOR_LABELS, *MACHINE_COUNTS, *NFD_DEVICES, f"{NFD_MODEL}mi300x"]
    assert [key for key in keys if not key.startswith(TELLING)] == []


@pytest.mark.parametrize(
    ("machine", "kind", "pieces", "share"),
    [
        ("Standard_NV4ads_V710_v5", "Partition", 6, (1, 6)),
        ("Standard_NV8ads_V710_v5", "Partition", 3, (1, 3)),
        ("Standard_NV12ads_V710_v5", "Partition", 2, (1, 2)),
        ("Standard_NV24ads_V710_v5", "Whole", 1, (1, 1)),
        ("Standard_NV28adms_V710_v5", "Whole", 1, (1, 1)),
    ],
)
def test_a_machine_with_a_part_of_a_device_says_so_without_a_labeller(
    machine: str, kind: str, pieces: int, share: tuple[int, int]
) -> None:
    labels = {"node.kubernetes.io/instance-type": machine}
    pool = pool_of(fleet(node("a", None, devices={"amd.com/gpu": "1"}, labels=labels)), "a")
    assert (pool.accelerator_id, pool.kind, pool.portion.pieces) == ("Radeon-PRO-V710-MxGPU", kind, pieces)
    assert (pool.share, pool.memory) == (share, None)


def test_a_part_of_a_known_device_has_its_part_of_the_memory_whatever_other_labels_name() -> None:
    labels = {"node.kubernetes.io/instance-type": "Standard_NV6ads_A10_v5", "karpenter.azure.com/sku-gpu-name": "A10",
              "karpenter.azure.com/sku-gpu-count": "1"}  # fmt: skip
    sixth = pool_of(fleet(node("a", None, devices={"nvidia.com/gpu": "1"}, labels=labels)), "a")
    whole = labels | {"node.kubernetes.io/instance-type": "Standard_NV36ads_A10_v5"}
    all_of_it = pool_of(fleet(node("a", None, devices={"nvidia.com/gpu": "1"}, labels=whole)), "a")
    assert (sixth.kind, sixth.share, all_of_it.kind) == ("Partition", (1, 6), "Whole")
    assert sixth.memory is not None
    assert all_of_it.memory is not None
    assert abs(sixth.memory * 6 - all_of_it.memory) < 6
