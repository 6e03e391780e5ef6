"""The port of a program that trains, for simulated pods: they have addresses where nothing is."""

from __future__ import annotations

import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from gpujob.status.records.read_objects import INDEX
from tests.e2e.api_server import PODS
from tests.e2e.cluster import eventually
from tests.e2e.team import Team

PROFILES = "/apis/gpujob.dev/v1alpha1/namespaces/{}/gpujobprofiles"


def own_address() -> str:
    """An address of this machine that a pod could have, for the operator asks no loopback; nothing is sent to learn it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


class Reporter:
    """A program that trains 4 steps and 1,000 tokens a second, and is half done; `whose` are its job's uid and the attempt. `ranks` is
    what it answers at /ranks, `answers` is cleared while it accepts connections and says nothing."""

    def __init__(self, port: int = 0, whose: tuple[str, str] | None = None) -> None:
        reporter = self
        self.began, self.body, self.whose = time.monotonic(), b"", whose
        self.ranks, self.answers = b"", Event()
        self.answers.set()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                reporter.answers.wait()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(reporter.ranks if self.path == "/ranks" else reporter.body or reporter.report())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer((own_address(), port), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def report(self) -> bytes:
        passed = time.monotonic() - self.began
        whose = self.whose and 'gpujob_attempt_info{{job_uid="{}",attempt="{}"}} 1\n'.format(*self.whose)
        return (
            f'gpujob_up 1\ngpujob_world_size 1\ngpujob_ranks_reporting 1\ngpujob_steps_total{{rank="0"}} {passed * 4:.0f}\n'
            f'gpujob_tokens_total{{rank="0"}} {passed * 1000:.0f}\ngpujob_progress_ratio{{rank="0"}} 0.5\n'
            f'gpujob_remaining_seconds{{rank="0"}} 600\ngpujob_checkpoint_step{{rank="0"}} 7\n{whose or ""}'
        ).encode()

    def close(self) -> None:
        """Stops serving."""
        self.answers.set()
        self.server.shutdown()
        self.server.server_close()


def reach(team: Team, uid: str) -> None:
    """Simulated pods have addresses where nothing is: that of the job's first becomes the reporter's."""

    def pods() -> list[dict[str, Any]]:
        first = [pod for pod in team.pods(uid) if pod["metadata"]["annotations"].get(INDEX) == "0"]
        return [pod for pod in first if pod["status"].get("podIP") and pod["status"]["phase"] == "Running"]

    (pod,) = eventually(pods, what="a pod that runs")
    address = {"podIP": own_address(), "podIPs": [{"ip": own_address()}]}
    team.api.patch(PODS.format(team.namespace), f"{pod['metadata']['name']}/status", {"status": address})
