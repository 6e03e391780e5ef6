"""What the writer makes of an answer that is no success, and that it is silent once another process may lead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gpujob.cluster.api_errors import AlreadyExists, Fenced, Invalid, NotFound, OutcomeUnknown
from gpujob.cluster.client import ApiClient
from gpujob.cluster.connection import Connection
from gpujob.cluster.kinds import JOBS, mirrored
from gpujob.cluster.mirror import Mirror
from gpujob.cluster.writer import ChildRefused, NameConflict, NotLeader, Writer
from gpujob.names import child_name
from gpujob.status.records import JobRecord

JOB = JobRecord("team", "job", "uid-1", 1, "", "7", False, {}, {})
NAME = child_name("job", "uid-1", 1)
BODY = {"kind": "Job", "metadata": {"name": NAME}}
PLACED = {"state": "Placed", "conditions": []}


def child(uid: str = "uid-1") -> dict[str, Any]:
    owner = {"kind": "GPUJob", "name": "job", "uid": uid, "controller": True}
    return {
        "metadata": {
            "name": NAME,
            "namespace": "team",
            "uid": "u",
            "resourceVersion": "9",
            "ownerReferences": [owner],
        }
    }


class Answers:
    """A client that answers as told: for each verb an object or an error."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.calls = answers, list[str]()

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        async def call(path: str, *_: Any, **__: Any) -> Any:
            self.calls.append(f"{verb} {path.rpartition('/')[2]}")
            answer = self.answers[verb]
            if isinstance(answer, Exception):
                raise answer
            return answer() if callable(answer) else answer

        return call


def writer(client: Any, leads: Callable[[], bool] = lambda: True) -> Writer:
    return Writer(client, Mirror(mirrored("gpujob-runner-x")), leads, "here")


async def test_a_child_that_is_there_already_is_taken_over() -> None:
    for error in (AlreadyExists(409, "AlreadyExists", ""), OutcomeUnknown(0, "Timeout", "")):
        client = Answers(create=error, get=child())
        assert await writer(client).ensure_child(JOBS, BODY, JOB) == (child(), False)
        assert client.calls == ["create jobs", f"get {NAME}"]


async def test_a_name_that_is_anothers_is_a_conflict() -> None:
    client = Answers(create=AlreadyExists(409, "AlreadyExists", ""), get=child("another"))
    with pytest.raises(NameConflict, match=rf"^a Job {NAME} exists and is not this job's; delete or rename it$"):
        await writer(client).ensure_child(JOBS, BODY, JOB)


async def test_a_create_that_got_lost_is_no_refusal() -> None:
    for error in (AlreadyExists(409, "AlreadyExists", ""), OutcomeUnknown(0, "Timeout", "")):
        with pytest.raises(type(error)):
            await writer(Answers(create=error, get=NotFound(404, "NotFound", ""))).ensure_child(JOBS, BODY, JOB)


async def test_what_the_api_server_will_not_have_is_refused() -> None:
    with pytest.raises(ChildRefused, match=r"^too long$"):
        await writer(Answers(create=Invalid(422, "Invalid", "too long"))).ensure_child(JOBS, BODY, JOB)


async def test_a_child_of_the_name_that_is_anothers_is_not_found() -> None:
    assert await writer(Answers(get=child())).find_child(JOB, NAME) == child()
    assert await writer(Answers(get=child("another"))).find_child(JOB, NAME) is None
    assert await writer(Answers(get=NotFound(404, "NotFound", ""))).find_child(JOB, NAME) is None


async def test_a_process_that_leads_no_more_writes_nothing() -> None:
    client = Answers()
    with pytest.raises(NotLeader):
        await writer(client, lambda: False).ensure_child(JOBS, BODY, JOB)
    with pytest.raises(NotLeader):
        await writer(client, lambda: False).write_status(JOB, PLACED, PLACED)
    assert client.calls == []


async def test_a_leader_that_is_frozen_in_a_status_write_tells_no_event_of_it_later() -> None:
    leads = [True]
    job = {"metadata": {"name": "job", "namespace": "team", "uid": "uid-1", "resourceVersion": "8"}}

    def frozen() -> dict[str, Any]:
        leads.clear()
        return job

    client = Answers(patch=frozen, create={})
    assert await writer(client, lambda: bool(leads)).write_status(JOB, PLACED, PLACED)
    assert client.calls == ["patch status"]
    leads.append(True)
    await writer(Answers(patch=job, create={}), lambda: bool(leads)).write_status(JOB, PLACED, PLACED)


async def test_a_write_that_waited_for_its_turn_past_the_lease_is_not_sent() -> None:
    sent: list[str] = []

    async def busy(request: web.Request) -> web.Response:
        sent.append(request.method)
        return web.json_response(
            {"kind": "Status", "reason": "TooManyRequests"}, status=429, headers={"Retry-After": "9"}
        )

    async def sleep(_: float) -> None:
        leads.clear()

    leads = [True]
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", busy)
    async with TestServer(app) as server:
        connection = Connection(str(server.make_url("")).rstrip("/"))
        async with ApiClient(connection, sleep=sleep, clock=iter(range(0, 10_000, 100)).__next__) as client:
            client.may_write = lambda: bool(leads)
            with pytest.raises(Fenced, match="may not write any more"):
                await client.create(JOBS.path("team"), {})
    assert sent == ["POST"]
