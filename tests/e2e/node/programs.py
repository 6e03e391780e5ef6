"""The programs of a node that Kubernetes' own module does not have, and those that it does; each Go module is built once."""

from pathlib import Path

from tests.e2e.cluster import binaries

_MODULE = Path(__file__).resolve().parent / "go"
_OWN = ("./dns", "./deviceplugin")
_RUNTIME_MODULE = Path(__file__).resolve().parent / "runtime"
_CONTAINERD = "github.com/containerd/containerd/v2/cmd/"
_RUNTIME = (_CONTAINERD + "containerd", _CONTAINERD + "containerd-shim-runc-v2", _CONTAINERD + "ctr")


def kubernetes() -> Path:
    """The folder with kubelet and kube-proxy."""
    return binaries.build(binaries.NODE)


def own() -> Path:
    """The folder with dns and deviceplugin."""
    return binaries.build(_OWN, _MODULE)


def runtime() -> Path:
    """The folder with containerd, its shim and ctr: the first container runtime that mounts images as volumes."""
    return binaries.build(_RUNTIME, _RUNTIME_MODULE)
