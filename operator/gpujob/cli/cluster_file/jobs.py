"""The jobs of a captured cluster: reservations of children without pods, and waiting jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpujob.cli.cluster_file.projection import (
    REDACTED,
    an_object,
    container,
    device_files,
    filled,
    made_claims,
    mounted_claims,
    present,
)
from gpujob.cli.cluster_file.reservations import is_child
from gpujob.values.errors import BadInput
from gpujob.values.finding import listed
from gpujob.values.untrusted import Table, table, tables
from gpujob.values.vocabulary import Annotation, ConditionType, Label, State


def waits(raw: Mapping[str, Any]) -> bool:
    """Whether a GPUJob is in the operator's queue."""
    return table(raw, "status").get("state") == State.QUEUED and table(raw, "spec").get("suspend") is not True


def in_documents(documents: Iterable[Any], name: str, namespace: str | None) -> Mapping[str, Any]:
    """The GPUJob of that name in a cluster description; BadInput when it has none, or several and no namespace."""
    from gpujob.catalog.devices.identity import nearest
    from gpujob.fleet.sources.cluster_file import objects_in

    jobs = {
        (str(table(each, "metadata").get("namespace") or "default"), str(table(each, "metadata").get("name"))): each
        for each in objects_in(documents, [])
        if each.get("kind") == "GPUJob"
    }
    found = {where: each for (where, called), each in jobs.items() if called == name}
    matching = [each for where, each in found.items() if namespace in (None, where)]
    if not matching:
        where = f" in namespace {namespace}" if namespace else ""
        near = nearest(name, {called for _, called in jobs})
        hint = f"there is one in {listed(sorted(found))}" if found else f"the nearest is {near}" if near else "add it"
        raise BadInput(f"the cluster description has no GPUJob {name}{where}; {hint}, or ask about a file with -f")
    if len(matching) > 1:
        spaces = ", ".join(sorted(found))
        raise BadInput(f"there is a GPUJob {name} in the namespaces {spaces}; name one with -n")
    return matching[0]


DECIDES: Final = (
    "framework", "requires", "nodes", "gpusPerNode", "gpuMemory", "model", "resources", "profile", "placement",
    "priorityClassName", "securityContext",
)  # fmt: skip
"""Members of a GPUJob's spec that decisions depend on; of the user's names they contain only profile and pools."""

HOLDING: Final = (State.PLACED, State.STARTING, State.RUNNING)
"""States of a GPUJob whose pods hold GPUs."""


def child(raw: Table, selected: set[str]) -> dict[str, Any] | None:
    """A child Job as the reservation of its pods; None for Jobs of others and for ended ones."""
    from gpujob.status.records.read_objects import read_child

    record = read_child(raw)
    if not is_child(raw) or not record.reservations():
        return None
    metadata, spec = table(raw, "metadata"), table(raw, "spec")
    pod = table(table(spec, "template"), "spec")
    claims, mounted = present(table(metadata, "annotations"), Annotation.CLAIMS), mounted_claims(pod)
    # A job that waits for a mounted claim shows which job mounts it.
    named = present(table(metadata, "annotations"), Annotation.JOB_NAME) if mounted else {}
    owner = {"kind": "GPUJob", "controller": True, "uid": record.owner_uid}
    kept = filled(
        priorityClassName=record.priority_class,
        affinity=_pins(record.nodes),
        # The annotation names the owner of its claims.
        resourceClaims=[{"name": REDACTED}] if claims and tables(pod, "resourceClaims") else None,
        initContainers=[container(each) for each in tables(pod, "initContainers")],
        containers=[container(each) for each in tables(pod, "containers")],
        volumes=device_files(pod) + mounted + made_claims(pod),
    )
    return an_object(
        raw,
        filled(
            namespace=metadata.get("namespace"),
            # By it the GPUJob's status knows its own child.
            uid=metadata.get("uid") if metadata.get("uid") in selected else None,
            labels=present(table(metadata, "labels"), Label.JOB_UID, Label.ATTEMPT),
            annotations=filled(
                **claims, **named, **_pool_hint(str(record.hint.placement.get("pool") or ""), record.pods)
            ),
            ownerReferences=[owner],
        ),
        spec={"completions": record.pods, "template": {"spec": kept}},
    )


def _pins(nodes: tuple[str, ...]) -> dict[str, Any]:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required} if nodes else {}


def _pool_hint(pool: str, pods: int) -> dict[str, str]:
    """The annotation that names the pool, with only the members that reading it requires."""
    import json

    if not pool:
        return {}
    blank = {"vendor": "", "accelerator": "", "gpusPerNode": 0, "image": "", "runtime": ""}
    return {Annotation.PLACEMENT: json.dumps({"pool": pool, "nodes": pods, **blank})}


def live_job(raw: Table, selected: set[str]) -> dict[str, Any] | None:
    """A GPUJob that waits or has a child, as its demand, its creation time, its progress and its child; None for all others."""
    metadata, spec, status = table(raw, "metadata"), table(raw, "spec"), table(raw, "status")
    holds = status.get("state") in HOLDING or metadata.get("uid") in selected
    if not waits(raw) and not holds:
        return None
    conditions = [
        present(each, "type", "status", "reason", "lastTransitionTime")
        for each in tables(status, "conditions")
        if each.get("type") in (ConditionType.PLACED, ConditionType.SUSPENDED)
    ]
    own = {
        backend: {"image": REDACTED, **present(table(table(spec, "images"), backend), "runtime")}
        for backend in table(spec, "images")
    }
    return an_object(
        raw,
        present(metadata, "namespace", "creationTimestamp", *(("uid",) if holds else ())),
        spec=filled(
            **present(spec, *DECIDES), shapes=_shapes(spec), images=own, volumes=_claims(spec), code=_code(spec)
        ),
        status=filled(
            state=status.get("state"),
            conditions=conditions,
            progress=present(table(status, "progress"), "percent", "estimatedEnd"),
            **(present(status, "attempt", "jobName", "jobUID") if holds else {}),
            placement=present(table(status, "placement"), "nodes", "gpusPerNode", "nodeNames") if holds else None,
        ),
    )


def _shapes(spec: Table) -> list[dict[str, Any]]:
    """The whole-gang alternatives without the arguments and variables that each brings."""
    return [present(shape, "accelerator", "nodes", "gpusPerNode") for shape in tables(spec, "shapes")]


def _claims(spec: Table) -> list[dict[str, Any]]:
    """The volumes that a decision depends on: claims, and images that a node must be able to mount."""
    volumes = tables(spec, "volumes")
    claims = [present(each, "name", "persistentVolumeClaim") for each in volumes if "persistentVolumeClaim" in each]
    claims += [
        {"name": each.get("name"), "ephemeral": {"volumeClaimTemplate": {"spec": present(_made(each), *OF_A_CLAIM)}}}
        for each in volumes
        if _made(each)
    ]
    images = [{"name": each.get("name"), "image": {"reference": REDACTED}} for each in volumes if "image" in each]
    return claims + images


OF_A_CLAIM: Final = ("accessModes", "storageClassName", "resources")


def _made(volume: Table) -> Table:
    """The claim that an ephemeral volume makes; empty for another volume."""
    return table(table(table(volume, "ephemeral"), "volumeClaimTemplate"), "spec")


def _code(spec: Table) -> dict[str, Any] | None:
    code = table(spec, "code")
    if "image" in code:
        return {"image": {"reference": REDACTED}}
    claim = table(code, "persistentVolumeClaim").get("claimName")
    return {"persistentVolumeClaim": {"claimName": claim}} if claim else None
