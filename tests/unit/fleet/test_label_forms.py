"""What labels say of devices, in every form that the labellers and clouds write them."""

from __future__ import annotations

from typing import Any

import pytest
from builders import (
    A100,
    A100_40,
    H100,
    H200,
    L4,
    MI210,
    MI250X,
    MI300X,
    MI325X,
    MI355X,
    T4,
    V100,
    Nvidia,
    fleet,
    gpupool,
    node,
    pool_of,
)

from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.labels.facts import DeviceFacts
from gpujob.values.vocabulary import Reason, Vendor

MIB = 1024**2
GIB = 1024**3


def facts(*args: Any, **kwargs: Any) -> DeviceFacts:
    """The facts of a node's only resource."""
    groups = groups_of(read_node(node("n", *args, **kwargs)), load_catalog())
    assert len(groups) == 1
    return groups[0].facts


def problem(*args: Any, **kwargs: Any) -> Reason | None:
    found = facts(*args, **kwargs).problem
    return found.reason if found else None


@pytest.mark.parametrize(
    ("gpu", "count", "name", "least", "most"),
    [
        (MI210, 4, "MI210", 63.9, 64),
        (MI250X, 8, "MI250X", 63.9, 64),
        (MI300X, 8, "MI300X", 191.6, 192),
        (MI325X, 8, "MI325X", 255.6, 256),
        (MI355X, 8, "MI355X", 287.9, 288),
        (H100, 8, "H100-SXM", 79, 80),
        (A100, 8, "A100-80GB", 79, 80),
        (A100_40, 8, "A100-40GB", 38, 40),
        (L4, 1, "L4", 22, 23),
        (T4, 4, "T4", 14.5, 15),
        (V100, 8, "V100-32GB", 31, 32),
    ],
)
def test_real_labels_name_the_device_and_its_usable_memory(
    gpu: Any, count: int, name: str, least: float, most: float
) -> None:
    found = facts(gpu, count)
    assert (found.name, found.problem, found.warnings) == (name, None, ())
    assert found.memory is not None
    assert least * GIB <= found.memory < most * GIB
    assert found.driver in ("580.95.05", "6.16.13")


def without(gpu: Any, *starts: str) -> dict[str, None]:
    """Takes labels away."""
    return {key: None for key in gpu.labels(8, "") if key.startswith(starts)}


@pytest.mark.parametrize(
    "labels",
    [
        {},
        without(MI300X, "beta."),
        without(MI300X, "amd.com/"),
        {key: None for key in MI300X.labels(8, "") if not key.endswith((".74a1", ".192G"))},
        without(MI300X, "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name"),
        without(MI300X, "amd.com/gpu.device-id", "beta.amd.com/gpu.device-id"),
        {
            "amd.com/gpu.device-id": "0x74A1",
            "beta.amd.com/gpu.device-id": None,
            "beta.amd.com/gpu.device-id.74a1": None,
        },
        {"amd.com/gpu.compute-memory-partition": "spx_nps1"},
        {"amd.com/compute-memory-partition": "SPX_NPS1"},
    ],
)
def test_amd_labels_in_any_form_name_an_mi300x(labels: dict[str, str | None]) -> None:
    assert facts(MI300X, 8, labels=labels).name == "MI300X"


@pytest.mark.parametrize(
    "labels",
    [
        {"amd.com/gpu.device-id.740f": "4", "amd.com/gpu.device-id.74a1": "4"},
        {"beta.amd.com/gpu.device-id": "740f"},
        {"amd.com/gpu.device-id.ffff": "4"},
    ],
)
def test_models_of_different_architectures_on_one_node_are_a_problem(labels: dict[str, str]) -> None:
    assert problem(MI300X, 8, labels=labels) is Reason.MODELS_DIFFER


def counted(**kinds: dict[str, int]) -> dict[str, str]:
    """The labels of a node with several values of a kind: no plain key, both prefixes."""
    return {
        f"{prefix}amd.com/gpu.{kind.replace('_', '-')}.{value}": str(number)
        for kind, values in kinds.items()
        for value, number in values.items()
        for prefix in ("", "beta.")
    }


