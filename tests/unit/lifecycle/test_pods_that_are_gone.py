"""What a pod said last decides why its attempt failed, whether it is still there when its Job is looked at or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_device_faults import XID
from test_failed_attempts import OUT, PLACEMENT, POD, Watch, child, disrupted, pod
from test_the_table_of_causes import ORDER, OWN_LIMIT, of
from test_what_is_no_end_of_a_job import Run, running

from gpujob.lifecycle.failures.causes import DISRUPTIONS, POD_REASONS
from gpujob.status.records.objects import PodState

KINDS = {
    **{word: pod(code=143, leaving=True, **disrupted(word)) for word in DISRUPTIONS},
    **{f"kubelet: {word}": pod(code=137, reason=word) for word in POD_REASONS},
    "a limit of its own": pod(code=137, reason="Evicted", message=OWN_LIMIT),
    "an exit code": pod(code=3),
    "main memory": pod(code=137, train={"reason": "OOMKilled"}),
    "GPU memory": pod(code=1, train={"message": OUT}),
    "last lines": pod(code=1, train={"message": "NVRM: Xid (PCI:0000:07:00): 79, GPU has fallen off the bus."}),
    "an unhealthy device": replace(pod(code=1), unhealthy=("nvidia.com/gpu GPU-1",)),
    "deleted by a user": pod(code=143, leaving=True),
}


def ended(pods: Any, departed: Any, **end: str) -> dict[str, Any]:
    """The status after the end of an attempt with these pods, of which some are gone."""
    watch, names = Watch(retries={"user": 1}), {each.name for each in (*pods, *departed)}
    watch.runs(1)
    watch.look(0.0, (child(pods=max(1, len(names)), **end),), tuple(pods), departed=tuple(departed))
    return watch.status


@pytest.mark.parametrize("kind", KINDS)
def test_a_pod_that_is_gone_is_told_like_one_that_is_there(kind: str) -> None:
    taken = KINDS[kind]
    assert ended([], [replace(taken, gone=True)]) == ended([taken], [])


@pytest.mark.parametrize("word", [word for word, _ in ORDER])
def test_of_a_gang_the_pod_that_is_gone_may_be_the_one_that_decides(word: str) -> None:
    failed, taken = pod(0, code=1), of(1, word)
    if word == "SIGTERM":
        failed = pod(0, code=1, train={"finishedAt": "2026-01-01T12:00:01Z"})
    assert ended([failed], [replace(taken, gone=True)]) == ended([failed, taken], [])
    assert ended([failed], [replace(taken, gone=True)])["attempts"][0]["blame"] == "Infrastructure"


def test_a_pod_that_was_deleted_and_is_gone_without_a_known_end_is_deleted() -> None:
    """Its node answered no more, and a user deleted it with --force."""
    last = replace(pod(leaving=True), phase="Running", running=True, exit_code=None, gone=True)
    (entry,) = ended([], [last], reason="BackoffLimitExceeded")["attempts"]
    assert (entry["reason"], entry["blame"]) == ("PodDeleted", "Infrastructure")


def test_a_pod_that_is_there_counts_once_and_as_it_is_now() -> None:
    now, before = (
        pod(code=3),
        replace(pod(code=0), phase="Running", running=True, exit_code=None, leaving=True, gone=True),
    )
    assert ended([now], [before]) == ended([now], [])


def test_a_pod_of_an_earlier_attempt_says_nothing_of_this_one() -> None:
    watch = Watch(retries={"user": 1})
    watch.runs(2)
    earlier = replace(pod(0, attempt=1, **disrupted("PreemptionByScheduler")), gone=True)
    watch.look(0.0, (child(1), child(2)), (replace(pod(0, attempt=2, code=3), child_uid="c2"),), departed=(earlier,))
    assert watch.status["attempts"][-1]["blame"] == "User"


def test_what_an_operator_that_was_off_finds_is_an_eviction() -> None:
    """A deletion by a user gives no pod the condition DisruptionTarget."""
    (entry,) = ended([], [], reason="PodFailurePolicy", message=POD)["attempts"]
    assert (entry["reason"], entry["blame"], entry["message"]) == (
        "Evicted",
        "Infrastructure",
        "pod j-1-1-abcde was taken away (DisruptionTarget) and is gone",
    )


def gone(**how: Any) -> PodState:
    return replace(running(**how), gone=True)


@pytest.mark.parametrize(
    ("departed", "state"),
    [
        ([], "Succeeded"),
        ([gone(leaving=True, ended="2026-01-01T12:00:04Z")], "Restarting"),
        ([gone(leaving=True)], "Restarting"),
        ([gone(leaving=True, ended="2026-01-01T11:59:59Z")], "Succeeded"),
        ([replace(gone(leaving=True), child_uid="c0")], "Succeeded"),
    ],
    ids=["nothing known", "ended on request", "was ending", "had ended before", "of another attempt"],
)
def test_exit_code_0_on_request_is_no_end_of_the_job_where_the_pod_is_gone(
    departed: list[PodState], state: str
) -> None:
    run = Run(placement=PLACEMENT)
    run.departed = departed
    assert run.status_after(5.0, [], "Complete")["state"] == state


def test_a_device_fault_of_its_node_counts_for_a_pod_that_is_gone() -> None:
    watch = Watch()
    watch.runs(1)
    watch.look(0.0, (child(),), (), departed=(replace(pod(code=1), gone=True),), faults={"n0": [XID]})
    assert watch.status["attempts"][0]["reason"] == "DeviceFault"
