"""Signals by which agents report a node's health: one row for each condition, label or taint, with its effect on placement.

A row with `Effect.WAIT` is a state in which the agent keeps pods away, or acts on the node (test, drain, repair, reboot, replace):
the node accepts no pod until the state ends. A row with `Effect.LAST` is a fault or a risk on a node that stays schedulable: it
ranks last, with a warning. A row with `Effect.PLANNED` announces maintenance that is hours to weeks ahead: a bounded penalty, with a
warning. A condition or taint that no row names is matched by its words (`by_words`), so that another agent's
"gpu-unhealthy" has the same effect; labels need a row.

Sources, as of 2026-11: EKS: docs.aws.amazon.com/eks/latest/userguide/node-health (node monitoring agent v1.7). HyperPod:
docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-node-labels. AKS:
learn.microsoft.com/azure/aks/node-problem-detector, node-auto-drain and node-auto-repair (taint renamed in 2025). GKE:
docs.cloud.google.com/ai-hypercomputer/docs/manage/manage-gke-clusters, kubernetes-engine/docs/concepts/handle-disruption-gpu-tpu.
CoreWeave: docs.coreweave.com/platform/fleet-management/node-lifecycle. Nebius: nebius/soperator internal/consts (v2). NPD:
kubernetes/node-problem-detector config/ (v1.34). Kubernetes: kubernetes.io/docs/reference/node/node-lifecycle-conditions (1.37)
and labels-annotations-taints. Medik8s: medik8s/self-node-remediation and node-maintenance-operator. NVIDIA: GPU Operator v26.7
(gpu-driver-upgrades, gpu-operator-mig), k8s-driver-manager, vgpu-device-manager. NVSentinel: NVIDIA/NVSentinel
docs/INTEGRATIONS.md (v1). AMD: ROCm/gpu-operator v1.5 (upgrade manager, device config manager, cluster validation, auto
remediation), ROCm/device-metrics-exporter (NPD plugin). Autoscaler: cluster-autoscaler FAQ (1.34). Karpenter:
karpenter.sh/docs/concepts/disruption (v1). AWS: aws/aws-node-termination-handler (TAINT_NODE). Startup agents:
kubernetes-sigs/node-readiness-controller, uswitch/nidhogg, NVIDIA/skyhook (nodewright). Network: ovn-org/ovn-kubernetes, NVIDIA
Network Operator (upgrade states). Piraeus: piraeusdatastore/piraeus-ha-controller. Autopilot: IBM/autopilot README (v2), and
project-codeflare/appwrapper, which keeps pods off TESTING and EVICT. Alibaba Cloud:
alibabacloud.com/help/en/cs/user-guide/gpu-hpn-node-failure-monitoring-and-recovery. OKE: oracle-quickstart/oci-hpc-oke, health
checks by NPD (a condition is True where its check fails; GpuEcc, RdmaLink and their like are read by their words).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from gpujob.values.vocabulary import Vendor


class Where(StrEnum):
    """The kind of object field in which an agent writes a signal."""

    CONDITION = "condition"
    LABEL = "label"
    TAINT = "taint"


class Effect(StrEnum):
    """The effect of a signal on placement."""

    WAIT = "wait"
    LAST = "last"
    PLANNED = "planned"


class Fact(StrEnum):
    """A fact of a node's devices that an agent is changing."""

    DRIVER = "driver"
    PARTS = "parts"


class Signal(NamedTuple):
    """One row: the key, its kind, and the values that report trouble. Values compare in lower case."""

    source: str
    where: Where
    key: str
    """The condition's type or the key; a * at its end or beginning matches keys by prefix or suffix."""
    effect: Effect
    bad: frozenset[str] = frozenset()
    """Values that report trouble, with a * at the end as a prefix; empty: every value except those of `good`."""
    good: frozenset[str] = frozenset()
    vendor: Vendor | None = None
    """The vendor whose devices it concerns; None: the whole node."""

    fault: bool = False
    """Whether it means that a device is broken: a job that runs there moves (see `labels.faults`)."""

    changes: Fact | None = None
    """The fact of the devices that is another one when the state ends."""

    def reports_trouble(self, value: str) -> bool:
        """Whether the value reports trouble; an absent or empty label or condition does not."""
        if self.where is Where.TAINT:
            return True
        word = value.lower()
        if not self.bad:
            return word != "" and word not in self.good
        return word in self.bad or any(bad.endswith("*") and word.startswith(bad[:-1]) for bad in self.bad)


