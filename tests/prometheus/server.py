"""A Prometheus that scrapes pages of a test, as the chart's monitors say."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import yaml

from tests.e2e.cluster import eventually
from tests.ports import free_port
from tests.prometheus.programs import program
from tests.prometheus.promtool import RULES

Json = dict[str, Any]


class Page:
    """Serves the text that `text` holds, on a port of the loopback, or of every address (an empty one)."""

    def __init__(self, text: str = "", address: str = "127.0.0.1") -> None:
        page = self
        self.text = text

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = page.body().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer((address, 0), Handler)
        Thread(target=self._server.serve_forever, daemon=True).start()

    def body(self) -> str:
        """What is served now."""
        return self.text

    @property
    def port(self) -> int:
        """Where."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()


def scrape(name: str, port: int, labels: Mapping[str, str], endpoint: Json | None = None, every: str = "1s") -> Json:
    """A scrape of one page; with an endpoint of a ServiceMonitor or PodMonitor, as Prometheus Operator would translate it."""
    endpoint = endpoint or {}
    return {
        "job_name": name,
        "scrape_interval": every,
        "scrape_timeout": every,
        "honor_labels": endpoint.get("honorLabels", False),
        "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": dict(labels)}],
        "relabel_configs": [_relabelling(each) for each in endpoint.get("relabelings", [])],
        "metric_relabel_configs": [_relabelling(each) for each in endpoint.get("metricRelabelings", [])],
    }


def _relabelling(rule: Mapping[str, Any]) -> Json:
    """Its fields as Prometheus calls them."""
    return {re.sub(r"[A-Z]", lambda letter: "_" + letter[0].lower(), key): value for key, value in rule.items()}


class Prometheus:
    """One process with its folder; ends with `stop`."""

    def __init__(self, folder: Path, scrapes: Sequence[Json]) -> None:
        config = {
            "global": {"evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": list(scrapes),
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        self.port = free_port()
        self.log = folder / "prometheus.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    program("prometheus"),
                    f"--config.file={folder / 'prometheus.yaml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    "--web.console.templates=",
                    "--web.console.libraries=",
                ],
                stdout=log,
                stderr=log,
            )
        try:
            eventually(self._ready, 30, what=f"Prometheus that is ready; its log: {self.log}")
        except BaseException:
            self.stop()
            raise

    def query(self, expr: str) -> list[Json]:
        """The samples of an expression now; raises ValueError with what Prometheus says of it."""
        return self._ask("query", query=expr)

    def over_time(self, expr: str, start: float, end: float, step: float = 1) -> list[Json]:
        """The series of an expression between two Unix times."""
        return self._ask("query_range", query=expr, start=str(start), end=str(end), step=str(step))

    def targets(self) -> dict[str, str]:
        """What the last scrape of each target found: nothing, or an error."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/targets", timeout=10) as reply:
            found = json.load(reply)["data"]["activeTargets"]
        return {each["scrapePool"]: each["lastError"] for each in found}

    def stop(self) -> None:
        """Ends it."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    def _ready(self) -> bool:
        if self._process.poll() is not None:
            raise AssertionError(f"Prometheus ended; its log:\n{self.log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=2) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def _ask(self, what: str, **parameters: str) -> list[Json]:
        address = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=20) as reply:
                result: list[Json] = json.load(reply)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise ValueError(f"{parameters['query']}: {json.load(error)['error']}") from None
        return result
