"""The reporter's port, and those who ask there slowly, wrongly or without an end."""

from __future__ import annotations

import errno
import http.client
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from gpujob_runner.report import guard
from gpujob_runner.report.serving import listener
from gpujob_runner.report.serving.listener import Answer, Listener, Request


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """A port that answers GET, HEAD and POST with the length of the body."""
    monkeypatch.setattr(guard, "failures", {})
    monkeypatch.setattr(guard, "say", lambda text: None)

    def answer(request: Request) -> Answer:
        if request.path == "/fault":
            raise ValueError("a fault of the page")
        return Answer(200, f"{request.method} {request.path} {len(request.body)}")

    port = Listener("127.0.0.1", 0, ("GET", "HEAD", "POST"), answer, "test")
    port.start()
    yield port
    port.close()


def asked(port: Listener, raw: bytes) -> bytes:
    """All that is answered to some bytes; nothing where the connection is ended without an answer."""
    with socket.create_connection(("127.0.0.1", port.port), timeout=10.0) as connection:
        connection.sendall(raw)
        got = b""
        try:
            while piece := connection.recv(65536):
                got += piece
        except ConnectionError:
            pass
        return got


def status(answer: bytes) -> str:
    return answer.decode().split(" ")[1]


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
        (b"POST / HTTP/1.1\r\ncontent-LENGTH: 3\r\n\r\nabc", "200"),
        (b"POST / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n", "413"),
        (b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", "413"),
        (b"POST / HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n", "413"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "413"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "413"),
        (b"BREW / HTTP/1.1\r\n\r\n", "501"),
        (b"GET /\r\n\r\n", "400"),
        (b"\x16\x03\x01 tls?\r\n\r\n", "400"),
        (b"\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 8200, "431"),
    ],
    ids=lambda value: repr(value[:50]) if isinstance(value, bytes) else value,
)
def test_any_request_is_answered(port: Listener, raw: bytes, told: str) -> None:
    assert status(asked(port, raw)) == told
    assert guard.failures == {}


def test_an_answer_is_one_that_a_client_understands(port: Listener) -> None:
    for method, body, text in (
        ("GET", None, b"GET /x 0"),
        ("HEAD", None, b""),
        ("POST", b"y" * 65536, b"POST /x 65536"),
    ):
        client = http.client.HTTPConnection("127.0.0.1", port.port, timeout=10.0)
        client.request(method, "/x?y", body)
        answer = client.getresponse()
        assert (answer.status, answer.read(), answer.getheader("Server")) == (200, text, "gpujob")
        client.close()


def test_a_fault_of_a_page_ends_one_answer_alone(port: Listener) -> None:
    assert asked(port, b"GET /fault HTTP/1.1\r\n\r\n") == b""
    assert guard.failures == {"request": 1}
    assert status(asked(port, b"GET / HTTP/1.1\r\n\r\n")) == "200"


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nContent-Length: 999\r\n\r\n"])
def test_a_reader_who_sends_a_byte_now_and_then_costs_the_others_one_request(port: Listener, start: bytes) -> None:
    over = threading.Event()
    with socket.create_connection(("127.0.0.1", port.port)) as slow:
        slow.sendall(start)

        def dribble() -> None:
            while not over.wait(listener.SECONDS_FOR_A_REQUEST / 4):
                try:
                    slow.sendall(b"x")
                except OSError:
                    return

        dribbling = threading.Thread(target=dribble, daemon=True)
        dribbling.start()
        began = time.monotonic()
        answer = asked(port, b"GET / HTTP/1.1\r\n\r\n")
        waited = time.monotonic() - began
        over.set()
        dribbling.join(10.0)
    assert status(answer) == "200"
    assert waited < 4 * listener.SECONDS_FOR_A_REQUEST


def test_a_reader_who_never_takes_the_answer_is_left() -> None:
    port = Listener("127.0.0.1", 0, ("GET",), lambda request: Answer(200, "x" * (32 << 20)), "test")
    port.start()
    try:
        with socket.create_connection(("127.0.0.1", port.port)) as lazy:
            lazy.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert status(asked(port, b"GET / HTTP/1.1\r\n\r\n")) == "200"
    finally:
        port.close()


def test_without_file_descriptors_it_waits_instead_of_trying_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waited, tries = threading.Event(), list[float]()
    port = Listener("127.0.0.1", 0, ("GET",), lambda request: Answer(200), "test")
    over = port._over

    class Over(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            tries.append(timeout or 0.0)
            waited.set()
            return over.wait(10.0)

        def is_set(self) -> bool:
            return over.is_set()

    port._over = Over()
    monkeypatch.setattr(socket.socket, "accept", lambda self: (_ for _ in ()).throw(OSError(errno.EMFILE, "")))
    port.start()
    assert waited.wait(10.0)
    over.set()
    port._thread.join(10.0)
    port.close()
    assert not port._thread.is_alive()
    assert tries == [listener.SECONDS_AFTER_A_FAILURE]


def test_one_that_waits_for_requests_ends_at_once() -> None:
    port = Listener("127.0.0.1", 0, ("GET",), lambda request: Answer(200), "test")
    port.start()
    port.close()
    assert not port._thread.is_alive()


def has_ipv6() -> bool:
    """Whether this machine has the address ::1."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


HAS_IPV6 = has_ipv6()


@pytest.mark.parametrize(
    ("address", "families"),
    [
        ("", [socket.AF_INET, *([socket.AF_INET6] if HAS_IPV6 else [])]),
        ("127.0.0.1", [socket.AF_INET]),
        pytest.param(
            "::1", [socket.AF_INET6], marks=pytest.mark.skipif(not HAS_IPV6, reason="this machine has no address ::1")
        ),
    ],
)
def test_a_port_answers_at_its_address_and_without_one_in_both_families(
    address: str, families: list[socket.AddressFamily]
) -> None:
    listening = Listener(address, 0, ("GET",), lambda request: Answer(200, "ok"), "test")
    listening.start()
    try:
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            if family == socket.AF_INET6 and not HAS_IPV6:
                continue
            with socket.socket(family) as client:
                assert (client.connect_ex((host, listening.port)) == 0) is (family in families)
    finally:
        listening.close()


def test_where_the_pod_has_no_ipv6_a_port_without_an_address_is_of_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    listening = Listener("", 0, ("GET",), lambda request: Answer(200), "test")
    with socket.create_connection(("127.0.0.1", listening.port), timeout=5):
        pass
    listening.close()


@pytest.mark.parametrize("first", ["", "127.0.0.1"])
def test_a_port_that_another_rank_has_is_taken_in_whichever_family(first: str) -> None:
    held = Listener(first, 0, ("GET",), lambda request: Answer(200), "test")
    with pytest.raises(OSError, match="in use"):
        Listener("", held.port, ("GET",), lambda request: Answer(200), "test")
    held.close()
