"""Whose a child is: labels, annotations and the owner reference."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpujob.api.gpujob import GPUJob
from gpujob.render.names import label_value
from gpujob.vocabulary import API_VERSION, FIELD_MANAGER, Annotation, Label


def selector(job: GPUJob, attempt: int) -> dict[str, str]:
    """The labels that the pods of one attempt share with nothing else."""
    return {Label.JOB_UID: str(job.metadata.uid), Label.ATTEMPT: str(attempt)}


def labels(job: GPUJob, attempt: int) -> dict[str, str]:
    """Labels of every child and pod."""
    return {
        **selector(job, attempt),
        Label.JOB: label_value(job.metadata.name),
        Label.MANAGED_BY: FIELD_MANAGER,
    }


def metadata(
    job: GPUJob, name: str, attempt: int, digest: str = "", hint: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The metadata of a child; the hint is what a status needs if the operator ends before it is written."""
    annotations = {Annotation.JOB_NAME: job.metadata.name}
    if digest:
        annotations[Annotation.DIGEST] = digest
    if hint:
        annotations[Annotation.PLACEMENT] = json.dumps(dict(hint), sort_keys=True, separators=(",", ":"))
    return {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": labels(job, attempt),
        "annotations": annotations,
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": "GPUJob",
                "name": job.metadata.name,
                "uid": job.metadata.uid,
                "controller": True,
                # True would need update rights on finalizers where OwnerReferencesPermissionEnforcement is on.
                "blockOwnerDeletion": False,
            }
        ],
    }
