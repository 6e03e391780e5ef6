"""Waiting for a condition instead of for a time, and looking on while nothing may happen; used by every e2e test."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


_SHORTEST, _LONGEST = 0.05, 0.25


def eventually(condition: Callable[[], T | None], timeout: float = 30.0, *, what: str = "", every: float = 0.0) -> T:
    """The first truthy answer of `condition`, asked every `every` seconds; TimeoutError after `timeout` seconds.

    With `every` 0 it is asked again after a tenth of the time so far, 0.05 to 0.25 s: a question costs the API server milliseconds of
    CPU, and many tests ask at the same time. What `condition` raises is passed on at once: an exception means that waiting longer
    cannot help.
    """
    began = time.monotonic()
    end = began + timeout
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= end:
            raise TimeoutError(
                f"after {timeout:g} s still no {what or condition.__name__}; the last answer was {answer!r}"
            )
        time.sleep(every or min(max((time.monotonic() - began) / 10, _SHORTEST), _LONGEST))


def remains(condition: Callable[[], bool], seconds: float, *, because: str, every: float = 0.2) -> None:
    """Returns when `condition` has held for `seconds`; AssertionError as soon as it does not.

    `because` says why what must not happen would have happened in that time.
    """
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        assert condition(), f"{seconds - left:.1f} s later it holds no more, of {seconds:g} s: {because}"
        if left <= 0:
            return
        time.sleep(min(every, left))