def test_of_two_models_of_one_architecture_the_smaller_counts() -> None:
    labels = counted(device_id={"74a1": 4, "74a5": 4}, vram={"192G": 4, "256G": 4}, cu_count={"304": 8})
    found = facts(labels=labels, devices={"amd.com/gpu": "8"})
    assert (found.name, found.problem) == ("MI300X", None)
    assert [warning.reason for warning in found.warnings] == [Reason.MODELS_DIFFER]
    assert found.memory == facts(MI300X).memory


def test_a_node_of_whole_cards_and_partitions_has_a_group_for_each() -> None:
    labels = counted(device_id={"74a1": 36}, vram={"192G": 4, "24G": 32}, cu_count={"304": 4, "38": 32})
    raw = node("n", labels=labels, devices={"amd.com/spx_nps1": "4", "amd.com/cpx_nps4": "32"})
    whole, part = {g.resource: g for g in groups_of(read_node(raw), load_catalog())}.values()
    if whole.resource != "amd.com/spx_nps1":
        whole, part = part, whole
    assert (whole.facts.portion.kind, whole.facts.memory, whole.facts.warnings) == ("Whole", facts(MI300X).memory, ())
    assert (part.facts.portion.kind, part.facts.share, part.facts.warnings) == ("Partition", (1, 8), ())
    assert part.facts.memory == (facts(MI300X).memory or 0) // 8
    assert (whole.silicon, part.silicon) == (None, None)
    assert (whole.beside, part.beside) == (4, 32)


@pytest.mark.parametrize(
    ("labels", "devices", "kind", "share", "gib", "warned"),
    [
        # What the labeller writes for a partitioned node, with and without the partition label.
        ({"amd.com/gpu.compute-memory-partition": "cpx_nps4"}, {"amd.com/gpu": "64"}, "Partition", (1, 8), 23.96, True),
        ({"amd.com/compute-memory-partition": "DPX_NPS1"}, {"amd.com/gpu": "16"}, "Partition", (1, 2), 95.8, True),
        ({"amd.com/gpu.vram": "24G"}, {"amd.com/gpu": "64"}, "Partition", (1, 8), 23.96, False),
        ({"amd.com/gpu.vram": "48G"}, {"amd.com/gpu": "32"}, "Partition", (1, 4), 47.9, False),
        # Strategy mixed, whose labels are older than the partitions.
        ({}, {"amd.com/cpx_nps4": "64"}, "Partition", (1, 8), 23.96, True),
        ({}, {"amd.com/cpx_nps1": "64"}, "Partition", (1, 8), 23.96, True),
        ({}, {"amd.com/qpx_nps2": "32"}, "Partition", (1, 4), 47.9, True),
        ({}, {"amd.com/dpx_nps2": "16"}, "Partition", (1, 2), 95.8, True),
        ({}, {"amd.com/spx_nps1": "8"}, "Whole", (1, 1), 191.69, False),
        ({}, {"amd.com/spx_nps4": "8"}, "Whole", (1, 1), 191.69, False),
        # Whole again, and the labels still say 24G: the smaller.
        ({"amd.com/gpu.vram": "24G"}, {"amd.com/spx_nps1": "8"}, "Whole", (1, 1), 24, True),
        # Partitions that only their number shows.
        ({"beta.amd.com/gpu.device-id.74a1": "8"}, {"amd.com/gpu": "64"}, "Partition", (1, 8), 23.96, True),
    ],
)
def test_partitions_in_any_form(
    labels: dict[str, str], devices: dict[str, str], kind: str, share: Any, gib: float, warned: bool
) -> None:
    whole = {key: None for key in MI300X.labels(8, "") if ".vram" in key}
    own = {**whole, "amd.com/gpu.vram": "192G"} if ".vram" not in str(labels) else whole
    own |= {key: None for key in MI300X.labels(8, "") if key.endswith((".74a1", ".AI", ".304", ".1216", "_OAM"))}
    found = facts(MI300X, labels={**own, **labels}, devices=devices)
    assert (found.portion.kind, found.share, found.problem) == (kind, share, None)
    assert found.memory == pytest.approx(gib * GIB, rel=1e-3)
    assert (Reason.LABELS_CONTRADICT in {warning.reason for warning in found.warnings}) is warned


