"""The pod and the Indexed Job around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpujob.api.gpujob import GPUJob
from gpujob.api.pods import EnvironmentVariable, SecurityContext
from gpujob.fleet.objects import Resources
from gpujob.fleet.pools import Pool
from gpujob.placement.decision import Choice
from gpujob.placement.demand import Demand
from gpujob.quantity import format_millicores, quantity_of_bytes
from gpujob.render import amd, folders, nvidia, ownership, torchrun
from gpujob.vocabulary import Backend, CapacityType, Vendor

TRAIN: Final = "train"
USER: Final = 1000
GRACE: Final = 30

STAY: Final = {"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
"""Asks autoscalers not to take the node away; pointless on spot."""

WITHOUT_MESH: Final = {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"}
"""A mesh's sidecar outlives the training and keeps the pod, so it is asked to stay out; podMetadata overrides."""


def indexed_job(
    job: GPUJob, demand: Demand, choice: Choice, name: str, attempt: int, classes: frozenset[str], digest: str,
    hint: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """The child Job: one pod for each node, all under fixed host names, no retry of its own."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": ownership.metadata(job, name, attempt, digest, hint),
        "spec": {
            "completionMode": "Indexed",
            "completions": demand.nodes,
            "parallelism": demand.nodes,
            "backoffLimit": 0,
            "template": {
                "metadata": _pod_metadata(job, choice.candidate.pool, attempt),
                "spec": _pod(job, demand, choice, name, attempt, classes),
            },
        },
    }


def _pod_metadata(job: GPUJob, pool: Pool, attempt: int) -> dict[str, Any]:
    own = job.spec.pod_metadata
    stay = {} if pool.capacity_type is CapacityType.SPOT else STAY
    labels = {**WITHOUT_MESH, **(own.labels if own else {}), **ownership.labels(job, attempt)}
    annotations = {**WITHOUT_MESH, **stay, **(own.annotations if own else {})}
    return {"labels": labels, "annotations": annotations}


def _pod(
    job: GPUJob, demand: Demand, choice: Choice, name: str, attempt: int, classes: frozenset[str]
) -> dict[str, Any]:
    spec, pool = job.spec, choice.candidate.pool
    copying = folders.copying_container(spec, choice.candidate.runtime.image)
    grace = spec.termination_grace_period_seconds
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE if grace is None else grace,
        "securityContext": _pod_security(spec.security_context, pool),
        "affinity": _affinity(job, choice, demand, attempt),
        "volumes": folders.volumes(spec, choice.shared_memory),
        "containers": [_training(job, demand, choice, name)],
    }
    if demand.nodes > 1:
        pod["subdomain"] = name
    if copying is not None:
        pod["initContainers"] = [copying | {"securityContext": _container_security(spec.security_context)}]
    if choice.tolerations:
        pod["tolerations"] = [{"key": k, "operator": "Exists", "effect": e} for k, e in choice.tolerations]
    if spec.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": secret.name} for secret in spec.image_pull_secrets]
    runtime_class = nvidia.runtime_class(pool, classes) if pool.vendor is Vendor.NVIDIA else None
    if runtime_class is not None:
        pod["runtimeClassName"] = runtime_class
    return pod


def _training(job: GPUJob, demand: Demand, choice: Choice, name: str) -> dict[str, Any]:
    spec, pool = job.spec, choice.candidate.pool
    amounts = _amounts(choice.needs) | {pool.resource: str(demand.gpus_per_node)}
    container: dict[str, Any] = {
        "name": TRAIN,
        "image": choice.candidate.runtime.image,
        "env": _environment(job, demand, choice, name),
        "resources": {"requests": amounts, "limits": dict(amounts)},
        "securityContext": _container_security(spec.security_context),
        "volumeMounts": folders.mounts(spec),
    }
    if spec.command:
        container["command"] = list(spec.command)
    if spec.args:
        container["args"] = list(spec.args)
    if spec.env_from:
        container["envFrom"] = [entry.model_dump(by_alias=True, exclude_none=True) for entry in spec.env_from]
    working_dir = spec.working_dir or (folders.CODE if spec.code else None)
    if working_dir:
        container["workingDir"] = working_dir
    return container


def _amounts(needs: Resources) -> dict[str, str]:
    amounts = {"cpu": format_millicores(needs.millicores), "memory": quantity_of_bytes(needs.memory)}
    if needs.storage:
        amounts["ephemeral-storage"] = quantity_of_bytes(needs.storage)
    return amounts


def _environment(job: GPUJob, demand: Demand, choice: Choice, name: str) -> list[dict[str, Any]]:
    """Defaults, the pool's, the job's and those of its stack, each overriding the ones before; ours cannot be."""
    spec, pool = job.spec, choice.candidate.pool
    by_vendor = nvidia.ENVIRONMENT if pool.vendor is Vendor.NVIDIA else amd.environment(pool, demand.gpus_per_node)
    chosen = spec.env_by_backend
    own_stack = chosen and (chosen.cuda if choice.candidate.runtime.backend is Backend.CUDA else chosen.rocm)
    merged: dict[str, dict[str, Any]] = {}
    defaults = [{"name": key, "value": value} for key, value in {**folders.CACHES, **by_vendor}.items()]
    rendezvous = torchrun.environment(name, job.metadata.namespace or "default", demand)
    for entry in (
        *defaults,
        *rendezvous,
        *(dict(e) for e in pool.env),
        *_written(spec.env),
        *_written(own_stack or ()),
        *(e for e in rendezvous if e["name"].startswith("PET_")),
        *_facts(job, demand, pool),
    ):
        merged.pop(entry["name"], None)
        merged[entry["name"]] = entry
    return list(merged.values())


def _written(entries: Iterable[EnvironmentVariable]) -> Iterable[dict[str, Any]]:
    return (entry.model_dump(by_alias=True, exclude_none=True) for entry in entries)


def _facts(job: GPUJob, demand: Demand, pool: Pool) -> list[dict[str, Any]]:
    """What a program may want to know of its placement."""
    values = {
        "GPUJOB_NAME": job.metadata.name,
        "GPUJOB_VENDOR": pool.vendor.value,
        "GPUJOB_ACCELERATOR": pool.accelerator_id,
        "GPUJOB_NODES": str(demand.nodes),
        "GPUJOB_GPUS_PER_NODE": str(demand.gpus_per_node),
    }
    return [{"name": key, "value": value} for key, value in values.items()]


def _affinity(job: GPUJob, choice: Choice, demand: Demand, attempt: int) -> dict[str, Any]:
    """Pinned to the chosen nodes; a gang never puts two pods on one of them."""
    arch = {"key": "kubernetes.io/arch", "operator": "In", "values": [choice.candidate.pool.cpu_architecture]}
    terms = [
        {
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}],
            "matchExpressions": [arch],
        }
        for node in choice.nodes
    ]
    affinity: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    if demand.nodes > 1:
        apart = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": ownership.selector(job, attempt)},
        }
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    return affinity


def _pod_security(own: SecurityContext | None, pool: Pool) -> dict[str, Any]:
    user = USER if own is None or own.run_as_user is None else own.run_as_user
    group = USER if own is None or own.run_as_group is None else own.run_as_group
    fs_group = USER if own is None or own.fs_group is None else own.fs_group
    context: dict[str, Any] = {
        "runAsUser": user,
        "runAsGroup": group,
        "fsGroup": fs_group,
        "fsGroupChangePolicy": "OnRootMismatch",
        "runAsNonRoot": user != 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    asked = own.supplemental_groups if own else ()
    groups = amd.groups(pool, asked) if pool.vendor is Vendor.AMD else list(asked)
    return context | ({"supplementalGroups": groups} if groups else {})


def _container_security(own: SecurityContext | None) -> dict[str, Any]:
    context: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if own is not None and own.read_only_root_filesystem is not None:
        context["readOnlyRootFilesystem"] = own.read_only_root_filesystem
    return context
