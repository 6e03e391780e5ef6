"""Which nodes mount an OCI image as a volume, by the versions that their kubelets report, whatever these are."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.fleet.kubernetes.image_volumes import image_mounts
from gpujob.fleet.kubernetes.parse import read_node


@pytest.mark.parametrize(
    ("runtime", "kubelet", "able", "told"),
    [
        ("containerd://1.6.20~ds1", "v1.37.1", False, "containerd 1.6.20~ds1"),
        ("containerd://2.0.5", "v1.37.1", False, "containerd 2.0.5"),
        ("containerd://2.1.0", "v1.35.0", True, "containerd 2.1.0"),
        ("containerd://v2.3.1-k3s1", "v1.36.2+k3s1", True, "containerd v2.3.1-k3s1"),
        ("containerd://2.4.2", "v1.34.3", None, "kubelet v1.34.3 does so only with its feature gate ImageVolume"),
        ("containerd://2.4.2", "v1.30.9", False, "kubelet v1.30.9"),
        ("containerd://2.4.2", None, None, "it reports no kubelet version"),
        ("cri-o://1.30.4", "v1.37.1", False, "cri-o 1.30.4"),
        ("cri-o://1.37.0", "v1.37.1", True, "cri-o 1.37.0"),
        ("docker://27.1.1", "v1.37.1", None, "docker://27.1.1"),
        ("containerd://", "v1.37.1", None, "containerd://"),
        ("containerd://\x1b[31m", "v1.37.1", None, "containerd://\\x1b[31m"),
        (None, "v1.37.1", None, "it reports no container runtime"),
        (7, ["v1.37.1"], None, "it reports no container runtime"),
    ],
)
def test_versions_decide_and_what_is_unknown_is_never_able(
    runtime: Any, kubelet: Any, able: bool | None, told: str
) -> None:
    found = image_mounts({"nodeInfo": {"containerRuntimeVersion": runtime, "kubeletVersion": kubelet}})
    assert (found.able, found.why) == (able, told)


@pytest.mark.parametrize("status", [{}, {"nodeInfo": None}, {"nodeInfo": []}, {"nodeInfo": "x" * 9000}])
def test_a_node_that_says_nothing_is_a_warning(status: Any) -> None:
    assert read_node({"metadata": {"name": "n"}, "status": status}).image_mounts.able is None
