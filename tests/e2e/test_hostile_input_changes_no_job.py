"""Replies of programs and pods that lie, on a real API server: what they say reaches no placement and no status.

Manifests of GPUJobs that ask for more are in tests/contract/attacks.yaml; a ConfigMap in the place of the runner's is in
test_a_preflight_before_the_program, a Job in the place of a child in test_children_belong_to_their_job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.e2e.api_server import PODS, ApiServer
from tests.e2e.cluster import eventually, remains
from tests.e2e.conftest import Fleet, Operators
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.reporter import Reporter, reach
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


@pytest.fixture
def attentive(no_operator: None, operators: Operators) -> Iterator[OperatorProcess]:
    """An operator that reads every second."""
    made = operators("reads-liars")
    made.settings["GPUJOB_SCRAPE_SECONDS"] = "1"
    made.start_without_waiting_for_the_lease()
    yield made
    made.stop()
    assert made.errors() == []


@pytest.fixture
def reporter() -> Iterator[Reporter]:
    made = Reporter()
    yield made
    made.close()


UP: Final = b"gpujob_up 1\ngpujob_world_size 1\ngpujob_ranks_reporting 1\n"
REPLIES: Final[dict[str, bytes]] = {
    "eight megabytes of one line": b"x" * 8_000_000,
    "a million series": UP + b"".join(b'gpujob_steps_total{rank="%d"} 1\n' % number for number in range(200_000)),
    "no text": bytes(range(256)) * 100,
    "figures below nothing": UP + b'gpujob_steps_total{rank="0"} -5\ngpujob_progress_ratio{rank="0"} -3\n',
    "figures beyond all": UP + b'gpujob_steps_total{rank="0"} 1e308\ngpujob_tokens_total{rank="0"} 1e999\n'
    b'gpujob_progress_ratio{rank="0"} 7\ngpujob_remaining_seconds{rank="0"} 1e300\n',
    "no numbers": UP + b'gpujob_steps_total{rank="0"} NaN\ngpujob_progress_ratio{rank="0"} \xd9\xa3\n',
    "a rank that is none": UP + b'gpujob_steps_total{rank="../../0"} 5\ngpujob_steps_total{rank="99999999999"} 5\n',
    "colours and lines in a label": UP + b'gpujob_device_info{rank="0",name="\x1b[31m\\nReady True"} 1\n',
    "another's job": UP
    + b'gpujob_attempt_info{job_uid="of-others",attempt="1"} 1\ngpujob_progress_ratio{rank="0"} 0.9\n',
    "nothing at all": b"\n",
}
"""What a program answers in the reporter's place."""


def test_replies_that_lie_leave_the_job_and_its_status_as_they_are(
    attentive: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, reporter: Reporter
) -> None:
    fleet(l4=1)
    reporter.body = b"<html>"
    uid = team.submit("liar", telemetry={"port": reporter.port})
    team.until("liar", "Running")
    reach(team, uid)
    eventually(lambda: team.condition("liar", "TelemetryReachable"), 90, what="the port read")
    for what, body in REPLIES.items():
        reporter.body = body
        remains(lambda: team.state("liar") == "Running", 3, because=what)
        status = team.status("liar")
        assert len(json.dumps(status)) < 2048, what
        progress = status.get("progress") or {}
        assert not any(word in json.dumps(status) for word in ("\\u001b", "NaN", "Infinity", "e+")), what
        assert 0 <= float(progress.get("ratio") or progress.get("percent") or 0) <= 100, (what, progress)
        assert status.get("stalled") is None
    # And the operator still reads a true report.
    reporter.body = b""
    eventually(
        lambda: team.condition("liar", "TelemetryReachable").get("reason") == "ReporterRead", 120, what="a true report read"
    )  # fmt: skip


FORGED: Final[dict[str, dict[str, Any]]] = {
    "failed": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource"},
    "succeeded": {"phase": "Succeeded"},
    "ran out of memory": {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "train", "image": "none", "imageID": "", "ready": False, "restartCount": 0,
                "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            }
        ],
    },
}  # fmt: skip
"""Statuses of pods that say they are of a job's attempt."""


@pytest.mark.parametrize("what", FORGED)
def test_a_pod_that_says_it_is_of_a_job_tells_nothing_of_it(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, what: str
) -> None:
    fleet(h100=1)
    uid = team.submit("mine", gpusPerNode=4)
    team.until("mine", "Running")
    before = team.status("mine")
    (real,) = team.pods(uid)
    template = {
        "restartPolicy": "Never",
        "containers": [{"name": "train", "image": "none"}],
        "schedulerName": "of-no-scheduler",
    }
    labels = {key: value for key, value in real["metadata"]["labels"].items() if "controller-uid" not in key}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "forged", "labels": labels}, "spec": template}
    api.create(PODS.format(team.namespace), body)
    api.patch(PODS.format(team.namespace), "forged", {"status": FORGED[what]}, "status")
    remains(lambda: team.status("mine") == before, 5, because="a pod of no child is not the job's")
    # It holds no GPUs either: another job gets the other four.
    team.submit("next", gpusPerNode=4, runs_for="0s")
    team.until("next", "Succeeded")
    api.delete(PODS.format(team.namespace), "forged")
