"""Durations that can end a job: its running time, the time since its first failure and since its end; and the pause after a
failure.

They follow the server's clock as long as it agrees with the time that this process measured: an API server whose clock jumps, or
one of several with a wrong clock, ends no job. A process that starts has measured nothing. It believes the server's clock where the
clock of its own machine does not say that less time passed, and else once the server's clock has kept to its time for a while.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from gpujob.lifecycle.attempts import pause_began
from gpujob.lifecycle.sightings import Lapse
from gpujob.lifecycle.steps.evaluation import Evaluation
from gpujob.status.attempts.believed_clock import KEPT
from gpujob.status.attempts.cost import CLOCKS
from gpujob.status.attempts.waits import read_time


def run_clock(evaluation: Evaluation, start: object) -> datetime:
    """The time now as the current attempt counts it, which began at `start` (RFC 3339)."""
    held, child = evaluation.sightings.made, evaluation.child
    return _clock(evaluation, "running", start, held[1] if child is not None and held[0] == child.uid else None)


def retry_clock(evaluation: Evaluation) -> datetime:
    """The time now as spec.retries.withinSeconds counts it, from status.failingSince."""
    return _clock(evaluation, "failing", evaluation.job.status.get("failingSince"), evaluation.sightings.looked)


def pause_clock(evaluation: Evaluation) -> datetime:
    """The time now as the pause after a failed attempt counts it, from the end of that attempt."""
    return _clock(evaluation, "paused", pause_began(evaluation.job), None)


def end_clock(evaluation: Evaluation, end: object) -> datetime:
    """The time now as spec.ttlSecondsAfterFinished counts it, from the job's `end` (RFC 3339)."""
    return _clock(evaluation, "over", end, evaluation.sightings.looked)


def _clock(evaluation: Evaluation, name: str, since: object, absent: float | None) -> datetime:
    """The server's time, or `since` plus what passed since this process saw it, if the two differ by more than clocks may.

    `absent`: when it had not begun yet, by the monotonic clock; None where this process does not know.
    """
    now, begun = evaluation.now, read_time(since)
    if begun is None or not isinstance(since, str):
        return now.server
    by_server, held = (now.server - begun).total_seconds(), getattr(evaluation.sightings, name)
    if held.since != since:
        held = _first_seen(since, begun, evaluation, absent)
    seen_for = now.elapsed - held.seen
    if held.claimed > held.age:
        if abs(by_server - held.age - seen_for) <= CLOCKS:
            held = held._replace(claimed=held.age)
        elif seen_for >= KEPT and abs(by_server - held.claimed - seen_for) <= CLOCKS:
            held = held._replace(age=held.claimed)
        evaluation.requeue(KEPT - seen_for)
    evaluation.see(**{name: held})
    passed = held.age + seen_for
    return now.server if abs(by_server - passed) <= CLOCKS else begun + timedelta(seconds=passed)


def _first_seen(since: str, begun: datetime, evaluation: Evaluation, absent: float | None) -> Lapse:
    """What passed since `begun`, as a process that sees this for the first time knows it; `absent` as for `_clock`."""
    now = evaluation.now
    by_server = max(0.0, (now.server - begun).total_seconds())
    if absent is not None:
        most = now.elapsed - absent
        age = by_server if by_server <= most + CLOCKS else most
        return Lapse(since, now.elapsed, age, age)
    here = (now.here - begun).total_seconds() if now.here is not None else by_server
    # A clock by which it has not begun yet is wrong itself.
    less = 0.0 <= here < by_server - CLOCKS
    return Lapse(since, now.elapsed, here if less else by_server, by_server)
