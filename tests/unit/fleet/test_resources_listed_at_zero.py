"""A kubelet lists a resource at 0 once its device plugin is gone for longer than its grace: the devices are away, not none."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, H100, MI300X, Amd, Nvidia, Object, decision, demand, fleet, node

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.choose import choose
from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Reason, Verdict

CATALOG = load_catalog()
VM = {"NVIDIA": {"nvidia.com/gpu.workload.config": "vm-passthrough"}, "AMD": {"amd.com/gpu.mode": "vf-passthrough"}}
ND96 = {"node.kubernetes.io/instance-type": "Standard_ND96isr_MI300X_v5"}
PLAIN = {key: None for key in MI300X.labels(8, "Server") if key.startswith("beta.")}
"""AMD's labels without the form that counts devices."""
COUNTED_AS_0 = {"nvidia.com/gpu.count": "0"}


def gone(gpu: Amd | Nvidia, resource: str | None = None, labels: dict[str, Any] | None = None) -> Object:
    """A node with the labels of its devices, and none of them offered."""
    return node("n", gpu, devices={resource or gpu.resource: "0"}, labels=labels)


def unlabelled(vendor: str, labels: dict[str, str]) -> Object:
    present = {"nvidia.com/gpu.present": "true"} if vendor == "NVIDIA" else {}
    return node("n", devices={f"{vendor.lower()}.com/gpu": "0"}, labels={**labels, **present})


def decided(*objects: Object, **spec: Any) -> Decision:
    found = decision(*objects, catalog=CATALOG, **spec)
    assert choose(demand(**spec), fleet(*objects), CATALOG).verdict is found.verdict
    return found


@pytest.mark.parametrize(
    ("there", "reason", "says"),
    [
        (gone(H100), Reason.NO_ALLOCATABLE, "node n shows 0 of 8 devices as allocatable"),
        (gone(H100, labels=COUNTED_AS_0), Reason.NO_ALLOCATABLE, "node n shows 0 devices as allocatable"),
        (gone(MI300X), Reason.NO_ALLOCATABLE, "node n shows 0 of 8 devices as allocatable"),
        (gone(MI300X, labels=PLAIN), Reason.NO_ALLOCATABLE, "node n shows 0 devices as allocatable"),
        (gone(MI300X, labels=PLAIN | ND96), Reason.NO_ALLOCATABLE, "node n shows 0 of 8 devices as allocatable"),
        (gone(A100, labels=VM["NVIDIA"]), Reason.NOT_READY, "node n: nvidia.com/gpu.workload.config is vm-passthrough"),
        (gone(A100, labels=VM["NVIDIA"] | COUNTED_AS_0), Reason.NOT_READY,
         "node n: nvidia.com/gpu.workload.config is vm-passthrough"),
        (gone(MI300X, labels=VM["AMD"]), Reason.NOT_READY, "node n: amd.com/gpu.mode is vf-passthrough"),
        (unlabelled("AMD", VM["AMD"]), Reason.NOT_READY, "node n: amd.com/gpu.mode is vf-passthrough"),
        (unlabelled("NVIDIA", VM["NVIDIA"]), Reason.NOT_READY, "node n: nvidia.com/gpu.workload.config is vm-passthrough"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("gpus", [1, 8])
def test_devices_that_are_away_are_waited_for(there: Object, reason: Reason, says: str, gpus: int) -> None:
    found = decided(there, gpusPerNode=gpus)
    assert (found.verdict, [(why.reason, why.message) for why in found.candidates[0].reasons]) == (
        Verdict.WAITING,
        [(reason, says)],
    )


@pytest.mark.parametrize(
    ("number", "says"),
    [
        ("1000000", "more than 100000 devices on one node are not believed"),
        ("-1", "'-1' is not a whole number of at least 0"),
    ],
)
@pytest.mark.parametrize("gpu", [H100, MI300X])
def test_a_number_of_devices_that_is_not_believed_is_no_missing_device_plugin(
    gpu: Amd | Nvidia, number: str, says: str
) -> None:
    there = node("n", gpu, devices={gpu.resource: number})
    found = decided(there, gpusPerNode=8)
    assert (found.verdict, [(why.reason, why.message) for why in found.candidates[0].reasons]) == (
        Verdict.WAITING,
        [(Reason.NO_ALLOCATABLE, f"node n: {gpu.resource}: {says}; check its device plugin")],
    )
    beside = decided(there, node("b", gpu), gpusPerNode=8)
    assert beside.choice is not None
    assert beside.choice.nodes == ("b",)


def test_a_number_that_labels_or_the_machine_say_still_rejects_more() -> None:
    for there in (gone(H100), gone(MI300X), gone(MI300X, labels=PLAIN | ND96)):
        assert decided(there, gpusPerNode=16).verdict is Verdict.IMPOSSIBLE


def test_slices_at_zero_are_waited_for_by_the_jobs_that_take_slices() -> None:
    there = gone(A100, "nvidia.com/mig-1g.10gb", {"nvidia.com/mig.strategy": "mixed"})
    assert decided(there, placement={"devices": ["Partition"]}).verdict is Verdict.WAITING
    assert decided(there).verdict is Verdict.IMPOSSIBLE


def test_a_former_name_at_zero_is_no_devices_beside_those_of_the_new_name() -> None:
    there = node("n", A100, devices={"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "56"})
    assert [pool.resource for pool in fleet(there).pools] == ["nvidia.com/mig-1g.10gb"]


@pytest.mark.parametrize("vendor", ["AMD", "NVIDIA"])
def test_devices_of_which_nothing_tells_must_be_named(vendor: str) -> None:
    found = decided(unlabelled(vendor, {}))
    assert (found.verdict, found.candidates[0].reasons[0].reason) == (Verdict.MISCONFIGURED, Reason.DEVICE_UNKNOWN)
