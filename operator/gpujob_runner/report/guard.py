"""Keeps failures of the reporter inside: counted, reported once, and a part that fails again and again switched off.

An exception that a signal handler of the program raises while the reporter runs is the program's own, and reaches it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from types import CodeType
from typing import Any

FAILURES_UNTIL_OFF = 3

failures: dict[str, int] = {}
"""Failures of this process by part; exported as gpujob_reporter_failures_total."""


def say(text: str) -> None:
    """Writes one line to the error stream of the process, past anything that the program did to sys.stderr."""
    with contextlib.suppress(OSError):
        os.write(2, ("gpujob: " + text.replace("\n", " ")[:500] + "\n").encode("utf-8", "replace"))


def failed(part: str, error: BaseException) -> None:
    """Counts a failure of `part`; the first is reported, and so is the one that switches the part off.

    Raises nothing but `error` itself, where a signal handler of the program raised it.
    """
    try:
        if _came_by_a_signal(error):
            count = 0
        else:
            count = failures[part] = failures.get(part, 0) + 1
        if count == 1:
            say(f"the reporter's part '{part}' failed, the program goes on: {type(error).__name__}: {error}")
        elif count == FAILURES_UNTIL_OFF:
            say(f"the reporter's part '{part}' failed {count} times and is switched off, the program goes on")
    except Exception:  # such as an error that cannot be worded; counted is enough
        return
    if not count:
        raise error


def _came_by_a_signal(error: BaseException) -> bool:
    """Whether a handler that the program set for a signal was running when `error` was raised."""
    place, codes = error.__traceback__, set[CodeType]()
    while place is not None:
        codes.add(place.tb_frame.f_code)
        place = place.tb_next
    return any(_code_of(signal.getsignal(number)) in codes for number in signal.valid_signals())


def _code_of(handler: Any) -> CodeType | None:
    """The code of a handler: of a function, a method, a partial of them, or an object that can be called."""
    handler = getattr(handler, "func", handler)
    code = getattr(handler, "__code__", None) or getattr(getattr(type(handler), "__call__", None), "__code__", None)  # noqa: B004
    return code if isinstance(code, CodeType) else None


def is_off(part: str) -> bool:
    """Whether `part` failed so often that it is not tried again."""
    return failures.get(part, 0) >= FAILURES_UNTIL_OFF
