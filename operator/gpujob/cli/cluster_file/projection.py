"""Projections of objects: their head, members by name, and amounts; everything else is left out."""

from __future__ import annotations

from typing import Any, Final

from gpujob.fleet.kubernetes.objects import DEVICE_FILES
from gpujob.fleet.kubernetes.pod_requests import held_otherwise
from gpujob.values.untrusted import Table, table, tables

AMOUNTS: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
REDACTED: Final = "redacted"
"""The placeholder for a required text that is private."""


def an_object(raw: Table, metadata: dict[str, Any], **parts: dict[str, Any]) -> dict[str, Any]:
    """An object of the same kind and name, with only these members."""
    head = {"apiVersion": raw.get("apiVersion", "v1"), "kind": raw["kind"]}
    return head | {"metadata": {"name": name_of(raw), **metadata}} | filled(**parts)


def name_of(raw: Table) -> str | None:
    """The object's name, None if it has none."""
    name = table(raw, "metadata").get("name")
    return name if isinstance(name, str) and name else None


def container(raw: Table) -> dict[str, Any]:
    """A container as its requests."""
    resources = table(raw, "resources")
    wanted = filled(requests=amounts(table(resources, "requests")), limits=amounts(table(resources, "limits")))
    return filled(name=raw.get("name"), restartPolicy=raw.get("restartPolicy"), resources=wanted)


def resized(spec: Table, status: Table) -> dict[str, Any]:
    """What a pod's status reports about a resize of its containers that is not done; empty if there is none."""
    held = held_otherwise(spec, status)
    each = [
        {**container(one), "allocatedResources": amounts(table(one, "allocatedResources"))} for one in held.values()
    ]
    infeasible = (
        [{"type": "PodResizePending", "reason": "Infeasible"}]
        if any("infeasible" in one for one in held.values())
        else []
    )
    # Init containers and others have names of their own, and both lists are read.
    return filled(containerStatuses=each, initContainerStatuses=each, conditions=infeasible)


def device_files(spec: Table) -> list[dict[str, Any]]:
    """The volumes of a pod that are device files of the host."""
    paths = ((each.get("name"), str(table(each, "hostPath").get("path", ""))) for each in tables(spec, "volumes"))
    return [{"name": name, "hostPath": {"path": path}} for name, path in paths if path.startswith(DEVICE_FILES)]


def mounted_claims(spec: Table) -> list[dict[str, Any]]:
    """The volumes of a pod that are PersistentVolumeClaims, without their names."""
    found = (table(each, "persistentVolumeClaim") for each in tables(spec, "volumes"))
    return [{"persistentVolumeClaim": present(claim, "claimName")} for claim in found if claim]


def made_claims(spec: Table) -> list[dict[str, Any]]:
    """The volumes of a pod that are made for it alone, as their StorageClasses and sizes."""
    found = [table(table(table(each, "ephemeral"), "volumeClaimTemplate"), "spec") for each in tables(spec, "volumes")]
    kept = (
        filled(
            storageClassName=claim.get("storageClassName"),
            resources=filled(requests=present(table(table(claim, "resources"), "requests"), "storage")),
        )
        for claim in found
    )
    return [{"ephemeral": {"volumeClaimTemplate": {"spec": each}}} for each in kept if each]


def domain(key: object) -> str:
    """The domain of a label's or annotation's key, empty where it has none."""
    prefix, slash, _ = str(key).partition("/")
    return prefix if slash else ""


def amounts(found: Table) -> dict[str, Any]:
    """CPU, memory, disk, pods and devices, of GPUs or of a fabric."""
    return {key: value for key, value in found.items() if key in AMOUNTS or "/" in str(key)}


def present(holder: Table, *keys: str) -> dict[str, Any]:
    """The existing members of these names."""
    return {key: holder[key] for key in keys if key in holder}


def filled(**members: Any) -> dict[str, Any]:
    """The non-empty members."""
    return {key: value for key, value in members.items() if value not in (None, "", False, [], {})}
