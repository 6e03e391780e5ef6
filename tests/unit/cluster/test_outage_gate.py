"""The gate for infrastructure errors, which answers shut it, and that the client passes it each answer."""

from __future__ import annotations

import contextlib

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gpujob.cluster.client.api_errors import ApiError
from gpujob.cluster.client.client import ApiClient
from gpujob.cluster.client.kubeconfig import Connection
from gpujob.cluster.client.outage_gate import LONGEST_OUTAGE_DELAY, OutageGate, is_outage, outage_delay
from gpujob.cluster.client.rate_limit import Patience


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("status", "outage"),
    [(0, True), (500, True), (503, True), (504, True), (429, True), (401, True)]
    + [(status, False) for status in (200, 201, 403, 404, 409, 410, 422)],
)
def test_which_answers_are_about_the_api_server(status: int, outage: bool) -> None:
    assert is_outage(status) is outage


def test_before_any_failure_there_is_no_code_of_one() -> None:
    assert OutageGate(Clock()).last_status == 0


def test_waits_double_are_spread_and_end_at_15_seconds() -> None:
    assert [outage_delay(n, lambda: 1.0) for n in (1, 2, 3, 4, 5, 100_000)] == [1, 2, 4, 8, 15, 15]
    assert [outage_delay(n, lambda: 0.0) for n in (1, 5)] == [0.5, 7.5]
    assert LONGEST_OUTAGE_DELAY == 15.0


def test_one_finds_out_for_all_and_the_first_good_answer_opens() -> None:
    clock, opened = Clock(), list[bool]()
    gate = OutageGate(clock, lambda: 1.0)
    gate.on_open = opened.append
    assert gate.wait() == 0.0
    for _ in range(5):  # what was under way together
        gate.note(0)
    assert gate.wait() == 1.0
    clock.now += 1.0
    assert [gate.wait() for _ in range(3)] == [0.0, 2.0, 2.0]
    gate.note(404)
    assert (gate.wait(), opened) == (0.0, [True])
    gate.note(503)
    gate.note(200)
    gate.note(200)
    assert opened == [True, False], "one failure alone was no outage"


async def test_the_client_tells_each_answer_and_that_none_came() -> None:
    codes = iter((200, 500, 403))

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"kind": "Status"}, status=next(codes))

    told: list[int] = []
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        url = str(server.make_url("")).rstrip("/")
        async with ApiClient(Connection(url)) as client:
            client.on_answer = told.append
            for _ in range(3):
                with contextlib.suppress(ApiError):
                    await client.get("/api", patience=Patience(tries=1))
            await server.close()
            with pytest.raises(ApiError):
                await client.get("/api")
    assert told == [200, 500, 403, 0]
