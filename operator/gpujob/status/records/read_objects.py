"""Reads GPUJobs, child Jobs, Services and pods, once each, from what the API server sent; every member is untrusted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from sys import intern
from typing import Any, Final

from gpujob.api.kinds.gpujob_status import GPUJobStatus
from gpujob.fleet.kubernetes.host_ports import report_port
from gpujob.fleet.kubernetes.objects import MOST_DEVICES, Pod
from gpujob.fleet.kubernetes.parse import new_claims, read_pod
from gpujob.fleet.kubernetes.runtime_classes import read_tolerations
from gpujob.status.records.device_words import broken_device
from gpujob.status.records.gpu_memory import read_ran_out
from gpujob.status.records.objects import ChildRecord, Hint, JobRecord, PodRecord, PodState, ServiceRecord
from gpujob.status.records.preflight import read_check
from gpujob.status.records.rendezvous import read_missed
from gpujob.values.names import attempt_in, child_name, stem_in
from gpujob.values.packed import Packed
from gpujob.values.untrusted import condition, one_line, table, tables, whole_number
from gpujob.values.vocabulary import PREFLIGHT, RUNNER_PREFIX, TELEMETRY_PORT, Annotation, Label, State

TRAIN: Final = "train"
"""The name of the container that decides how a job ends."""


def controller(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The reference to the controlling owner, empty if there is none."""
    return next((owner for owner in tables(metadata, "ownerReferences") if owner.get("controller") is True), {})


def reporter_port(raw: Mapping[str, Any]) -> int | None:
    """The port that the container declares; in the host network the attempt's own, whatever the pod says.

    There the pod's author could otherwise send the operator to services of the node itself.
    """
    spec = table(raw, "spec")
    if spec.get("hostNetwork") is True:
        return report_port(str(controller(table(raw, "metadata")).get("name", "")))
    train = next((c for c in tables(spec, "containers") if c.get("name") == TRAIN), {})
    ports = (p.get("containerPort") for p in tables(train, "ports") if p.get("name") == TELEMETRY_PORT)
    return next((port for port in ports if isinstance(port, int) and 0 < port < 65536), None)


TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer of the Job controller on each pod that it has not counted yet."""

INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""The annotation with the pod's index in an Indexed Job."""

NODE_NAME_FIELD: Final = "metadata.name"

LONGEST_GRACE: Final = 86400
"""Seconds of grace that are believed."""

MOST_UNHEALTHY: Final = 8
"""Devices of a pod that are reported as Unhealthy."""

MOST_OTHERS: Final = 8
"""Containers beside the program that are named."""

MOST_DIGITS: Final = 19
"""Of a generation."""

LONGEST_HINT: Final = 65536
"""Characters of such a decision that are read."""

HINTS: Final = 1024
"""Decisions of child Jobs that are kept as read: a Job changes three times while it starts, its annotation does not."""

READ_AFTER_THE_END: Final = ("state", "jobName", "startTime", "completionTime")
"""What is read of the status of every job that has ended, however many there are."""

READ_WHILE_IT_WAITS: Final = (*READ_AFTER_THE_END, "observedGeneration", "attempt")
"""The same of a job that waits."""

READ_OF_ITS_SPEC: Final = ("suspend", "activeDeadlineSeconds", "profile", "preflight")
"""What is read of the spec of every job that waits."""


def read_job(raw: Mapping[str, Any]) -> JobRecord:
    """The record of a GPUJob object."""
    metadata, spec, status = table(raw, "metadata"), table(raw, "spec"), table(raw, "status")
    if status.get("state") in (State.SUCCEEDED, State.FAILED):
        # It stays until someone deletes it.
        spec, status = Packed(spec), Packed(status, READ_AFTER_THE_END)
    elif status.get("state") in (None, State.QUEUED, State.MISCONFIGURED, State.IMPOSSIBLE):
        # Its sentences are long, and read when something changes; its spec is, when it gets a place.
        spec, status = Packed(spec, READ_OF_ITS_SPEC), Packed(status, READ_WHILE_IT_WAITS)
    return JobRecord(
        namespace=intern(str(metadata.get("namespace", ""))),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        generation=whole_number(metadata.get("generation")) or 1,
        created=str(metadata.get("creationTimestamp", "")),
        version=str(metadata.get("resourceVersion", "")),
        leaving="deletionTimestamp" in metadata,
        spec=spec,
        status=status,
    )


