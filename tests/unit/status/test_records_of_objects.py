"""The records of GPUJobs, child Jobs, Services and pods: each member where it is, where it is missing, and where it is too long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from gpujob.fleet.kubernetes.host_ports import report_port
from gpujob.fleet.kubernetes.objects import MOST_DEVICES, Resources
from gpujob.status.records.gpu_memory import LARGEST, RanOut, read_ran_out
from gpujob.status.records.objects import MOST_PODS, ChildRecord, Hint, JobRecord, PodRecord, PodState, ServiceRecord
from gpujob.status.records.preflight import LONGEST, Check, read_check, verdict_of
from gpujob.status.records.preflight_messages import SENTENCES, all_well
from gpujob.status.records.read_objects import (
    LONGEST_GRACE,
    TRACKING,
    read_child,
    read_job,
    read_pod_record,
    read_service,
    with_first_request,
)
from gpujob.status.records.rendezvous import Missed
from gpujob.values.names import child_name
from gpujob.values.packed import Packed
from gpujob.values.untrusted import table
from gpujob.values.vocabulary import PREFLIGHT, RUNNER_PREFIX, Annotation, Label, Reason

Object = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"
LONG = "x" * 9000
OWNER = {"ownerReferences": [{"uid": "other"}, {"uid": "o", "name": "owner", "controller": True}]}


def test_a_gpujob() -> None:
    metadata = {
        "namespace": "team",
        "name": "j",
        "uid": "u",
        "generation": 3,
        "creationTimestamp": NOW,
        "resourceVersion": "9",
    }
    found = read_job({"metadata": metadata, "spec": {"nodes": 2}, "status": {"state": "Queued"}})
    assert found == JobRecord("team", "j", "u", 3, NOW, "9", False, {"nodes": 2}, {"state": "Queued"})
    assert read_job({}) == JobRecord("", "", "", 1, "", "", False, {}, {})
    assert read_job({"metadata": {"deletionTimestamp": NOW}}).leaving


@pytest.mark.parametrize(
    ("state", "packed"), [("Succeeded", True), ("Failed", True), ("Running", False), ("Odd", False)]
)
def test_a_gpujob_that_has_ended_is_packed_and_says_the_same(state: str, packed: bool) -> None:
    spec = {"command": ["python", "x.py"], "retries": {"user": 2}}
    status = {
        "state": state,
        "completionTime": NOW,
        "placement": {"pool": "a"},
        "attempts": [{"attempt": 1}, {"attempt": 2}],
    }
    found = read_job({"metadata": {"name": "j"}, "spec": spec, "status": status})
    assert [isinstance(each, Packed) for each in (found.spec, found.status)] == [packed, packed]
    assert (found.spec, found.status) == (spec, status)
    assert {**found.status} == status
    assert table(found.status, "placement") == {"pool": "a"}
    # What was read before its end is equal to what is read after it, so that no reader is woken.
    assert found == replace(found, spec=spec, status=status)


def test_a_service() -> None:
    assert read_service({"metadata": {"uid": "s", **OWNER}}) == ServiceRecord("o", "s")
    assert read_service({}) == ServiceRecord("")


POD_SPEC: Object = {
    "priorityClassName": "high",
    "initContainers": [{"name": PREFLIGHT}],
    "volumes": [{"configMap": {"name": "mine"}}, {"emptyDir": {}}, {"configMap": {"name": f"{RUNNER_PREFIX}1"}}],
    "containers": [{
        "name": "train",
        "resources": {"limits": {"nvidia.com/gpu": 8, "rdma/ib": 1}, "requests": {"cpu": "2", "memory": "1Gi"}},
    }],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}, {"key": "spec.x", "values": ["no"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b", ""]}]},
    ]}}},
}  # fmt: skip
PLACEMENT = {
    "pool": "p", "vendor": "AMD", "accelerator": "MI300X", "nodes": 2, "gpusPerNode": 8, "image": "i", "runtime": "own",
}  # fmt: skip


def child(spec: Object = POD_SPEC, *, more: Object | None = None, **metadata: Any) -> Object:
    return {
        "metadata": {"namespace": "team", "name": "j-2", "uid": "c", "creationTimestamp": NOW, **metadata},
        "spec": {"completions": 2, "template": {"spec": spec}, **(more or {})},
    }


WHOLE = ChildRecord(
    namespace="team", name="j-2", uid="c", owner_uid="o", attempt=2, leaving=False, pods=2, nodes=("a", "b"),
    resource="nvidia.com/gpu", gpus=8, needs=Resources(2000, 2**30, 0, 1), hint=Hint(PLACEMENT), others=(("rdma/ib", 1),),
    priority_class="high", created=NOW, runner=f"{RUNNER_PREFIX}1", preflight=True, job_name="job",
)  # fmt: skip


def test_a_child_job() -> None:
    annotations = {Annotation.PLACEMENT: orjson.dumps(PLACEMENT).decode(), Annotation.JOB_NAME: "job"}
    document = child(annotations=annotations, **OWNER)
    assert read_child(document) == WHOLE
    document["metadata"]["deletionTimestamp"] = NOW
    document["spec"]["suspend"] = True
    assert read_child(document) == replace(WHOLE, leaving=True, paused=True)
    assert read_child({}) == ChildRecord("", "", "", "", 1, False, 1, (), "", 0, Resources(0, 0, 0, 1), Hint())


@pytest.mark.parametrize(
    ("name", "labels", "attempt"),
    [("j-2", {Label.ATTEMPT: "5"}, 2), ("j", {Label.ATTEMPT: "5"}, 5), ("j", {}, 1), ("j", {Label.ATTEMPT: "x"}, 1)],
)
def test_the_attempt_of_a_child_is_in_its_name_else_in_its_label(name: str, labels: Object, attempt: int) -> None:
    assert read_child({"metadata": {"name": name, "labels": labels}}).attempt == attempt


@pytest.mark.parametrize(
    ("kind", "status", "ended"),
    [
        ("Complete", "True", "Complete"),
        ("Failed", "True", "Failed"),
        ("Failed", "False", ""),
        ("FailureTarget", "True", ""),
    ],
)
def test_the_end_of_a_child(kind: str, status: str, ended: str) -> None:
    condition = {"type": kind, "status": status, "lastTransitionTime": NOW, "reason": "R", "message": LONG}
    found = read_child({"status": {"conditions": [condition]}})
    assert (found.ended, found.ended_at) == ((ended, NOW) if ended else ("", ""))
    assert (found.reason, found.message) == (("R", LONG[:1024]) if ended else ("", ""))


CLAIM = {"resourceClaims": [{"name": "gpus"}]}


@pytest.mark.parametrize(
    ("spec", "claims", "found"),
    [
        (POD_SPEC, "gpu.nvidia.com=4", ("nvidia.com/gpu", 8)),
        ({**POD_SPEC, **CLAIM}, "gpu.nvidia.com=4", ("nvidia.com/gpu", 8)),
        (CLAIM, "gpu.nvidia.com=4", ("gpu.nvidia.com", 4)),
        ({}, "gpu.nvidia.com=4", ("", 0)),
        (CLAIM, None, ("", 0)),
        (CLAIM, "gpu.nvidia.com", ("", 0)),
        (CLAIM, "gpu.nvidia.com=0", ("", 0)),
        (CLAIM, "gpu.nvidia.com=-1", ("", 0)),
        (CLAIM, f"gpu.nvidia.com={MOST_DEVICES}", ("gpu.nvidia.com", MOST_DEVICES)),
        (CLAIM, f"gpu.nvidia.com={MOST_DEVICES + 1}", ("", 0)),
        (CLAIM, "x" * 318 + "=1", ("x" * 318, 1)),
        (CLAIM, "x" * 318 + "=12", ("x" * 318, 1)),
        (CLAIM, "x" * 320 + "=1", ("", 0)),
    ],
)
def test_devices_of_a_child_by_resource_or_by_claim(spec: Object, claims: str | None, found: tuple[str, int]) -> None:
    record = read_child(child(spec, annotations={Annotation.CLAIMS: claims}))
    assert (record.resource, record.gpus) == found


@pytest.mark.parametrize(
    ("change", "orphan"),
    [
        ({}, "u"),
        (OWNER, ""),
        ({"ownerReferences": [{"uid": "other"}]}, ""),
        ({"name": "j-1"}, ""),
        ({"name": "j"}, ""),
        ({"labels": {}}, ""),
        ({"labels": {Label.JOB_UID: "other"}}, ""),
        ({"annotations": {}}, ""),
        ({"annotations": {Annotation.JOB_NAME: "other"}}, ""),
        ({"name": child_name("job", "", 1), "labels": {}}, ""),
    ],
)
def test_a_child_or_service_without_an_owner_belongs_to_the_job_of_which_it_has_name_and_uid(
    change: Object, orphan: str
) -> None:
    metadata = {
        "name": child_name("job", "u", 1), "labels": {Label.JOB_UID: "u"}, "annotations": {Annotation.JOB_NAME: "job"}, **change,
    }  # fmt: skip
    assert read_child({"metadata": metadata}).orphan_of == read_service({"metadata": metadata}).orphan_of == orphan


def test_texts_of_a_child_that_are_too_long_are_cut_and_a_placement_is_left_out() -> None:
    found = read_child(child({"priorityClassName": LONG}, annotations={Annotation.JOB_NAME: LONG}))
    assert (found.priority_class, found.job_name) == (LONG[:253], LONG[:253])
    text = orjson.dumps(PLACEMENT).decode()
    for more, hint in ((0, Hint(PLACEMENT)), (1, Hint())):
        padded = text + " " * (65536 - len(text) + more)
        assert read_child(child(annotations={Annotation.PLACEMENT: padded})).hint == hint


@pytest.mark.parametrize(
    ("message", "read"), [("x" * 300, True), ("x" * 5000, True), ("", True), (7, False), (None, False), (["x"], False)]
)
def test_the_sentence_of_a_placement_may_be_as_long_as_that_of_a_condition(message: Any, read: bool) -> None:
    told = PLACEMENT | {"message": message}
    found = read_child(child(annotations={Annotation.PLACEMENT: orjson.dumps(told).decode()}))
    assert found.hint == (Hint(told) if read else Hint())


@pytest.mark.parametrize(
    ("change", "pods"),
    [
        ({}, 2),
        ({"nodes": (), "pods": 3}, 3),
        ({"nodes": (), "pods": MOST_PODS + 1}, MOST_PODS),
        ({"ended": "Failed"}, 0),
        ({"leaving": True}, 0),
        ({"resource": ""}, 0),
        ({"owner_uid": ""}, 0),
    ],
)
def test_what_a_child_reserves(change: Object, pods: int) -> None:
    assert len(replace(WHOLE, **change).reservations()) == pods


def state(*, spec: Object | None = None, metadata: Object | None = None, **status: Any) -> PodState:
    labels = {Label.JOB_UID: "u"}
    whole = {"namespace": "team", "name": "p", "labels": labels, **OWNER, **(metadata or {})}
    found = read_pod_record({"metadata": whole, "spec": {"nodeName": "n", **(spec or {})}, "status": status}).state
    assert found is not None
    return found


PLAIN = PodState("p", "o", "n", "", False, False, "owner", "team")
RUNNING = {"running": {"startedAt": NOW}}


def train(told: Object, *others: Object) -> Object:
    return {"containerStatuses": [*others, {"name": "train", "state": told}]}


def test_a_pod_of_no_job_has_no_state() -> None:
    assert read_pod_record({"metadata": {"name": "p"}}).state is None


def test_a_pod_that_runs() -> None:
    also = {"name": "proxy", "state": RUNNING}
    ended = {"name": "setup", "state": {"terminated": {}}}
    metadata = {"annotations": {"batch.kubernetes.io/job-completion-index": "3"}}
    found = state(metadata=metadata, phase="Running", podIP="10.0.0.1", **train(RUNNING, also, ended))
    assert found == replace(
        PLAIN, phase="Running", running=True, started=NOW, index=3, address="10.0.0.1", others=("proxy",)
    )
    assert not state(phase="Pending", **train(RUNNING)).running
    assert not state(phase="Running", **train({"waiting": {}})).running
    assert state(**train({"waiting": {}}, also, *({"name": LONG, "state": RUNNING} for _ in range(9)))).others == (
        "proxy",
        *[LONG[:63]] * 7,
    )


def test_a_pod_that_failed() -> None:
    words = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    told = {"terminated": {"exitCode": 3, "reason": "Error", "message": words, "startedAt": NOW, "finishedAt": "later"}}
    assert state(phase="Failed", **train(told)) == replace(
        PLAIN,
        phase="Failed",
        started=NOW,
        exit_code=3,
        reason="Error",
        message=words,
        ended="later",
        ran_out=RanOut(2 << 30),
    )
    told["terminated"]["exitCode"] = 0
    assert state(**train(told)).ran_out is None
    words = "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined."
    for code, missed in ((0, None), (1, Missed(61, 1, 2))):
        assert state(**train({"terminated": {"exitCode": code, "message": words}})).missed == missed


def test_a_pod_that_the_kubelet_or_an_eviction_ended() -> None:
    disruption = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "api"}
    gone = {"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 30}
    found = state(
        metadata=gone, reason="Evicted", message="disk", phase="Failed", conditions=[{"type": "Ready"}, disruption]
    )
    assert found == replace(
        PLAIN, phase="Failed", leaving=True, reason="Evicted", message="disk", pod_reason="Evicted", pod_message="disk",
        disruption="EvictionByEvictionAPI", disruption_message="api", gone_at=NOW, grace=30, released=True,
    )  # fmt: skip
    assert state(conditions=[{**disruption, "status": "False"}]).disruption == ""
    for finalizers, released in (([TRACKING], False), (["a/b"], True), ("x", True), ([TRACKING, "a/b"], False)):
        assert state(metadata={**gone, "finalizers": finalizers}).released is released
    assert not state(metadata={"finalizers": ["a/b"]}).released, "it runs on"
    assert state(metadata={"creationTimestamp": NOW}).created == NOW
    assert state(conditions=[{**disruption, "type": "Ready"}]).disruption == ""
    bare = state(conditions=[{"type": "DisruptionTarget", "status": "True"}])
    assert (bare.disruption, bare.disruption_message) == ("DisruptionTarget", "")
    assert state(metadata={"deletionGracePeriodSeconds": LONGEST_GRACE + 1}).grace == LONGEST_GRACE


def test_a_pod_that_waits() -> None:
    pulling = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    found = state(**train(pulling))
    assert found == replace(PLAIN, waiting_reason="ErrImagePull", waiting_message="no such image")
    init = {
        "initContainerStatuses": [{"name": "x", "state": pulling}],
        **train({"waiting": {"reason": "PodInitializing"}}),
    }
    assert state(**init).waiting_reason == "ErrImagePull"
    unbound = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    loose = {"nodeName": ""}
    assert state(spec=loose, conditions=[unbound], **train(pulling)).waiting_reason == "Unschedulable"
    assert state(spec=loose, conditions=[{**unbound, "status": "True"}]).waiting_reason == ""
    assert state(spec=loose, conditions=[{**unbound, "type": "Ready"}]).waiting_reason == ""
    assert state(conditions=[unbound]).waiting_reason == ""


def test_devices_that_a_kubelet_calls_unhealthy() -> None:
    resources = [{"resourceID": f"gpu-{n}", "health": "Unhealthy" if n % 2 else "Healthy"} for n in range(20)]
    found = state(
        containerStatuses=[{"allocatedResourcesStatus": [{"name": "nvidia.com/gpu", "resources": resources}]}]
    )
    assert found.unhealthy == tuple(sorted(f"nvidia.com/gpu gpu-{n}" for n in range(1, 20, 2))[:8])


@pytest.mark.parametrize(
    ("document", "member", "most"),
    [
        (train({"waiting": {"reason": LONG}}), "waiting_reason", 64),
        (train({"waiting": {"message": LONG}}), "waiting_message", 512),
        (train({"terminated": {"reason": LONG}}), "reason", 64),
        (train({"terminated": {"message": LONG}}), "message", 512),
        (train({"terminated": {"finishedAt": LONG}}), "ended", 32),
        ({"reason": LONG}, "pod_reason", 64),
        ({"message": LONG}, "pod_message", 256),
        ({"podIP": LONG}, "address", 64),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": LONG}]}, "disruption", 64),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True", "message": LONG}]}, "disruption_message", 256),
    ],
)
def test_texts_of_a_pod_that_are_too_long_are_cut(document: Object, member: str, most: int) -> None:
    assert getattr(state(**document), member) == LONG[:most]
    assert state(metadata={"deletionTimestamp": LONG}).gone_at == LONG[:32]
    device = {"name": LONG, "resources": [{"resourceID": LONG, "health": "Unhealthy"}]}
    assert state(containerStatuses=[{"allocatedResourcesStatus": [device]}]).unhealthy == (f"{LONG[:128]} {LONG[:64]}",)


def test_of_a_long_message_the_end_counts() -> None:
    words = "a" * 4095 + "\nb" + "\n" * 4094 + "c"
    assert state(**train({"terminated": {"message": words}})).message == "b | c"
    assert state(**train({"terminated": {"message": "b\n" + words[-4095:]}})).message == "b | c"[4:]


@pytest.mark.parametrize(
    ("port", "found"),
    [(9400, 9400), (1, 1), (65535, 65535), (0, None), (-1, None), (65536, None), ("9400", None), (None, None)],
)
def test_the_port_of_a_reporter(port: Any, found: int | None) -> None:
    ports = [{"name": "http", "containerPort": 80}, {"name": "telemetry", "containerPort": port}]
    containers = [
        {"name": "side", "ports": [{"name": "telemetry", "containerPort": 7}]},
        {"name": "train", "ports": ports},
    ]
    told = state(spec={"containers": containers})
    assert (told.port, told.on_host_network) == (found, False)
    host = state(spec={"containers": containers, "hostNetwork": True})
    assert (host.port, host.on_host_network) == (report_port("owner"), True)
    assert state(spec={"containers": containers, "hostNetwork": "true"}).port == found


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, False),
        ({"phase": "Running", "exit_code": 0}, False),
        ({"leaving": True}, True),
        ({"phase": "Failed"}, True),
        ({"exit_code": 1}, True),
        ({"disruption": "x"}, True),
        ({"pod_reason": "x"}, True),
        ({"unhealthy": ("gpu",)}, True),
    ],
)
def test_what_of_a_pod_says_why_it_ends(change: Object, says: bool) -> None:
    assert replace(PLAIN, **change).shows_why_it_ends is says


ASKED = {"deletionTimestamp": "2026-01-01T12:00:30Z", "deletionGracePeriodSeconds": 30}
FOR_GOOD = {"deletionTimestamp": "2026-01-01T12:00:07Z", "deletionGracePeriodSeconds": 0}
SOONER = {"deletionTimestamp": "2026-01-01T12:00:09Z", "deletionGracePeriodSeconds": 5}
FIRST, LAST = ("2026-01-01T12:00:30Z", 30), ("2026-01-01T12:00:07Z", 0)


@pytest.mark.parametrize(
    ("held", "now", "uid", "found"),
    [
        (ASKED, FOR_GOOD, "u", FIRST),
        (ASKED, ASKED, "u", FIRST),
        ({}, ASKED, "u", FIRST),
        ({}, FOR_GOOD, "u", LAST),
        (FOR_GOOD, FOR_GOOD, "u", LAST),
        (ASKED, SOONER, "u", ("2026-01-01T12:00:09Z", 5)),
        (ASKED, FOR_GOOD, "another", LAST),
        (ASKED, {}, "u", ("", 0)),
    ],
)
def test_the_kubelets_last_deletion_keeps_the_time_of_the_first_request(
    held: Object, now: Object, uid: str, found: tuple[str, int]
) -> None:
    def record(uid: str, **metadata: Any) -> PodRecord:
        labels = {"gpujob.dev/job-uid": "owner"}
        return read_pod_record(
            {"metadata": {"name": "p", "namespace": "team", "uid": uid, "labels": labels, **metadata}}
        )

    joined = with_first_request(record("u", **held), record(uid, **now)).state
    assert joined is not None
    assert (joined.gone_at, joined.grace) == found


def test_sizes_that_are_too_large_are_none() -> None:
    lead = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"
    assert read_ran_out(f"{lead} {LARGEST >> 40}.0 TiB") == RanOut(LARGEST)
    assert read_ran_out(f"{lead} {(LARGEST >> 40) + 1}.0 TiB") == RanOut()
    used = "this process has 3.00 GiB memory in use"
    assert read_ran_out(f"{lead} 1 bytes; {used}") == RanOut(1, 3 << 30)
    assert read_ran_out(f"{lead} 1 bytes; {used} and 4.00 GiB is reserved by PyTorch but unallocated") == RanOut(1, 0)
    assert (RanOut(2, 3, 4).fits, RanOut(2, 3, 5).fits, RanOut(2, 3).fits, RanOut(0, 0).fits) == (5, 6, 5, 1)
    assert RanOut(2).fits is RanOut(None, 2).fits is None


def ended(**state: Any) -> Check | None:
    return read_check({"initContainerStatuses": [{"name": PREFLIGHT, "state": {"terminated": state}}]})


LEFT = "the preflight itself failed, so the devices are not checked: it ended with exit code 0"


@pytest.mark.parametrize(
    ("state", "passed", "message"),
    [
        ({"exitCode": 0}, None, f"{LEFT} and left no result"),
        ({"exitCode": 0, "reason": "Completed"}, None, f"{LEFT} and left no result"),
        ({"exitCode": 0, "reason": "Error"}, None, f"{LEFT} and left no result"),
        ({"exitCode": 0, "reason": LONG}, None, f"{LEFT} ({LONG[:64]}) and left no result"),
        ({"exitCode": 0, "message": "tail"}, None, f"{LEFT} and left no result: tail"),
        ({"exitCode": 0, "message": "a" + "b" * 200}, None, f"{LEFT} and left no result: {'b' * 200}"),
        ({"exitCode": 1}, False, f"{LEFT[:-1]}1 and left no result"),
        ({"reason": "StartError", "message": "/bin/sh: not found"}, None, SENTENCES[Reason.NO_INTERPRETER]({})),
        ({"reason": "StartError", "message": "x" * 2030 + "/bin/sh: not found"}, None, SENTENCES[Reason.NO_INTERPRETER]({})),
        ({"exitCode": 0, "reason": "StartError", "message": "x" * 2031 + "/bin/sh: not found"}, None,
         f"{LEFT} (StartError) and left no result: {'x' * 182}/bin/sh: not found"),
    ],
)  # fmt: skip
def test_a_preflight_that_left_no_result(state: Object, passed: bool | None, message: str) -> None:
    found = ended(**state)
    assert found is not None
    assert (found.over, found.passed) == (True, passed)
    assert found.message == message[: len(found.message)]
    assert len(found.message) in (len(message), len(SENTENCES[Reason.PREFLIGHT_FAULT]({"error": LONG})))


def test_a_preflight_s_message_is_no_longer_than_the_kubelet_keeps() -> None:
    text = '{"gpujob":1,"findings":[]}'
    assert ended(exitCode=0, message=text + " " * (LONGEST - len(text))) == Check(
        True, True, Reason.PREFLIGHT_PASSED, all_well({})
    )
    assert ended(exitCode=0, message=text + " " * (LONGEST - len(text) + 1)) != ended(exitCode=0, message=text)


def test_the_common_result_of_preflights() -> None:
    passed, pending = Check(True, True, Reason.PREFLIGHT_PASSED, "good"), Check(False)
    unknown, bad = Check(True, None, Reason.PREFLIGHT_FAULT, "odd"), Check(True, False, Reason.DEVICE_UNUSABLE, "bad")
    shell = Check(True, None, Reason.NO_INTERPRETER, "none")
    a, b = ("a", "n"), ("b", "m")
    assert verdict_of([(*a, passed)], 1) == passed
    assert verdict_of([(*a, passed), (*b, passed)], 2) == replace(passed, message="all 2 pods: good")
    assert verdict_of([(*a, passed), (*b, pending)], 2) is verdict_of([(*a, passed), (*b, None)], 2) is None
    assert verdict_of([(*a, passed), (*b, unknown)], 2) == replace(unknown, message="pod b on node m: odd")
    assert verdict_of([(*a, unknown)], 2) is None
    assert verdict_of([(*a, shell)], 2) == shell
    assert verdict_of([(*a, unknown), (*b, bad)], 3) == replace(bad, message="pod b on node m: bad")
    assert verdict_of([], 0) is None


Q = "?"


@pytest.mark.parametrize(
    ("reason", "numbers", "part"),
    [
        (Reason.IMAGE_BACKEND_MISMATCH, {"torch": LONG, "found": LONG, "wanted": LONG},
         f"torch {LONG[:48]} is built for {LONG[:32]}, the chosen devices need {LONG[:16]};"),
        (Reason.IMAGE_BROKEN, {"error": LONG}, f": {LONG[:240]};"),
        (Reason.COMMAND_NOT_FOUND, {"program": LONG, "path": LONG}, f"starts {LONG[:120]}, which"),
        (Reason.COMMAND_NOT_FOUND, {"path": LONG}, f"(PATH is {LONG[:200]})"),
        (Reason.DEVICE_PERMISSION, {"path": LONG, "mode": LONG, "group": 7, "uid": 5, "groups": list(range(20))},
         f"{LONG[:120]} belongs to group 7 with mode {LONG[:8]}, and uid 5 is in 0, 1, 2, 3, 4, 5, 6 and 9 more;"),
        (Reason.DEVICE_PERMISSION, {"groups": [-1, 0, True, (1 << 32) - 1, 1 << 32, "7"]}, "uid ? is in 0 and 4294967295;"),
        (Reason.DEVICE_PERMISSION, {"groups": 7}, "is in none;"),
        (Reason.DEVICE_COUNT_MISMATCH, {"seen": 2, "wanted": 2}, "torch sees 2 of 2 GPUs;"),
        (Reason.DEVICE_COUNT_MISMATCH, {"seen": 3, "wanted": 2}, "torch sees 3 GPUs where 2 were given:"),
        (Reason.DEVICE_COUNT_MISMATCH, {"seen": 0, "wanted": (1 << 60) - 1}, f"torch sees 0 of {(1 << 60) - 1} GPUs;"),
        (Reason.DEVICE_COUNT_MISMATCH, {"seen": 1 << 60, "wanted": -1}, "torch sees ? of ?;"),
        (Reason.DEVICE_COUNT_MISMATCH, {"seen": 1, "error": LONG}, f"torch sees 1 of ? ({LONG[:200]});"),
        (Reason.DEVICE_COUNT_MISMATCH, {"seen": 1, "variable": LONG}, f"because of {LONG[:32]};"),
        (Reason.DEVICE_UNUSABLE, {"wanted": 2, "error": LONG}, f"are open: {LONG[:240]};"),
        (Reason.DEVICE_UNUSABLE, {"device": 0, "name": LONG}, f"GPU 0 ({LONG[:64]}) does not compute: ?;"),
        (Reason.MEM_BELOW_REQUEST, {"device": 0, "total": 1 << 30, "wanted": 1 << 30, "free": 0},
         "has 0Mi of 1Gi free, 1Gi are requested: something else"),
        (Reason.MEM_BELOW_REQUEST, {"total": (1 << 30) - 1, "wanted": 1 << 30},
         "has ? of 1023.99Mi free, 1Gi are requested: it is smaller"),
        (Reason.MEM_BELOW_REQUEST, {"wanted": 1 << 30}, "has ? of ? free, 1Gi are requested: something else"),
        (Reason.FOLDER_NOT_WRITABLE, {"path": LONG, "uid": 0, "owner": 0, "group": 1, "mode": LONG, "error": LONG},
         f"{LONG[:200]} takes no file of uid 0 (0:1, mode {LONG[:8]}, {LONG[:16]});"),
        (Reason.FOLDER_NOT_WRITABLE, {}, "? takes no file of uid ? (unknown owner, ?);"),
        (Reason.PREFLIGHT_FAULT, {"error": LONG}, f"not checked: {LONG[:300]}"),
    ],
)  # fmt: skip
def test_sentences_with_figures_at_their_limits(reason: Reason, numbers: Object, part: str) -> None:
    sentence = SENTENCES[reason](numbers)
    assert f"{part}"[:-1] in sentence
    assert part in sentence + Q or part == sentence[-len(part) :]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0.0"), (0.04, "0.0"), (999_999, "999999.0"), (1e6, None), (-0.1, None), ("6", None), (None, None)],
)
def test_the_seconds_of_a_preflight(seconds: Any, shown: str | None) -> None:
    text = "torch is not in the image: devices only, no device node was counted"
    assert all_well({"seconds": seconds}) == text + (f"; checked in {shown} seconds" if shown else "")


def test_the_devices_of_a_preflight() -> None:
    one = {"name": LONG, "count": 1, "free": 1 << 30}
    shown = f"1 {LONG[:48]} with 1Gi free"
    assert all_well({"torch": LONG, "backend": LONG, "devices": [one] * 9}) == (
        f"torch {LONG[:48]} ({LONG[:32]}) computes on {shown}, {shown}, {shown} and {shown}"
    )
