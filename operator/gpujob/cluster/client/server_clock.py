"""The API server's clock as this process knows it: the Date header of its responses plus the monotonic clock.

All times that the operator compares with times of Kubernetes objects, or writes beside them, are of this clock, because the clock
of the operator's machine may be wrong by hours. Before the first response it is the only one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

SLACK: Final = 5.0
"""Seconds by which a response may seem old: the header has whole seconds, and responses take time."""

AGREE: Final = 3
"""Responses in a row that say the same other time before the clock is set to it."""

CONFIRMED: Final = 10.0
"""Seconds from the first to the last of them: one may have waited in a queue for long, and one of several API servers may be wrong."""

SUPPORTED: Final = 30.0
"""Seconds by which the clock of the operator's machine may differ from a time that it supports."""


class ServerClock:
    """The earliest time that responses of the first seconds say, until others agree on another time for a while: one of several API
    servers whose clock is wrong changes nothing, and a clock that is set is followed. If responses say two times in turn, the time
    counts that the clock of the operator's machine supports."""

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._monotonic, self._wall = monotonic, wall
        self.on_set: Callable[[], None] = lambda: None
        """Called when the clock is set to another time."""
        self._ahead: float | None = None  # of the monotonic clock, in seconds since 1970
        self._last, self._first = "", 0.0
        self._other, self._since, self._count = 0.0, 0.0, 0

    def note(self, header: str | None) -> None:
        """Applies the Date header of a response; an invalid one is ignored."""
        if not header or header == self._last:
            return
        try:
            stated = parsedate_to_datetime(header).timestamp()
        except (ValueError, OverflowError):
            return
        self._last, now = header, self._monotonic()
        ahead = stated - now
        if self._ahead is None:
            self._ahead, self._first = ahead, now
        elif abs(ahead - self._ahead) < SLACK:
            self._ahead = max(ahead, self._ahead)
            if not self._is_doubted(self._ahead, self._other, now):
                self._count = 0
        elif ahead < self._ahead and now - self._first < CONFIRMED and not self._is_doubted(ahead, self._ahead, now):
            self._ahead, self._count = ahead, 0
        else:
            self._note_other(ahead, now)

    def _is_doubted(self, ahead: float, other: float, now: float) -> bool:
        """Whether the clock of the operator's machine supports the `other` time and not the first one."""
        here = self._wall().timestamp() - now
        return abs(ahead - here) >= SUPPORTED > abs(other - here)

    def _note_other(self, ahead: float, now: float) -> None:
        """Notes a response of another time than the clock's."""
        if self._count and abs(ahead - self._other) < SLACK:
            self._other, self._count = max(ahead, self._other), self._count + 1
        else:
            self._other, self._since, self._count = ahead, now, 1
        if self._count >= AGREE and now - self._since >= CONFIRMED:
            self._ahead, self._count = self._other, 0
            self.on_set()

    def here(self) -> datetime:
        """The time of the clock of the operator's machine, in UTC."""
        return self._wall()

    def now(self) -> datetime:
        """The time in UTC."""
        if self._ahead is None:
            return self._wall()
        return datetime.fromtimestamp(0, UTC) + timedelta(seconds=self._ahead + self._monotonic())
