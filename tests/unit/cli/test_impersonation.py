"""A kubeconfig's user that acts as another account: the API server is asked as that account, as kubectl asks."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from cli_room import PAUSE, kubeconfig_of

from gpujob.cli.input.connection import connect
from gpujob.cli.input.impersonation import headers_of

ACTS = {
    "token": "t", "as": "mallory", "as-uid": "7", "as-groups": ["team", "more, with a comma"],
    "as-user-extra": {"Reason/Why": ["a", "b"]},
}  # fmt: skip
SENT = [
    ("Impersonate-User", "mallory"),
    ("Impersonate-Uid", "7"),
    ("Impersonate-Group", "team"),
    ("Impersonate-Group", "more, with a comma"),
    ("Impersonate-Extra-reason%2Fwhy", "a"),
    ("Impersonate-Extra-reason%2Fwhy", "b"),
]


@pytest.fixture
def asked() -> Iterator[tuple[str, list[list[tuple[str, str]]]]]:
    """The address of a server, and the headers of each request."""
    seen: list[list[tuple[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.items())
            self.send_response(200)
            self.end_headers()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", "0")))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=listening.serve_forever, args=(PAUSE,), daemon=True).start()
    yield f"http://127.0.0.1:{listening.server_address[1]}", seen
    listening.shutdown()
    listening.server_close()


def of_impersonation(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower().startswith("impersonate-")]


@pytest.mark.parametrize(("user", "sent"), [(ACTS, SENT), ({"token": "t"}, [])], ids=["as another", "as itself"])
def test_every_request_is_made_as_the_account(
    asked: tuple[str, list[list[tuple[str, str]]]], tmp_path: Path, user: dict[str, Any], sent: list[tuple[str, str]]
) -> None:
    address, seen = asked
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig_of(address, **user)))
    connection = connect(str(path), None)
    connection.get("/a")
    connection.get("/a", 100)
    connection.get("/a", body=b"{}")
    list(connection.stream("/a")[1])
    assert [of_impersonation(headers) for headers in seen] == [sent] * 4
    assert all(("authorization", "Bearer t") in [(n.lower(), v) for n, v in headers] for headers in seen)
    assert dict(seen[2])["content-type"] == "application/json"


def test_the_first_of_several_files_that_has_the_entry_counts(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text(yaml.safe_dump({"users": [{"name": "u", "user": {"as": "first"}}]}))
    second.write_text(yaml.safe_dump(kubeconfig_of("http://x", **{"as": "second"})))
    assert headers_of(f"{first}:{second}", None) == (("Impersonate-User", "first"),)
    assert headers_of(f"{tmp_path / 'none'}:{second}", "here") == (("Impersonate-User", "second"),)
    assert headers_of(str(second), "elsewhere") == ()
