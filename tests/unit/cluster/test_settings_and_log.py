"""Durations up to a year, and one form for each line of the log."""

from __future__ import annotations

import json
import subprocess
import sys

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from yarl import URL

from gpujob.cluster.app.http_server import Endpoints
from gpujob.cluster.app.settings import YEAR, read_settings
from gpujob.values.errors import BadInput
from tests.ports import free_port
from tests.unit.cluster.test_it_starts_as_installed import needs_ipv6


@pytest.mark.parametrize("name", ["HOLD", "PROVISION", "UNBOUND"])
def test_a_duration_is_no_port(name: str) -> None:
    for seconds in (0, 65535, 65536, 259200, YEAR):
        settings = read_settings({f"GPUJOB_{name}_SECONDS": str(seconds)})
        assert getattr(settings, f"{name.lower()}_seconds") == seconds
    for text in (str(YEAR + 1), "-1", "1e6", "9" * 5000):
        with pytest.raises(BadInput, match=rf"^GPUJOB_{name}_SECONDS: .* is not a whole number from 0 to 31536000$"):
            read_settings({f"GPUJOB_{name}_SECONDS": text})


def test_a_port_is_still_one() -> None:
    with pytest.raises(BadInput, match=r"^GPUJOB_HEALTH_PORT: '65536' is not a whole number from 0 to 65535$"):
        read_settings({"GPUJOB_HEALTH_PORT": "65536"})


@pytest.mark.parametrize("text", ["Not/Valid ns", "a,b", "-a", "a" * 64])
def test_the_own_namespace_is_one(text: str) -> None:
    with pytest.raises(BadInput, match=r"^GPUJOB_NAMESPACE: .* is not the name of a namespace; write one such as "):
        read_settings({"GPUJOB_NAMESPACE": text})


@pytest.mark.parametrize(
    ("text", "address"), [("", ""), ("127.0.0.1", "127.0.0.1"), ("::", "::"), ("FD00:0::7", "fd00::7")]
)
def test_addresses_of_both_families_can_be_listened_at(text: str, address: str) -> None:
    assert read_settings({"GPUJOB_LISTEN": text}).listen == address


@pytest.mark.parametrize("text", ["localhost", "[::1]", "0.0.0.0:80", "1.2.3", "::/0", "*"])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(BadInput) as told:
        read_settings({"GPUJOB_LISTEN": text})
    assert str(told.value) == f"GPUJOB_LISTEN: {text!r} is no IP address; leave it empty for all addresses"


@pytest.mark.parametrize(
    ("listen", "answering"), [("", {"127.0.0.1", "::1"}), ("::1", {"::1"}), ("127.0.0.1", {"127.0.0.1"})]
)
async def test_probes_are_answered_at_the_addresses_of_both_families(listen: str, answering: set[str]) -> None:
    needs_ipv6()
    endpoints, port = Endpoints(list, list, CollectorRegistry), free_port()
    await endpoints.start(listen, port, 0)
    try:
        assert {host for host in ("127.0.0.1", "::1") if await answers(host, port)} == answering
    finally:
        await endpoints.close()


async def answers(host: str, port: int) -> bool:
    url = URL.build(scheme="http", host=host, port=port, path="/readyz")
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status == 200
    except aiohttp.ClientConnectorError:
        return False


SAYS = """
import logging, structlog
from gpujob.cluster.__main__ import _log_as
from gpujob.cluster.app.settings import Settings
_log_as(Settings())
structlog.get_logger("ours").warning("a", kind="nodes")
logging.getLogger("aiohttp.server").error("b %s", 7)
logging.getLogger("kopf.activities").warning("c")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("asyncio").exception("d")
    structlog.get_logger("ours").exception("e")
"""


def test_the_loggers_of_the_standard_library_write_the_same_json() -> None:
    done = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("a", "warning"), ("b 7", "error"), ("c", "warning"), ("d", "error"), ("e", "error"),
    ]  # fmt: skip
    assert all(line["timestamp"].endswith("Z") for line in lines)
    assert [line.get("logger") for line in lines[1:4]] == ["aiohttp.server", "kopf.activities", "asyncio"]
    assert all("ZeroDivisionError" in line["exception"] for line in lines[3:])
