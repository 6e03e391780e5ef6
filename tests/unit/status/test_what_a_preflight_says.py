"""A preflight's message becomes one condition in our own words, whatever the container wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.status.job import conditions, job_status
from gpujob.status.observe.child import Observation, observe
from gpujob.status.records.objects import JobRecord
from gpujob.status.records.preflight import Check, read_check, verdict_of
from gpujob.status.records.preflight_messages import SENTENCES, all_well
from gpujob.status.records.read_objects import read_child, read_pod_record
from gpujob.values.vocabulary import Label, Reason, State

GI = 1 << 30
KFD = {"path": "/dev/kfd", "group": 109, "mode": "0660", "uid": 1000, "groups": [44, 1000]}
H100 = {"device": 3, "name": "NVIDIA H100 80GB HBM3"}


def message(*findings: dict[str, Any], **facts: Any) -> str:
    return json.dumps({"gpujob": 1, "findings": findings, "facts": facts})


def ended(code: int = 0, text: Any = "", reason: str = "Completed", name: str = "preflight") -> dict[str, Any]:
    terminated = {"exitCode": code, "message": text, "reason": reason}
    return {"initContainerStatuses": [{"name": name, "state": {"terminated": terminated}}]}


def check(code: int = 0, text: Any = "", reason: str = "Completed") -> Check:
    found = read_check(ended(code, text, reason))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("reason", "numbers", "sentence"),
    [
        (
            "ImageBackendMismatch", {"torch": "2.12.0+cu130", "found": "CUDA 13.0", "wanted": "ROCm"},
            "the image's torch 2.12.0+cu130 is built for CUDA 13.0, the chosen devices need ROCm; name an image with a ROCm "
            "build of torch in spec.images",
        ),
        (
            "ImageBroken", {"error": "ImportError: libcudnn.so.9: cannot open shared object file"},
            "the image's torch cannot be imported: ImportError: libcudnn.so.9: cannot open shared object file; fix the "
            "image, or name another in spec.images",
        ),
        (
            "CommandNotFound", {"program": "python3.12", "path": "/usr/bin"},
            "the command starts python3.12, which is not in the image or may not be executed (PATH is /usr/bin); correct "
            "spec.command, or name an image that has it",
        ),
        (
            "DevicePermission", KFD,
            "/dev/kfd belongs to group 109 with mode 0660, and uid 1000 is in 44 and 1000; an admin adds 109 to "
            "spec.supplementalGroups of the GPUPool",
        ),
        (
            "DevicePermission", {**KFD, "error": "EPERM"},
            "/dev/kfd is there and the container's device rules do not let it open; devices come from the device plugin alone",
        ),
        ("DeviceCountMismatch", {"seen": 1, "wanted": 2}, "torch sees 1 of 2 GPUs; check the node's driver and device plugin"),
        (
            "DeviceCountMismatch", {"seen": 8, "wanted": 1},
            "torch sees 8 GPUs where 1 were given: the node shows devices of others; check its device plugin",
        ),
        (
            "DeviceCountMismatch", {"seen": 0, "wanted": 1, "variable": "CUDA_VISIBLE_DEVICES"},
            "torch sees 0 of 1 GPU because of CUDA_VISIBLE_DEVICES; remove it from env",
        ),
        (
            "DeviceCountMismatch", {"seen": 0, "wanted": 8, "nodes": True},
            "the container has the device nodes of 0 of 8 GPUs: the node's device plugin or container runtime passes no "
            "more; check its device plugin, or set spec.runtimeClassName in the GPUPool",
        ),
        (
            "DeviceUnusable", {**H100, "error": "no answer to memory or a matrix product"},
            "GPU 3 (NVIDIA H100 80GB HBM3) does not compute: no answer to memory or a matrix product; cordon the node and "
            "check the device",
        ),
        (
            "DeviceUnusable", {"wanted": 2, "error": "RuntimeError: No HIP GPUs are available"},
            "torch can use none of 2 GPUs whose device nodes are open: RuntimeError: No HIP GPUs are available; check the "
            "node's driver",
        ),
        (
            "MemBelowRequest", {**H100, "free": 40 * GI, "total": 79 * GI, "wanted": 64 * GI},
            "GPU 3 (NVIDIA H100 80GB HBM3) has 40Gi of 79Gi free, 64Gi are requested: something else uses the rest; check the "
            "node's processes, or lower gpuMemory",
        ),
        (
            "MemBelowRequest", {**H100, "free": 40 * GI, "total": 79 * GI, "wanted": 64 * GI, "shared": True},
            "GPU 3 (NVIDIA H100 80GB HBM3) has 40Gi of 79Gi free, 64Gi are requested: other pods share the device; leave Shared "
            "out of placement.devices, or lower gpuMemory",
        ),
        (
            "MemBelowRequest", {"device": 0, "free": 15 * GI, "total": 16 * GI, "wanted": 24 * GI},
            "GPU 0 has 15Gi of 16Gi free, 24Gi are requested: it is smaller than its node's labels report; declare "
            "spec.memoryPerGPU in the GPUPool",
        ),
        (
            # The numbers differ where the device has less.
            "MemBelowRequest", {"device": 0, "free": 24 * GI, "total": 25 * GI, "wanted": 24 * GI + 1},
            "GPU 0 has 24Gi of 25Gi free, 24.01Gi are requested: something else uses the rest; check the node's processes, or lower "
            "gpuMemory",
        ),
        (
            "SharedMemoryTooSmall", {"size": 64 << 20, "wanted": 8 * GI},
            "/dev/shm has 64Mi, 8Gi were expected; lower resources.sharedMemory, or raise the memory that the node "
            "gives a pod",
        ),
        (
            "FolderNotWritable",
            {"path": "/data", "uid": 1000, "owner": 0, "group": 0, "mode": "0755", "error": "EACCES", "mount": True},
            "/data takes no file of uid 1000 (0:0, mode 0755, EACCES); set fsGroup or runAsUser in securityContext, or "
            "readOnly: true in its volumeMount",
        ),
        ("NoInterpreter", {}, "the image has no shell, or no Python from 3.9 on: nothing is checked and nothing measured"),
        (
            "PreflightTimedOut", {},
            "torch was not imported within 35 seconds, so the devices are not checked; a slow disk or registry does it",
        ),
        ("PreflightFault", {"error": "x"}, "the preflight itself failed, so the devices are not checked: x"),
    ],
)  # fmt: skip
def test_each_finding_is_one_sentence(reason: str, numbers: dict[str, Any], sentence: str) -> None:
    found = check(4, message({"reason": reason, **numbers}))
    assert (found.reason.value, found.message) == (reason, sentence)
    assert found.passed is (None if reason in ("NoInterpreter", "PreflightTimedOut", "PreflightFault") else False)


def test_success_says_what_was_seen() -> None:
    devices = [{"name": "NVIDIA H100 80GB HBM3", "count": 8, "free": 79 * GI}]
    found = check(0, message(torch="2.11.0+cu130", backend="CUDA 13.0", devices=devices, seconds=6.21))
    assert (found.passed, found.message) == (
        True, "torch 2.11.0+cu130 (CUDA 13.0) computes on 8 NVIDIA H100 80GB HBM3 with 79Gi free; checked in 6.2 seconds",
    )  # fmt: skip
    assert (
        check(0, message(nodes=2)).message
        == "torch is not in the image: devices only, opened the device nodes of 2 GPUs"
    )


def test_what_blocks_comes_before_what_is_not_known() -> None:
    found = check(
        4, message({"reason": "PreflightTimedOut"}, {"reason": "FolderNotWritable"}, {"reason": "MemBelowRequest"})
    )
    assert (found.passed, found.reason) == (False, Reason.FOLDER_NOT_WRITABLE)
    assert found.message.endswith(" (and 1 more: MemBelowRequest)")


def test_eight_findings_count_and_no_more() -> None:
    found = check(4, message(*[{"reason": "FolderNotWritable"}] * 12))
    assert found.message.endswith(f" (and 7 more: {', '.join(['FolderNotWritable'] * 7)})")


@pytest.mark.parametrize(
    "text", ["", "no JSON", "[]", "{}", '{"gpujob":2,"findings":[]}', '{"gpujob":1,"findings":[{"reason":"Evil"}]}',
             '{"gpujob":1,"findings":[7]}', "[" * 4000, message() + " " * 4096, None, 7],
)  # fmt: skip
def test_a_message_that_is_not_ours_is_no_result(text: Any) -> None:
    assert check(0, text).passed is None
    lost = check(137, text, "OOMKilled")
    assert (lost.passed, lost.reason) == (False, Reason.PREFLIGHT_FAULT)
    assert "it ended with exit code 137 (OOMKilled) and left no result" in lost.message


NO_SHELL = 'exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown'


@pytest.mark.parametrize(
    "state",
    [
        {"terminated": {"exitCode": 128, "reason": "StartError", "message": NO_SHELL}},
        {"waiting": {"reason": "CreateContainerError", "message": "executable file `/bin/sh` not found in $PATH"}},
        {"terminated": {"exitCode": 3, "reason": "Error", "message": message({"reason": "NoInterpreter"})}},
    ],
)  # fmt: skip
def test_an_image_without_shell_or_python_is_known_as_such(state: dict[str, Any]) -> None:
    found = read_check({"initContainerStatuses": [{"name": "preflight", "state": state}]})
    assert found is not None
    assert (found.over, found.passed, found.reason) == (True, None, Reason.NO_INTERPRETER)


def test_another_fault_of_the_runtime_is_none_of_the_image() -> None:
    found = check(128, 'error mounting "/x" to rootfs: no such file or directory', "StartError")
    assert (found.passed, found.reason) == (False, Reason.PREFLIGHT_FAULT)
    assert (
        read_check({"initContainerStatuses": [{"name": "preflight", "state": {"waiting": {"reason": "ErrImagePull"}}}]})
        is None
    )
    assert read_check(ended(0, message(), name="gpujob-code")) is None


def test_pods_of_a_gang_are_judged_together() -> None:
    good, running = check(0, message(nodes=1)), Check(over=False)
    bad = check(4, message({"reason": "DeviceUnusable", "device": 0, "error": "x"}))
    assert verdict_of([("a", "n", good), ("b", "m", running)], 2) is None
    assert verdict_of([("a", "n", good), ("b", "m", None)], 2) is None
    assert verdict_of([], 1) is None
    failed = verdict_of([("a", "n", good), ("b", "m", bad)], 3)
    assert failed is not None
    assert failed.message == "pod b on node m: GPU 0 does not compute: x; cordon the node and check the device"
    whole = verdict_of([("a", "n", good), ("b", "m", good)], 2)
    assert whole is not None
    assert (whole.passed, whole.message.startswith("all 2 pods: ")) == (True, True)


def child(preflight: bool = True, **status: Any) -> Any:
    init = [{"name": "preflight"}] if preflight else []
    return read_child(
        {"metadata": {"name": "j-1", "labels": {Label.ATTEMPT: "1"}}, "status": status,
         "spec": {"completions": 1, "template": {"spec": {"initContainers": init}}}}
    )  # fmt: skip


def pod(train: dict[str, Any], phase: str, **status: Any) -> Any:
    raw = {
        "metadata": {"name": "a", "labels": {Label.JOB_UID: "u"}},
        "spec": {"nodeName": "n"},
        "status": {"phase": phase, "containerStatuses": [{"name": "train", "state": train}], **status},
    }
    return read_pod_record(raw).state


WAITS = {"waiting": {"reason": "PodInitializing"}}
FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}


def test_a_failed_preflight_is_why_the_job_failed() -> None:
    broken = message({"reason": "ImageBroken", "error": "x"})
    seen = observe(child(**FAILED), [pod(WAITS, "Failed", **ended(4, broken, "Error"))])
    assert (seen.state, seen.reason) == (State.FAILED, Reason.IMAGE_BROKEN)
    assert seen.message.startswith("pod a on node n: the image's torch cannot be imported: x")
    # A program that ran and failed has its own reason, whatever a preflight that only warns said.
    train = {"terminated": {"exitCode": 1, "startedAt": "2026-01-01T00:00:00Z"}}
    seen = observe(child(**FAILED), [pod(train, "Failed", **ended(0, broken))])
    assert (seen.reason, seen.checked and seen.checked.reason) == (Reason.POD_FAILED, Reason.IMAGE_BROKEN)


def test_a_running_preflight_is_a_start_that_takes_its_time() -> None:
    running = {"initContainerStatuses": [{"name": "preflight", "state": {"running": {}}}]}
    seen = observe(child(), [pod(WAITS, "Pending", **running)])
    assert (seen.state, seen.checking) == (State.STARTING, True)
    assert seen.message == "0 of 1 pods run; the preflight of pod a runs on node n"
    stuck = pod({"waiting": {"reason": "CreateContainerConfigError"}}, "Pending", **ended(0, message(nodes=1)))
    assert not observe(child(), [stuck]).checking


def claims(
    state: State,
    check: Check | None,
    held: str = "",
    preflight: bool = True,
    mode: str = "Required",
    before: dict[str, str] | None = None,
) -> dict[str, tuple[str, str]]:
    told = ({"jobName": held} if held else {}) | ({"conditions": [before]} if before else {})
    job = JobRecord("ns", "j", "u", 1, "", "7", False, {"preflight": mode}, told)
    seen = Observation(state, Reason.STARTING, "x", checked=check)
    status = job_status.placed(job, child(preflight), seen, "2026-01-01T00:00:00Z")
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"] if c["type"] == "PreflightPassed"}


def test_that_it_passed_is_told_with_what_it_lets_happen() -> None:
    passed = Check(True, True, Reason.PREFLIGHT_PASSED, "x")
    assert claims(State.PLACED, None) == {}
    before = {"type": "PreflightPassed", "status": "True", "reason": "PreflightPassed"}
    assert claims(State.PLACED, None, before=before) == {}
    assert claims(State.STARTING, passed, held="j-1") == {}
    assert claims(State.RUNNING, passed, held="j-1") == {"PreflightPassed": ("True", "PreflightPassed")}
    assert claims(State.RUNNING, None, held="j-1") == {}
    failed = Check(True, False, Reason.DEVICE_UNUSABLE, "x")
    assert claims(State.STARTING, failed, held="j-1") == {"PreflightPassed": ("False", "DeviceUnusable")}
    assert claims(State.RUNNING, None, preflight=False) == {"PreflightPassed": ("Unknown", "NoInterpreter")}
    assert claims(State.RUNNING, None, preflight=False, mode="Disabled", before=before) == {}


def test_only_the_status_of_this_generation_says_that_the_next_attempt_is_without() -> None:
    told = conditions.merged([], conditions.of_recheck("no shell"), 3, "2026-01-01T00:00:00Z")
    job = JobRecord("ns", "j", "u", 3, "", "7", False, {}, {"conditions": told})
    assert job_status.runs_unchecked(job)
    assert not job_status.runs_unchecked(JobRecord("ns", "j", "u", 4, "", "8", False, {}, {"conditions": told}))
    assert not job_status.runs_unchecked(JobRecord("ns", "j", "u", 3, "", "8", False, {}, {}))


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=500),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(
    ["torch", "found", "wanted", "error", "program", "path", "group", "owner", "mode", "uid", "groups", "seen", "nodes",
     "variable", "device", "name", "free", "total", "shared", "size", "mount", "backend", "devices", "seconds"]
)  # fmt: skip


@given(reason=st.sampled_from(sorted(SENTENCES)), numbers=st.dictionaries(KEYS, junk, max_size=12))
def test_whatever_the_numbers_a_sentence_is_short_and_on_one_line(reason: Reason, numbers: dict[str, Any]) -> None:
    for text in (SENTENCES[reason](numbers), all_well(numbers)):
        assert len(text) < 1000
        assert text.isprintable()


@given(state=junk, name=st.sampled_from(["preflight", "other"]), told=junk)
def test_any_state_of_the_container_is_read(state: Any, name: str, told: Any) -> None:
    read_check(
        {
            "initContainerStatuses": [
                {"name": name, "state": state},
                {"name": "preflight", "state": {"terminated": told}},
            ]
        }
    )
    read_check({"initContainerStatuses": state})
    text = json.dumps(
        {"gpujob": 1, "findings": [{"reason": "MemBelowRequest", "free": told}], "facts": state}, default=str
    )
    read_check(ended(4, text))
