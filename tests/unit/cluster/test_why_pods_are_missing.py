"""The events of one Job are listed by its uid, one page of them; what they say is kept for that child, and no error ends anything."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from test_gpus_that_pods_hold_in_vain import CHILD, Gang

from gpujob.cluster.client.api_errors import ApiError, Forbidden
from gpujob.cluster.controller.actions import JobActions
from gpujob.cluster.controller.job_reconciler import JobReconciler
from gpujob.cluster.writer.writes import Writer
from gpujob.status.records.objects import JobRecord, PodState
from gpujob.status.records.refused_pods import FAILED_CREATE

QUOTA = "exceeded quota: gpus, requested: pods=1, used: pods=4, limited: pods=4"


class Lists:
    """A client that gives pages of events, or an error."""

    def __init__(self, *pages: Any) -> None:
        self.pages, self.asked = pages, list[tuple[str, dict[str, str]]]()

    async def list_paged(self, path: str, params: dict[str, str]) -> AsyncGenerator[Any, None]:
        self.asked.append((path, params))
        for page in self.pages:
            if isinstance(page, Exception):
                raise page
            yield page


def says(words: str) -> dict[str, Any]:
    note = f'Error creating: pods "{CHILD}-0-abcde" is forbidden: {words}'
    return {"items": [{"reason": FAILED_CREATE, "note": note, "reportingController": "job-controller"}]}


async def read(gang: Gang, *pages: Any) -> Lists:
    """What the operator asked, when it reads why the gang's pods are missing."""
    client = Lists(*pages)
    writer = Writer(client, gang.cache, lambda: True, "here")  # type: ignore[arg-type]
    steps = JobActions(gang.work, writer, None, None)  # type: ignore[arg-type]
    gang.work.index.take(gang.cache.take_changes())
    (job,) = gang.work.index.jobs.values()
    child = gang.work.index.children_of(job.uid)[0]
    gang.work.remember(job.uid)
    await steps.read_refusal(job, child)
    return client


async def test_one_page_of_the_events_of_one_job_is_read() -> None:
    gang = Gang()
    client = await read(gang, says(QUOTA), says("never read"))
    selector = f"reason={FAILED_CREATE},regarding.uid=c"
    assert client.asked == [("/apis/events.k8s.io/v1/namespaces/team/events", {"fieldSelector": selector})]
    assert gang.work.memory["u"].refused == ("c", QUOTA)


@pytest.mark.parametrize(
    "page",
    [Forbidden(403, "Forbidden", "events is forbidden"), ApiError(503, "", "away"), {"items": []}, {"items": "x"}, {}],
)
async def test_without_an_answer_the_job_goes_on_without_the_words(page: Any) -> None:
    """Events that say nothing are an answer: that nothing refuses the pods."""
    gang = Gang()
    await read(gang, page)
    child = gang.work.index.children_of("u")[0]
    assert gang.work.memory["u"].refused_to(child) == (None if isinstance(page, ApiError) else "")
    assert gang.work.memory["u"].retry_at == 0.0


async def test_later_words_take_the_place_of_the_first() -> None:
    gang = Gang()
    await read(gang, says(QUOTA))
    await read(gang, says("no Pods today"))
    assert gang.work.memory["u"].refused == ("c", "no Pods today")
    await read(gang, {"items": []})
    assert gang.work.memory["u"].refused == ("c", "no Pods today")


def test_the_reconciler_asks_and_then_says_the_words_of_this_child_alone() -> None:
    gang, asked = Gang(), list[str]()
    gang.read_refusal = lambda job, child, pod: asked.append(child.name + pod)  # type: ignore[attr-defined]
    assert isinstance(gang.reconciler, JobReconciler)
    gang.pods("n0")
    gang.look(0.0)
    gang.look(16.0)
    assert asked == [CHILD]
    for uid, words in (("another", "the API server refuses"), ("c", QUOTA)):
        gang.work.memory["u"].refused = uid, words
        # The pod that is there starts, and waits for the other one.
        gang.look(17.0)
        status = gang.look(40.0)
        assert (QUOTA in str(status)) == (uid == "c")


async def test_the_events_of_a_pod_are_listed_by_its_name() -> None:
    gang = Gang()
    note = 'MountVolume.SetUp failed for volume "token" : secret "nobody" not found'
    client = Lists({"items": [{"reason": "FailedMount", "note": note}]})
    writer = Writer(client, gang.cache, lambda: True, "here")  # type: ignore[arg-type]
    gang.work.index.take(gang.cache.take_changes())
    (job,) = gang.work.index.jobs.values()
    child = gang.work.index.children_of(job.uid)[0]
    assert await writer.find_refusal(child, "p-0-abcde") == note
    assert client.asked[0][1] == {"fieldSelector": "type=Warning,regarding.kind=Pod,regarding.name=p-0-abcde"}


class Holds:
    """A writer to an API server that has the child and none of its pods."""

    def __init__(self, gang: Gang) -> None:
        self.gang, self.statuses = gang, list[Any]()

    async def find_child(self, job: JobRecord, name: str) -> Any:
        return self.gang.cache.get("jobs", job.namespace, name) and self.gang.child

    async def find_pods(self, job: JobRecord, known: object) -> list[PodState]:
        return []

    async def write_status(self, job: JobRecord, changes: Any, status: Any) -> bool:
        self.statuses.append(status)
        return True


@pytest.mark.parametrize("same", [True, False])
async def test_the_api_server_s_view_of_an_end_by_words_has_the_words(same: bool) -> None:
    """An attempt ends before its time where another pool was refused in the same words, also by the pods of the API server."""
    gang = Gang()
    gang.pods()
    held = {"name": "other", "until": "2026-01-01T13:00:00Z", "reason": "Unschedulable", "refusal": QUOTA}
    gang.look(0.0, excludedPools=[held])
    gang.work.memory["u"].refused = "c", QUOTA if same else "no Pods today"
    ended = gang.look(10.0, excludedPools=[held])
    assert (ended is not None and ended["state"] == "Queued") is same
    if same:
        holds = Holds(gang)
        steps = JobActions(gang.work, holds, None, None)  # type: ignore[arg-type]
        child = gang.work.index.children_of("u")[0]
        await steps.give_back(gang.job, child, ended)
        assert [status["state"] for status in holds.statuses] == ["Queued"]
