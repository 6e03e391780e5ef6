"""Keeps failures of the reporter inside: counted, told once, and a part that fails again and again switched off."""

from __future__ import annotations

import contextlib
import os

FAILURES_UNTIL_OFF = 3

failures: dict[str, int] = {}
"""Failures of this process by part; exported as gpujob_reporter_failures_total."""


def say(text: str) -> None:
    """Writes one line to the error stream of the process, past anything that the program did to sys.stderr."""
    with contextlib.suppress(OSError):
        os.write(2, ("gpujob: " + text.replace("\n", " ")[:500] + "\n").encode("utf-8", "replace"))


def failed(part: str, error: BaseException) -> None:
    """Counts a failure of `part`; the first is told, and so is the one that switches the part off. Never raises."""
    try:
        count = failures[part] = failures.get(part, 0) + 1
        if count == 1:
            say(f"the reporter's part '{part}' failed, the program goes on: {type(error).__name__}: {error}")
        elif count == FAILURES_UNTIL_OFF:
            say(f"the reporter's part '{part}' failed {count} times and is switched off, the program goes on")
    except Exception:  # such as an error that cannot be worded; counted is enough
        return


def is_off(part: str) -> bool:
    """Whether `part` failed so often that it is not tried again."""
    return failures.get(part, 0) >= FAILURES_UNTIL_OFF
