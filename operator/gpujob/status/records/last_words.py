"""The last exception in the output of a program that failed.

Anybody can print such lines, so nothing of them is repeated but numbers, and they decide no more than a sentence and a retry.
"""

from __future__ import annotations

import re
from typing import Any, Final

LONGEST: Final = 4096
"""Characters of a termination message that are read; the kubelet keeps no more bytes, and of a log half of it."""

_EXCEPTION: Final = re.compile(r"^(?:\[rank\d{1,6}\]: ?)?([A-Za-z_][\w.]{0,120}(?:Error|Exception))\b(.*)$")
"""The line that Python prints last for an exception; torch puts the rank before it."""

_OF_LAUNCHER: Final = "ChildFailedError"
"""What torchrun raises when its workers failed; why they did was printed before."""


def last_exception(text: Any) -> str:
    """The line of the exception that ended the program, without that of the launcher; empty where there is none."""
    if not isinstance(text, str):
        return ""
    ends = [found for line in text[-LONGEST:].splitlines() if (found := _EXCEPTION.match(line[:1024]))]
    while ends and ends[-1][1].endswith(_OF_LAUNCHER):
        ends.pop()
    return ends[-1][0] if ends else ""
