"""What the vendors' operators say is being done to a node: which words keep jobs away, which are a warning, which nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders import A100, H100, H200, L4, MI300X, decision, demand, fleet, gpupool, node, pool_of

from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.labels.maintenance import as_of
from gpujob.placement.engine.choose import choose
from gpujob.placement.report import summary
from gpujob.placement.report.behind import behind
from gpujob.placement.report.why_not import why_not
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.vocabulary import Reason, Verdict

UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
AMD_UPGRADE = "operator.amd.com/gpu-driver-upgrade-state"


@pytest.mark.parametrize(
    ("gpu", "label", "value"),
    [
        *((H100, UPGRADE, state) for state in (
            "upgrade-required", "cordon-required", "wait-for-jobs-required", "pod-deletion-required", "drain-required",
            "pod-restart-required", "validation-required", "uncordon-required", "node-maintenance-required",
            "upgrade-failed", "something-new",
        )),
        (H100, "nvidia.com/ofed-driver-upgrade-state", "drain-required"),
        (MI300X, "nvidia.com/ofed-driver-upgrade-state", "pod-restart-required"),
        (H100, "nvidia.com/mig.config.state", "pending"),
        (H100, "nvidia.com/mig.config.state", "failed"),
        (H100, "nvidia.com/vgpu.config.state", "failed"),
        (H100, "nvidia.com/gpu.deploy.device-plugin", "paused-for-driver-upgrade"),
        (H100, "nvidia.com/gpu.deploy.dcgm-exporter", "paused-for-mig-change"),
        (H100, "nvidia.com/gpu.workload.config", "vm-passthrough"),
        (MI300X, AMD_UPGRADE, "upgrade-required"),
        (MI300X, "dcm.amd.com/gpu-config-profile-state", "failure"),
        (MI300X, "dcm.amd.com/reboot-needed", "true"),
        (MI300X, "amd.com/gpu-hw-acceptance", "failed"),
        (MI300X, "amd.com/gpu-mesh-validation", "Failed"),
        (MI300X, "amd.com/cluster-validation-status", "failed"),
        (MI300X, "amd.com/gpu.mode", "vf-passthrough"),
        *((H100, "sagemaker.amazonaws.com/node-health-status", state) for state in (
            "Unschedulable", "UnschedulablePendingReplacement", "UnschedulablePendingReboot",
        )),
        (MI300X, "sagemaker.amazonaws.com/deep-health-check-status", "InProgress"),
        *((H100, "dgxc.nvidia.com/nvsentinel-state", state) for state in (
            "quarantined", "draining", "drain-succeeded", "drain-failed", "remediating", "remediation-failed",
        )),
        (H100, "cloud.google.com/active-node-maintenance", "ONGOING"),
        (H100, "cloud.google.com/perform-maintenance", "true"),
        (H100, "cloud.google.com/fault-behavior", "PERFORMANCE"),
        (H100, "node.coreweave.cloud/state", "triage"),
        (H100, "alibabacloud.com/node-anomaly", "true"),
        (H100, "autopilot.ibm.com/gpuhealth", "TESTING"),
        (H100, "autopilot.ibm.com/gpuhealth", "EVICT"),
    ],
)  # fmt: skip
def test_a_node_that_is_worked_on_or_failed_its_test_waits(gpu: Any, label: str, value: str) -> None:
    raw = node("n", gpu, labels={label: value})
    unready = pool_of(fleet(raw), "n").nodes[0].unready
    assert unready is not None
    assert unready.message == f"node n: {label} is {value}"
    assert decision(raw).verdict is Verdict.WAITING


NONE_NOW = {"amd.com/gpu": "0"}
"""What a kubelet reports of devices whose plugin is gone."""


BY_LABELS: dict[str, dict[str, str | None]] = {
    "nvidia.com/gpu": {**H100.labels(8, "Server"), "nvidia.com/gpu.count": "0"},
    "amd.com/gpu": {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"},
}
"""Labels of devices that do not count them."""


@pytest.mark.parametrize("resource", BY_LABELS)
@pytest.mark.parametrize("label", [None, "amd.com/gpu.mode", "nvidia.com/gpu.workload.config"])
def test_devices_whose_plugin_is_gone_are_waited_for(resource: str, label: str | None) -> None:
    labels = BY_LABELS[resource] | ({label: "vm-passthrough"} if label else {})
    raw = node("n", labels=labels, devices={resource: "0"})
    found = decision(raw)
    assert found.verdict is Verdict.WAITING
    own = label is not None and label.startswith(resource.partition("/")[0])
    why = f"node n: {label} is vm-passthrough" if own else "node n shows 0 devices as allocatable"
    assert [reason.message for reason in found.candidates[0].reasons] == [why]
    assert summary.summary(found).startswith("may fit pool ")


def test_the_number_of_devices_whose_plugin_is_gone_is_that_of_the_machine() -> None:
    labels = {"node.kubernetes.io/instance-type": "Standard_ND96isr_MI300X_v5"}
    raw = node("n", MI300X, labels=labels, devices=NONE_NOW)
    assert decision(raw, gpusPerNode=8).verdict is Verdict.WAITING
    assert decision(raw, gpusPerNode=16).verdict is Verdict.IMPOSSIBLE
    eight, gone = node("a", MI300X), node("n", MI300X, devices=NONE_NOW)
    assert decision(eight, gone, nodes=2, gpusPerNode=8).verdict is Verdict.WAITING


@pytest.mark.parametrize("mode", ["pf-passthrough", "vf-passthrough"])
def test_devices_that_no_label_identifies_are_no_fault_while_virtual_machines_have_them(mode: str) -> None:
    labels = {"feature.node.kubernetes.io/amd-gpu": "true", "amd.com/gpu.mode": mode, "rack": "a"}
    raw = node("n", labels=labels, devices=NONE_NOW)
    assert decision(raw).verdict is Verdict.WAITING
    assert (
        decision(node("n", labels=labels | {"amd.com/gpu.mode": None}, devices=NONE_NOW)).verdict
        is Verdict.MISCONFIGURED
    )
    declared = decision(raw, gpupool("mine", {"rack": "a"}, accelerator="MI300X", resourceName="amd.com/gpu"))
    assert (declared.verdict, declared.candidates[0].pool.accelerator_id) == (Verdict.WAITING, "MI300X")


@pytest.mark.parametrize(
    ("gpu", "label", "value"),
    [
        (H100, UPGRADE, "upgrade-done"),
        (H100, UPGRADE, ""),
        (H100, "nvidia.com/mig.config.state", "success"),
        (H100, "nvidia.com/gpu.workload.config", "container"),
        (H100, "nvidia.com/gpu.deploy.driver", "pre-installed"),
        (H100, "nvidia.com/gpu.deploy.driver", "false"),
        (H100, "nvidia.com/gpu.deploy.device-plugin", "true"),
        (H100, AMD_UPGRADE, "upgrade-required"),
        (MI300X, UPGRADE, "drain-required"),
        (MI300X, AMD_UPGRADE, "upgrade-done"),
        (MI300X, "dcm.amd.com/gpu-config-profile-state", "success"),
        (MI300X, "amd.com/gpu-hw-acceptance", "passed"),
        (MI300X, "amd.com/gpu.mode", "container"),
        (H100, "sagemaker.amazonaws.com/node-health-status", "Schedulable"),
        (H100, "sagemaker.amazonaws.com/deep-health-check-status", "Passed"),
        (H100, "dgxc.nvidia.com/nvsentinel-state", "remediation-succeeded"),
        (H100, "cloud.google.com/active-node-maintenance", "PENDING"),
        (MI300X, "node.coreweave.cloud/state", "production"),
        (H100, "alibabacloud.com/node-anomaly", "false"),
        (H100, "autopilot.ibm.com/gpuhealth", "PASS"),
        (H100, "autopilot.ibm.com/gpuhealth", ""),
        (MI300X, "autopilot.ibm.com/gpuhealth", "EVICT"),
    ],
)
def test_other_states_and_those_of_the_other_vendor_hinder_nobody(gpu: Any, label: str, value: str) -> None:
    pool = pool_of(fleet(node("n", gpu, labels={label: value})), "n")
    assert pool.nodes[0].unready is None
    assert pool.nodes[0].suspected is None
    assert pool.warnings == fleet(node("n", gpu)).pools[0].warnings


@pytest.mark.parametrize(
    ("gpu", "label", "value"),
    [
        (H100, "nvidia.com/gpu.deploy.operands", "false"),
        (H100, "nvidia.com/gpu.deploy.device-plugin", "false"),
        (MI300X, "amd.com/nic-health", "failed"),
        (MI300X, "amd.com/rail-bandwidth", "failed"),
        (H100, "autopilot.ibm.com/gpuhealth", "ERR"),
        (H100, "autopilot.ibm.com/gpuhealth", "WARN"),
    ],
)
def test_a_label_of_a_risk_makes_the_node_the_last_one(gpu: Any, label: str, value: str) -> None:
    last = pool_of(fleet(node("n", gpu, labels={label: value})), "n").nodes[0]
    assert last.unready is None
    assert last.suspected is not None
    assert last.suspected.reason is Reason.NODE_DOUBTED
    assert last.suspected.message == f"node n: {label} is {value}; pods may fail or be slow there"


def test_of_two_nodes_the_one_without_trouble_is_taken() -> None:
    found = decision(node("a", H100, labels={UPGRADE: "upgrade-required"}), node("b", H100))
    assert found.choice is not None
    assert found.choice.nodes == ("b",)


def test_a_state_of_any_length_and_letters_stays_one_short_line() -> None:
    raw = node("n", H100, labels={UPGRADE: "x\n" * 500})
    unready = pool_of(fleet(raw), "n").nodes[0].unready
    assert unready is not None
    assert "\n" not in unready.message
    assert len(unready.message) < 120


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("AcceleratedHardwareReady", "False"),
        ("KernelReady", "False"),
        ("GPUMissing", "True"),
        ("XIDErrors", "True"),
        ("UnhealthyNvidiaDevicePlugin", "True"),
        ("KernelDeadlock", "True"),
        ("GpuNvlinkWatch", "True"),
        ("SysLogsGPUFallenOff", "True"),
        ("NebiusGPUError", "True"),
        ("GpuOnFire", "True"),
        ("GPUHealthy", "False"),
        ("NVLinkReady", "False"),
        ("NVSwitchHealthy", "False"),
        ("InfinibandLinkDown", "True"),
        ("NoXidErrors", "False"),
        ("NoGPUProblem", "False"),
        ("GPUErrorFree", "False"),
        ("ROCmHealthy", "False"),
        ("GPUNotReady", "True"),
        *((kind, "True") for kind in (
            "GpuEcc", "GpuRowRemap", "GpuBus", "GpuCount", "GpuXid", "GpuPcie", "GpuFabricMgr", "GpuImex", "NvlinkSpeed",
            "Rocminfo", "DcgmiHealth", "RdmaLink", "RdmaLinkFlapping", "RdmaWpaAuth", "RdmaRttcc", "RdmaVfRoutes",
            "RdmaVfCounters", "IpAddress", "NodeHasPcieErrors", "VMEventScheduled", "FreezeScheduled", "RebootScheduled",
            "RedeployScheduled", "TerminateScheduled", "PreemptScheduled",
        )),
        ("RDMAReady", "False"),
        *((kind, "False") for kind in (
            "GPUDriverInstalled", "GPUDriverLoaded", "GPUEnabled", "NvidiaDriverRunning", "GPUNodeConfigured",
            "GPUInitialized", "NVLinkUp", "GPUValidated", "GPUOK", "GPUXIDFree",
        )),
        *((kind, "True") for kind in (
            "GPUErrorsPresent", "XIDErrorActive", "GPUThrottlingActive", "GPUMaintenanceActive", "GPUXIDError",
            "GPUNotInstalled", "GpuEccErrorPresent", "GPUHealthCheckFailed",
        )),
        *((kind, "True") for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")),
    ],
)  # fmt: skip
def test_a_condition_that_tells_trouble_makes_the_node_the_last_one(kind: str, status: str) -> None:
    last = pool_of(fleet(with_condition(node("n", H100), kind, status)), "n").nodes[0]
    assert last.unready is None
    assert last.suspected is not None
    assert last.suspected.message == f"node n: condition {kind} is {status} (Why); pods may fail or be slow there"


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("AcceleratedHardwareReady", "True"),
        ("AcceleratedHardwareReady", "Unknown"),
        ("GPUMissing", "False"),
        ("GpuNvlinkWatch", "False"),
        ("GPUHealthy", "True"),
        ("NVSwitchHealthy", "True"),
        ("NVSwitchNotReady", "False"),
        ("NoXidErrors", "True"),
        ("GPUErrorFree", "True"),
        ("ROCmHealthy", "True"),
        ("AMDGPUProblem", "True"),
        ("MemoryPressure", "False"),
        ("SomethingElse", "True"),
        ("DcgmiHealth", "False"),
        ("RdmaLink", "False"),
        ("RdmaLink", "Unknown"),
        ("RebootScheduled", "False"),
        ("OcaVersion", "True"),
        *((kind, "True") for kind in (
            "GPUDriverInstalled", "GPUDriverLoaded", "GPUEnabled", "NvidiaDriverRunning", "GPUNodeConfigured",
            "GPUInitialized", "NVLinkUp", "GPUValidated", "GPUOK", "GPUXIDFree", "GPUErrorsResolved",
        )),
        *((kind, "False") for kind in (
            "GPUErrorsPresent", "XIDErrorActive", "GPUThrottlingActive", "GPUMaintenanceActive", "GPUXIDError",
            "GPUNotInstalled",
        )),
    ],
)  # fmt: skip
def test_a_condition_that_tells_no_trouble_of_these_devices_changes_nothing(kind: str, status: str) -> None:
    assert pool_of(fleet(with_condition(node("n", H100), kind, status)), "n").nodes[0].suspected is None


@pytest.mark.parametrize(
    ("kind", "status", "fault"),
    [
        ("AMDGPUHealthy", "False", True),
        ("AMDGPUReady", "False", True),
        ("AMDGPUHealthy", "True", False),
        ("AMDGPUNotReady", "True", True),
        ("AMDGPUXgmi", "False", False),
    ],
)
def test_a_condition_of_amds_devices_is_read_to_its_last_word(kind: str, status: str, fault: bool) -> None:
    found = pool_of(fleet(with_condition(node("n", MI300X), kind, status)), "n").nodes[0].suspected
    assert (found is not None) is fault


@pytest.mark.parametrize(
    "taint",
    [
        "aws-node-termination-handler/spot-itn=i-1:NoSchedule",
        "aws-node-termination-handler/rebalance-recommendation=x:NoSchedule",
        "aws-node-termination-handler/asg-lifecycle-termination=x:NoSchedule",
        "readiness.k8s.io/network-ready=pending:NoSchedule",
        "readiness.k8s.io/StorageReady=pending:NoExecute",
        "skyhook.nvidia.com=runtime-required:NoSchedule",
        "nodewright.nvidia.com=runtime-required:NoSchedule",
        "nidhogg.uswitch.com/kube-system.gpu-agent:NoSchedule",
        "k8s.ovn.org/network-unavailable:NoSchedule",
        "drbd.linbit.com/lost-quorum:NoSchedule",
        "aci-containers-host/unavailable:NoSchedule",
        "agent.datadoghq.com/not-ready=presence:NoSchedule",
        "egress.example.com/cni-uninitialized:NoSchedule",
    ],
)
def test_a_job_waits_while_an_agent_prepares_or_ends_its_only_node(taint: str) -> None:
    found = decision(node("n", H100, taints=[taint]), catalog=load_catalog())
    assert found.verdict is Verdict.WAITING
    assert f"node n has taint {taint}" in summary.summary(found)


@pytest.mark.parametrize(
    "taint", ["team=ml:NoSchedule", "skyhook.nvidia.company=x:NoSchedule", "gpu-free=yes:NoSchedule"]
)
def test_a_taint_of_dedicated_nodes_is_no_passing_state(taint: str) -> None:
    assert decision(node("n", H100, taints=[taint]), catalog=load_catalog()).verdict is Verdict.IMPOSSIBLE


def test_a_condition_of_amds_devices_concerns_them() -> None:
    assert (
        pool_of(fleet(with_condition(node("n", MI300X), "AMDGPUProblem", "True")), "n").nodes[0].suspected is not None
    )


@pytest.mark.parametrize("kind", ["MaintenanceInProgress", "DrainInProgress", "Drained"])
def test_a_condition_of_work_on_a_node_lets_jobs_wait(kind: str) -> None:
    found = decision(with_condition(node("n", H100), kind, "True"))
    assert found.verdict is Verdict.WAITING


@pytest.mark.parametrize(
    "taint",
    [
        "sagemaker.amazonaws.com/node-health-status=Unschedulable:NoSchedule",
        "alibabacloud.com/node-anomaly:NoSchedule",
        "example.com/node-fault=x:NoExecute",
        "remediator.kubernetes.azure.com/unschedulable:NoSchedule",
        "remediator.aks.microsoft.com/unschedulable:NoSchedule",
        "cloud.google.com/maintenance-window-started=true:NoSchedule",
        "medik8s.io/remediation=self-node-remediation:NoExecute",
        "nvidia.com/gpu-xid-error=true:NoSchedule",
        "AggregatedNodeHealth=False:NoSchedule",
        "gpu.health/memory-error:NoSchedule",
        "example.com/gpu-unhealthy:NoSchedule",
        "example.com/quarantined=yes:NoExecute",
        "ops.example.com/nodeHealth=bad:NoSchedule",
    ],
)
def test_a_taint_of_a_passing_state_lets_jobs_wait(taint: str) -> None:
    found = decision(node("n", H100, taints=[taint]))
    assert found.verdict is Verdict.WAITING
    assert found.candidates[0].reasons[0].message == f"node n has taint {taint}"


@pytest.mark.parametrize(
    "taint", ["team=vision:NoSchedule", "dedicated=repair:NoSchedule", "health.example.com/ward:NoSchedule"]
)
def test_a_taint_that_sets_nodes_apart_refuses(taint: str) -> None:
    assert decision(node("n", H100, taints=[taint])).verdict is Verdict.IMPOSSIBLE


def test_a_taint_that_an_admin_tolerates_keeps_nothing_away_unless_the_table_has_it() -> None:
    for key, verdict in (("example.com/maintenance", Verdict.PLACED), ("amd-gpu-unhealthy", Verdict.WAITING)):
        admin = gpupool("p", {"pool": "p"}, tolerations=[{"key": key, "operator": "Exists"}])
        assert (
            decision(node("n", H100, taints=[f"{key}=x:NoSchedule"], labels={"pool": "p"}), admin).verdict is verdict
        ), key


def test_a_taint_that_merely_advises_makes_the_node_the_last_one() -> None:
    tainted = node("a", H100, taints=["nvidia.com/gpu-error=degraded:PreferNoSchedule"])
    found = decision(tainted, node("b", H100))
    assert found.choice is not None
    assert found.choice.nodes == ("b",)
    assert (
        "taint nvidia.com/gpu-error=degraded:PreferNoSchedule" in decision(tainted).candidates[0].warnings[-1].message
    )


def test_a_healthy_node_of_a_dearer_pool_goes_before_one_that_may_be_faulty() -> None:
    faulty = with_condition(node("cheap", H100, price="1"), "GPUMissing", "True")
    found = decision(faulty, node("dear", MI300X, price="9"))
    assert found.choice is not None
    assert found.choice.nodes == ("dear",)
    assert [candidate.suspected for candidate in found.candidates[:1]] == [False]
    assert decision(faulty).verdict is Verdict.PLACED


def test_a_node_that_may_be_faulty_is_told_where_a_gang_needs_it() -> None:
    found = decision(with_condition(node("a", H100), "AcceleratedHardwareReady", "False"), node("b", H100), nodes=2)
    assert found.choice is not None
    assert found.choice.nodes == ("a", "b")
    assert Reason.NODE_DOUBTED in {warning.reason for warning in found.candidates[0].warnings}


def test_devices_for_virtual_machines_need_no_plugin() -> None:
    machines = node("n", None, labels={"feature.node.kubernetes.io/pci-10de.present": "true", "nvidia.com/gpu.present": "true"},
                    devices={"nvidia.com/GA102GL_A10": "2"})  # fmt: skip
    found = decision(machines)
    assert found.verdict is Verdict.WAITING
    assert (
        found.candidates[0].reasons[0].message == "node n: its GPUs are for virtual machines (nvidia.com/GA102GL_A10)"
    )


def test_a_plugin_that_is_paused_is_not_to_be_installed() -> None:
    paused = node("n", H100, devices={}, labels={UPGRADE: "pod-restart-required"})
    assert decision(paused).verdict is Verdict.WAITING
    assert decision(node("n", H100, devices={})).verdict is Verdict.MISCONFIGURED


def with_condition(raw: Any, kind: str, status: str) -> Any:
    raw["status"]["conditions"].append({"type": kind, "status": status, "reason": "Why"})
    return raw


GKE_TIME = "cloud.google.com/scheduled-maintenance-time"
PLANNED = {GKE_TIME: "1783000000"}
TOLD = f"node m: maintenance is planned for 2026-07-02 13:46 UTC ({GKE_TIME} is 1783000000)"


@pytest.mark.parametrize(
    ("value", "when"),
    [
        ("1783000000", " for 2026-07-02 13:46 UTC"),
        ("1999999999", " for 2033-05-18 03:33 UTC"),
        ("soon", ""),
        ("-1783000000", ""),
        ("99999999999999999999", ""),
    ],
)
def test_announced_maintenance_has_its_time_where_it_is_one(value: str, when: str) -> None:
    there = pool_of(fleet(node("m", H100, labels={GKE_TIME: value})), "m").nodes[0]
    assert (there.unready, there.suspected) == (None, None)
    assert there.planned is not None
    assert there.planned.reason is Reason.MAINTENANCE_PLANNED
    assert there.planned.message == f"node m: maintenance is planned{when} ({GKE_TIME} is {value[:32]})"


NOW = datetime(2026, 7, 2, 13, 46, 40, tzinfo=UTC)
"""The time 1783000000."""


@pytest.mark.parametrize(
    ("value", "planned"),
    [
        ("1783000001", True),
        ("1783000000", False),
        ("1500000000", False),
        ("900000000", False),
        ("0", False),
        ("1999999999", True),
        # No time of seconds: that maintenance is planned is still said.
        ("soon", True),
        ("1783000000000", True),
    ],
)
def test_maintenance_of_a_time_that_is_past_is_no_plan(value: str, planned: bool) -> None:
    read = as_of(read_node(node("m", H100, labels={GKE_TIME: value, "rack": "x"})), NOW)
    assert (GKE_TIME in read.labels, read.labels["rack"]) == (planned, "x")


@pytest.mark.parametrize("kind", ["NebiusMaintenanceScheduled", "MaintenancePlanned"])
def test_conditions_that_announce_maintenance(kind: str) -> None:
    for status, said in (("True", True), ("False", False)):
        there = pool_of(fleet(with_condition(node("m", H100), kind, status)), "m").nodes[0]
        assert ((there.planned is not None), there.suspected) == (said, None)


@pytest.mark.parametrize(
    ("objective", "planned", "other", "winner"),
    [
        # A fifth of the price, no more: 1.67 and its fifth are more than 2.
        ("Cost", "1.66", "2", "H100-SXM"),
        ("Cost", "1.67", "2", "A100-80GB"),
        ("Cost", "0.01", "0.02", "H100-SXM"),
        # An H100 does 2.1 times the work of an A100.
        ("Value", "3.0", "2", "H100-SXM"),
        ("Value", "4.1", "2", "A100-80GB"),
        ("Speed", "9", "2", "H100-SXM"),
    ],
)
def test_announced_maintenance_counts_as_a_fifth_of_the_price(
    objective: str, planned: str, other: str, winner: str
) -> None:
    nodes = [node("m", H100, labels=PLANNED, price=planned), node("b", A100, price=other)]
    catalog = load_catalog()
    found = decision(*nodes, catalog=catalog, placement={"objective": objective})
    assert found.candidates[0].pool.accelerator_id == winner
    pick = choose(demand(placement={"objective": objective}), fleet(*nodes, catalog=catalog), catalog)
    assert (pick.verdict, pick.choice) == (found.verdict, found.choice)


def test_a_cheaper_pool_that_is_passed_over_for_its_maintenance_is_named() -> None:
    nodes = [node("m", H100, labels=PLANNED, price="1.90"), node("b", A100, price="2"), node("l", L4, price="3")]
    found = decision(*nodes, placement={"objective": "Cost"})
    assert summary.summary(found) == (
        "a100-80gb-ondemand is cheapest of 2 pools with room and no planned maintenance at $2.00 an hour; h100-sxm-ondemand has "
        f"room too, but {TOLD}, which counts as a fifth of the price"
    )
    assert {behind(c, found) for c in found.candidates if c.pool.accelerator_id == "H100-SXM"} == {TOLD}
    # The price at which it would win is that with the fifth.
    told = why_not(found, "h100-sxm-ondemand", fleet(*nodes), load_catalog()).change
    assert told == "it fits too, and would win over a100-80gb-ondemand at $1.66 a GPU-hour or less (now $1.90)"


STARTS = datetime.fromtimestamp(1783000000, UTC)


@pytest.mark.parametrize(
    ("labels", "deadline", "ahead", "winner"),
    [
        (PLANNED, 3600, 7200, "H100-SXM"),
        (PLANNED, 7200, 7200, "H100-SXM"),
        (PLANNED, 7201, 7200, "A100-80GB"),
        (PLANNED, None, 7200, "A100-80GB"),
        # It has begun, or should have.
        (PLANNED, 60, 0, "A100-80GB"),
        (PLANNED, 60, -3600, "A100-80GB"),
        # Nothing says when.
        ({GKE_TIME: "soon"}, 60, 7200, "A100-80GB"),
    ],
)
def test_maintenance_that_begins_after_the_job_has_ended_costs_nothing(
    labels: dict[str, str], deadline: int | None, ahead: int, winner: str
) -> None:
    nodes = [node("m", H100, labels=labels, price="1.90"), node("b", A100, price="2")]
    catalog = load_catalog()
    asked = PendingJob("", "", demand(placement={"objective": "Cost"}), runs_for=deadline)
    now = STARTS - timedelta(seconds=ahead)
    (placing,) = place_all([asked], fleet(*nodes, catalog=catalog), catalog, now=now)
    assert placing.choice is not None
    assert placing.choice.candidate.pool.accelerator_id == winner
    warned = {warning.reason for each in placing.decision.candidates for warning in each.warnings}
    assert (Reason.MAINTENANCE_PLANNED in warned) is (winner != "H100-SXM")
    assert placing.decision.choice == placing.choice


def test_of_several_times_each_node_s_own_counts() -> None:
    """The job ends after the first and before the second."""
    later = {GKE_TIME: str(1783000000 + 86400)}
    nodes = [node("m", H100, labels=PLANNED, price="1.90"), node("l", H200, labels=later, price="1.95"),
             node("b", A100, price="2")]  # fmt: skip
    catalog = load_catalog()
    asked = PendingJob("", "", demand(placement={"objective": "Cost"}), runs_for=7200)
    (placing,) = place_all([asked], fleet(*nodes, catalog=catalog), catalog, now=STARTS - timedelta(seconds=3600))
    assert placing.choice is not None
    assert placing.choice.nodes == ("l",)


def test_a_fleet_s_maintenance_follows_its_nodes() -> None:
    pool = pool_of(fleet(node("m", H100, labels=PLANNED), node("n", H100)), "m")
    assert pool.maintenance == {1783000000}
    assert pool.with_nodes({0: replace(pool.nodes[0], planned_at=None)}).maintenance == frozenset()
    assert pool.with_nodes({0: replace(pool.nodes[0], free=1)}).maintenance == {1783000000}


def test_under_speed_it_counts_as_a_sixth_of_the_speed() -> None:
    nodes = [node("m", H200, labels=PLANNED, price="2"), node("b", H100, price="2")]
    found = decision(*nodes, placement={"objective": "Speed"})
    assert summary.summary(found).endswith(
        f"h200-ondemand has room too, but {TOLD}, which counts as a sixth of the speed"
    )


def test_within_a_pool_nodes_without_announced_maintenance_come_first_and_faulty_ones_last() -> None:
    faulty = with_condition(node("a", H100, 1), "XIDError", "True")
    nodes = [faulty, node("m", H100, 1, labels=PLANNED), node("z", H100, 1)]
    for count, taken in ((1, ("z",)), (2, ("m", "z")), (3, ("a", "m", "z"))):
        found = decision(*nodes, nodes=count)
        assert found.choice is not None
        assert tuple(sorted(found.choice.nodes)) == taken


OLD_NVIDIA = {
    "nvidia.com/cuda.driver-version.full": "470.10.1", "nvidia.com/cuda.driver-version.major": "470",
    "nvidia.com/cuda.driver.major": "470",
}  # fmt: skip


@pytest.mark.parametrize(("state", "verdict"), [
    ("upgrade-required", Verdict.WAITING), ("drain-required", Verdict.WAITING), ("pod-restart-required", Verdict.WAITING),
    ("upgrade-failed", Verdict.IMPOSSIBLE), ("upgrade-done", Verdict.IMPOSSIBLE), (None, Verdict.IMPOSSIBLE),
])  # fmt: skip
def test_a_driver_that_is_being_upgraded_makes_nothing_impossible(state: str | None, verdict: Verdict) -> None:
    raw = node("n", H100, labels={**OLD_NVIDIA, UPGRADE: state})
    found = decision(raw, catalog=load_catalog())
    assert found.verdict is verdict
    assert (f"node n: {UPGRADE} is {state}" in summary.summary(found)) is (verdict is Verdict.WAITING)


SLICES = {"nvidia.com/mig-1g.10gb": "7"}
OF_SLICES = {
    "nvidia.com/mig.strategy": "mixed",
    "nvidia.com/mig-1g.10gb.count": "7",
    "nvidia.com/mig-1g.10gb.memory": "9856",
}


@pytest.mark.parametrize(("state", "verdict"), [
    ("pending", Verdict.WAITING), ("rebooting", Verdict.WAITING), ("failed", Verdict.IMPOSSIBLE), ("success", Verdict.IMPOSSIBLE),
])  # fmt: skip
@pytest.mark.parametrize("spec", [{}, {"gpuMemory": "60G"}, {"gpuMemory": "60G", "gpusPerNode": 2}])
def test_slices_that_are_being_changed_make_no_whole_card_impossible(state: str, verdict: Verdict, spec: Any) -> None:
    raw = node("n", A100, devices=SLICES, labels={**OF_SLICES, "nvidia.com/mig.config.state": state})
    found = decision(raw, catalog=load_catalog(), **spec)
    assert found.verdict is verdict
    said = "may fit pool a100-80gb-1g-10gb-ondemand once its nodes can be used: node n: nvidia.com/mig.config.state is "
    assert summary.summary(found).startswith(said) is (verdict is Verdict.WAITING)


@pytest.mark.parametrize(("gpu", "resource", "label", "value", "devices"), [
    (A100, "nvidia.com/gpu", "nvidia.com/mig.config.state", "pending", ["Partition"]),
    (MI300X, "amd.com/gpu", "dcm.amd.com/gpu-config-profile-state", "inprogress", ["Partition"]),
    (MI300X, "amd.com/gpu", "dcm.amd.com/reboot-needed", "true", ["Partition"]),
])  # fmt: skip
def test_whole_cards_that_are_being_divided_make_no_part_impossible(
    gpu: Any, resource: str, label: str, value: str, devices: list[str]
) -> None:
    raw = node("n", gpu, devices={resource: "8"}, labels={label: value})
    found = decision(raw, catalog=load_catalog(), placement={"devices": devices})
    assert found.verdict is Verdict.WAITING


@pytest.mark.parametrize("effect", ["NoExecute", "NoSchedule"])
@pytest.mark.parametrize("spec", [{}, {"gpuMemory": "100G"}, {"gpusPerNode": 8}])
def test_parts_that_amd_s_configuration_manager_changes_make_no_whole_card_impossible(effect: str, spec: Any) -> None:
    labels = {"amd.com/compute-partitioning-supported": "true", "amd.com/gpu.compute-memory-partition": "cpx_nps4"}
    raw = node("n", MI300X, 64, labels=labels, taints=[f"amd-dcm=up:{effect}"])
    found = decision(raw, catalog=load_catalog(), **spec)
    assert found.verdict is Verdict.WAITING
    assert summary.summary(found).endswith(f"once its nodes can be used: node n has taint amd-dcm=up:{effect}")
    assert decision(raw, catalog=load_catalog(), gpuMemory="400G").verdict is Verdict.IMPOSSIBLE


def test_more_than_a_whole_card_is_impossible_also_while_cards_are_divided() -> None:
    raw = node("n", A100, labels={"nvidia.com/mig.config.state": "pending"})
    assert decision(raw, catalog=load_catalog(), gpuMemory="100G").verdict is Verdict.IMPOSSIBLE


def test_a_node_beside_it_keeps_its_facts() -> None:
    """The node with the old driver that nothing upgrades takes no job that needs a newer one."""
    there = node("a", H100, labels=OLD_NVIDIA)
    found = decision(there, node("b", H100, labels={**OLD_NVIDIA, UPGRADE: "drain-required"}), catalog=load_catalog())
    assert found.verdict is Verdict.WAITING
    assert [each.name for pool in fleet(there).pools for each in pool.nodes] == ["a"]
    assert decision(there, catalog=load_catalog()).verdict is Verdict.IMPOSSIBLE
