"""Answers GET /metrics and GET /ranks on the port of the pod."""

from __future__ import annotations

from typing import Callable

from gpujob_runner.report.serving.exposition import CONTENT_TYPE
from gpujob_runner.report.serving.listener import Answer, Listener, Request
from gpujob_runner.report.standstill import page as standstill


def metrics_server(address: str, port: int, page: Callable[[], str], ranks: Callable[[], str]) -> Listener:
    """Binds `port` at `address`; OSError if it is taken."""

    def answer(request: Request) -> Answer:
        if request.path == "/metrics":
            return Answer(200, page(), CONTENT_TYPE)
        if request.path == "/ranks":
            return Answer(200, ranks(), standstill.CONTENT_TYPE)
        return Answer(404, "metrics are at /metrics\n")

    return Listener(address, port, ("GET", "HEAD"), answer, "gpujob-metrics")
