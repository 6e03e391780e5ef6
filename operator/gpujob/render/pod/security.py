"""The user of the pod: everything that the "restricted" Pod Security level requires, unless the user requests root."""

from __future__ import annotations

from typing import Final

from gpujob.api.kinds.pods import SecurityContext
from gpujob.render.attempt import Attempt, Manifest
from gpujob.render.devices import amd

DEFAULT_ID: Final = 1000
"""uid, gid and fsGroup of a job that names none."""


def pod_security(attempt: Attempt) -> Manifest:
    """The pod's security context."""
    asked = attempt.spec.security_context or SecurityContext()
    own_uid, own_group = _defaults(attempt)
    user = own_uid if asked.run_as_user is None else asked.run_as_user
    context: Manifest = {
        "runAsUser": user,
        "runAsGroup": DEFAULT_ID if asked.run_as_group is None else asked.run_as_group,
        "fsGroup": own_group if asked.fs_group is None else asked.fs_group,
        # A volume with many files is walked only when its root folder has another group.
        "fsGroupChangePolicy": "OnRootMismatch",
        # True of every uid but 0; for 0 only if the user requests it, and the kubelet then refuses to start the pod.
        "runAsNonRoot": user != 0 or asked.run_as_non_root is True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    groups = list(dict.fromkeys((*asked.supplemental_groups, *amd.device_groups(attempt))))
    if groups:
        context["supplementalGroups"] = groups
    return context


def _defaults(attempt: Attempt) -> tuple[int, int]:
    """The uid and fsGroup of a job that names none: the first that the platform assigns to pods of the namespace."""
    ids = attempt.choice.ids
    return (ids.uids[0], ids.groups[0]) if ids else (DEFAULT_ID, DEFAULT_ID)


def security_on_devices(attempt: Attempt, *, read_only: bool) -> Manifest:
    """The security context of a container with devices: what the admin's pool needs besides, independent of the job."""
    if attempt.pool.host_devices:
        return {"privileged": True} | ({"readOnlyRootFilesystem": True} if read_only else {})
    context = container_security(read_only=read_only)
    if attempt.fabric is not None and attempt.fabric.lock_memory:
        context["capabilities"]["add"] = ["IPC_LOCK"]
    return context


def container_security(*, read_only: bool) -> Manifest:
    """A container's security context; devices of a device plugin need no privilege."""
    context: Manifest = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return context | ({"readOnlyRootFilesystem": True} if read_only else {})