STUCK: Final = frozenset({"failed", "failure", "upgrade-failed"})
"""Values of a state that ends only when an admin acts: what the node shows stays as it is."""

_TRUE, _FALSE = frozenset({"true"}), frozenset({"false"})
_AT_WORK: Final = frozenset(
    {"quarantined", "draining", "drain-succeeded", "drain-failed", "remediating", "remediation-failed"}
)


def _rows(
    source: str,
    where: Where,
    effect: Effect,
    keys: str,
    *,
    bad: Iterable[str] = (),
    good: Iterable[str] = (),
    vendor: Vendor | None = None,
    fault: bool = False,
    changes: Fact | None = None,
) -> tuple[Signal, ...]:
    """A row for each of the keys, separated by spaces."""
    return tuple(
        Signal(source, where, key, effect, frozenset(bad), frozenset(good), vendor, fault, changes)
        for key in keys.split()
    )


SIGNALS: Final[tuple[Signal, ...]] = (
    # Conditions
    *_rows("EKS", Where.CONDITION, Effect.LAST, "AcceleratedHardwareReady", bad=_FALSE, fault=True),
    *_rows("EKS", Where.CONDITION, Effect.LAST,
           "KernelReady NetworkingReady StorageReady ContainerRuntimeReady", bad=_FALSE),
    *_rows("AKS", Where.CONDITION, Effect.LAST, "GPUMissing NVLinkStatusInactive XIDErrors XIDError", bad=_TRUE, fault=True),
    *_rows("AKS", Where.CONDITION, Effect.LAST,
           "IBLinkFlapping GPUClockThrottling UnhealthyNvidiaDevicePlugin "
           "UnhealthyNvidiaDCGMServices FilesystemCorruptionProblem VMEventScheduled", bad=_TRUE),
    # Announced events of a VM, as older node images wrote them (Azure/AKS issue 2062).
    *_rows("AKS", Where.CONDITION, Effect.LAST,
           "FreezeScheduled RebootScheduled RedeployScheduled TerminateScheduled PreemptScheduled", bad=_TRUE),
    *_rows("NPD", Where.CONDITION, Effect.LAST,
           "KernelDeadlock ReadonlyFilesystem CorruptDockerOverlay2 FrequentKubeletRestart FrequentDockerRestart "
           "FrequentContainerdRestart FrequentUnregisterNetDevice KubeletProblem KubeletUnhealthy DockerProblem "
           "ContainerRuntimeProblem ContainerRuntimeUnhealthy XfsShutdown", bad=_TRUE),
    *_rows("NPD", Where.CONDITION, Effect.LAST, "CperHardwareErrorFatal", bad=_TRUE, fault=True),
    *_rows("NVSentinel", Where.CONDITION, Effect.LAST, "SysLogs* NVSwitch* DCGMError", bad=_TRUE, fault=True),
    # It writes a condition of fatal errors alone; throttling is an event.
    *_rows("NVSentinel", Where.CONDITION, Effect.LAST,
           "GpuMemWatch GpuThermalWatch GpuPcieWatch GpuPowerWatch GpuInforomWatch GpuSmWatch GpuNvlinkWatch GpuMcuWatch "
           "GpuPmuWatch GpuDriverWatch GpuCpusetWatch", bad=_TRUE, vendor=Vendor.NVIDIA, fault=True),
    *_rows("NVSentinel", Where.CONDITION, Effect.LAST, "CSPMaintenance SyslogError", bad=_TRUE),
    *_rows("AMD", Where.CONDITION, Effect.LAST, "AMDGPU*", bad=_TRUE, vendor=Vendor.AMD, fault=True),
    *_rows("Nebius", Where.CONDITION, Effect.LAST, "NebiusGPUError HardwareIssuesSuspected", bad=_TRUE, fault=True),
    *_rows("Nebius", Where.CONDITION, Effect.LAST,
           "NebiusContainerRuntimeError NebiusBootDiskIOError", bad=_TRUE),
    *_rows("Nebius", Where.CONDITION, Effect.PLANNED, "NebiusMaintenanceScheduled", bad=_TRUE),
    *_rows("OKE", Where.CONDITION, Effect.LAST, "DcgmiHealth IpAddress", bad=_TRUE),
    # Their taints keep pods away; where a node lacks them the condition counts.
    *_rows("Kubernetes", Where.CONDITION, Effect.LAST,
           "MemoryPressure DiskPressure PIDPressure NetworkUnavailable", bad=_TRUE),
    *_rows("Kubernetes", Where.CONDITION, Effect.PLANNED, "MaintenancePlanned", bad=_TRUE),
    *_rows("Kubernetes", Where.CONDITION, Effect.WAIT,
           "DrainInProgress Drained MaintenanceInProgress GracefulNodeShutdownInProgress", bad=_TRUE),
    # Labels
    *_rows("HyperPod", Where.LABEL, Effect.WAIT, "sagemaker.amazonaws.com/node-health-status", good={"schedulable"}, fault=True),
    *_rows("HyperPod", Where.LABEL, Effect.WAIT, "sagemaker.amazonaws.com/deep-health-check-status", good={"passed"}),
    *_rows("NVSentinel", Where.LABEL, Effect.WAIT, "dgxc.nvidia.com/nvsentinel-state", bad=_AT_WORK),
    *_rows("Alibaba Cloud", Where.LABEL, Effect.WAIT, "alibabacloud.com/node-anomaly", bad=_TRUE, fault=True),
    *_rows("GKE", Where.LABEL, Effect.WAIT, "cloud.google.com/active-node-maintenance", bad={"ongoing"}),
    *_rows("GKE", Where.LABEL, Effect.WAIT, "cloud.google.com/perform-maintenance", bad=_TRUE),
    *_rows("GKE", Where.LABEL, Effect.WAIT, "cloud.google.com/fault-behavior"),
    *_rows("GKE", Where.LABEL, Effect.PLANNED, "cloud.google.com/scheduled-maintenance-time"),
    *_rows("Autopilot", Where.LABEL, Effect.LAST, "autopilot.ibm.com/gpuhealth", bad={"err", "warn"}, vendor=Vendor.NVIDIA),
    *_rows("Autopilot", Where.LABEL, Effect.WAIT, "autopilot.ibm.com/gpuhealth", bad={"testing"}, vendor=Vendor.NVIDIA),
    *_rows("Autopilot", Where.LABEL, Effect.WAIT, "autopilot.ibm.com/gpuhealth", bad={"evict"}, vendor=Vendor.NVIDIA,
           fault=True),
    *_rows("CoreWeave", Where.LABEL, Effect.WAIT, "node.coreweave.cloud/state", good={"production"}),
    *_rows("NVIDIA", Where.LABEL, Effect.WAIT, "nvidia.com/mig.config.state nvidia.com/vgpu.config.state",
           good={"success"}, vendor=Vendor.NVIDIA, changes=Fact.PARTS),
    *_rows("NVIDIA", Where.LABEL, Effect.WAIT, "nvidia.com/gpu-driver-upgrade-state", good={"upgrade-done"},
           vendor=Vendor.NVIDIA, changes=Fact.DRIVER),
    *_rows("NVIDIA", Where.LABEL, Effect.WAIT, "nvidia.com/gpu.workload.config", good={"container"},
           vendor=Vendor.NVIDIA),
    *_rows("NVIDIA", Where.LABEL, Effect.WAIT, "nvidia.com/gpu.deploy.*", bad={"paused*"}, vendor=Vendor.NVIDIA),
    *_rows("NVIDIA", Where.LABEL, Effect.LAST, "nvidia.com/gpu.deploy.operands nvidia.com/gpu.deploy.device-plugin",
           bad=_FALSE, vendor=Vendor.NVIDIA),
    *_rows("NVIDIA", Where.LABEL, Effect.WAIT, "nvidia.com/ofed-driver-upgrade-state", good={"upgrade-done"}),
    *_rows("AMD", Where.LABEL, Effect.WAIT, "operator.amd.com/gpu-driver-upgrade-state", good={"upgrade-done"},
           vendor=Vendor.AMD, changes=Fact.DRIVER),
    *_rows("AMD", Where.LABEL, Effect.WAIT, "dcm.amd.com/gpu-config-profile-state", good={"success"},
           vendor=Vendor.AMD, changes=Fact.PARTS),
    *_rows("AMD", Where.LABEL, Effect.WAIT, "dcm.amd.com/reboot-needed", good=_FALSE, vendor=Vendor.AMD, changes=Fact.PARTS),
    *_rows("AMD", Where.LABEL, Effect.WAIT, "amd.com/gpu.mode", good={"container"}, vendor=Vendor.AMD),
    *_rows("AMD", Where.LABEL, Effect.WAIT,
           "amd.com/gpu-hw-acceptance amd.com/gpu-mesh-validation amd.com/cluster-validation-status",
           bad={"failed"}, vendor=Vendor.AMD),
    *_rows("AMD", Where.LABEL, Effect.LAST, "amd.com/nic-health amd.com/rail-bandwidth", bad={"failed"},
           vendor=Vendor.AMD),
    # Taints
    *_rows("Kubernetes", Where.TAINT, Effect.WAIT,
           "node.kubernetes.io/not-ready node.kubernetes.io/unreachable node.kubernetes.io/unschedulable "
           "node.kubernetes.io/memory-pressure node.kubernetes.io/disk-pressure node.kubernetes.io/pid-pressure "
           "node.kubernetes.io/network-unavailable node.kubernetes.io/out-of-service node.kubernetes.io/out-of-disk "
           "node.cloudprovider.kubernetes.io/* node.cluster.x-k8s.io/uninitialized"),
    *_rows("Autoscaler", Where.TAINT, Effect.WAIT,
           "ToBeDeletedByClusterAutoscaler DeletionCandidateOfClusterAutoscaler "
           "startup-taint.cluster-autoscaler.kubernetes.io/* status-taint.cluster-autoscaler.kubernetes.io/* "
           "ignore-taint.cluster-autoscaler.kubernetes.io/*"),
    *_rows("Karpenter", Where.TAINT, Effect.WAIT,
           "karpenter.sh/disrupted karpenter.sh/disruption karpenter.sh/unregistered"),
    *_rows("CNI and CSI agents", Where.TAINT, Effect.WAIT,
           "*/agent-not-ready k8s.ovn.org/network-unavailable drbd.linbit.com/*"),
    *_rows("Startup agents", Where.TAINT, Effect.WAIT,
           "readiness.k8s.io/* nidhogg.uswitch.com/* skyhook.nvidia.com nodewright.nvidia.com"),
    *_rows("AWS", Where.TAINT, Effect.WAIT, "aws-node-termination-handler/*"),
    *_rows("HyperPod", Where.TAINT, Effect.WAIT,
           "sagemaker.amazonaws.com/node-health-status sagemaker.amazonaws.com/deep-health-check-status"),
    *_rows("AKS", Where.TAINT, Effect.WAIT,
           "remediator.kubernetes.azure.com/* remediator.aks.microsoft.com/*"),
    *_rows("GKE", Where.TAINT, Effect.WAIT,
           "cloud.google.com/impending-node-termination cloud.google.com/maintenance-window-started"),
    *_rows("Alibaba Cloud", Where.TAINT, Effect.WAIT, "alibabacloud.com/node-anomaly", fault=True),
    *_rows("Medik8s", Where.TAINT, Effect.WAIT, "medik8s.io/*"),
    *_rows("NVSentinel", Where.TAINT, Effect.WAIT,
           "nvidia.com/gpu-xid-error nvidia.com/gpu-nvlink-error nvidia.com/syslog-xid-error nvidia.com/gpu-error "
           "gpu.health/* nvlink.health/* nvswitch.health/* AggregatedNodeHealth", fault=True),
    *_rows("AMD", Where.TAINT, Effect.WAIT, "amd-gpu-unhealthy", fault=True),
    *_rows("AMD", Where.TAINT, Effect.WAIT, "amd-dcm", vendor=Vendor.AMD, changes=Fact.PARTS),
)  # fmt: skip
"""Every signal that is read, by its kind."""

