"""Progress of a Hugging Face Trainer, by its own callback for Kubeflow.

The callback posts {"trainerStatus": {progressPercentage, estimatedRemainingSeconds, metrics}} every five seconds to
KUBEFLOW_TRAINER_SERVER_URL, with the token in the file KUBEFLOW_TRAINER_SERVER_TOKEN. Both are set here when
transformers is imported; the same process answers on its loopback address from the moment that a Trainer is built.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import tempfile
import time
from _operator import _compare_digest
from collections.abc import MutableMapping
from typing import Any, Callable

from gpujob_runner.report import guard, process
from gpujob_runner.report.serving.listener import Answer, Listener, Request
from gpujob_runner.report.settings import number_in

URL = "KUBEFLOW_TRAINER_SERVER_URL"
TOKEN = "KUBEFLOW_TRAINER_SERVER_TOKEN"
NO_SERVER_YET = "http://127.0.0.1:9/"
"""Stands in the environment until a Trainer is built, so that the callback counts as available."""
OURS = "GPUJOB_TRAINER_TOKEN"

_listening: Listener | None = None


def watch_trainer(module: Any, environment: MutableMapping[str, str] = os.environ) -> None:
    """Makes the callback report here; `module` is transformers.integrations.integration_utils, just imported."""
    callback = getattr(module, "KubeflowCallback", None)
    if callback is None:
        return
    already_set = URL in environment or TOKEN in environment
    if already_set and environment.get(TOKEN) != environment.get(OURS, ""):
        return
    environment[URL] = NO_SERVER_YET
    environment[TOKEN] = environment[OURS] = ""
    original = callback.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        try:
            listen(environment)
        except Exception as error:
            guard.failed("trainer", error)
        original(self, *args, **kwargs)

    __init__.__wrapped__ = original  # type: ignore[attr-defined]
    callback.__init__ = __init__


def listen(environment: MutableMapping[str, str] = os.environ) -> None:
    """Answers on a free port of the loopback address, once for a process; puts URL and token in the environment."""
    global _listening
    if _listening is not None:
        return
    secret = os.urandom(16).hex()
    path = _token_file(secret)
    server = Listener("127.0.0.1", 0, ("POST",), _answer(secret), "gpujob-trainer")
    environment[URL] = f"http://127.0.0.1:{server.port}/"
    environment[TOKEN] = environment[OURS] = path
    _past_proxies(environment)
    server.start()
    _listening = server


def _token_file(secret: str) -> str:
    """A file of this process that holds `secret`, gone with it; the callback is silent without one."""
    file, path = tempfile.mkstemp(prefix="gpujob-token-")
    with os.fdopen(file, "w") as out:
        out.write(secret)
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            with contextlib.suppress(OSError):
                os.unlink(path)

    atexit.register(remove)
    return path


def _past_proxies(environment: MutableMapping[str, str]) -> None:
    """Keeps the posts on the loopback address where the pod has a proxy for HTTP."""
    if not any(environment.get(name) for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")):
        return
    name = "no_proxy" if "no_proxy" in environment or "NO_PROXY" not in environment else "NO_PROXY"
    exceptions = environment.get(name, "")
    if exceptions != "*" and "127.0.0.1" not in exceptions.split(","):
        environment[name] = f"{exceptions},127.0.0.1" if exceptions else "127.0.0.1"


def _answer(secret: str) -> Callable[[Request], Answer]:
    right = f"Bearer {secret}".encode()

    def answer(request: Request) -> Answer:
        if not _compare_digest(request.headers.get("authorization", "").encode(), right):
            return Answer(401)
        try:
            posted = json.loads(request.body)
            take(process.rank or process.begin().rank, posted["trainerStatus"], time.time())
        except Exception as error:
            guard.failed("trainer", error)
        return Answer(200)

    return answer


def take(rank: Any, status: Any, now: float) -> None:
    """Adds a Trainer's report to the figures of `rank`; what is not a number is left out."""
    percent = number_in(status.get("progressPercentage"))
    if percent is not None:
        remaining = number_in(status.get("estimatedRemainingSeconds"))
        rank.progress = (min(100.0, max(0.0, percent)) / 100, remaining, now)
    for metric in status.get("metrics") or ():
        value = number_in(metric.get("value"), any_number=True)
        if value is not None:
            rank.name_metric(metric.get("name"), value)


def forget() -> None:
    """In a forked child: closes the parent's port."""
    global _listening
    inherited, _listening = _listening, None
    if inherited is not None:
        inherited.close_inherited()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
