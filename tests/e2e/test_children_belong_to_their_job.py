"""Children end with their job and are made once; a restart, and what others delete, changes no other."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from gpujob.lifecycle.timings import Timings
from tests.e2e.api_server import JOBS, PODS, SERVICES, AuditLog, Object
from tests.e2e.cluster import eventually, remains
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

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
    # It acts again, so it has looked at all of them. This takes nothing of what the waiting one waits for.
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


def test_a_child_that_somebody_suspends_keeps_its_devices_and_the_status_says_so(
    operator: OperatorProcess, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    fleet(l4=1)
    uid = team.submit("job", gpusPerNode=4)
    name = team.until("job", "Running")["jobName"]
    # The event of its placement follows the status.
    eventually(lambda: team.told("job"), what="the event of its placement")
    mark = audit.now()
    team.api.patch(JOBS.format(team.namespace), name, {"spec": {"suspend": True}})
    status = team.until("job", "Placed")
    assert status["display"]["reason"] == "ChildSuspended"
    running = team.condition("job", "Running")
    assert (running["status"], running["reason"]) == ("False", "ChildSuspended")
    assert running["message"].startswith(f"child Job {name} is suspended, so no pod of it runs; its GPUs stay reserved")
    assert not team.pods(uid)
    assert audit.writes(mark, team.namespace, "job") == {"gpujobs/status": 1}
    team.submit("next", gpusPerNode=4)
    team.until("next", "Queued")
    team.api.patch(JOBS.format(team.namespace), name, {"spec": {"suspend": False}})
    assert team.until("job", "Running")["startTime"] == status["startTime"]
    assert team.state("next") == "Queued"


KEEPS = "team.example/keeps"
LOOKS = 4.0
"""Seconds in which the Job controller looks at a Job after a change of its pods: it collects these for one."""


def keep(team: Team, pod: Object) -> str:
    """Another controller's finalizer keeps a pod after its end; gives its name."""
    name: str = pod["metadata"]["name"]
    held = [*pod["metadata"]["finalizers"], KEEPS]
    team.api.patch(PODS.format(team.namespace), name, {"metadata": {"finalizers": held}})
    return name


def let_go(team: Team, pod: str) -> None:
    """Removes it."""
    team.api.patch(PODS.format(team.namespace), pod, {"metadata": {"finalizers": None}})


def is_failed(team: Team, pod: str) -> bool:
    phase: str = team.api.get(PODS.format(team.namespace), pod)["status"]["phase"]
    return phase == "Failed"


