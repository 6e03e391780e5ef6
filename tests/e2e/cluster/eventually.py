"""Waiting for a condition instead of for a time; used by the cluster's own start and by every e2e test."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], timeout: float = 30.0, *, what: str = "", every: float = 0.05) -> T:
    """The first truthy answer of `condition`, asked every `every` seconds; TimeoutError after `timeout` seconds.

    What `condition` raises is passed on at once: an exception means that waiting longer cannot help.
    """
    end = time.monotonic() + timeout
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= end:
            raise TimeoutError(
                f"after {timeout:g} s still no {what or condition.__name__}; the last answer was {answer!r}"
            )
        time.sleep(every)
