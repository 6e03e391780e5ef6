"""Pods of which neither the scheduler nor the Job controller says anything: no pool is to blame, and the wait has a bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import test_bounded_waits
from test_bounded_waits import ALONE, GANG, NEW, Watch, pod

from gpujob.fleet.assembly.node_state import LostRoom
from gpujob.lifecycle.actions import GiveBack, Next, WriteStatus
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.values.vocabulary import ConditionType

LEFT = {"attempt": 0, "reason": "ControlPlaneSilent", "blame": "Kubernetes", "to": "2026-01-01T12:00:00Z"}
"""An attempt at whose pods no scheduler had looked."""


def silent(number: int = 0, scheduler: str = "default-scheduler") -> PodState:
    return replace(pod(number), waiting_reason="", scheduler=scheduler)


def said(found: Next, kind: ConditionType) -> str:
    """The message of a condition, which has the reason of such a wait."""
    assert isinstance(found.action, GiveBack | WriteStatus)
    (condition,) = (each for each in found.action.status["conditions"] if each["type"] == kind)
    assert condition["reason"] == found.action.status["display"]["reason"] == "ControlPlaneSilent"
    return str(condition["message"])


def test_a_scheduler_that_is_away_is_no_refusal_of_the_pool() -> None:
    watch, pods = Watch(), [silent(number) for number in (0, 1)]
    for second in (0.0, 60.0, 300.0, 800.0):
        found = watch.look(second, GANG, *pods)
        assert not isinstance(found.action, GiveBack)
    assert said(found, ConditionType.RUNNING) == (
        "pod p0 is bound to no node: the scheduler has not looked at it; the job gives its GPUs back at "
        "2026-01-01T12:15:00Z if that stays so"
    )
    refused = [pods[0], pod(1)]
    assert not isinstance(watch.look(801.0, GANG, *refused).action, GiveBack)
    assert not isinstance(watch.look(860.9, GANG, *refused).action, GiveBack)
    assert isinstance(watch.look(861.0, GANG, *refused).action, GiveBack)


def test_room_that_is_lost_is_given_back_while_the_scheduler_is_away() -> None:
    watch = Watch()
    watch.look(0.0, ALONE, silent(), lost_rooms={"n0": LostRoom("is gone")})
    assert isinstance(watch.look(5.0, ALONE, silent(), lost_rooms={"n0": LostRoom("is gone")}).action, GiveBack)


@pytest.mark.parametrize(
    ("its", "pods", "view", "why"),
    [
        (GANG, [silent(0), silent(1)], {}, "no scheduler has looked at pod p0 and 1 more pod; check kube-scheduler"),
        (GANG, [pod(0, "n0"), silent(1)], {}, "no scheduler has looked at pod p1; check kube-scheduler"),
        (
            ALONE,
            [silent(0, "nosuch")],
            {},
            "no scheduler has looked at pod p0 (spec.schedulerName nosuch); check that schedulers of this name run",
        ),
        (
            GANG,
            [silent(0)],
            {"refused": ""},
            "1 of 2 pods is missing and no event says why; check kube-controller-manager",
        ),
        (ALONE, [], {"refused": ""}, "1 of 1 pod is missing and no event says why; check kube-controller-manager"),
        (NEW, [silent(0), silent(1)], {}, "no scheduler has looked at pod p0 and 1 more pod; check kube-scheduler"),
    ],
)
def test_what_nobody_looks_at_gives_its_gpus_back_at_last_and_leaves_nothing_out(
    its: ChildRecord, pods: list[PodState], view: dict[str, Any], why: str
) -> None:
    watch = Watch()
    watch.look(0.0, its, *pods, **view)
    almost = watch.look(899.5, its, *pods, **view)
    assert not isinstance(almost.action, GiveBack)
    assert almost.requeue_after == 0.5
    done = watch.look(900.0, its, *pods, **view)
    assert said(done, ConditionType.PLACED) == (
        f"for 900 seconds {why}; the job gave the GPUs of pool h100 back, and no pool is left out; attempt 2 follows at "
        "2026-01-01T12:15:10Z"
    )
    assert isinstance(done.action, GiveBack)
    assert not {"jobName", "excludedPools", "excludedNodes", "failures"} & done.action.status.keys()
    (entry,) = done.action.status["attempts"]
    assert (entry["reason"], entry["blame"]) == ("ControlPlaneSilent", "Kubernetes")


def test_a_further_attempt_waits_a_minute_and_the_pause_before_the_next_one_grows() -> None:
    watch = Watch(attempts=[LEFT])
    watch.look(0.0, ALONE, silent())
    assert not isinstance(watch.look(59.9, ALONE, silent()).action, GiveBack)
    done = watch.look(60.0, ALONE, silent())
    assert said(done, ConditionType.PLACED).endswith("attempt 2 follows at 2026-01-01T12:01:20Z")


def test_words_begin_the_wait_for_the_scheduler_anew_and_silence_that_for_words() -> None:
    watch = Watch()
    watch.look(0.0, ALONE, silent())
    watch.look(890.0, ALONE, pod())
    watch.look(900.0, ALONE, silent())
    assert not isinstance(watch.look(1700.0, ALONE, silent()).action, GiveBack)
    assert watch.sightings.unbound == ("", 0.0)


def test_pods_of_which_no_events_were_read_count_as_refused() -> None:
    """Their Job's events may not be readable."""
    watch = Watch()
    watch.look(0.0, GANG, silent(0))
    done = watch.look(60.0, GANG, silent(0)).action
    assert isinstance(done, GiveBack)
    assert [each["name"] for each in done.status["excludedPools"]] == ["h100"]


def test_new_nodes_are_waited_for_since_the_scheduler_asked_for_them() -> None:
    watch = Watch()
    watch.look(0.0, NEW, silent(0), silent(1))
    watch.look(600.0, NEW, silent(0), silent(1))
    watch.look(600.5, NEW, pod(0), pod(1))
    found = watch.look(1499.5, NEW, pod(0), pod(1))
    assert not (isinstance(found.action, WriteStatus) and "excludedPools" in found.action.status)
    done = watch.look(1500.5, NEW, pod(0), pod(1)).action
    assert isinstance(done, WriteStatus)
    assert done.status["excludedPools"][0]["reason"] == "NodesDidNotCome"


def test_an_admins_longer_patience_counts_for_silence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_bounded_waits, "TIMINGS", replace(test_bounded_waits.TIMINGS, unbound=3600.0))
    watch = Watch()
    watch.look(0.0, ALONE, silent())
    assert not isinstance(watch.look(3599.0, ALONE, silent()).action, GiveBack)
    assert isinstance(watch.look(3600.0, ALONE, silent()).action, GiveBack)
