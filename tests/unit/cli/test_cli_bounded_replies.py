"""What a pod serves through the API server is read up to a bound, and never unpacked."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import urllib3

from gpujob.cli.input.connection import Connection


@pytest.fixture(params=["endless", "packed"])
def body_of(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server whose one answer does not end, or is small and unpacks to much."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listening.accept()[0] as peer:
            peer.recv(65536)
            if request.param == "packed":
                body = gzip.compress(b"x" * 50_000_000)
                peer.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                )
                return
            peer.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
            try:
                while True:
                    peer.sendall(b"x" * 65536)
            except OSError:
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    listening.close()


def test_a_reply_is_bounded_while_it_is_read(body_of: str) -> None:
    configuration = SimpleNamespace(host=body_of, auth_settings=dict)
    status, body = Connection(configuration, urllib3.PoolManager()).get("/metrics", 100_000)
    assert (status, len(body) <= 100_000) == (200, True)