def read_child(raw: Mapping[str, Any]) -> ChildRecord:
    """The record of a child Job object."""
    metadata, spec = table(raw, "metadata"), table(raw, "spec")
    labels, annotations = table(metadata, "labels"), table(metadata, "annotations")
    pod = table(table(spec, "template"), "spec")
    use = read_pod({"spec": pod})
    by_name = next(((resource, count) for resource, count in use.devices.items() if count), None)
    device = by_name or _claimed(annotations.get(Annotation.CLAIMS)) if tables(pod, "resourceClaims") else by_name
    device = device or ("", 0)
    status = table(raw, "status")
    end = condition(status, "Complete", "Failed", now="True")
    suspended, failing = condition(status, "Suspended"), condition(status, "FailureTarget", now="True")
    completions = whole_number(spec.get("completions"))
    return ChildRecord(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        owner_uid=job_uid(metadata),
        attempt=attempt_in(str(metadata.get("name", ""))) or whole_number(labels.get(Label.ATTEMPT)) or 1,
        leaving="deletionTimestamp" in metadata,
        pods=completions or 1,
        emptied=completions == 0,
        made_from=_number(annotations.get(Annotation.GENERATION)),
        spec_digest=str(annotations.get(Annotation.SPEC) or "")[:64],
        nodes=_named_nodes(pod, "In"),
        not_on=_named_nodes(pod, "NotIn"),
        volume_claims=use.volume_claims,
        new_claims=new_claims(pod),
        resource=device[0],
        gpus=device[1],
        needs=use.needs,
        others=tuple(sorted(use.others.items())),
        priority_class=str(pod["priorityClassName"])[:253] if pod.get("priorityClassName") else None,
        hint=_hint_of(annotations.get(Annotation.PLACEMENT), packed=bool(end)),
        created=str(metadata.get("creationTimestamp", "")),
        ended=str(end.get("type", "")),
        ended_at=str(end.get("lastTransitionTime", "")),
        reason=str(end.get("reason", "")),
        message=str(end.get("message", ""))[:1024],
        runner=next(_runners(pod), ""),
        preflight=any(c.get("name") == PREFLIGHT for c in tables(pod, "initContainers")),
        # The condition follows the spec; until it does, the pods of before are still the suspension's.
        paused=spec.get("suspend") is True or suspended.get("status") == "True",
        resumed=str(suspended.get("lastTransitionTime", ""))[:32] if suspended.get("status") == "False" else "",
        generation=whole_number(metadata.get("generation")) or 0,
        failing_since=str(failing.get("lastTransitionTime", ""))[:32],
        job_name=_job_name(metadata),
        orphan_of=_orphan_of(metadata),
    )


def _number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) <= MOST_DIGITS else None


def _job_name(metadata: Mapping[str, Any]) -> str:
    """The name of the GPUJob that an object was made for, as its annotation says."""
    name = table(metadata, "annotations").get(Annotation.JOB_NAME)
    return name[:253] if isinstance(name, str) else ""


def _orphan_of(metadata: Mapping[str, Any]) -> str:
    """The uid of the GPUJob that a Job or Service without an owner was made for; empty for any other one."""
    return _made_for(metadata) if not tables(metadata, "ownerReferences") else ""


def _made_for(metadata: Mapping[str, Any]) -> str:
    """The uid in the label of a Job or Service whose name is made from it; empty for any other one."""
    name, uid = str(metadata.get("name", "")), str(table(metadata, "labels").get(Label.JOB_UID) or "")
    attempt, job_name = attempt_in(name), _job_name(metadata)
    return uid if job_name and attempt is not None and name == child_name(job_name, uid, attempt) else ""


def job_uid(metadata: Mapping[str, Any]) -> str:
    """The uid of the GPUJob to which a Job or Service belongs: the one that it was made for, because references to owners can change
    and a name cannot; else its controller, empty if there is none."""
    return _made_for(metadata) or owner_uid(metadata)


def is_followed(raw: Mapping[str, Any], job: JobRecord) -> bool:
    """Whether the watch shows an object, and the index as the job's."""
    metadata = table(raw, "metadata")
    return bool(table(metadata, "labels").get(Label.JOB_UID)) and job_uid(metadata) == job.uid


