"""Answers GET /metrics, one request at a time: a slow or hostile reader costs itself, not the training."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Callable

from gpujob_runner.report import guard
from gpujob_runner.report.exposition import CONTENT_TYPE

SECONDS_FOR_A_REQUEST = 1.0
SECONDS_AFTER_A_FAILURE = 1.0


class QuietServer(HTTPServer):
    """An HTTP server that waits a second at most for a request, looks up no names and prints nothing.

    Between requests its thread sleeps: `serve_forever` would wake twice a second, and take the interpreter from the training.
    """

    request_queue_size = 16

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self._over = threading.Event()
        super().__init__(address, handler)

    def answer_until_ended(self) -> None:
        """Answers one request after the other, until `end`."""
        while not self._over.is_set():
            self.handle_request()

    def end(self) -> None:
        """Wakes whoever waits for a request, to answer none any more."""
        self._over.set()
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def server_bind(self) -> None:
        # Connections of a rank that served before it ended may linger; they keep nobody from taking over.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def get_request(self) -> Any:
        try:
            request, address = super().get_request()
        except OSError:
            # Such as of a program that has no file descriptors left: its caller would ask again at once, for ever.
            self._over.wait(SECONDS_AFTER_A_FAILURE)
            raise
        request.settimeout(SECONDS_FOR_A_REQUEST)
        return request, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            guard.failed("request", error)


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that logs nothing and says nothing of the interpreter."""

    server_version = "gpujob"
    sys_version = ""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def answer(self, status: int, text: str, content_type: str = "text/plain; charset=utf-8") -> None:
        """Sends a whole answer and ends the connection."""
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Server:
    """The port of the pod, and the thread that answers on it."""

    def __init__(self, address: str, port: int, page: Callable[[], str]) -> None:
        """Binds `port` at `address` (all addresses where it is empty); OSError if it is taken."""

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                if self.path.split("?")[0] == "/metrics":
                    self.answer(200, page(), CONTENT_TYPE)
                else:
                    self.answer(404, "metrics are at /metrics\n")

            do_HEAD = do_GET  # noqa: N815

        family = socket.AF_INET6 if ":" in address else socket.AF_INET

        class OfFamily(QuietServer):
            address_family = family

        self._http = OfFamily((address, port), Handler)
        self.port = int(self._http.server_address[1])
        self._thread = threading.Thread(target=self._http.answer_until_ended, name="gpujob-metrics", daemon=True)

    def start(self) -> None:
        """Answers from now on."""
        self._thread.start()

    def close(self) -> None:
        """Answers no more and frees the port."""
        self._http.end()
        if self._thread.is_alive():
            self._thread.join(SECONDS_FOR_A_REQUEST)
        self._http.server_close()

    def close_inherited(self) -> None:
        """Closes the port in a forked child; the parent goes on to answer."""
        self._http.socket.close()
