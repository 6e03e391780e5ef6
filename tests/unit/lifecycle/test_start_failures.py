"""A container that does not start ends its attempt within a bound, says whose fault it is, and holds no GPU afterwards."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from test_device_faults import evicted, on, running
from test_failed_attempts import BEGAN

from gpujob.lifecycle.actions import DeleteChild, Finish, Nothing, WriteStatus
from gpujob.lifecycle.failures.failure import Blame
from gpujob.lifecycle.failures.start_failures import start_failure
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Moment
from gpujob.status.records.objects import PodState
from gpujob.status.records.read_objects import read_job, read_pod_record
from gpujob.values.names import child_name
from gpujob.values.vocabulary import Reason

PULL = 'Back-off pulling image "team/train:1": ErrImagePull: rpc error: '


def waits(reason: str, message: str = "") -> PodState:
    return replace(
        running(), phase="Pending", running=False, started="", waiting_reason=reason, waiting_message=message
    )


@pytest.mark.parametrize(
    ("reason", "message", "blame"),
    [
        ("ImagePullBackOff", PULL + "code = NotFound desc = failed to resolve reference: not found", Blame.USER),
        ("ErrImagePull", "pull access denied, repository does not exist or may require authorization", Blame.USER),
        ("ErrImagePull", "failed to fetch anonymous token: 401 Unauthorized", Blame.USER),
        ("ErrImagePull", "no match for platform in manifest", Blame.USER),
        ("InvalidImageName", "", Blame.USER),
        ("ImagePullBackOff", PULL + "dial tcp: lookup registry.example.com: no such host", Blame.INFRASTRUCTURE),
        ("ImagePullBackOff", PULL + "429 Too Many Requests", Blame.INFRASTRUCTURE),
        ("ErrImagePull", "write /var/lib/containerd: no space left on device", Blame.INFRASTRUCTURE),
        ("ImagePullBackOff", "", Blame.INFRASTRUCTURE),
        ("CreateContainerConfigError", 'secret "token" not found', Blame.USER),
        ("CreateContainerConfigError", "couldn't find key a in ConfigMap team/c", Blame.USER),
        ("CreateContainerError", "context deadline exceeded", Blame.INFRASTRUCTURE),
        ("RunContainerError", "nvidia-container-cli: initialization error: driver not found", Blame.INFRASTRUCTURE),
        (
            "CreateContainerError",
            "failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=0",
            Blame.INFRASTRUCTURE,
        ),
    ],
)
def test_whose_fault_it_is(reason: str, message: str, blame: Blame) -> None:
    found = start_failure([waits(reason, message)], 300)
    assert found is not None
    assert (found.blame, found.nodes) == (blame, ("n0",) if blame is Blame.INFRASTRUCTURE else ())
    image = "Image" in reason
    assert found.reason is (Reason.IMAGE_NOT_PULLED if image else Reason.CONTAINER_NOT_STARTED)
    assert found.message.startswith(f"pod p0 on node n0 did not start within 300 seconds: {reason}")


@pytest.mark.parametrize(
    ("said", "blame"),
    [
        ('MountVolume.SetUp failed for volume "token" : secret "nobody" not found', Blame.USER),
        ('MountVolume.SetUp failed for volume "code" : configmap "nothing" not found', Blame.USER),
        ('MountVolume.SetUp failed for volume "code" : references non-existent config key: train.py', Blame.USER),
        ('MountVolume.SetUp failed for volume "x" : references non-existent secret key: key', Blame.USER),
        (
            'MountVolume.MountDevice failed for volume "pvc-1" : rpc error: code = DeadlineExceeded',
            Blame.INFRASTRUCTURE,
        ),
        (
            "Multi-Attach error for volume pvc-1: Volume is already exclusively attached to one node",
            Blame.INFRASTRUCTURE,
        ),
        ('Failed to create pod sandbox: no runtime for "nvidia" is configured', Blame.INFRASTRUCTURE),
        ('Failed to create pod sandbox: plugin type="calico" failed (add): node not found', Blame.INFRASTRUCTURE),
        ("driver name csi.example.com not found in the list of registered CSI drivers", Blame.INFRASTRUCTURE),
        ("", Blame.INFRASTRUCTURE),
    ],
)
def test_a_pod_whose_volumes_or_network_do_not_come(said: str, blame: Blame) -> None:
    found = start_failure([replace(waits("ContainerCreating"), unready=True)], 300, said)
    assert found is not None
    assert (found.blame, found.reason) == (blame, Reason.CONTAINER_NOT_STARTED)
    assert found.nodes == (("n0",) if blame is Blame.INFRASTRUCTURE else ())
    why = f": {said}" if said else ", `kubectl describe pod p0` says why"
    assert found.message.startswith(f"pod p0 on node n0 could not start a container within 300 seconds{why}; ")
    assert start_failure([replace(waits("ContainerCreating"), unready=True, leaving=True)], 300, said) is None


@pytest.mark.parametrize("pod", [running(), waits("PodInitializing"), waits("ContainerCreating"), waits("")])
def test_what_starts_has_not_failed(pod: PodState) -> None:
    assert start_failure([pod], 300) is None


class Watch:
    def __init__(self, **spec: Any) -> None:
        self.spec, self.sightings = spec, Sightings()
        self.status: dict[str, Any] = {"state": "Starting", "attempt": 1, "jobName": child_name("j", "u", 1),
                                       "placement": {"pool": "h100", "vendor": "NVIDIA"}}  # fmt: skip

    def look(self, second: float, pods: list[PodState], ready: bool = True) -> Any:
        job = read_job(
            {"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": self.spec, "status": self.status}
        )
        moment = Moment(second, BEGAN + timedelta(seconds=second))
        found = next_action(JobView(job, [on()], pods, {"n0": ready}), self.sightings, moment, Timings())
        self.sightings = found.sightings
        if isinstance(found.action, (WriteStatus, Finish)):
            self.status = dict(found.action.status)
        return found.action


WRONG, AWAY = waits("ImagePullBackOff", PULL + "not found"), waits("ImagePullBackOff", PULL + "i/o timeout")


def test_an_image_that_does_not_exist_ends_the_job_and_its_child_goes() -> None:
    watch = Watch()
    watch.look(0.0, [WRONG])
    watch.look(299.0, [WRONG])
    assert watch.status["state"] == "Starting"
    assert isinstance(watch.look(300.0, [WRONG]), Finish)
    assert (watch.status["state"], watch.status["display"]["reason"]) == ("Failed", "ImageNotPulled")
    assert [(each["reason"], each["blame"]) for each in watch.status["attempts"]] == [("ImageNotPulled", "User")]
    assert watch.look(301.0, [WRONG]) == DeleteChild(on())
    # After a restart of the operator, too.
    watch.sightings = Sightings()
    assert watch.look(302.0, [WRONG]) == DeleteChild(on())


def test_a_registry_that_fails_is_tried_from_another_node() -> None:
    watch = Watch()
    watch.look(0.0, [AWAY])
    watch.look(300.0, [AWAY])
    assert (watch.status["state"], watch.status["failures"]) == ("Restarting", {"infrastructure": 1})
    assert [each["name"] for each in watch.status["excludedNodes"]] == ["n0"]


def test_one_that_is_pulled_late_starts_and_the_clock_begins_anew() -> None:
    watch = Watch()
    watch.look(0.0, [AWAY])
    watch.look(200.0, [waits("ContainerCreating")])
    watch.look(310.0, [AWAY])
    watch.look(500.0, [AWAY])
    assert watch.status["state"] == "Starting"


def test_a_final_status_that_somebody_wrote_deletes_no_child_that_runs() -> None:
    watch = Watch()
    entry = {"attempt": 1, "to": "2026-01-01T12:00:00Z", "reason": "ImageNotPulled", "blame": "User"}
    watch.status |= {"state": "Failed", "attempts": [entry]}
    assert watch.look(0.0, [running()]) == Nothing()


def test_the_last_attempt_on_a_dead_node_ends_the_job_and_its_child_goes() -> None:
    watch = Watch(retries={"infrastructure": 0})
    assert isinstance(watch.look(0.0, [evicted()], ready=False), Finish)
    assert (watch.status["state"], watch.status["attempts"][0]["reason"]) == ("Failed", "NodeLost")
    assert watch.look(1.0, [evicted()], ready=False) == DeleteChild(on())


def unready_record(**status: Any) -> PodState:
    raw = {
        "metadata": {"name": "p0", "labels": {"gpujob.dev/job-uid": "u"}, "ownerReferences": running_owner()},
        "spec": {"nodeName": "n0"},
        "status": {"phase": "Pending", **status},
    }
    found = read_pod_record(raw).state
    assert found is not None
    return found


def running_owner() -> list[dict[str, Any]]:
    return [{"kind": "Job", "name": child_name("j", "u", 1), "uid": "c1", "controller": True}]


def test_the_condition_says_whether_a_pod_can_start_containers() -> None:
    """A pod that pulls a large image is in ContainerCreating too, and has no bound."""

    def ready(status: str) -> list[dict[str, str]]:
        return [{"type": "PodReadyToStartContainers", "status": status}]

    assert unready_record(conditions=ready("False")).unready
    assert not unready_record(conditions=ready("True")).unready
    assert not unready_record().unready
    assert not unready_record(conditions=ready("False"), phase="Failed").unready