def _runners(pod: Mapping[str, Any]) -> Iterator[str]:
    names = (table(volume, "configMap").get("name") for volume in tables(pod, "volumes"))
    return (name for name in names if isinstance(name, str) and name.startswith(RUNNER_PREFIX))


def read_service(raw: Mapping[str, Any]) -> ServiceRecord:
    """The record of a gang's Service."""
    metadata = table(raw, "metadata")
    return ServiceRecord(job_uid(metadata), str(metadata.get("uid", "")), _job_name(metadata), _orphan_of(metadata))


def read_pod_record(raw: Mapping[str, Any]) -> PodRecord:
    """The record of a Pod object. It is one of a job by its label, or by the name of its Job where that was taken off."""
    use = read_pod(raw)
    ours = use.job_uid or stem_in(str(controller(table(raw, "metadata")).get("name", "")))
    return PodRecord(use, _pod_state(raw, use) if ours else None)


def with_first_request(held: PodRecord, pod: PodRecord) -> PodRecord:
    """A pod with the time at which it was first asked to end, as its last record has it.

    When its containers have ended, the kubelet deletes it with a grace of 0. While a finalizer keeps the pod, that writes the time of
    this second deletion over the first (`markAsDeleting` in k8s.io/apiserver, pkg/registry/generic/registry/store.go).
    """
    before, state = held.state, pod.state
    if before is None or state is None or held.use.uid != pod.use.uid:
        return pod
    if not (before.leaving and state.leaving) or state.grace or before.gone_at == state.gone_at:
        return pod
    return replace(pod, state=replace(state, gone_at=before.gone_at, grace=before.grace))


def owner_uid(metadata: Mapping[str, Any]) -> str:
    """The uid of the controlling owner, empty when there is none."""
    return str(controller(metadata).get("uid", ""))


def _pod_state(raw: Mapping[str, Any], use: Pod) -> PodState:
    metadata, status = table(raw, "metadata"), table(raw, "status")
    node = str(table(raw, "spec").get("nodeName") or "")
    containers = tables(status, "containerStatuses")
    train = next((c for c in containers if c.get("name") == TRAIN), containers[0] if containers else {})
    now = table(train, "state")
    running, ended = table(now, "running"), table(now, "terminated")
    every = (*tables(status, "initContainerStatuses"), *containers)
    waiting = next((w for w in (table(table(c, "state"), "waiting") for c in every) if w), {})
    disruption = condition(status, "DisruptionTarget", now="True")
    if not node:
        waiting = condition(status, "PodScheduled", now="False")
    return PodState(
        name=use.name,
        child_uid=owner_uid(metadata),
        node=node,
        phase=intern(str(status.get("phase", ""))),
        running="running" in now and status.get("phase") == "Running",
        leaving="deletionTimestamp" in metadata,
        tolerated=() if node else read_tolerations(table(raw, "spec")),
        scheduler="" if node else intern(one_line(str(table(raw, "spec").get("schedulerName") or "")[:253])),
        child_name=str(controller(metadata).get("name", "")),
        namespace=use.namespace,
        started=str(running.get("startedAt") or ended.get("startedAt") or ""),
        waiting_reason=one_line(str(waiting.get("reason", ""))[:64]),
        waiting_message=str(waiting.get("message", ""))[:512],
        exit_code=whole_number(ended.get("exitCode")),
        reason=intern(one_line(str(ended.get("reason") or status.get("reason") or "")[:64])),
        message=_last_words(str(ended.get("message") or status.get("message") or "")),
        pod_reason=one_line(str(status.get("reason") or "")[:64]),
        pod_message=one_line(str(status.get("message") or "")[:256]),
        disruption=one_line(str(disruption.get("reason") or "DisruptionTarget")[:64]) if disruption else "",
        disruption_message=one_line(str(disruption.get("message") or "")[:256]),
        disrupted_at=str(disruption.get("lastTransitionTime") or "")[:32] if disruption else "",
        index=whole_number(table(metadata, "annotations").get(INDEX)),
        address=str(status.get("podIP") or "")[:64],
        port=reporter_port(raw),
        on_host_network=table(raw, "spec").get("hostNetwork") is True,
        check=read_check(status),
        gone_at=str(metadata.get("deletionTimestamp") or "")[:32],
        grace=min(whole_number(metadata.get("deletionGracePeriodSeconds")) or 0, LONGEST_GRACE),
        others=tuple(_running_beside(containers, train)),
        ended=str(ended.get("finishedAt") or "")[:32],
        unhealthy=tuple(_unhealthy(containers)),
        ran_out=read_ran_out(ended.get("message")) if whole_number(ended.get("exitCode")) else None,
        unready=_is_unready(status) and bool(node),
        created=str(metadata.get("creationTimestamp") or "")[:32],
        released="deletionTimestamp" in metadata and not _has_finalizer(metadata, TRACKING),
        broken=broken_device(ended.get("message")) if whole_number(ended.get("exitCode")) else "",
        missed=read_missed(ended.get("message")) if whole_number(ended.get("exitCode")) else None,
    )


