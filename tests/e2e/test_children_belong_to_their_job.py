"""Children end with their job and are made once; what is not a job's own is left alone; what is refused is said."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gpujob.render.names import child_name
from tests.e2e.api_server import CRDS, GPUPOOLS, JOBS, NODES, PODS, SERVICES, ApiServer, AuditLog, Refused
from tests.e2e.cluster import Cluster, eventually, pretended_nodes, signal_component
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team, pinned_nodes

pytestmark = pytest.mark.e2e


def everything(team: Team) -> dict[str, Any]:
    """All that belongs to a team's jobs; equal means that no GPUJob was touched and no child replaced."""
    found = {f"gpujob {each['metadata']['name']}": each for each in team.api.items(team.path)}
    for kind, items in (("job", team.jobs()), ("pod", team.pods()), ("service", team.services())):
        found |= {f"{kind} {each['metadata']['name']}": each["metadata"]["uid"] for each in items}
    return found


def test_a_restart_changes_nothing_whatever_state_jobs_are_in(
    operator: OperatorProcess, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    fleet(h100=2, l4=1)
    team.submit("done", runs_for="0s")
    team.submit("failed", runs_for="0s", exit_code=1)
    team.until("done", "Succeeded")
    team.until("failed", "Failed")
    team.submit("runs", nodes=2, gpusPerNode=4)
    team.until("runs", "Running")
    team.submit("waits", gpusPerNode=8)
    team.submit("planned", suspend=True)
    team.submit("impossible", gpuMemory="500G")
    team.until("waits", "Queued")
    team.until("planned", "Suspended")
    team.until("impossible", "Impossible")

    before = everything(team)
    mark = audit.now()
    operator.restart_after_kill()
    operator.stop()
    operator.start().until_leading()
    # It acts again, so it has looked at all of them. Of what the one that waits is told to wait for, this takes nothing.
    team.submit("after", runs_for="0s", placement={"accelerators": {"allow": ["L4"]}})
    team.until("after", "Succeeded")
    after = everything(team)
    assert {key: after.get(key) for key in before} == before
    assert {key for key in audit.writes(mark, team.namespace) if key != "events"} == {"jobs", "gpujobs/status"}
    assert sum(audit.writes(mark, team.namespace).values()) == sum(audit.writes(mark, team.namespace, "after").values())


def test_a_child_job_that_somebody_deletes_is_lost_and_that_is_final(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(l4=1)
    uid = team.submit("job")
    name = team.until("job", "Running")["jobName"]
    team.api.delete(JOBS.format(team.namespace), name)
    status = team.until("job", "Failed")
    failed = team.condition("job", "Failed")
    assert (failed["status"], failed["reason"]) == ("True", "ChildLost")
    assert failed["message"] == f"child Job {name} was deleted by someone else; create a new GPUJob to run it again"
    eventually(lambda: not team.pods(uid), what="no pod")
    operator.restart_after_kill()
    team.submit("next", runs_for="0s")
    team.until("next", "Succeeded")
    assert team.status("job") == status
    assert team.jobs(uid) == []


def test_a_deleted_job_takes_its_job_service_and_pods_along(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(h100=2)
    uid = team.submit("gang", nodes=2, gpusPerNode=8)
    team.until("gang", "Running")
    assert (len(team.jobs(uid)), len(team.services(uid)), len(team.pods(uid))) == (1, 1, 2)
    # Another one waits for these devices and gets them as soon as they are free, not before.
    team.submit("next", gpusPerNode=8, runs_for="0s")
    team.until("next", "Queued")
    team.delete("gang")
    eventually(
        lambda: not (team.jobs(uid) or team.services(uid) or team.pods(uid)), 60, what="nothing left of the gang"
    )
    team.until("next", "Succeeded")


def test_a_job_deleted_while_it_is_created_leaves_nothing(operator: OperatorProcess, fleet: Fleet, team: Team) -> None:
    fleet(h100=2)
    for number in range(12):
        team.submit(f"short-{number}", nodes=2, gpusPerNode=1)
        # From before the operator has seen it to after it is placed.
        if number % 4:
            eventually(lambda number=number: len(team.jobs()) > 0 or team.state(f"short-{number}"), 5, every=0.002)
        team.delete(f"short-{number}")
    eventually(lambda: not (team.jobs() or team.pods() or team.services()), 60, what="nothing left", every=0.2)
    team.submit("all", nodes=2, gpusPerNode=8, runs_for="0s")
    team.until("all", "Succeeded")


def test_a_suspended_job_frees_its_devices_and_resumes_as_a_new_attempt(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(h100=1)
    uid = team.submit("job", gpusPerNode=8)
    first = team.until("job", "Running")
    team.submit("other", gpusPerNode=8)
    team.until("other", "Queued")
    team.change("job", suspend=True)
    team.until("job", "Suspended")
    eventually(lambda: not team.pods(uid) and not team.jobs(uid), what="no pod of the suspended job")
    team.until("other", "Running")
    team.change("job", suspend=False)
    team.until("job", "Queued")
    team.delete("other")
    second = team.until("job", "Running", timeout=60)
    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert second["jobName"] == first["jobName"].removesuffix("-1") + "-2"
    assert len(team.pods(uid)) == 1

    # Resumed before its end was seen, and in spite of a crash: still no loss, still one attempt after the other.
    operator.signal(signal.SIGSTOP)
    team.change("job", suspend=True)
    operator.signal(signal.SIGCONT)
    eventually(lambda: team.state("job") == "Suspended" or not team.jobs(uid), 10, every=0.002)
    team.change("job", suspend=False)
    operator.restart_after_kill()
    third = team.until("job", "Running", timeout=60)
    eventually(lambda: len(team.pods(uid)) == 1, what="one pod")
    assert third["attempt"] == 3
    assert team.told("job").count("Placed") == 3


def test_a_pod_that_lingers_holds_its_devices_and_is_not_taken_for_one_of_the_next_attempt(
    operator: OperatorProcess, cluster: Cluster, fleet: Fleet, team: Team
) -> None:
    fleet(h100=1)
    uid = team.submit("job", gpusPerNode=4)
    team.until("job", "Running")
    signal_component(cluster.dir, "kwok", signal.SIGSTOP)
    try:
        # No kubelet answers: the old pod says for ever that it runs, the new one does not start.
        team.change("job", suspend=True)
        team.until("job", "Suspended")
        eventually(lambda: not team.jobs(uid), what="no child Job")
        team.change("job", suspend=False)
        team.until("job", "Placed")
        team.submit("other", gpusPerNode=4)
        team.until("other", "Queued")
        status = team.until("job", "Starting", "Running")
        assert (status["state"], status["attempt"], len(team.pods(uid))) == ("Starting", 2, 2)
    finally:
        signal_component(cluster.dir, "kwok", signal.SIGCONT)
    team.until_all(["job", "other"], "Running")
    assert len(team.pods(uid)) == 1


def test_a_suspended_job_is_a_plan_only_and_a_running_one_cannot_be_changed(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(h100=1, mi300x=1)
    uid = team.submit("job", suspend=True, images={"cuda": {"image": "example.com/train:1"}})
    status = team.until("job", "Suspended")
    assert status["placement"]["pool"] == "h100-sxm-p5-48xlarge-ondemand"
    assert status["placement"]["image"] == "example.com/train:1"
    assert [each["outcome"] for each in status["candidates"]] == ["Chosen", "Rejected"]
    assert team.condition("job", "Suspended")["status"] == "True"
    assert (team.jobs(uid), team.services(uid), team.pods(uid)) == ([], [], [])

    team.change("job", images={"rocm": {"image": "example.com/train:2"}, "cuda": None})
    eventually(lambda: "mi300x" in team.status("job")["placement"]["pool"], what="another plan")
    team.change("job", suspend=False)
    team.until("job", "Running")
    patch = '{"spec": {"images": {"rocm": {"image": "example.com/train:3"}}}}'
    refused = team.api.kubectl("patch", "gpujob", "job", f"-n{team.namespace}", "--type=merge", "-p", patch)
    child = team.status("job")["jobName"]
    sentence = (
        f"spec.images cannot change while the child Job {child} exists; create a new GPUJob, or set suspend first"
    )
    assert sentence in refused.stderr
    team.change("job", suspend=True)
    team.until("job", "Suspended")
    team.change("job", images={"rocm": {"image": "example.com/train:3"}}, suspend=False)
    running = team.until("job", "Running")
    assert (running["placement"]["image"], running["attempt"]) == ("example.com/train:3", 2)


def test_an_object_that_has_the_childs_name_is_left_alone_and_said(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    (node,) = fleet(l4=1)
    # Nobody can know a uid beforehand; a job that waits gives the time to take its child's name.
    team.submit("blocks", gpusPerNode=4)
    team.until("blocks", "Running")
    uid = team.submit("job", gpusPerNode=4, runs_for="0s")
    team.until("job", "Queued")
    pod = {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Never", "nodeName": node}
    name = child_name("job", uid, 1)
    theirs = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"app": "theirs"}},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }
    team.api.create(JOBS.format(team.namespace), theirs)
    before = eventually(lambda: settled(team, name), what="their Job in peace")
    team.delete("blocks")
    team.until("job", "Misconfigured", timeout=60)
    placed = team.condition("job", "Placed")
    assert (placed["status"], placed["reason"]) == ("False", "NameConflict")
    assert placed["message"] == f"a Job {name} exists and is not this job's; delete or rename it"
    assert team.api.get(JOBS.format(team.namespace), name) == before
    team.api.delete(JOBS.format(team.namespace), name)
    team.until("job", "Succeeded", timeout=60)
    assert team.told("job").count("NameConflict") == 1


def settled(team: Team, name: str) -> Any:
    """The Job of that name once the Job controller has seen it."""
    job = team.api.get(JOBS.format(team.namespace), name)
    return job if job.get("status", {}).get("conditions") else None


def test_what_admission_refuses_is_said_once_and_tried_again_ever_later(
    operator: OperatorProcess, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    fleet(h100=1)
    # A LimitRange refuses pods, not Jobs, and only the Job's events say so.
    limits = {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}
    team.api.create(
        f"/api/v1/namespaces/{team.namespace}/limitranges",
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": limits},
    )
    podless = team.submit("podless", gpusPerNode=4)
    name = team.until("podless", "Placed")["jobName"]
    asked = time.monotonic()

    refuse_jobs(team)
    mark = audit.now()
    uid = team.submit("refused", resources={"cpu": "500m"}, runs_for="0s")
    team.until("refused", "Misconfigured")
    placed = team.condition("refused", "Placed")
    assert placed["reason"] == "ChildRefused"
    assert placed["message"].startswith("the API server refuses its child: ")
    assert "no Jobs today" in placed["message"]
    assert team.jobs(uid) == []
    eventually(lambda: audit.writes(mark, team.namespace, "refused")["jobs"] >= 3, 20, what="three tries")
    assert audit.writes(mark, team.namespace, "refused")["gpujobs/status"] == 1
    assert audit.writes(mark, team.namespace, "refused")["events"] == 1
    allow_jobs(team)
    team.until("refused", "Succeeded", timeout=60)

    eventually(lambda: team.status("podless")["display"]["reason"] == "FailedCreate", 40, what="the reason")
    assert time.monotonic() - asked > 15
    assert team.state("podless") == "Placed"
    message, bound = team.condition("podless", "Running")["message"].split("; the job gives its GPUs back at ")
    assert message == (
        f"child Job {name} exists, 0 of 1 pods are there; "
        f"if a quota or a policy refuses the others, `kubectl describe job {name}` says which"
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ if that stays so", bound)
    assert team.pods(podless) == []
    described = team.api.kubectl("describe", "job", name, f"-n{team.namespace}").stdout
    assert "maximum cpu usage per Container is 1" in described


ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{ADMISSION}/validatingadmissionpolicies", f"{ADMISSION}/validatingadmissionpolicybindings"


def refuse_jobs(team: Team) -> None:
    """Makes an admission policy that refuses Jobs in the team's namespace and waits until it is in force."""
    jobs = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
    policy = {
        "matchConstraints": {
            "resourceRules": [jobs],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team.namespace}},
        },
        "validations": [{"expression": "false", "message": "no Jobs today"}],
    }
    binding = {"policyName": team.namespace, "validationActions": ["Deny"]}
    for path, kind, spec in (
        (POLICIES, "ValidatingAdmissionPolicy", policy),
        (BINDINGS, "ValidatingAdmissionPolicyBinding", binding),
    ):
        head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": team.namespace}}
        team.api.create(path, head | {"spec": spec})
    eventually(lambda: _refused(team), 30, what="a policy in force", every=0.2)


def allow_jobs(team: Team) -> None:
    """Takes the policy away."""
    for path in (BINDINGS, POLICIES):
        team.api.delete(path, team.namespace)


def _refused(team: Team) -> bool:
    container = {"name": "main", "image": "none"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "probe"}, "spec": {"template": template}}
    try:
        team.api.try_out(JOBS.format(team.namespace), job)
    except Refused as refusal:
        return "no Jobs today" in str(refusal)
    return False


def test_one_object_that_nobody_can_read_stops_no_other(operator: OperatorProcess, fleet: Fleet, team: Team) -> None:
    odd = [*pretended_nodes({"h100": 1, "mi300x": 1, "l4": 1})]
    for number, node in enumerate(odd):
        node["metadata"]["name"] = node["metadata"]["labels"]["kubernetes.io/hostname"] = (
            f"{team.namespace}-odd-{number}"
        )
    labels = odd[0]["metadata"]["labels"]
    labels |= {key: "-".join(["x"] * 30) for key in labels if key.startswith("nvidia.com/")}
    odd[0]["metadata"]["annotations"]["gpujob.dev/price-per-gpu-hour"] = "1e309; DROP TABLE"
    for key in [key for key in odd[1]["metadata"]["labels"] if "amd.com" in key]:
        odd[1]["metadata"]["labels"][key] = "99999999999999999999G" if key.endswith("vram") else "0"
    odd[1]["status"]["allocatable"]["amd.com/gpu"] = "9223372036854775807"
    odd[2]["status"]["allocatable"] |= {"cpu": "1e3", "memory": "123456789123456789123E", "pods": "0"}
    pool = {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPUPool",
        "metadata": {"name": f"{team.namespace}-odd"},
        "spec": {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "nowhere"}}, "accelerator": "QUANTUM9000"},
    }
    good = fleet(a100=1)
    try:
        for node in odd:
            team.api.create(NODES, node)
        team.api.create(GPUPOOLS, pool)
        pod = {"containers": [{"name": "main", "image": "none"}], "nodeName": good[0], "schedulerName": "x" * 63}
        lies = {"gpujob.dev/job-uid": "nobody", "gpujob.dev/attempt": "many"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd", "labels": lies}, "spec": pod}
        team.api.create(PODS.format(team.namespace), body)
        child = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "odd", "labels": lies, "annotations": {"gpujob.dev/placement": "[" * 2000}},
            "spec": {"suspend": True, "template": {"spec": {**pod, "restartPolicy": "Never"}}},
        }
        team.api.create(JOBS.format(team.namespace), child)
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "odd", "labels": lies}}
        team.api.create(SERVICES.format(team.namespace), {**service, "spec": {"clusterIP": "None"}})
        team.submit("asks-too-much", nodes=1024, gpusPerNode=64, gpuMemory="8E")
        team.submit("odd-name" + ".x" * 60, requires=["QuantumTunnelling"], args=["ü" * 5000] * 10)
        team.submit("odd-pool", placement={"pools": {"allow": [f"{team.namespace}-odd"]}})
        allow = {"accelerators": {"allow": ["A100-80GB"]}}
        uid = team.submit("good", runs_for="0s", placement=allow)
        team.until("good", "Succeeded")
        assert pinned_nodes(team.jobs(uid)[0]["spec"]["template"]["spec"]) == good
        # What an admin's unreadable pool might be, nobody knows; but no device has that much memory.
        team.until("asks-too-much", "Impossible")
        team.until("odd-name" + ".x" * 60, "Misconfigured")
        team.until("odd-pool", "Misconfigured")
    finally:
        team.api.delete(PODS.format(team.namespace), "odd")
        team.api.delete(GPUPOOLS, f"{team.namespace}-odd")
        for node in odd:
            team.api.delete(NODES, node["metadata"]["name"])


