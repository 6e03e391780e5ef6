"""What the vendors' operators say is being done to a node: reasons to keep away for now, and reasons to doubt.

Their labels outlive what they tell of by minutes, while the device plugin still offers the devices. A node that is to be
drained, cut anew or rebooted, that failed its test, or that is given to virtual machines is left alone until the label
says otherwise; an upgrade that only waits for its turn counts too, since it ends whatever is started until then.
Sources: gpu-driver-upgrades and gpu-operator-mig of NVIDIA's GPU Operator documentation (v26.7), its k8s-driver-manager
and vgpu-device-manager; ROCm/gpu-operator upgrade manager, device config manager and cluster validation (2026-08).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from gpujob.finding import Finding
from gpujob.fleet.objects import Labels
from gpujob.untrusted import one_line
from gpujob.vocabulary import Reason, Vendor

SETTLED: Final[Mapping[Vendor, Mapping[str, frozenset[str]]]] = {
    Vendor.NVIDIA: {
        "nvidia.com/mig.config.state": frozenset({"success"}),
        "nvidia.com/vgpu.config.state": frozenset({"success"}),
        "nvidia.com/gpu-driver-upgrade-state": frozenset({"upgrade-done"}),
        "nvidia.com/gpu.workload.config": frozenset({"container"}),
    },
    Vendor.AMD: {
        "operator.amd.com/gpu-driver-upgrade-state": frozenset({"upgrade-done"}),
        "dcm.amd.com/gpu-config-profile-state": frozenset({"success"}),
        "dcm.amd.com/reboot-needed": frozenset({"false"}),
        "amd.com/gpu.mode": frozenset({"container"}),
    },
}
"""Labels of a state, with the values at which containers may use the devices; so they may where the label is absent."""

FAILED: Final[Mapping[Vendor, tuple[str, ...]]] = {
    Vendor.NVIDIA: (),
    Vendor.AMD: ("amd.com/gpu-hw-acceptance", "amd.com/gpu-mesh-validation", "amd.com/cluster-validation-status"),
}
"""Labels of a node's own tests: one that failed says that the node is not to be used."""

NETWORK_TESTS: Final = ("amd.com/nic-health", "amd.com/rail-bandwidth")
"""Labels of tests that only jobs of several nodes depend on."""

DEPLOYED: Final = "nvidia.com/gpu.deploy."
"""The GPU Operator puts this before the name of each of its parts: true, false, or paused while it works on the node."""

NEEDED_PARTS: Final = ("operands", "device-plugin")
"""Parts without which nobody renews what the node offers."""


def hindrance(labels: Labels, vendor: Vendor) -> str | None:
    """Why the vendor's devices on a node must not be used now, as label and value; None where nothing is in the way."""
    for key, settled in SETTLED[vendor].items():
        state = labels.get(key, "")
        if state and state.lower() not in settled:
            return _said(key, state)
    failed = next((key for key in FAILED[vendor] if labels.get(key, "").lower() == "failed"), None)
    if failed:
        return _said(failed, labels[failed])
    paused = (
        sorted(key for key in _parts(labels) if labels[key].startswith("paused")) if vendor is Vendor.NVIDIA else []
    )
    return _said(paused[0], labels[paused[0]]) if paused else None


def misgivings(labels: Labels, vendor: Vendor, node: str) -> Iterator[Finding]:
    """Doubts about a node whose devices may be used: its network failed a test, its device plugin is switched off."""
    if vendor is Vendor.NVIDIA:
        off = next((part for part in NEEDED_PARTS if labels.get(f"{DEPLOYED}{part}") == "false"), None)
        if off:
            sentence = "node {}: {}{} is false, so nobody may renew what the node offers"
            yield Finding(Reason.NODE_DOUBTED, sentence, (node, DEPLOYED, off))
        return
    for key in NETWORK_TESTS:
        if labels.get(key, "").lower() == "failed":
            yield Finding(Reason.NODE_DOUBTED, "node {}: {} is failed; several nodes may be slow together", (node, key))


def _parts(labels: Labels) -> Iterator[str]:
    return (key for key in labels if key.startswith(DEPLOYED))


def _said(key: str, state: str) -> str:
    return f"{key} is {one_line(state[:32])}"
