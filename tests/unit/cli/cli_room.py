"""One way to run the command line in this process, and a catalog that does not change."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from gpujob.cli.main import main

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
MIXED = ROOT / "examples" / "clusters" / "mixed.yaml"
CATALOG = HERE / "catalog.yaml"
PAUSE = 0.01
"""Seconds after which a server sees that its test has ended; half a second by default, for which each of these tests would wait."""


@dataclass(frozen=True)
class Answer:
    """What one command gave."""

    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def gpujob(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `gpujob` with arguments; `stdin` is what it reads there."""

    def run(*arguments: str | Path, stdin: str = "") -> Answer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def plan(gpujob: Command) -> Command:
    """Plans a manifest (YAML, read from stdin) against the mixed cluster and the tests' catalog."""

    def run(manifest: str, *arguments: str | Path, cluster: Path = MIXED) -> Answer:
        return gpujob("plan", "-f", "-", "--cluster", cluster, "--catalog", CATALOG, *arguments, stdin=manifest)

    return run


def manifest(name: str = "train", **spec: Any) -> str:
    """A GPUJob as YAML."""
    job = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": name}, "spec": spec}
    return yaml.safe_dump(job, explicit_start=True)


def check_golden(name: str, text: str) -> None:
    """Compares a text with its golden file; UPDATE_GOLDEN=1 writes the file instead."""
    path = HERE / "golden" / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{name} changed; UPDATE_GOLDEN=1 writes what is right now"


def kubeconfig_of(address: str, **user: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": user or {"token": "secret-token"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }


@contextmanager
def served(answer: Callable[..., tuple[Any, ...]], folder: Path) -> Iterator[Path]:
    """A kubeconfig of a server whose answers (status, body as bytes or JSON, headers) are made from the URL, the token, and a POST's
    body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(*answer(self.path, self.headers.get("authorization", "")))

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers.get("content-length", "0")))
            self.reply(*answer(self.path, self.headers.get("authorization", ""), sent))

        def reply(self, status: int, body: Any, headers: Mapping[str, str] = MappingProxyType({})) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=listening.serve_forever, args=(PAUSE,), daemon=True).start()
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig_of(f"http://127.0.0.1:{listening.server_address[1]}")))
    yield path
    listening.shutdown()
    listening.server_close()
