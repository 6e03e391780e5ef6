"""Programs that have ended in pods that run on end their attempt after 30 seconds: well, or with their failure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_bounded_waits import child, pod
from test_next_actions_of_a_job import ONE, RUNNING, RUNS, look, reason, written

from gpujob.lifecycle.actions import DeleteChild, Finish
from gpujob.lifecycle.steps.outliving import is_outlived
from gpujob.status.records.objects import Hint, PodState

GANG = child(2)


def ended(number: int = 0, code: int | None = 0, **changes: Any) -> PodState:
    """A pod whose program has ended with this code while its proxy runs."""
    found = replace(RUNS, name=f"p{number}", node=f"n{number}", running=False, exit_code=code, others=("istio-proxy",))
    return replace(found, **changes)


@pytest.mark.parametrize(
    ("its", "pods", "outlived"),
    [
        (ONE, [ended()], True),
        (ONE, [ended(code=1)], True),
        (ONE, [], False),
        (ONE, [RUNS], False),
        (ONE, [ended(others=())], False),
        (ONE, [ended(leaving=True)], False),
        (ONE, [ended(phase="Succeeded")], False),
        (ONE, [ended(phase="Failed", code=1)], False),
        (ONE, [ended(code=None)], False),
        (GANG, [ended()], False),
        (GANG, [ended(), ended(1)], True),
        (GANG, [ended(), replace(RUNS, name="p1")], False),
        (GANG, [ended(code=3), replace(RUNS, name="p1")], True),
        (GANG, [ended(code=3)], False),
        (GANG, [ended(), ended(1, phase="Succeeded")], True),
        (GANG, [ended(phase="Succeeded"), ended(1, phase="Succeeded")], False),
    ],
)  # fmt: skip
def test_what_counts_as_outlived(its: Any, pods: list[PodState], outlived: bool) -> None:
    assert is_outlived(its, pods) is outlived


def test_it_ends_after_30_seconds_and_names_what_runs_on() -> None:
    first = look(RUNNING, ONE, pods=(ended(),))
    early = look(RUNNING, ONE, pods=(ended(),), second=29.5, seen=first.sightings)
    assert (isinstance(early.action, Finish), early.requeue_after) == (False, 0.5)
    done = look(RUNNING, ONE, pods=(ended(),), second=30.0, seen=first.sightings).action
    assert isinstance(done, Finish)
    assert (written(done)["state"], reason(done, "Complete")[1]) == (
        "Succeeded",
        "the program ended well; container istio-proxy runs on, and ends with the child Job",
    )
    assert look(written(done), ONE, pods=(ended(),), second=31.0).action == DeleteChild(ONE)


def test_a_failure_is_the_programs() -> None:
    pods = (ended(code=7, others=("istio-proxy", "logs")),)
    first = look(RUNNING, ONE, pods=pods)
    done = look(RUNNING, ONE, pods=pods, second=30.0, seen=first.sightings).action
    assert written(done)["state"] == "Failed"
    assert "7" in reason(done, "Failed")[1]
    assert reason(done, "Failed")[1].endswith("containers istio-proxy and logs run on, and end with the child Job")


def test_a_gang_counts_its_programs_in_the_sentence() -> None:
    pods = (ended(), ended(1, phase="Succeeded", others=()))
    first = look(RUNNING, GANG, pods=pods)
    done = look(RUNNING, GANG, pods=pods, second=30.0, seen=first.sightings).action
    assert reason(done, "Complete")[1].startswith(
        "the programs of all 2 pods ended well; container istio-proxy runs on"
    )


@pytest.mark.parametrize("why", ["leaving", "probe", "it runs again"])
def test_what_does_not_end_by_it(why: str) -> None:
    its = replace(ONE, hint=Hint({**ONE.hint.placement, "probe": 50})) if why == "probe" else ONE
    first = look(RUNNING, its, pods=(ended(),))
    pods = (RUNS,) if why == "it runs again" else (ended(),)
    again = look(RUNNING, its, pods=pods, second=30.0, seen=first.sightings, leaving=why == "leaving")
    assert again.sightings.outlived == ("", 0.0)
    assert not isinstance(again.action, Finish)


def test_a_pod_without_a_node_is_no_program() -> None:
    assert not is_outlived(ONE, [pod()])
