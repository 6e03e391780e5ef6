"""What the lines of `gpujob_report` do inside a GPUJob."""

from __future__ import annotations

import sys
import time
from typing import Any

from gpujob_runner.report import guard, process
from gpujob_runner.report.readings.mailbox import Mailbox
from gpujob_runner.report.settings import number_in

SECONDS_BETWEEN_LOSSES = 1.0

_mailbox: Mailbox | None = None
_posted = float("-inf")


def step(samples: Any, tokens: Any, loss: Any) -> None:
    """Counts a step of this process, and keeps its loss."""
    try:
        rank = process.rank or process.begin().rank
        rank.line(_amount(samples), _amount(tokens))
        if loss is not None:
            _keep_loss(rank, loss)
    except Exception as error:
        guard.failed("line", error)


def progress(ratio: Any, remaining_seconds: Any) -> None:
    """Keeps the fraction that is done, 0 to 1, and the seconds to the end."""
    try:
        done, remaining = number_in(ratio), number_in(remaining_seconds)
        if done is not None:
            rank = process.rank or process.begin().rank
            rank.progress = (min(1.0, max(0.0, done)), _amount(remaining), time.time())
    except Exception as error:
        guard.failed("line", error)


def checkpoint(step: Any, seconds: Any) -> None:
    """Keeps the step of a checkpoint, when it was said, and the longest time that a save took."""
    try:
        rank = process.rank or process.begin().rank
        said, took = _amount(step), _amount(seconds)
        rank.checkpoint = (float(rank.steps) if said is None else said, time.time())
        rank.saved_steps = rank.steps
        if took is not None:
            rank.slowest_save = max(took, rank.slowest_save or 0.0)
    except Exception as error:
        guard.failed("line", error)


def phase_begins(name: str) -> Any:
    """Enters a phase and returns the key that `phase_ends` takes."""
    try:
        phases = (process.rank or process.begin().rank).phases
        return phases, phases.begin(name)
    except Exception as error:
        guard.failed("line", error)
        return None


def phase_ends(entered: Any) -> None:
    """Leaves a phase."""
    if entered is not None:
        entered[0].end(entered[1])


def _amount(value: Any) -> float | None:
    number = number_in(value)
    return number if number is not None and number >= 0 else None


def _keep_loss(rank: Any, loss: Any) -> None:
    """Keeps a loss that is on the host at once, and one that is on a device when its copy has arrived."""
    global _mailbox, _posted
    device = getattr(loss, "device", None)
    if getattr(device, "type", "cpu") == "cpu":
        value = number_in(loss, any_number=True)
        if value is not None:
            rank.name_metric("loss", value)
        return
    if _mailbox is None:
        _mailbox = Mailbox(sys.modules["torch"])
    for numbers in _mailbox.collect():
        rank.name_metric("loss", numbers[0])
    clock = time.monotonic()
    if clock - _posted >= SECONDS_BETWEEN_LOSSES and _mailbox.can_post():
        _posted = clock
        _mailbox.post([loss])
