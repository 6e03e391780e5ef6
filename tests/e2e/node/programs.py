"""The programs of a node that Kubernetes' own module does not have, and those that it does."""

from pathlib import Path

from tests.e2e.cluster import binaries

_MODULE = Path(__file__).resolve().parent / "programs"
_OWN = ("./dns", "./deviceplugin")


def kubernetes() -> Path:
    """The folder with kubelet and kube-proxy."""
    return binaries.build(binaries.NODE)


def own() -> Path:
    """The folder with dns and deviceplugin."""
    return binaries.build(_OWN, _MODULE)
