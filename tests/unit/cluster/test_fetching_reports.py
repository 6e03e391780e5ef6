"""The operator reads a job's port: bounded in time and size, and never sent elsewhere by what is behind it."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gpujob.cluster.metrics.exposition import MOST_BYTES, UnreadableReport
from gpujob.cluster.telemetry import fetching
from gpujob.cluster.telemetry.fetching import Proxied, Refused, Silent, Unreached, fetch, pod_address
from gpujob_runner.report.serving.server import metrics_server
from tests.unit.cluster.test_it_starts_as_installed import needs_ipv6

HERE = ipaddress.ip_address("127.0.0.1")

asked: list[str] = []


async def report(request: web.Request) -> web.Response:
    asked.append(request.path)
    return web.Response(body=b"gpujob_up 1\n")


async def elsewhere(request: web.Request) -> web.Response:
    raise web.HTTPFound("/elsewhere")


async def endless(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    for _ in range(1000):
        await answer.write(b"x" * 65536)
    return answer


async def bomb(_: web.Request) -> web.Response:
    return web.Response(body=gzip.compress(b"x" * 10_000_000), headers={"Content-Encoding": "gzip"})


async def slow(_: web.Request) -> web.Response:
    await asyncio.sleep(30)
    return web.Response(body=b"")


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with fetching.reading_session() as made:
        yield made


async def served(handler: object, session: aiohttp.ClientSession) -> bytes:
    app = web.Application()
    app.router.add_get("/metrics", handler)  # type: ignore[arg-type]
    app.router.add_get("/elsewhere", report)
    async with TestServer(app) as server:
        return await fetch(session, HERE, server.port or 0)


async def test_a_report_is_read(session: aiohttp.ClientSession) -> None:
    assert await served(report, session) == b"gpujob_up 1\n"


async def test_a_redirect_is_not_followed(session: aiohttp.ClientSession) -> None:
    asked.clear()
    with pytest.raises(UnreadableReport, match="HTTP status 302"):
        await served(elsewhere, session)
    assert asked == []


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (404, UnreadableReport),
        (500, UnreadableReport),
        (401, UnreadableReport),
        (403, Proxied),
        (502, Proxied),
        (503, Proxied),
        (504, Proxied),
    ],
)
async def test_a_status_is_of_another_program_or_of_a_proxy(
    session: aiohttp.ClientSession, status: int, fault: type[Exception]
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status)

    with pytest.raises(fault, match=f"HTTP status {status}"):
        await served(answer, session)


async def test_no_more_is_read_than_the_bound(session: aiohttp.ClientSession) -> None:
    assert len(await served(endless, session)) == MOST_BYTES + 1


async def test_nothing_is_unpacked(session: aiohttp.ClientSession) -> None:
    assert len(await served(bomb, session)) < 20_000


async def test_a_slow_reply_is_given_up(session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "TIMEOUT", 0.2)
    async with fetching.reading_session() as hasty:
        with pytest.raises(Silent, match=r"no reply within 0\.2 seconds"):
            await served(slow, hasty)


async def test_a_port_where_nobody_listens(session: aiohttp.ClientSession) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(Refused):
            await fetch(session, HERE, held.getsockname()[1])


@pytest.mark.parametrize("address", ["", "evil.example", "127.0.0.1@evil", "10.0.0.0/8", "::1%eth0/x"])
def test_an_address_that_is_none_is_not_asked(address: str) -> None:
    with pytest.raises(Unreached, match="its address is none"):
        pod_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "169.254.169.254", "fe80::1", "224.0.0.1", "ff02::1",
        "255.255.255.255", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::", "2001:0:a9fe:a9fe::1", "fd00::1%eth0", "fd00:ec2::254", "168.63.129.16",
    ],
)  # fmt: skip
def test_an_address_that_no_pod_has_is_not_asked(address: str) -> None:
    with pytest.raises(Unreached, match="no pod has the address"):
        pod_address(address)


@pytest.mark.parametrize("address", ["10.244.1.7", "192.168.0.9", "100.64.3.4", "34.5.6.7", "fd00::7", "2600:1f16::7"])
def test_addresses_of_pods_are_asked(address: str) -> None:
    assert str(pod_address(address)) == address


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_a_reporter_at_its_pod_s_address_is_read_whatever_the_family(
    session: aiohttp.ClientSession, address: str
) -> None:
    """A pod of a cluster with IPv6 alone has POD_IP fd00::7 and no other address."""
    if address == "::1":
        needs_ipv6()
    server = metrics_server(address, 0, lambda: "gpujob_up 1\n", lambda: "{}")
    server.start()
    try:
        assert await fetch(session, ipaddress.ip_address(address), server.port) == b"gpujob_up 1\n"
    finally:
        server.close()
