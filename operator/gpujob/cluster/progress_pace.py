"""When the progress, speed and cost of running jobs are written: seldom for each, and bounded for the whole cluster."""

from __future__ import annotations

from typing import Final

from gpujob.cluster.pace import Clock

EVERY: Final = 300.0
"""Seconds between two writes of a job whose progress moves little."""

RATE: Final = 2.0
"""Writes a second for all jobs together; jobs take turns, so that many of them are written less often, never more."""


class ProgressPace:
    """Gives each job that has something to say a turn; turns are 1 / RATE seconds apart."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._written: dict[str, float] = {}
        self._turns: dict[str, float] = {}
        self._next_turn = 0.0

    def wait(self, uid: str, *, soon: bool) -> float:
        """Seconds until a job may write its progress: 0 takes its turn. `soon`: it need not wait for its time."""
        now = self._clock()
        ripe = self._written.setdefault(uid, now) + EVERY
        if uid not in self._turns:
            if not soon and now < ripe:
                return ripe - now
            self._turns[uid] = max(now, self._next_turn)
            self._next_turn = self._turns[uid] + 1 / RATE
        if now < self._turns[uid]:
            return self._turns[uid] - now
        del self._turns[uid]
        self._written[uid] = now
        return 0.0

    def forget(self, uid: str) -> None:
        """A job runs no more."""
        self._written.pop(uid, None)
        self._turns.pop(uid, None)