def test_an_unknown_mode_or_an_odd_number_is_a_problem() -> None:
    assert problem(MI300X, devices={"amd.com/xpx_nps9": "8"}) is Reason.DEVICE_UNKNOWN
    assert problem(MI300X, devices={"amd.com/gpu": "60"}) is Reason.DEVICE_UNKNOWN


def test_partitions_of_an_unknown_device_stay_unknown() -> None:
    assert problem(devices={"amd.com/cpx_nps4": "64"}) is Reason.DEVICE_UNKNOWN


def test_the_whole_card_of_a_mixed_plugin_is_whole() -> None:
    assert facts(MI300X, 8, devices={"amd.com/spx_nps1": "8"}).name == "MI300X"


def test_a_beta_label_that_is_not_there_leaves_the_driver_unknown() -> None:
    assert facts(MI300X, 8, labels={"amd.com/gpu.driver-version": None}).driver is None
    assert facts(MI300X, 8, labels={"amd.com/gpu.driver-version": ""}).driver is None
    assert facts(MI300X, 8, labels={"amd.com/gpu.driver-version": "in-tree"}).driver is None


@pytest.mark.parametrize(
    ("vram", "memory"),
    [("192G", 191.69), ("150G", 150), ("0G", 191.69), ("192", 191.69), ("999999G", 191.69), ("-1G", 191.69)],
)
def test_the_smaller_of_label_and_catalog_counts(vram: str, memory: float) -> None:
    labels = {key: None for key in MI300X.labels(8, "") if ".vram" in key} | {"amd.com/gpu.vram": vram}
    found = facts(MI300X, 8, labels=labels).memory
    assert found is not None
    assert found == pytest.approx(memory * GIB, rel=1e-4)


@pytest.mark.parametrize(
    ("product", "mebibytes", "warned"),
    [
        ("NVIDIA-RTX-A6000", "49140", False),
        ("NVIDIA-RTX-A6000", "46068", False),  # With error correction on.
        ("NVIDIA-RTX-A6000", "49152", False),  # The vendor's size.
        ("NVIDIA-RTX-A6000", "43000", True),
        ("NVIDIA-H100-80GB-HBM3", "76460", True),  # Its memory corrects errors without taking of itself.
    ],
)
def test_error_correction_that_takes_of_the_memory_is_no_contradiction(
    product: str, mebibytes: str, warned: bool
) -> None:
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": mebibytes}
    found = facts(labels=labels, devices={"nvidia.com/gpu": "1"})
    assert found.memory is not None
    assert found.memory <= int(mebibytes) * 1024**2
    assert (Reason.LABELS_CONTRADICT in {warning.reason for warning in found.warnings}) is warned


def test_figures_that_differ_are_a_warning() -> None:
    labels = {key: None for key in MI300X.labels(8, "") if ".vram" in key} | {"amd.com/gpu.vram": "150G"}
    assert [warning.reason for warning in facts(MI300X, 8, labels=labels).warnings] == [Reason.LABELS_CONTRADICT]


