"""What the vendors' operators say is being done to a node: which words keep jobs away, which are a doubt, which nothing."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, MI300X, decision, fleet, node, pool_of

from gpujob.vocabulary import Reason, Verdict

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
    ],
)  # fmt: skip
def test_a_node_that_is_worked_on_or_failed_its_test_waits(gpu: Any, label: str, value: str) -> None:
    raw = node("n", gpu, labels={label: value})
    unready = pool_of(fleet(raw), "n").nodes[0].unready
    assert unready is not None
    assert unready.message == f"node n: {label} is {value}"
    assert decision(raw).verdict is Verdict.WAITING


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
    ],
)
def test_other_states_and_those_of_the_other_vendor_hinder_nobody(gpu: Any, label: str, value: str) -> None:
    pool = pool_of(fleet(node("n", gpu, labels={label: value})), "n")
    assert pool.nodes[0].unready is None
    assert pool.doubts == fleet(node("n", gpu)).pools[0].doubts


@pytest.mark.parametrize(
    ("gpu", "label", "value", "words"),
    [
        (H100, "nvidia.com/gpu.deploy.operands", "false", "gpu.deploy.operands is false, so nobody may renew"),
        (H100, "nvidia.com/gpu.deploy.device-plugin", "false", "gpu.deploy.device-plugin is false"),
        (MI300X, "amd.com/nic-health", "failed", "amd.com/nic-health is failed; several nodes may be slow"),
        (MI300X, "amd.com/rail-bandwidth", "failed", "amd.com/rail-bandwidth is failed"),
    ],
)
def test_what_may_be_wrong_with_a_node_is_a_doubt(gpu: Any, label: str, value: str, words: str) -> None:
    pool = pool_of(fleet(node("n", gpu, labels={label: value})), "n")
    doubts = [doubt for doubt in pool.doubts if doubt.reason is Reason.NODE_DOUBTED]
    assert pool.nodes[0].unready is None
    assert [words in doubt.message for doubt in doubts] == [True]


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
