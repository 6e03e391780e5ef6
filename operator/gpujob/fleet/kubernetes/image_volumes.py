"""Whether a node can mount an OCI image as a volume, from the versions that its kubelet reports.

Sources: KEP-4639 and kubernetes.io/docs/tasks/configure-pod-container/image-volumes (from Kubernetes 1.31, on by default from
1.35); containerd's release notes of 2.1.0; CRI-O's of 1.31.0. Read on 2026-11-28.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from gpujob.catalog.images.versions import release
from gpujob.values.untrusted import one_line, table

FIRST: Final = {"containerd": (2, 1), "cri-o": (1, 31)}
"""The first release of each container runtime that mounts images."""

KUBELET: Final = (1, 31)
"""The first Kubernetes that can."""

KUBELET_DEFAULT: Final = (1, 35)
"""The first Kubernetes that does by default."""

LONGEST: Final = 48


@dataclass(frozen=True, slots=True)
class ImageMounts:
    """The state of a node: `able` None if unknown, and the reported version that decides."""

    able: bool | None = None
    why: str = "it reports no container runtime"


UNREPORTED: Final = ImageMounts()


def image_mounts(status: Mapping[str, Any]) -> ImageMounts:
    """By a Node's status; never raises for what is inside."""
    info = table(status, "nodeInfo")
    return _by_versions(_text(info.get("containerRuntimeVersion")), _text(info.get("kubeletVersion")))


@lru_cache(maxsize=256)  # one object for all nodes of one version, and 1 to 9 µs less for each of 10,000
def _by_versions(runtime: str, kubelet: str) -> ImageMounts:
    name, _, version = runtime.partition("://")
    first, has, of_kubelet = FIRST.get(name), release(version), release(kubelet.removeprefix("v"))
    if of_kubelet and of_kubelet < KUBELET:
        return ImageMounts(False, f"kubelet {kubelet}")
    if first is None or not has:
        return ImageMounts(None, runtime) if runtime else UNREPORTED
    if has < first:
        return ImageMounts(False, f"{name} {version}")
    if not of_kubelet:
        return ImageMounts(None, "it reports no kubelet version")
    if of_kubelet < KUBELET_DEFAULT:
        return ImageMounts(None, f"kubelet {kubelet} does so only with its feature gate ImageVolume")
    return ImageMounts(True, f"{name} {version}")


def _text(value: Any) -> str:
    return one_line(value)[:LONGEST] if isinstance(value, str) else ""
