"""Metrics behind a token: what the API server says of it decides, for a minute; a flood of tokens asks it ten times a second."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from yarl import URL

from gpujob.cluster.app.http_server import Certificate, Endpoints
from gpujob.cluster.app.metrics_access import KEPT_FOR, MOST_A_SECOND, MOST_KEPT, MetricsAccess
from gpujob.cluster.client.api_errors import Unreachable
from gpujob.cluster.client.client import ApiClient
from gpujob.cluster.client.rate_limit import Patience
from gpujob.values.errors import BadInput
from tests.ports import free_port

READER = {"username": "system:serviceaccount:monitoring:prometheus", "uid": "7", "groups": ["system:authenticated"],
          "extra": {"pod": ["p"]}}  # fmt: skip


class Server:
    """The reviews of an API server that knows some tokens."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.allowed = True
        self.down = False

    async def create(self, path: str, body: dict[str, Any], *, patience: Patience) -> dict[str, Any]:
        # A replica that does not lead answers scrapes too: its questions are no writes of the leader's queue.
        assert not patience.queued
        if self.down:
            raise Unreachable(0, "Down", "nobody answers")
        self.asked.append(body)
        if path == "/apis/authentication.k8s.io/v1/tokenreviews":
            known = body["spec"]["token"].startswith("good")
            return {"status": {"authenticated": True, "user": READER} if known else {"error": "no such token"}}
        assert path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return {"status": {"allowed": self.allowed}}


class Room:
    """Access to one server, in a time of its own."""

    def __init__(self) -> None:
        self.server, self.now = Server(), 1000.0
        self.access = MetricsAccess(cast("ApiClient", self.server), lambda: self.now)

    async def ask(self, header: str | None) -> tuple[int, str]:
        request = cast(
            "web.Request", type("Asked", (), {"headers": {} if header is None else {"Authorization": header}})
        )
        refused = await self.access.refusal(request)
        return (200, "") if refused is None else (refused.status, (refused.text or "").strip())


NO_TOKEN = (401, "the metrics need a bearer token of an account that may get the path /metrics")


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic good", "good", f"Bearer {'x' * 16385}"])
async def test_without_a_token_the_api_server_is_not_asked(header: str | None) -> None:
    room = Room()
    assert await room.ask(header) == NO_TOKEN
    assert room.server.asked == []


async def test_who_may_get_the_path_reads() -> None:
    room = Room()
    assert await room.ask("bearer good") == (200, "")
    review, access = room.server.asked
    assert review["spec"] == {"token": "good"}
    assert access["spec"] == {
        "user": READER["username"], "uid": "7", "groups": ["system:authenticated"], "extra": {"pod": ["p"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }  # fmt: skip


async def test_a_token_that_nobody_knows_is_refused() -> None:
    assert await Room().ask("Bearer bad") == (401, "the API server does not know this token; it may have expired")


async def test_an_account_without_the_right_is_told_what_to_bind() -> None:
    room = Room()
    room.server.allowed = False
    sentence = f"{READER['username']} may not get /metrics: bind ClusterRole gpujob-metrics-reader to it"
    assert await room.ask("Bearer good") == (403, sentence)


async def test_an_answer_holds_for_a_minute_and_a_right_that_went_ends_then() -> None:
    room = Room()
    assert (await room.ask("Bearer good"))[0] == 200
    room.server.allowed = False
    room.now += KEPT_FOR - 1
    assert (await room.ask("Bearer good"))[0] == 200
    room.now += 1
    assert (await room.ask("Bearer good"))[0] == 403


async def test_without_an_answer_of_the_api_server_nobody_new_reads_and_nothing_is_kept() -> None:
    room = Room()
    room.server.down = True
    status, sentence = await room.ask("Bearer good")
    assert (status, sentence.startswith("the API server does not say whether this token may read the metrics: ")) == (
        503,
        True,
    )
    room.server.down = False
    assert (await room.ask("Bearer good"))[0] == 200


async def test_a_flood_of_tokens_is_bounded() -> None:
    room = Room()
    assert (await room.ask("Bearer good"))[0] == 200
    answers = [(await room.ask(f"Bearer bad{number}"))[0] for number in range(1000)]
    assert answers.count(401) == MOST_A_SECOND - 1
    assert set(answers) == {401, 429}
    assert len(room.server.asked) == 1 + MOST_A_SECOND
    assert (await room.ask("Bearer good"))[0] == 200
    for number in range(2 * MOST_KEPT):
        room.now += 1000.0
        await room.ask(f"Bearer good{number}")
    assert len(room.access._answers) == MOST_KEPT


# --- TLS


def certify(folder: Path, name: str) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
         "-days", "2", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "tls.key", "-out", "tls.crt"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip


async def read(port: int, authority: Path) -> int:
    context = ssl.create_default_context(cafile=str(authority))
    async with (
        aiohttp.ClientSession() as session,
        session.get(URL(f"https://127.0.0.1:{port}/metrics"), ssl=context) as answer,
    ):
        return answer.status


async def test_metrics_are_served_with_the_certificate_and_with_the_renewed_one(tmp_path: Path) -> None:
    certify(tmp_path, "first")
    first = tmp_path / "first.crt"
    first.write_bytes((tmp_path / "tls.crt").read_bytes())
    certificate, port = Certificate(tmp_path), free_port()
    endpoints = Endpoints(list, list, CollectorRegistry, certificate=certificate)
    await endpoints.start("127.0.0.1", 0, port)
    try:
        assert await read(port, first) == 200
        (tmp_path / "tls.crt").write_text("half a certif")
        certificate.reload()
        assert await read(port, first) == 200
        certify(tmp_path, "second")
        certificate.reload()
        assert await read(port, tmp_path / "tls.crt") == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await read(port, first)
        with pytest.raises(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session:
                await session.get(URL(f"http://127.0.0.1:{port}/metrics"))
    finally:
        await asyncio.wait_for(endpoints.close(), 10)


def test_a_folder_without_a_certificate_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^GPUJOB_METRICS_TLS: tls\.crt and tls\.key of .* cannot be read: "):
        Certificate(tmp_path)
