"""The first row of the table of causes that applies to any pod decides, and docs/life.md shows this table row by row."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from test_failed_attempts import blamed, disrupted, pod

from gpujob.lifecycle.failures.causes import CAUSES, DISRUPTIONS, OF_KUBELET
from gpujob.lifecycle.failures.failure import Blame
from gpujob.status.records.objects import PodState
from gpujob.values.vocabulary import Reason

PAGE = (Path(__file__).parents[3] / "docs" / "life.md").read_text()
OWN_LIMIT = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "


def test_the_page_shows_the_rows_of_the_infrastructure_in_their_order() -> None:
    table = PAGE.partition("| what is seen | reason | to blame |\n|---|---|---|\n")[2].partition("\n\n")[0].splitlines()
    rows = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in table]
    assert rows[: len(CAUSES)] == [(cause.seen, cause.called, "infrastructure") for cause in CAUSES]
    assert [blame for *_, blame in rows[len(CAUSES) :]] == ["user"] * 4


def of(number: int, word: str) -> PodState:
    """A pod of a gang that was disrupted with this word, or ended by the kubelet with it, or that its program ended."""
    if word in (*DISRUPTIONS, "SomethingNew"):
        return pod(number, code=137, **disrupted(word))
    if word == "Xid":
        return pod(number, code=1, train={"message": "NVRM: Xid (PCI:0000:07:00): 79, GPU has fallen off the bus."})
    if word == "SIGTERM":
        return pod(number, code=143, leaving=True)
    return pod(number, code=137, reason=word)


ORDER = [
    ("DeletionByDeviceTaintManager", Reason.DEVICE_FAULT),
    ("DeletionByTaintManager", Reason.NODE_LOST),
    ("PreemptionByScheduler", Reason.PREEMPTED),
    ("TerminationByKubelet", Reason.EVICTED),
    ("EvictionByEvictionAPI", Reason.EVICTED),
    ("Evicted", Reason.EVICTED),
    ("Preempting", Reason.PREEMPTED),
    ("NodeShutdown", Reason.NODE_LOST),
    ("UnexpectedAdmissionError", Reason.POD_NOT_ADMITTED),
    ("Xid", Reason.DEVICE_FAULT),
    ("SIGTERM", Reason.POD_DELETED),
]
"""What is seen of a pod, each in a later row than the one before."""


@pytest.mark.parametrize("first", [False, True], ids=["last by name", "first by name"])
@pytest.mark.parametrize(("earlier", "later"), list(combinations(ORDER, 2)), ids=str)
def test_the_earlier_row_decides_whichever_pod_it_is(
    earlier: tuple[str, Reason], later: tuple[str, Reason], first: bool
) -> None:
    one, other = (0, 1) if first else (1, 0)
    pods = sorted([of(one, earlier[0]), of(other, later[0])], key=lambda each: each.name)
    assert blamed(pods)[:2] == (Blame.INFRASTRUCTURE, earlier[1])


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Evicted", Reason.EVICTED),
        ("NodeShutdown", Reason.NODE_LOST),
        ("Preempting", Reason.PREEMPTED),
        ("", Reason.EVICTED),
    ],
)
def test_the_kubelets_own_word_for_a_disrupted_pod_is_its_reason(said: str, reason: Reason) -> None:
    assert blamed([pod(code=137, reason=said, **disrupted(OF_KUBELET))])[1] is reason


@pytest.mark.parametrize(
    "peer",
    [pod(1, code=143, leaving=True), pod(1, code=137, leaving=True), replace(pod(1), phase="Running", exit_code=None)],
    ids=["SIGTERM", "SIGKILL", "still ending"],
)
def test_a_gang_whose_pod_exceeded_a_limit_of_its_own_is_the_users_failure(peer: PodState) -> None:
    """The Job controller deletes the peers after it."""
    over = pod(0, code=137, reason="Evicted", message=OWN_LIMIT)
    assert blamed([over, peer])[0] is Blame.USER
    assert blamed([peer, replace(over, name="p2")])[0] is Blame.USER


def test_a_node_that_is_lost_decides_before_a_limit_of_another_pod() -> None:
    over = pod(0, code=137, reason="Evicted", message=OWN_LIMIT)
    assert blamed([over, pod(1, **disrupted("DeletionByTaintManager"))])[:2] == (
        Blame.INFRASTRUCTURE,
        Reason.NODE_LOST,
    )