def test_a_service_that_somebody_deletes_is_made_again_while_its_gang_runs(
    operator: OperatorProcess, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    fleet(h100=3)
    uid = team.submit("gang", nodes=2, gpusPerNode=8)
    alone = team.submit("alone", gpusPerNode=1)
    team.until("gang", "Running")
    (before,) = team.services(uid)
    team.api.delete(SERVICES.format(team.namespace), before["metadata"]["name"])
    (after,) = eventually(lambda: team.services(uid), 20, what="the Service again")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    for part in ("labels", "annotations", "ownerReferences", "name"):
        assert after["metadata"][part] == before["metadata"][part]
    assert after["spec"]["selector"] == before["spec"]["selector"]
    assert after["spec"]["publishNotReadyAddresses"] is True
    assert len(team.jobs(uid)) == 1
    assert len(team.pods(uid)) == 2
    # It goes with its job, for good.
    team.delete("gang")
    eventually(lambda: not team.services(uid) and not team.pods(uid), 30, what="all of it gone")
    mark = audit.now()
    time.sleep(4)
    assert "services" not in audit.writes(mark, team.namespace)
    assert team.services(alone) == []


def test_a_stored_job_that_no_schema_would_take_now_stops_no_other(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team
) -> None:
    fleet(l4=1)
    operator.may_fail_on = "odd-"
    with loosened(api, "gpujobs.gpujob.dev"):
        odd = {"nodes": "many", "gpusPerNode": -3, "command": {"a": 1}, "suspend": "perhaps", "unheard": [None]}
        eventually(lambda: stored(team, "odd-spec", odd, {}), what="a schema that takes anything")
        status = {
            "state": 7,
            "attempt": "x",
            "conditions": "none",
            "placement": [],
            "display": 1,
            "candidates": {"a": 1},
        }
        assert stored(team, "odd-status", {"command": ["x"], "gpusPerNode": 1}, status)
        assert stored(team, "odd-child", {"command": ["x"]}, {"jobName": "../../nodes", "attempt": -1})
    team.submit("good", runs_for="0s")
    team.until("good", "Succeeded")
    operator.restart_after_kill()
    team.submit("better", runs_for="0s")
    team.until("better", "Succeeded")


@contextmanager
def loosened(api: ApiServer, name: str) -> Iterator[None]:
    """A CRD without a schema for a while, as if an older one had let in what the present one refuses."""
    crd = api.get(CRDS, name)
    schemas = [version["schema"] for version in crd["spec"]["versions"]]
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    for version in crd["spec"]["versions"]:
        version["schema"] = anything
    api.replace(CRDS, name, crd)
    try:
        yield
    finally:
        crd = api.get(CRDS, name)
        for version, schema in zip(crd["spec"]["versions"], schemas, strict=True):
            version["schema"] = schema
        api.replace(CRDS, name, crd)


def stored(team: Team, name: str, spec: dict[str, Any], status: dict[str, Any]) -> bool:
    """Whether the API server took a job with this status; False while it still knows the schema."""
    body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": name}, "spec": spec}
    try:
        team.api.create(team.path, body)
        if status:
            team.api.patch(team.path, name, {"status": status}, "status")
    except Refused:
        return False
    return True


def test_a_final_status_that_somebody_else_wrote_is_corrected_while_the_job_runs(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(h100=1)
    uid = team.submit("forged")
    team.until("forged", "Running")
    pods = [pod["metadata"]["uid"] for pod in team.pods(uid)]
    forged = {"state": "Succeeded", "attempt": 7, "jobName": "bogus", "placement": None}
    team.api.patch(team.path, "forged", {"status": forged}, subresource="status")
    assert team.state("forged") == "Succeeded"
    status = team.until("forged", "Running", timeout=60)
    assert status["jobName"] != "bogus"
    assert [pod["metadata"]["uid"] for pod in team.pods(uid)] == pods


def test_of_a_gang_that_was_resumed_the_service_of_the_earlier_attempt_is_gone(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(h100=2)
    uid = team.submit("gang", nodes=2, gpusPerNode=8)
    team.until("gang", "Running")
    team.change("gang", suspend=True)
    team.until("gang", "Suspended")
    eventually(lambda: not team.services(uid) and not team.jobs(uid), what="neither Service nor Job")
    told = team.condition("gang", "Suspended")["message"]
    assert told == "spec.suspend is true: attempt 1 was stopped and nothing new is created"
    team.change("gang", suspend=False)
    status = team.until("gang", "Running", timeout=60)
    assert [each["metadata"]["name"] for each in team.services(uid)] == [status["jobName"]]
