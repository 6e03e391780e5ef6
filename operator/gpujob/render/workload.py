"""The child Job and its pod: an Indexed Job of one pod for each node, which fails with its first pod."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from gpujob.api.kinds.pods import PodMetadata
from gpujob.catalog.images.mirrors import mirrored
from gpujob.fleet.pools.runtime_class import runtime_class_of
from gpujob.render.attempt import Attempt, Manifest
from gpujob.render.devices.resource_claim import pod_claims, summary_of
from gpujob.render.pod import checkpoint, host_devices, reporter
from gpujob.render.pod.code import copy_container, source_volume
from gpujob.render.pod.container import on_devices, own_folders
from gpujob.render.pod.environment import as_written, environment
from gpujob.render.pod.pinning import affinity, tolerations
from gpujob.render.pod.preflight import preflight_container
from gpujob.render.pod.security import pod_security
from gpujob.values.vocabulary import KILLED, PREFLIGHT, Annotation, CapacityType

TRAIN: Final = "train"
"""The training container."""

FAIL: Final = "FailJob"

STAY: Final = {"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
"""Annotations that keep consolidation away from running work; spot nodes are reclaimed anyway."""

ISTIO: Final = "sidecar.istio.io/inject"
LINKERD: Final = "linkerd.io/inject"


def workload(attempt: Attempt, runtime_classes: Container[str]) -> Manifest:
    """The Job. By backoffLimit 0 no pod is replaced: a gang ends with its first failure; a new attempt is a new Job."""
    generation = str(attempt.job.metadata.generation) if attempt.uid else ""
    notes = {
        Annotation.DIGEST: attempt.digest, Annotation.GENERATION: generation, Annotation.SPEC: attempt.spec_digest,
        Annotation.CLAIMS: summary_of(attempt),
    }  # fmt: skip
    said = {key: text for key, text in notes.items() if text}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": attempt.metadata(**said, **{Annotation.PLACEMENT: attempt.hint_text()}),
        "spec": {
            "completionMode": "Indexed",
            "completions": attempt.nodes,
            "parallelism": attempt.nodes,
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": _failure_rules(attempt)},
            "template": {"metadata": _pod_metadata(attempt), "spec": _pod(attempt, runtime_classes)},
        },
    }


def _failure_rules(attempt: Attempt) -> list[Manifest]:
    """Why the Job fails, in its own conditions: they outlive the pods. A disruption comes first, as in the operator's table.

    No rule ignores or counts anything: what follows a failure is the operator's choice. A rule also counts pods that the Job
    controller has ended itself and does not count (`getFailJobMessage`): for a suspension, or because two pods have one index. The
    exit codes of programs that were asked to end are therefore in none; where such a pod counts, backoffLimit fails the Job.
    """
    disrupted = {"action": FAIL, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    names = [PREFLIGHT, TRAIN] if attempt.checks else [TRAIN]
    exits = [{"containerName": name, "operator": "NotIn", "values": [0, *KILLED]} for name in names]
    return [disrupted, *({"action": FAIL, "onExitCodes": each} for each in exits)]


def _pod_metadata(attempt: Attempt) -> Manifest:
    """The user's labels and annotations win over defaults, the operator's own over both.

    A mesh's proxy never ends, and then the pod does not end either, so the pods opt out of meshes. Istio reads the label before
    the annotation, so a user's value of either removes the operator's from both.
    """
    user = attempt.spec.pod_metadata or PodMetadata()
    mesh = {} if ISTIO in user.labels or ISTIO in user.annotations else {ISTIO: "false"}
    stay = {} if attempt.pool.capacity_type is CapacityType.SPOT else STAY
    return {
        "labels": {**mesh, **user.labels, **attempt.labels, **host_devices.labels(attempt)},
        "annotations": {
            **mesh,
            LINKERD: "disabled",
            **stay,
            **user.annotations,
            **(dict(attempt.fabric.annotations) if attempt.fabric else {}),
            Annotation.JOB_NAME: attempt.job.metadata.name,
        },
    }


def _pod(attempt: Attempt, runtime_classes: Container[str]) -> Manifest:
    spec = attempt.spec
    pod: Manifest = {
        "restartPolicy": "Never",
        "priorityClassName": spec.priority_class_name,
        "runtimeClassName": runtime_class_of(attempt.pool, runtime_classes),
        # Together with the hostname that an Indexed Job sets, it makes the pods' names in DNS.
        "subdomain": attempt.name if attempt.gang else None,
        "affinity": affinity(attempt),
        "tolerations": tolerations(attempt),
        "terminationGracePeriodSeconds": checkpoint.grace(attempt),
        # Without the policy a pod on the host's network asks the host's DNS, which knows no Service.
        **({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"} if attempt.on_host_network else {}),
        "serviceAccountName": spec.service_account_name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "imagePullSecrets": as_written(spec.image_pull_secrets),
        "securityContext": pod_security(attempt),
        "initContainers": [*copy_container(attempt), *map(_without_blanks, preflight_container(attempt))],
        "resourceClaims": pod_claims(attempt),
        "containers": [_train(attempt)],
        "volumes": [
            *(folder.as_volume for folder in own_folders(attempt)),
            *source_volume(attempt),
            *reporter.volumes(attempt),
            *host_devices.device_volumes(attempt),
            *as_written(spec.volumes),
        ],
    }
    for image in (volume["image"] for volume in pod["volumes"] if "image" in volume):
        image["reference"] = mirrored(image["reference"], attempt.mirrors)
    return _without_blanks(pod)


def _train(attempt: Attempt) -> Manifest:
    container: Manifest = {
        "name": TRAIN,
        "command": list(attempt.spec.command),
        "args": list(attempt.arguments),
        "ports": reporter.ports(attempt),
        **on_devices(attempt, reporter.with_reporter(attempt, environment(attempt))),
    }
    return _without_blanks(container)


def _without_blanks(manifest: Manifest) -> Manifest:
    """A manifest without unset members."""
    return {key: value for key, value in manifest.items() if value is not None and value != []}