@pytest.mark.parametrize(
    ("labels", "kind", "share", "gib"),
    [
        (
            {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED", "nvidia.com/gpu.replicas": "4",
             "nvidia.com/gpu.count": "2"}, "Shared", (1, 4), 19.77,
        ),
        ({"nvidia.com/gpu.replicas": "2", "nvidia.com/gpu.count": "4"}, "Shared", (1, 2), 39.55),
        ({"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.count": "1"}, "Shared", (1, 8), 9.88),
        ({"nvidia.com/gpu.sharing-strategy": "time-slicing"}, "Shared", None, None),
        (
            {"nvidia.com/gpu.count": "4", "nvidia.com/gpu.replicas": None, "nvidia.com/gpu.sharing-strategy": None},
            "Shared", (1, 2), 39.55,
        ),
        # What labels say and what the numbers say: the more pods on a card.
        ({"nvidia.com/gpu.replicas": "2", "nvidia.com/gpu.count": "1"}, "Shared", (1, 8), 9.88),
        (
            {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "nvidia.com/gpu.memory": "9984"},
            "Partition", (1, 7), 9.65,
        ),
        (
            {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", "nvidia.com/gpu.memory": None},
            "Partition", (1, 2), 39.1,
        ),
        (
            {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED", "nvidia.com/gpu.replicas": "2",
             "nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "9984"}, "Shared", (1, 14), 4.82,
        ),
        ({"cloud.google.com/gke-gpu-partition-size": "1g.10gb", "nvidia.com/gpu.memory": None}, "Partition", (1, 7), 9.65),
        ({"cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"}, "Shared", None, None),
        # A name without a slice is that of a whole device: of figures that contradict it the smaller counts.
        ({"nvidia.com/gpu.memory": "20390"}, "Whole", (1, 1), 19.91),
        ({"nvidia.com/gpu.memory": "20390", "nvidia.com/mig.config": "all-2g.20gb"}, "Partition", (1, 4), 19.77),
    ],
)  # fmt: skip
def test_slices_and_shared_devices(labels: dict[str, str | None], kind: str, share: Any, gib: float | None) -> None:
    found = facts(H100, 8, labels=labels)
    assert (found.name, found.portion.kind, found.share, found.problem) == ("H100-SXM", kind, share, None)
    assert found.memory == (None if gib is None else pytest.approx(gib * GIB, rel=2e-3))


def test_a_broken_mig_layout_is_a_problem() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-INVALID", "nvidia.com/gpu.count": "0"}
    assert problem(H100, 8, labels=labels) is Reason.DEVICE_UNKNOWN


def test_more_devices_than_cards_in_no_even_number_are_a_contradiction() -> None:
    assert problem(H100, 6, labels={"nvidia.com/gpu.count": "4"}) is Reason.LABELS_CONTRADICT


@pytest.mark.parametrize(
    ("resource", "share", "gib"),
    [
        ("nvidia.com/mig-1g.10gb", (1, 7), 9.65),
        ("nvidia.com/mig-1g.10gb.me", (1, 7), 9.65),
        ("nvidia.com/mig-2g.20gb", (2, 7), 19.42),
        ("nvidia.com/mig-3g.40gb", (1, 2), 39.1),
        ("nvidia.com/mig-7g.80gb", (1, 1), 78.45),
        ("nvidia.com/mig-1g.20gb", (1, 4), 17.92),
    ],
)
def test_mig_resources_are_sized_by_the_catalog_or_by_their_eighths(resource: str, share: Any, gib: float) -> None:
    found = facts(H100, devices={resource: "8"})
    assert (found.portion.kind, found.share, found.problem) == ("Partition", share, None)
    assert found.memory == pytest.approx(gib * GIB, rel=2e-3)
    told = {warning.reason for warning in found.warnings}
    assert told == ({Reason.MEM_UNKNOWN} if resource.endswith("1g.20gb") else set())


@pytest.mark.parametrize(
    ("profile", "mebibytes", "most", "warned"),
    [("2g.35gb", 33280, 33, False), ("2g.35gb", 143771, 35.2, True), ("3g.71gb", 143771, 70.3, True)],
)
def test_a_slice_has_no_more_than_its_eighths_whatever_stale_labels_say(
    profile: str, mebibytes: int, most: float, warned: bool
) -> None:
    labels = {"nvidia.com/gpu.product": f"NVIDIA-H200-MIG-{profile}", "nvidia.com/gpu.memory": str(mebibytes)}
    found = facts(H200, labels=labels, devices={"nvidia.com/gpu": 8})
    assert found.memory is not None
    assert found.memory / 2**30 <= most
    assert (Reason.LABELS_CONTRADICT in {warning.reason for warning in found.warnings}) is warned


def test_mig_labels_of_strategy_mixed_belong_to_their_profile() -> None:
    labels = {"nvidia.com/mig-1g.10gb.memory": "9000", "nvidia.com/mig-1g.10gb.replicas": "3"}
    found = facts(H100, labels=labels, devices={"nvidia.com/mig-1g.10gb.shared": "21"})
    assert (found.portion.kind, found.portion.profile, found.share) == ("Shared", "1g.10gb", (1, 21))
    assert found.memory == 9000 * MIB * 99 // 100 // 3


def test_a_resource_that_somebody_made_up_is_a_problem() -> None:
    assert problem(H100, devices={"nvidia.com/gpu-a": "8"}) is Reason.DEVICE_UNKNOWN


@pytest.mark.parametrize("resource", ["nvidia.com/gpu-shared", "nvidia.com/shared-gpu", "nvidia.com/gpu.timesliced"])
def test_shared_devices_under_a_name_of_the_admin_s(resource: str) -> None:
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    found = facts(L4, 2, labels=labels, devices={resource: "8", "nvidia.com/gpu": "0"})
    assert (found.name, str(found.portion), found.share) == ("L4", "shared", (1, 4))
    assert problem(L4, 2, devices={resource: "2"}) is Reason.DEVICE_UNKNOWN


def test_replicas_of_zero_and_one_are_whole_devices() -> None:
    assert problem(H100, 8, labels={"nvidia.com/gpu.replicas": "0"}) is None
    assert problem(H100, 8, labels={"nvidia.com/gpu.replicas": "1"}) is None


@pytest.mark.parametrize("resource", ["nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/hostdev", "amd.com/nic"])
def test_other_resources_of_a_vendor_are_no_gpus(resource: str) -> None:
    assert groups_of(read_node(node("n", devices={resource: "8"})), load_catalog()) == ()


NEW = "nvidia.com/cuda.driver-version."
OLD = "nvidia.com/cuda.driver."
RUNTIME = "nvidia.com/cuda.runtime-version."
GONE = {key: None for key in H100.labels(8, "") if "driver" in key or "cuda.runtime" in key}


@pytest.mark.parametrize(
    ("labels", "driver"),
    [
        ({NEW + "full": "580.95.05"}, "580.95.05"),
        ({NEW + "major": "580", NEW + "minor": "95", NEW + "revision": "05"}, "580.95.05"),
        ({OLD + "major": "570", OLD + "minor": "10", OLD + "rev": "3"}, "570.10.3"),
        ({OLD + "major": "570", OLD + "minor": "10"}, "570.10"),
        ({OLD + "major": "570", OLD + "rev": "3"}, "570"),
        ({NEW + "full": "unknown", OLD + "major": "570", OLD + "minor": "10"}, "570.10"),
        ({NEW + "full": "580.95.05", OLD + "major": "580", OLD + "minor": "95", OLD + "rev": "05"}, "580.95.05"),
        ({NEW + "full": "580.95.05", OLD + "major": "550", OLD + "minor": "54"}, "550.54"),
        ({RUNTIME + "major": "12", RUNTIME + "minor": "4"}, "550"),
        ({"nvidia.com/cuda.runtime.major": "13", "nvidia.com/cuda.runtime.minor": "0"}, "580.65.06"),
        ({NEW + "major": "580", RUNTIME + "major": "13", RUNTIME + "minor": "0"}, "580.65.06"),
        ({RUNTIME + "major": "13", RUNTIME + "minor": "99"}, "610.43.02"),
        ({RUNTIME + "major": "13"}, "580.65.06"),
        ({RUNTIME + "major": "10", RUNTIME + "minor": "2"}, None),
        ({NEW + "full": "650.10", RUNTIME + "major": "14", RUNTIME + "minor": "1"}, "650.10"),
        ({NEW + "full": "580.95.05", RUNTIME + "major": "12", RUNTIME + "minor": "4"}, "550"),
        ({NEW + "full": "570.10", RUNTIME + "major": "13", RUNTIME + "minor": "0"}, "570.10"),
        ({NEW + "full": ""}, None),
        ({OLD + "major": "x"}, None),
        ({}, None),
    ],
)
def test_driver_labels_and_their_old_twins(labels: dict[str, str], driver: str | None) -> None:
    assert facts(H100, 8, labels={**GONE, **labels}).driver == driver


def test_drivers_that_contradict_each_other_are_a_warning() -> None:
    found = facts(H100, 8, labels={**GONE, NEW + "full": "580.95.05", OLD + "major": "550", OLD + "minor": "54"})
    assert [warning.message for warning in found.warnings] == [
        "labels say driver 550.54 and driver 580.95.05; the older counts; restart GPU Feature Discovery"
    ]


@pytest.mark.parametrize(("driver", "cuda"), [("580.95.05", "12.4"), ("550.54.14", "13.0"), ("610.43", "12.9")])
def test_a_driver_and_a_cuda_that_do_not_go_together_are_a_warning(driver: str, cuda: str) -> None:
    major, minor = cuda.split(".")
    found = facts(H100, 8, labels={**GONE, NEW + "full": driver, RUNTIME + "major": major, RUNTIME + "minor": minor})
    assert [warning.message for warning in found.warnings] == [
        f"labels say driver {driver} and CUDA {cuda}, which do not go together; the older counts; "
        "restart GPU Feature Discovery"
    ]


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, "H100-SXM"),
        ({"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, "T4"),
        ({"karpenter.k8s.aws/instance-gpu-name": "l40s", "karpenter.k8s.aws/instance-gpu-memory": "45776"}, "L40S"),
        (
            {"karpenter.k8s.aws/instance-gpu-name": "a100", "karpenter.k8s.aws/instance-gpu-memory": "40960"},
            "A100-40GB",
        ),
        (
            {"karpenter.k8s.aws/instance-gpu-name": "a100", "karpenter.k8s.aws/instance-gpu-memory": "81920"},
            "A100-80GB",
        ),
        ({"eks.amazonaws.com/instance-gpu-name": "h200", "eks.amazonaws.com/instance-gpu-memory": "144384"}, "H200"),
        ({"node.kubernetes.io/instance-type": "p5.48xlarge"}, "H100-SXM"),
        ({"beta.kubernetes.io/instance-type": "g6.12xlarge"}, "L4"),
        ({"node.kubernetes.io/instance-type": "Standard_ND96isr_H100_v5"}, "H100-SXM"),
        (
            {"nvidia.com/gpu.product": "NVIDIA-Unheard-Of", "node.kubernetes.io/instance-type": "p5.48xlarge"},
            "H100-SXM",
        ),
    ],
)
def test_clouds_name_nvidia_devices(labels: dict[str, str], name: str) -> None:
    assert facts(labels=labels, devices={"nvidia.com/gpu": "1"}).name == name


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"node.kubernetes.io/instance-type": "Standard_ND96isr_MI300X_v5"}, "MI300X"),
        ({"node.kubernetes.io/instance-type": "g4ad.xlarge"}, "Radeon-PRO-V520"),
        ({"karpenter.k8s.aws/instance-gpu-name": "radeon-pro-v520"}, "Radeon-PRO-V520"),
        ({"node.kubernetes.io/instance-type": "p5.48xlarge"}, "unknown"),
        ({"amd.com/gpu.family": "AI"}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_clouds_name_amd_devices(labels: dict[str, str], name: str) -> None:
    assert facts(labels=labels, devices={"amd.com/gpu": "1"}).name == name


@pytest.mark.parametrize(
    ("labels", "resource"),
    [
        ({"karpenter.k8s.aws/instance-gpu-count": "4"}, "nvidia.com/gpu"),
        ({"cloud.google.com/gke-accelerator-count": "2"}, "nvidia.com/gpu"),
        ({"node.kubernetes.io/instance-type": "p5.48xlarge"}, "nvidia.com/gpu"),
        ({"node.kubernetes.io/instance-type": "p5.48xlarge", "nvidia.com/gpu.count": "60"}, "nvidia.com/gpu"),
        ({"node.kubernetes.io/instance-type": "Standard_ND96isr_MI300X_v5"}, "amd.com/gpu"),
    ],
)
def test_more_devices_than_the_machine_has_are_slices(labels: dict[str, str], resource: str) -> None:
    assert problem(labels=labels, devices={resource: "60"}) is Reason.DEVICE_UNKNOWN


def test_a_device_without_a_row_is_read_from_compute_capability_and_memory() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-RTX-PRO-9900", "nvidia.com/gpu.memory": "50000"}
    found = facts(H100, 8, labels=labels)
    assert found.accelerator is not None
    assert (found.name, found.accelerator.architecture, found.memory) == (
        "RTX-PRO-9900",
        "9.0",
        50000 * MIB * 99 // 100,
    )
    assert "BF16" in found.accelerator.features


@pytest.mark.parametrize("missing", ["gpu.memory", "gpu.compute.major", "gpu.compute.minor"])
def test_a_device_without_a_row_and_without_a_fact_is_unknown(missing: str) -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-RTX-PRO-9900", f"nvidia.com/{missing}": None}
    assert problem(H100, 8, labels=labels) is Reason.DEVICE_UNKNOWN


@pytest.mark.parametrize("value", ["", "abc", "-5", "1e9", "9" * 12, "٣", "81559 MiB", "0"])
def test_a_memory_label_that_is_no_number_counts_as_absent(value: str) -> None:
    found = facts(H100, 8, labels={"nvidia.com/gpu.memory": value})
    assert found.problem is None
    assert found.memory == facts(H100, 8, labels={"nvidia.com/gpu.memory": None}).memory


def test_both_vendors_of_a_node_are_two_groups() -> None:
    both = node("n", H100, 8, labels=MI210.labels(1, ""), devices={"amd.com/gpu": "1", "nvidia.com/gpu": "8"})
    groups = {group.facts.vendor: group for group in groups_of(read_node(both), load_catalog())}
    assert (groups[Vendor.AMD].facts.name, groups[Vendor.AMD].total, groups[Vendor.AMD].beside) == ("MI210", 1, 8)
    assert (groups[Vendor.NVIDIA].facts.name, groups[Vendor.NVIDIA].total) == ("H100-SXM", 8)


@pytest.mark.parametrize(
    "labels",
    [
        H100.labels(8, ""),
        {"nvidia.com/gpu.present": "true"},
        {"cloud.google.com/gke-accelerator": "nvidia-l4"},
        {"karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia"},
        {"karpenter.azure.com/sku-gpu-manufacturer": "nvidia"},
        {"karpenter.k8s.aws/instance-gpu-manufacturer": "amd"},
        MI300X.labels(8, ""),
        {"beta.amd.com/gpu.family.AI": "8"},
    ],
)
def test_devices_that_labels_promise_and_no_plugin_offers(labels: dict[str, str]) -> None:
    assert problem(labels=labels) is Reason.NO_DEVICE_PLUGIN


def test_a_node_without_devices_has_no_group() -> None:
    assert groups_of(read_node(node("n")), load_catalog()) == ()


def test_a_former_name_at_zero_is_passed_over_and_zero_alone_is_not() -> None:
    renamed = node("n", H100, devices={"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "56"})
    assert [group.resource for group in groups_of(read_node(renamed), load_catalog())] == ["nvidia.com/mig-1g.10gb"]
    broken = node("n", H100, devices={"nvidia.com/gpu": "0"})
    assert [(group.total, group.healthy) for group in groups_of(read_node(broken), load_catalog())] == [(8, 0)]


@pytest.mark.parametrize("name", ["AMD_Radeon_8060S_Graphics", "AMD_Instinct_MI300A"])
def test_a_part_with_the_host_s_memory_is_integrated_whatever_an_admin_says(name: str) -> None:
    labels = {"amd.com/gpu.product-name": name, "pool": "x"}
    found = facts(labels=labels, devices={"amd.com/gpu": "4"})
    assert (found.portion.kind, found.problem, found.memory) == ("Integrated", None, None)
    admin = gpupool("x", {"pool": "x"}, accelerator="MI300A", memoryPerGPU="100Gi")
    pool = pool_of(fleet(node("n", labels=labels, devices={"amd.com/gpu": "4"}), admin), "n")
    assert (pool.problem, pool.kind, pool.memory) == (None, "Integrated", 100 * GIB)


def test_graphics_inside_a_processor_are_integrated_and_unknown() -> None:
    labels = {"amd.com/gpu.product-name": "AMD_Ryzen_9_Processor_Graphics", "amd.com/gpu.vram": "2G"}
    found = facts(labels=labels, devices={"amd.com/gpu": "1"})
    assert found.portion.kind == "Integrated"
    assert found.problem is not None


@pytest.mark.parametrize(
    ("labels", "devices", "name"),
    [
        ({"feature.node.kubernetes.io/amd-gpu-mi300x": "true"}, {"amd.com/gpu": "8"}, "MI300X"),
        ({"feature.node.kubernetes.io/amd-gpu-mi210": "true"}, {"amd.com/gpu": "4"}, "MI210"),
        ({"feature.node.kubernetes.io/amd-gpu-mi300x": "false"}, {"amd.com/gpu": "8"}, "unknown"),
        ({"k8s.amazonaws.com/accelerator": "nvidia-tesla-t4"}, {"nvidia.com/gpu": "1"}, "T4"),
        ({"karpenter.azure.com/sku-gpu-name": "T4"}, {"nvidia.com/gpu": "1"}, "T4"),
        ({"kubernetes.azure.com/accelerator": "nvidia"}, {"nvidia.com/gpu": "1"}, "unknown"),
    ],
)
def test_last_words_about_a_model(labels: dict[str, str], devices: dict[str, str], name: str) -> None:
    assert facts(labels=labels, devices=devices).name == name


@pytest.mark.parametrize(
    ("labels", "state"),
    [
        ({"nvidia.com/mig.config.state": "rebooting"}, "nvidia.com/mig.config.state is rebooting"),
        ({"nvidia.com/mig.config.state": "failed"}, "nvidia.com/mig.config.state is failed"),
        ({"nvidia.com/mig.config.state": "success"}, None),
        ({"nvidia.com/gpu-driver-upgrade-state": "drain-required"}, "gpu-driver-upgrade-state is drain-required"),
        ({"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"}, None),
    ],
)
def test_a_node_that_is_being_changed_is_not_ready(labels: dict[str, str], state: str | None) -> None:
    unready = pool_of(fleet(node("n", H100, labels=labels)), "n").nodes[0].unready
    assert (unready is None) == (state is None)
    assert state is None or (unready is not None and state in unready.message)


def test_a_newer_nvidia_device_without_any_row_has_bf16_and_nothing_else_is_promised() -> None:
    rubin = Nvidia("NVIDIA-R200", 294912, "rubin", (13, 0), mig=True)
    (pool,) = fleet(node("r", rubin)).pools
    assert pool.accelerator is not None
    assert pool.accelerator.features == {"BF16"}


@pytest.mark.parametrize(
    ("product", "units", "name"),
    [
        ("AMD_Instinct_MI250X", "104", "MI250X"),
        ("AMD_Instinct_MI250", "110", "MI250"),
        ("AMD_Instinct_MI250X_/_MI250", "110", "MI250X"),
        ("AMD_Instinct_MI250X_/_MI250", "104", "MI250"),
    ],
)
def test_of_models_that_share_a_device_id_the_product_decides(product: str, units: str, name: str) -> None:
    labels = {"amd.com/gpu.device-id": "740c", "amd.com/gpu.product-name": product, "amd.com/gpu.cu-count": units}
    found = facts(MI250X, 8, labels=without(MI250X, "beta.") | labels)
    assert (found.name, found.problem, found.warnings) == (name, None, ())