MOST_REMEMBERED: Final = 4096
"""The number of keys whose row is cached; clusters have a few hundred."""

LABELS: Final = {
    vendor: tuple(row for row in SIGNALS if row.where is Where.LABEL and row.vendor in (None, vendor))
    for vendor in Vendor
}
"""The rows of labels that concern a vendor's devices, in the order of the table."""

_OF_NODE: Final = tuple(row for row in SIGNALS if row.where is not Where.LABEL)
_EXACT: Final[dict[tuple[Where, str], Signal]] = {(row.where, row.key): row for row in _OF_NODE if "*" not in row.key}
_BEGINNING: Final = tuple(row for row in _OF_NODE if row.key.endswith("*"))
_ENDING: Final = tuple(row for row in _OF_NODE if row.key.startswith("*"))

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_GPU: Final = "gpu"
_OF_DEVICES: Final = frozenset({
    _GPU, "gpus", "xid", "sxid", "nvlink", "nvswitch", "dcgm", "accelerator", "accelerated", "amdgpu",
    "nvidia", "xgmi", "rocm", "infiniband", "rdma", "pcie",
})  # fmt: skip
_RUN_TOGETHER: Final = ("nvlink", "nvswitch", "amdgpu", "nvidia", "rocm", "infiniband")
"""Device words with capitals inside, which would split (NVLinkReady)."""