def _has_finalizer(metadata: Mapping[str, Any], name: str) -> bool:
    held = metadata.get("finalizers")
    return isinstance(held, list) and name in held


def _running_beside(containers: Iterable[Mapping[str, Any]], train: Mapping[str, Any]) -> list[str]:
    """The names of the containers that run beside the program's own."""
    others = (c for c in containers if c is not train and "running" in table(c, "state"))
    return sorted(one_line(str(c.get("name"))[:63]) for c in others)[:MOST_OTHERS]


def _unhealthy(containers: Iterable[Mapping[str, Any]]) -> list[str]:
    """The devices that a kubelet reports as Unhealthy (KEP-4680, allocatedResourcesStatus): resource and id."""
    found = (
        one_line(f"{str(resource.get('name'))[:128]} {str(device.get('resourceID'))[:64]}")
        for container in containers
        for resource in tables(container, "allocatedResourcesStatus")
        for device in tables(resource, "resources")
        if device.get("health") == "Unhealthy"
    )
    return sorted(set(found))[:MOST_UNHEALTHY]


def _last_words(text: str) -> str:
    """The end of a message, on one line: the last lines of a log contain the error."""
    lines = (line.strip() for line in text[-4096:].splitlines())
    return one_line(" | ".join(line for line in lines if line)[-512:])


def _is_unready(status: Mapping[str, Any]) -> bool:
    """Of a pod that has ended the condition is False too."""
    return status.get("phase") == "Pending" and bool(condition(status, "PodReadyToStartContainers", now="False"))


def _named_nodes(pod: Mapping[str, Any], operator: str) -> tuple[str, ...]:
    """The nodes that the pod's required affinity names with an operator: In, one for each term, or NotIn, the same in each term."""
    required = table(table(table(pod, "affinity"), "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution")
    fields = (f for term in tables(required, "nodeSelectorTerms") for f in tables(term, "matchFields"))
    named = (f.get("values") for f in fields if f.get("key") == NODE_NAME_FIELD and f.get("operator") == operator)
    return tuple(str(value) for values in named if isinstance(values, list) for value in values if value)


def _claimed(text: Any) -> tuple[str, int] | None:
    """The ResourceClaims of its pods in a child's annotation: the pool's devices and their number for each pod."""
    resource, equals, count = str(text)[:320].rpartition("=")
    number = whole_number(count)
    return (resource, number) if equals and number and number <= MOST_DEVICES else None


def _hint_of(text: Any, *, packed: bool) -> Hint:
    """The decision in a child's annotation; packed, it takes less memory: a child that has ended stays."""
    hint = _hint(text) if isinstance(text, str) else Hint()
    return Hint(Packed(hint.placement)) if packed and hint.placement else hint


@lru_cache(maxsize=HINTS)  # 43 µs of JSON against 0.1, for each event of each child Job; the annotation never changes
def _hint(text: str) -> Hint:
    """The decision in a child's annotation; it is untrusted, so only members that a status can have are read."""
    try:
        value = json.loads(text) if len(text) <= LONGEST_HINT else {}
        if not isinstance(value, dict) or not isinstance(value.get("message", ""), str):
            return Hint()
        placement = {key: each for key, each in value.items() if key != "message"}
        GPUJobStatus.model_validate({"placement": placement})
    except (ValueError, RecursionError):
        return Hint()
    return Hint(value)
