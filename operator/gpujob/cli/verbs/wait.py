"""`kubectl gpujob wait`: until a job has ended or runs; failed, impossible and misconfigured jobs end the wait at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpujob.cli.input.live import LiveCluster
from gpujob.cli.input.spans import LONGEST, seconds_in
from gpujob.values.errors import BadInput
from gpujob.values.untrusted import condition, one_line, table
from gpujob.values.vocabulary import ConditionType, State

EVERY: Final = 2.0
"""Seconds between two reads."""

MOST_AWAY: Final = 30
"""Reads in a row without an answer after which the wait ends: a minute."""

CODES: Final = {State.FAILED: 1, State.IMPOSSIBLE: 4, State.MISCONFIGURED: 5}
"""Exit codes of states that end a wait for nothing."""

TIME_IS_UP: Final = 3

_EXPLAINED_BY: Final = {State.FAILED: ConditionType.FAILED, State.SUCCEEDED: ConditionType.COMPLETE,
                        State.RUNNING: ConditionType.RUNNING}  # fmt: skip


@dataclass
class Wait:
    """A wait for one job, which `look` gives as the API server holds it."""

    look: Callable[[], Mapping[str, Any]]
    running: bool
    """Whether it ends when the job runs, not only when it has succeeded."""
    seconds: float | None = None
    """None: no limit."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def run(self) -> tuple[int, str]:
        """The exit code and a sentence."""
        end = None if self.seconds is None else self.clock() + self.seconds
        away, sentence = 0, ""
        while True:
            try:
                job, away = self.look(), 0
                code, sentence = self._verdict(job)
                if code is not None:
                    return code, sentence
            except BadInput:
                away += 1
                # A job that is not there, or a right that is missing, is no outage: that shows at the first read.
                if not sentence or away > MOST_AWAY:
                    raise
            if end is not None and self.clock() >= end:
                return TIME_IS_UP, f"{sentence}; the time is up (--timeout)"
            self.sleep(EVERY if end is None else max(0.0, min(EVERY, end - self.clock())))

    def _verdict(self, job: Mapping[str, Any]) -> tuple[int | None, str]:
        status = table(job, "status")
        state = str(status.get("state") or "New")
        sentence = f"{state}  {table(job, 'metadata').get('name')}: {_message(status, state)}".removesuffix(": ")
        if state == State.SUCCEEDED or (self.running and state == State.RUNNING):
            return 0, sentence
        return next((code for word, code in CODES.items() if word == state), None), sentence


def _message(status: Mapping[str, Any], state: str) -> str:
    kind = next((kind for word, kind in _EXPLAINED_BY.items() if word == state), ConditionType.PLACED)
    return one_line(str(condition(status, kind).get("message") or ""))


def waiting_for(cluster: LiveCluster, name: str, namespace: str | None, what: str, timeout: str | None) -> Wait:
    """The wait that a command line asks for; BadInput for an invalid time."""
    seconds = None
    if timeout is not None:
        seconds = seconds_in(timeout)
        if seconds is None or seconds > LONGEST:
            raise BadInput(
                f"--timeout: {timeout!r} is no time of at most 3650 days; write seconds (600), or for example 90m or 12h"
            )
    return Wait(lambda: cluster.gpujob(name, namespace), what == "running", seconds)
