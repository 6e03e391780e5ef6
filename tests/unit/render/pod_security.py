"""The "restricted" Pod Security Standard as a check of a rendered pod: what the admission plugin would say.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/, the rules that can apply to our pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

VOLUMES: Final = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)


def violations(pod: dict[str, Any]) -> Iterator[str]:
    """Every rule of the restricted level that a pod's spec breaks."""
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(key):
            yield key
    for volume in pod.get("volumes", []):
        if set(volume) - {"name"} - VOLUMES:
            yield f"volume {volume['name']}"
    for container in (*pod.get("initContainers", []), *pod["containers"]):
        yield from _of_container(container, pod.get("securityContext", {}))


def _of_container(container: dict[str, Any], of_pod: dict[str, Any]) -> Iterator[str]:
    name, own = container["name"], container.get("securityContext", {})
    effective = {**of_pod, **own}
    if effective.get("runAsNonRoot") is not True:
        yield f"{name}: runAsNonRoot"
    if effective.get("runAsUser") == 0:
        yield f"{name}: runAsUser"
    if effective.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield f"{name}: seccompProfile"
    if own.get("privileged"):
        yield f"{name}: privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"{name}: allowPrivilegeEscalation"
    capabilities = own.get("capabilities", {})
    if capabilities.get("drop") != ["ALL"] or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield f"{name}: capabilities"
    if any("hostPort" in port for port in container.get("ports", [])):
        yield f"{name}: hostPort"