def test_a_suspended_child_does_not_fail_by_the_pods_that_its_suspension_has_ended(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    """The Job controller applies a podFailurePolicy to all pods, also to those that it has deleted itself, while they are there."""
    fleet(l4=1)
    uid = team.submit("job", gpusPerNode=4, retries={"infrastructure": 0})
    name = team.until("job", "Running")["jobName"]
    old = keep(team, team.pods(uid)[0])
    team.api.patch(JOBS.format(team.namespace), name, {"spec": {"suspend": True}})
    eventually(lambda: is_failed(team, old), what="the pod of before Failed, and still there")
    team.until("job", "Placed")
    remains(lambda: not ended_as(team, uid), LOOKS, because="a pod that a suspension ends is not counted")
    team.api.patch(JOBS.format(team.namespace), name, {"spec": {"suspend": False}})
    status = team.until("job", "Running")
    assert (status["attempt"], status.get("attempts"), status.get("failures")) == (1, None, None)
    assert is_failed(team, old)
    let_go(team, old)


def ended_as(team: Team, uid: str) -> list[str]:
    """How the child Jobs of a job have ended."""
    conditions = (c for job in team.jobs(uid) for c in job.get("status", {}).get("conditions", ()))
    return [c["type"] for c in conditions if c["type"] in ("Complete", "Failed", "FailureTarget")]


def test_a_suspended_child_that_kubernetes_fails_all_the_same_is_in_no_count(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    """Its program ends on SIGTERM with an exit code that says that it failed, as torchrun does."""
    fleet(l4=1)
    uid = team.submit("job", gpusPerNode=4, asked_exit_code=1, retries={"infrastructure": 0})
    name = team.until("job", "Running")["jobName"]
    old = keep(team, team.pods(uid)[0])
    team.api.patch(JOBS.format(team.namespace), name, {"spec": {"suspend": True}})
    eventually(lambda: "FailureTarget" in ended_as(team, uid), what="the Job failed by Kubernetes")
    # It ends when it is resumed: a Job without a startTime, which a suspension takes away, cannot be Failed.
    team.until("job", "Placed")
    team.api.patch(JOBS.format(team.namespace), name, {"spec": {"suspend": False}})
    team.until("job", "Restarting")
    status = team.until("job", "Running", timeout=60)
    assert (status["attempt"], status.get("failures")) == (2, None)
    (entry,) = status["attempts"]
    assert (entry["reason"], entry["blame"]) == ("PodReplaced", "Kubernetes")
    assert entry["message"].startswith(
        f"child Job {name} failed because of pod {old}, which the Job controller had ended itself"
    )
    let_go(team, old)


@pytest.mark.parametrize("code", [1, 143])
def test_of_two_pods_in_one_place_the_one_that_the_job_controller_deletes_is_no_failure(
    operator: OperatorProcess, fleet: Fleet, team: Team, code: int
) -> None:
    """It makes a second one where the answer to its first request was lost, as when the API server ends."""
    fleet(l4=1)
    uid = team.submit("job", gpusPerNode=2, asked_exit_code=code, retries={"infrastructure": 0})
    team.until("job", "Running")
    (first,) = team.pods(uid)
    head = {key: first["metadata"][key] for key in ("labels", "annotations", "ownerReferences", "finalizers")}
    head |= {"name": f"{first['metadata']['name']}-twin", "finalizers": [*head["finalizers"], KEEPS]}
    # Which of the two it deletes depends on how soon the second one runs.
    keep(team, first)
    spec = {key: value for key, value in first["spec"].items() if key != "nodeName"}
    team.api.create(PODS.format(team.namespace), {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": spec})
    eventually(
        lambda: any(is_failed(team, pod["metadata"]["name"]) for pod in team.pods(uid)), what="one of them Failed"
    )
    if code == 143:
        remains(
            lambda: not ended_as(team, uid), LOOKS, because="the Job controller does not count the pod that it deletes"
        )
        status = team.status("job")
        assert (status["state"], status["attempt"], status.get("attempts")) == ("Running", 1, None)
    else:
        status = team.until("job", "Restarting")
        assert (status["attempts"][0]["blame"], status.get("failures")) == ("Kubernetes", None)
    for pod in team.pods(uid):
        if KEEPS in pod["metadata"].get("finalizers", ()):
            let_go(team, pod["metadata"]["name"])


def test_a_child_that_a_user_emptied_has_not_succeeded(operator: OperatorProcess, fleet: Fleet, team: Team) -> None:
    """Kubernetes calls it complete, and ends its pod."""
    fleet(l4=1)
    team.submit("job", gpusPerNode=4)
    name = team.until("job", "Running")["jobName"]
    team.api.patch(JOBS.format(team.namespace), name, {"spec": {"completions": 0, "parallelism": 0}})
    team.until("job", "Failed")
    assert team.condition("job", "Failed")["reason"] == "ChildLost"
    assert "from 1 to 0" in team.condition("job", "Failed")["message"]
    team.submit("next", gpusPerNode=4, runs_for="0s")
    team.until("next", "Succeeded")


def test_a_deleted_child_without_pods_is_lost_whatever_keeps_the_object(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(l4=1)
    uid = team.submit("job", gpusPerNode=4)
    name = team.until("job", "Running")["jobName"]
    team.api.patch(JOBS.format(team.namespace), name, {"metadata": {"finalizers": ["team.example/keeps"]}})
    team.api.delete(JOBS.format(team.namespace), name)
    (pod,) = team.pods(uid)
    team.api.delete(PODS.format(team.namespace), pod["metadata"]["name"])
    team.until("job", "Failed")
    assert team.condition("job", "Failed")["reason"] == "ChildLost"
    team.submit("next", gpusPerNode=4, runs_for="0s")
    team.until("next", "Succeeded")
    team.api.patch(JOBS.format(team.namespace), name, {"metadata": {"finalizers": None}})
    eventually(lambda: not team.jobs(uid), what="the child gone")


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


def has_begun(team: Team, name: str) -> bool:
    """Whether a job has a child or a state."""
    return bool(team.jobs()) or bool(team.state(name))


def test_a_job_deleted_while_it_is_created_leaves_nothing(operator: OperatorProcess, fleet: Fleet, team: Team) -> None:
    fleet(h100=2)
    for number in range(12):
        team.submit(f"short-{number}", nodes=2, gpusPerNode=1)
        # From before the operator has seen it to after it is placed.
        if number % 4:
            eventually(partial(has_begun, team, f"short-{number}"), 5, every=0.002)
        team.delete(f"short-{number}")
    eventually(lambda: not (team.jobs() or team.pods() or team.services()), 60, what="nothing left", every=0.2)
    team.submit("all", nodes=2, gpusPerNode=8, runs_for="0s")
    team.until("all", "Succeeded")


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
    because = f"a lost Service of a gang that runs is made again after {Timings().service:g} seconds"
    remains(lambda: "services" not in audit.writes(mark, team.namespace), 2 * Timings().service, because=because)
    assert team.services(alone) == []


def test_a_job_that_only_says_that_it_is_a_child_changes_nothing(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    (name,) = fleet(h100=1)
    uid = team.submit("mine", gpusPerNode=4)
    status = team.until("mine", "Running")
    (real,) = team.jobs(uid)
    # The owner of the namespace copies the child as a later attempt, without pods and for all GPUs of the node.
    made = real["metadata"]
    labels = made["labels"] | {"gpujob.dev/attempt": "9"}
    head = {"labels": labels, "annotations": made["annotations"], "ownerReferences": made["ownerReferences"]}
    template = real["spec"]["template"]
    template["metadata"]["labels"] = {}
    for amounts in template["spec"]["containers"][0]["resources"].values():
        amounts["nvidia.com/gpu"] = "8"
    kept = {key: real["spec"][key] for key in ("completionMode", "completions", "parallelism", "backoffLimit")}
    spec = kept | {"template": template, "suspend": True}

    def forge(called: str) -> None:
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": head | {"name": called}, "spec": spec}
        team.api.create(JOBS.format(team.namespace), body)

    forge("mine-forged-9")
    # Who comes after gets the other GPUs, which the forged Job does not hold.
    team.submit("next", gpusPerNode=4, runs_for="0s")
    assert team.until("next", "Succeeded")["placement"]["nodeNames"] == [name]
    assert team.status("mine") == status
    # In the place of the child that the status records, too, it is none.
    team.api.delete(JOBS.format(team.namespace), made["name"])
    eventually(lambda: len(team.jobs(uid)) == 1, 30, what="the child gone")
    forge(made["name"])
    team.until("mine", "Failed")
    assert team.condition("mine", "Failed")["reason"] == "ChildLost"


def test_a_deleted_job_that_somebodys_finalizer_holds_tells_once_that_nothing_of_it_runs(
    operator: OperatorProcess, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    fleet(h100=1)
    uids = {name: team.submit(name, gpusPerNode=8) for name in ("runs", "waits")}
    first = eventually(lambda: next((n for n in uids if team.state(n) == "Running"), ""), 30, what="one that runs")
    (second,) = set(uids) - {first}
    team.until(second, "Queued")
    for name in uids:
        team.api.patch(team.path, name, {"metadata": {"finalizers": ["team.example/keeps"]}})
    # Its pods go on, as those of any owner do that is deleted in the background and held.
    child = team.status(first)["jobName"]
    mark = audit.now()
    for name in uids:
        team.delete(name)
    team.until(second, "Failed")
    assert team.state(first) == "Running"
    assert len(team.pods(uids[first])) == 1
    team.api.delete(JOBS.format(team.namespace), child)
    status = team.until(first, "Failed")
    assert status["display"]["reason"] == "BeingDeleted"
    message = team.condition(first, "Failed")["message"]
    assert message.startswith(f"the GPUJob is being deleted, its child Job {child} is gone and the GPUs are given back")
    # The devices are the next one's, and nothing more is written of the two.
    team.submit("next", gpusPerNode=8, runs_for="0s")
    team.until("next", "Succeeded")
    written = audit.writes(mark, team.namespace, first) + audit.writes(mark, team.namespace, second)
    assert written == {"gpujobs/status": 2}
    for name in uids:
        team.api.patch(team.path, name, {"metadata": {"finalizers": None}})
    eventually(lambda: not any(job["metadata"]["name"] in uids for job in team.api.items(team.path)), what="both gone")
    line = next(
        line for line in operator.log.read_text().splitlines() if f'/{first}"' in line and "BeingDeleted" in line
    )
    assert '"event": "status written"' in line
