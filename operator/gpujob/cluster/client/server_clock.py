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

DISAGREE: Final = 3
"""Old responses in a row before the clock is set back: one may have waited in a queue for long."""


class ServerClock:
    """With several API servers the time of the one whose clock is furthest ahead."""

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._monotonic, self._wall = monotonic, wall
        self._ahead: float | None = None  # of the monotonic clock, in seconds since 1970
        self._last, self._behind = "", 0

    def note(self, header: str | None) -> None:
        """Applies the Date header of a response; an invalid one is ignored."""
        if not header or header == self._last:
            return
        try:
            stated = parsedate_to_datetime(header).timestamp()
        except (ValueError, OverflowError):
            return
        self._last, ahead = header, stated - self._monotonic()
        if self._ahead is None or ahead > self._ahead:
            self._ahead, self._behind = ahead, 0
        elif ahead > self._ahead - SLACK:
            self._behind = 0
        else:
            self._behind += 1
            if self._behind >= DISAGREE:
                self._ahead, self._behind = ahead, 0

    def now(self) -> datetime:
        """The time in UTC."""
        if self._ahead is None:
            return self._wall()
        return datetime.fromtimestamp(0, UTC) + timedelta(seconds=self._ahead + self._monotonic())