_TROUBLE: Final = frozenset(
    {"unhealthy", "xid", "anomaly", "abnormal", "fault", "faulty", "quarantine", "quarantined", "remediation",
     "remediating", "repair", "repairing", "maintenance", "drain", "draining", "reboot", "rebooting", "broken",
     "degraded", "unschedulable", "unavailable", "uninitialized", "initializing", "bootstrapping", "termination",
     "terminating", "preempted"}
)  # fmt: skip
"""Words of a taint's key that admins do not use for permanently dedicated nodes."""

_HEALTH: Final = frozenset({"health", "healthy", "ready"})
_WHAT_IS_HEALTHY: Final = frozenset({"gpu", "gpus", "node", "accelerator", "hardware", "not", "agent", "driver"})

_WELL: Final = frozenset(
    {"ready", "healthy", "health", "ok", "available", "present", "passed", "schedulable", "active", "operational", "free",
     "accessible", "configured", "connected", "enabled", "functional", "initialized", "installed", "loaded", "normal",
     "online", "reachable", "registered", "running", "succeeded", "up", "usable", "valid", "validated", "verified", "working"}
)  # fmt: skip
"""Last words of a condition that is True if all is well; any other GPU condition reports trouble when True, as in NPD."""

_ILL: Final = _TROUBLE | {
    "error", "errors", "fault", "faults", "failure", "failures", "problem", "problems", "issue", "issues", "fallen", "lost",
    "missing", "mismatch", "throttling", "throttle", "down", "hang", "corruption", "ecc", "xid", "sxid",
}  # fmt: skip
"""Words before the last one of a condition that is True if there is trouble: GPUErrorsPresent."""

