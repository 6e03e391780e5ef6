"""What the writer makes of an answer that is no success, and that it is silent once another process may lead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import JOBS, PoolRecord, mirrored
from gpujob.cluster.client.api_errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Fenced,
    Forbidden,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Unreachable,
)
from gpujob.cluster.client.client import APPLY_PATCH, ApiClient
from gpujob.cluster.client.kubeconfig import Connection
from gpujob.cluster.client.rate_limit import Patience
from gpujob.cluster.writer.child_errors import ChildNotCreated, ChildRefused
from gpujob.cluster.writer.writes import NameConflict, NotLeader, Writer
from gpujob.status.records.objects import JobRecord
from gpujob.values.names import child_name

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
    """A client that answers as given: for each verb an object or an error."""

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
    return Writer(client, ObjectCache(mirrored("gpujob-runner-x")), leads, "here")


async def test_a_child_that_is_there_already_is_taken_over() -> None:
    for error in (AlreadyExists(409, "AlreadyExists", ""), OutcomeUnknown(0, "Timeout", "")):
        client = Answers(create=error, get=child())
        assert await writer(client).ensure_child(JOBS, BODY, JOB) == (child(), False)
        assert client.calls == ["create jobs", f"get {NAME}"]


async def test_a_name_that_is_anothers_is_a_conflict() -> None:
    client = Answers(create=AlreadyExists(409, "AlreadyExists", ""), get=child("another"))
    with pytest.raises(NameConflict, match=rf"^a Job {NAME} exists and is not this job's; delete or rename it$"):
        await writer(client).ensure_child(JOBS, BODY, JOB)


async def test_a_create_of_a_name_that_is_free_again_is_no_refusal() -> None:
    client = Answers(create=AlreadyExists(409, "AlreadyExists", ""), get=NotFound(404, "NotFound", ""))
    with pytest.raises(AlreadyExists):
        await writer(client).ensure_child(JOBS, BODY, JOB)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OutcomeUnknown(0, "TimeoutError", "create /jobs: timeout"), "^no answer within 40 s$"),
        (OutcomeUnknown(0, "ServerDisconnectedError", "create /jobs: disconnected"), "^create /jobs: disconnected$"),
        (OutcomeUnknown(0, "NotJson", "create /jobs: the answer is no JSON object"), "^create /jobs: the answer is no"),
    ],
)
async def test_a_create_without_an_answer_concerns_the_child_if_the_api_server_answers_other_calls(
    error: OutcomeUnknown, words: str
) -> None:
    answered = NotFound(404, "NotFound", "")
    with pytest.raises(ChildNotCreated, match=words) as raised:
        await writer(Answers(create=error, get=answered)).ensure_child(JOBS, BODY, JOB)
    assert raised.value.unanswered


@pytest.mark.parametrize(
    "answer", [Unreachable(0, "Timeout", ""), ApiError(503, "ServiceUnavailable", ""), Forbidden(403, "Forbidden", "")]
)
async def test_the_outcome_of_a_create_stays_unknown_if_its_object_cannot_be_read(answer: ApiError) -> None:
    lost = OutcomeUnknown(0, "TimeoutError", "create /jobs: timeout")
    with pytest.raises(OutcomeUnknown, match="create /jobs: timeout"):
        await writer(Answers(create=lost, get=answer)).ensure_child(JOBS, BODY, JOB)
    with pytest.raises(type(answer), match=str(answer)):
        await writer(Answers(create=AlreadyExists(409, "AlreadyExists", ""), get=answer)).ensure_child(JOBS, BODY, JOB)


@pytest.mark.parametrize(
    ("words", "unanswered"),
    [
        ("etcdserver: request timed out", True),
        ("Timeout: request did not complete within requested timeout", True),
        ('Internal error occurred: failed calling webhook "a.example": context deadline exceeded', False),
    ],
)
async def test_an_error_of_the_api_server_may_come_before_the_child(words: str, unanswered: bool) -> None:
    error = OutcomeUnknown(500, "InternalError", words)
    with pytest.raises(ChildNotCreated) as raised:
        await writer(Answers(create=error, get=NotFound(404, "NotFound", ""))).ensure_child(JOBS, BODY, JOB)
    assert raised.value.unanswered is unanswered


async def test_a_runner_without_an_answer_is_looked_for_in_a_list() -> None:
    unsure, made = OutcomeUnknown(0, "TimeoutError", ""), {"metadata": {"name": "gpujob-runner-x", "namespace": "team"}}

    async def pages(*items: Any) -> Any:
        yield {"items": list(items)}

    class Lists(Answers):
        def list_paged(self, path: str, params: dict[str, str]) -> Any:
            self.calls.append(f"list {path.rpartition('/')[2]} {params['fieldSelector']}")
            return pages(*self.answers["listed"])

    client = Lists(patch=unsure, listed=[made])
    assert await writer(client).apply_runner(made) == made
    assert client.calls == ["patch gpujob-runner-x", "list configmaps metadata.name=gpujob-runner-x"]
    with pytest.raises(ChildNotCreated, match=r"^no answer within 40 s$"):
        await writer(Lists(patch=unsure, listed=[])).apply_runner(made)


async def test_a_creation_waits_longer_than_a_webhook_may_take() -> None:
    patiences = list[float]()

    class Client:
        async def create(self, *_: Any, patience: Patience) -> Any:
            patiences.append(patience.timeout)
            return child()

        async def patch(self, *_: Any, params: Any, patience: Patience) -> Any:
            return await self.create(patience=patience)

    await writer(Client()).ensure_child(JOBS, BODY, JOB)
    await writer(Client()).apply_runner({"metadata": {"name": "gpujob-runner-x", "namespace": "team"}})
    assert min(patiences) > 30.0 + 5.0


async def test_what_the_api_server_will_not_have_is_refused() -> None:
    with pytest.raises(ChildRefused, match=r"^too long$"):
        await writer(Answers(create=Invalid(422, "Invalid", "too long"))).ensure_child(JOBS, BODY, JOB)


async def test_a_child_of_the_name_that_is_anothers_is_not_found() -> None:
    assert await writer(Answers(get=child())).find_child(JOB, NAME) == child()
    assert await writer(Answers(get=child("another"))).find_child(JOB, NAME) is None
    gone = NotFound(404, "NotFound", f'jobs.batch "{NAME}" not found', {"name": NAME, "group": "batch", "kind": "jobs"})
    assert await writer(Answers(get=gone)).find_child(JOB, NAME) is None


async def test_a_404_that_names_no_object_is_no_loss() -> None:
    unserved = NotFound(404, "NotFound", "the server could not find the requested resource")
    with pytest.raises(NotFound):
        await writer(Answers(get=unserved)).find_child(JOB, NAME)
    with pytest.raises(NotFound):
        await writer(Answers(get=unserved)).read_spending("system")


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


@pytest.mark.parametrize(
    ("name", "status", "calls"),
    [
        ("team", {"phase": "Terminating"}, ["patch status"]),
        ("team", {"phase": "Active"}, ["patch status", "create events"]),
        ("other", {"phase": "Terminating"}, ["patch status", "create events"]),
    ],
)
async def test_no_event_is_created_in_a_namespace_that_is_being_deleted(
    name: str, status: dict[str, str], calls: list[str]
) -> None:
    cache = ObjectCache(mirrored("gpujob-runner-x"))
    space = {"metadata": {"name": name, "uid": "n", "resourceVersion": "1"}, "status": status}
    cache.replace("namespaces", [space], "1")
    job = {"metadata": {"name": "job", "namespace": "team", "uid": "uid-1", "resourceVersion": "8"}}
    client: Any = Answers(patch=job, create={})
    misconfigured = {"state": "Misconfigured", "conditions": [], "display": {}}
    await Writer(client, cache, lambda: True, "here").write_status(JOB, misconfigured, misconfigured)
    assert client.calls == calls


async def test_a_write_that_waited_for_its_turn_past_the_lease_is_not_sent() -> None:
    sent: list[str] = []

    async def busy(request: web.Request) -> web.Response:
        sent.append(request.method)
        return web.json_response(
            {"kind": "Status", "reason": "TooManyRequests"}, status=429, headers={"Retry-After": "2"}
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


WRITES: dict[str, Callable[[ApiClient], Awaitable[object]]] = {
    "create": lambda client: client.create(JOBS.path("team"), {"kind": "Job"}),
    "patch": lambda client: client.patch(JOBS.path("team", "x", "status"), {"status": {}}),
    "apply": lambda client: client.patch(JOBS.path("team", "x"), {"kind": "Job"}, APPLY_PATCH),
    "delete": lambda client: client.delete(JOBS.path("team", "x"), uid="u"),
}


@pytest.mark.parametrize("connection", ["new", "kept"])
@pytest.mark.parametrize("verb", WRITES)
async def test_not_a_byte_is_sent_where_the_lease_ends_between_the_decision_and_the_bytes(
    verb: str, connection: str
) -> None:
    """What a process does that is frozen after it was allowed to write, and wakes up when another one leads."""
    received: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(65536):
            received.append(part)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, ApiClient(Connection(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")) as client:
        if connection == "kept":
            await client.create(JOBS.path("team"), {})
            received.clear()
        asked = iter([True])
        client.may_write = lambda: next(asked, False)
        before = client.requests.copy()
        with pytest.raises(
            Fenced, match=r"^0 Fenced: \w+ /apis/batch/v1/namespaces/team/jobs.*: this process may not write"
        ):
            await WRITES[verb](client)
        assert client.requests == before, "what was not sent is no request"
        # The fence is that of the moment: with the Lease back, writes go out again.
        client.may_write = lambda: True
        await WRITES[verb](client)
        assert len(received) == 1, "the refused one was sent too"


async def test_the_lease_itself_is_written_by_whoever_is_not_leader_yet() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server, ApiClient(Connection(str(server.make_url("")).rstrip("/"))) as client:
        client.may_write = lambda: False
        await client.patch(JOBS.path("team", "x"), {}, patience=Patience(queued=False))


async def test_every_status_that_is_written_names_the_version_it_was_made_for() -> None:
    bodies: list[Any] = []

    class Client(Answers):
        async def patch(self, path: str, body: Any, *_: Any, **__: Any) -> Any:
            bodies.append((path, body["metadata"]))
            raise Conflict(409, "Conflict", "changed")

    pool = PoolRecord({"metadata": {"name": "p", "uid": "pool-1", "resourceVersion": "8"}})
    assert not await writer(Client()).write_status(JOB, PLACED, PLACED)
    with pytest.raises(Conflict):
        await writer(Client()).write_pool(pool, {"total": 1})
    assert bodies == [
        ("/apis/gpujob.dev/v1alpha1/namespaces/team/gpujobs/job/status", {"uid": "uid-1", "resourceVersion": "7"}),
        ("/apis/gpujob.dev/v1alpha1/gpupools/p/status", {"uid": "pool-1", "resourceVersion": "8"}),
    ]


async def test_an_idle_connection_is_kept_until_shortly_before_the_api_server_closes_it() -> None:
    """A handshake costs the API server more than a write; its own limit for an idle connection is 90 seconds."""
    async with ApiClient(Connection("http://127.0.0.1:1")) as client:
        assert client._pooled is not None
        assert client._pooled.connector is not None
        assert client._pooled.connector._keepalive_timeout == 75
