"""A port that answers short HTTP requests, one at a time, each within a time and a size: a slow or hostile peer costs itself.

On sockets alone: it has two callers and two kinds of request, and http.server would import a dozen modules into the program.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Callable, NamedTuple

from gpujob_runner.report import guard

SECONDS_FOR_A_REQUEST = 1.0
"""For a whole request, however many pieces it comes in, and once more for the answer."""
SECONDS_AFTER_A_FAILURE = 1.0
LARGEST_HEAD = 8 * 1024
LARGEST_BODY = 64 * 1024
WAITING_REQUESTS = 16
PLAIN = "text/plain; charset=utf-8"

REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
}


class Request(NamedTuple):
    """What was asked; names of headers are in lower case, the path has no query."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """What is answered; the connection ends with it."""

    status: int
    text: str = ""
    content_type: str = PLAIN


class Refused(Exception):
    """A request that is answered with a status alone."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Listener:
    """A bound port, and the thread that answers on it once it is started.

    Between requests its thread sleeps in the kernel, so that it never takes the interpreter from the training.
    """

    def __init__(
        self, address: str, port: int, methods: tuple[str, ...], answer: Callable[[Request], Answer], name: str
    ) -> None:
        """Binds `port` at `address` (any free port where it is 0, all addresses of IPv4 and IPv6 where `address` is empty); OSError
        if it is taken.
        """
        self._methods = methods
        self._answer = answer
        self._over = threading.Event()
        self._thread = threading.Thread(target=self.answer_until_ended, name=name, daemon=True)
        self._socket = _bound(address, port)
        self.port = int(self._socket.getsockname()[1])

    def start(self) -> None:
        """Answers from now on."""
        self._thread.start()

    def close(self) -> None:
        """Answers no more and frees the port."""
        self.end()
        if self._thread.is_alive():
            self._thread.join(SECONDS_FOR_A_REQUEST)
        self._socket.close()

    def close_inherited(self) -> None:
        """Closes the port in a forked child; the parent goes on to answer."""
        self._socket.close()

    def answer_until_ended(self) -> None:
        """Answers one request after the other, until `end`."""
        while not self._over.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                # Such as of a program that has no file descriptors left: asked again at once, it would fail again and again.
                self._over.wait(SECONDS_AFTER_A_FAILURE)
                continue
            with connection:
                try:
                    self._serve(connection)
                except OSError:
                    pass  # The client is gone, or too slow.
                except Exception as error:
                    guard.failed("request", error)

    def end(self) -> None:
        """Wakes the thread that waits for a request; it answers no further one."""
        self._over.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _serve(self, connection: socket.socket) -> None:
        method = ""
        try:
            request = self._read(connection, time.monotonic() + SECONDS_FOR_A_REQUEST)
            method = request.method
            answer = self._answer(request)
        except Refused as refused:
            answer = Answer(refused.status)
        connection.settimeout(SECONDS_FOR_A_REQUEST)
        connection.sendall(_bytes_of(answer, with_body=method != "HEAD"))
        connection.shutdown(socket.SHUT_WR)

    def _read(self, connection: socket.socket, deadline: float) -> Request:
        got = b""
        while b"\r\n\r\n" not in got:
            if len(got) > LARGEST_HEAD:
                raise Refused(431)
            got += _piece(connection, deadline)
        head, _, body = got.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split()
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise Refused(400)
        if words[0] not in self._methods:
            raise Refused(501)
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        size = _size_of_body(words[0], headers)
        while len(body) < size:
            body += _piece(connection, deadline)
        return Request(words[0], words[1].partition("?")[0], headers, body[:size])


def _piece(connection: socket.socket, deadline: float) -> bytes:
    """What came next; OSError when nothing comes until `deadline`."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    connection.settimeout(left)
    piece = connection.recv(LARGEST_HEAD)
    if not piece:
        raise ConnectionError
    return piece


def _size_of_body(method: str, headers: dict[str, str]) -> int:
    if method in ("GET", "HEAD"):
        return 0
    announced = headers.get("content-length", "")
    if not announced.isdecimal() or len(announced) > 9 or int(announced) > LARGEST_BODY:
        raise Refused(413)
    return int(announced)


def _bytes_of(answer: Answer, *, with_body: bool) -> bytes:
    body = answer.text.encode("utf-8", "replace")
    head = (
        f"HTTP/1.0 {answer.status} {REASONS[answer.status]}\r\n"
        "Server: gpujob\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (body if with_body else b"")


def _bound(address: str, port: int) -> socket.socket:
    """A socket that listens at an address; without one at all of them, IPv6 too where the pod has it."""
    everywhere = not address and socket.has_dualstack_ipv6()
    listening = socket.socket(socket.AF_INET6 if everywhere or ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if everywhere:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Connections of a rank that served before it ended may linger; they stop no other from taking over.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(WAITING_REQUESTS)
    except BaseException:
        listening.close()
        raise
    return listening