_ENDED: Final = frozenset({"free", "passed", "cleared", "recovered", "resolved", "succeeded"})
"""Last words of a condition that is True if there is no trouble whatever stands before them: GPUErrorFree."""


@lru_cache(maxsize=MOST_REMEMBERED)  # 27 µs of patterns against 1: 89,000 calls when 10,000 nodes are read, 2.3 of 11 s
def signal_of(where: Where, key: str) -> Signal | None:
    """The row for a condition's type or a taint's key; None if it is no health signal."""
    exact = _EXACT.get((where, key))
    if exact is not None:
        return exact
    for row in _BEGINNING:
        if row.where is where and key.startswith(row.key[:-1]):
            # An agent's conditions of trouble begin so, and so do others' conditions of health (NVSwitchHealthy).
            well = where is Where.CONDITION and _is_well(_words(key))
            return row._replace(key=key, bad=_FALSE) if well else row
    for row in _ENDING:
        if row.where is where and key.endswith(row.key[1:]):
            return row
    return by_words(where, key)


def by_words(where: Where, key: str) -> Signal | None:
    """A row from the words of an unlisted key: conditions about GPUs, taints that report trouble."""
    words = _words(key)
    known = frozenset(words) | {name for name in _RUN_TOGETHER if name in key.lower()}
    if where is Where.CONDITION and known & _OF_DEVICES:
        return Signal("name", where, key, Effect.LAST, _FALSE if _is_well(words) else _TRUE)
    if where is Where.TAINT and (known & _TROUBLE or (known & _HEALTH and known & _WHAT_IS_HEALTHY)):
        return Signal("name", where, key, Effect.WAIT)
    return None


def _words(key: str) -> list[str]:
    found = [word.lower() for word in _WORD.findall(key)]
    # Capitals in a row are one word: GPUXIDError.
    return [part for word in found for part in ((_GPU, word[3:]) if _is_run(word) else (word,))]


def _is_run(word: str) -> bool:
    return word.startswith(_GPU) and word not in (_GPU, "gpus")


def _is_well(words: Sequence[str]) -> bool:
    """Whether a condition of these words is True if all is well."""
    if words[0] == "no" or words[-1] in _ENDED:
        return True
    negated = not {"un", "not"}.isdisjoint(words)
    return words[-1] in _WELL and not negated and _ILL.isdisjoint(words[:-1])


def is_listed(signal: Signal) -> bool:
    """Whether the table has the row, so that it counts even if an admin tolerates the taint."""
    return signal.source != "name"
