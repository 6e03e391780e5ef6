"""Lines by which a program reports to its GPUJob what cannot be seen from outside; without a GPUJob they do nothing.

    import gpujob_report

    gpujob_report.step(samples=32, tokens=65536, loss=loss)   # after each optimizer step; every argument may be left out
    gpujob_report.progress(0.42, remaining_seconds=1800)
    with gpujob_report.saving(step):                          # around what writes a checkpoint to disk
        torch.save(state, path)
    gpujob_report.checkpoint(step)                            # or after the checkpoint is on disk
    with gpujob_report.evaluating():                          # no step for long is no hang here
        evaluate(model)

No line waits for a device, raises an exception or sends anything. Values are those of the calling process. One file without
dependencies: copy it beside a program that also runs elsewhere.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["checkpoint", "compiling", "evaluating", "progress", "saving", "step"]


def step(samples: float | None = None, tokens: float | None = None, loss: Any = None) -> None:
    """Counts one optimizer step; from the first call on steps are counted by this line alone.

    `samples` and `tokens` are what this process trained on in the step; left out, they come from the DataLoader. `loss` is a number
    or a tensor of one element; on a GPU it is copied without waiting, at most once a second.
    """
    _say("step", samples, tokens, loss)


def progress(ratio: float, remaining_seconds: float | None = None) -> None:
    """Reports the fraction of the training that is done, from 0 to 1, and the seconds to its end."""
    _say("progress", ratio, remaining_seconds)


def checkpoint(step: float | None = None, seconds: float | None = None) -> None:
    """Reports that a checkpoint of `step` (default: the step counted last) is on disk, and the seconds that the save took."""
    _say("checkpoint", step, seconds)


@contextmanager
def saving(step: float | None = None) -> Iterator[None]:
    """Times a save of the checkpoint of `step`, and reports it as safe unless an exception ends the block.

    The slowest save decides how much time the next attempt gets between SIGTERM and SIGKILL.
    """
    began = time.perf_counter()
    with _phase("Saving"):
        yield
    checkpoint(step, time.perf_counter() - began)


@contextmanager
def evaluating() -> Iterator[None]:
    """Pauses the clock of spec.stall during work without steps: an evaluation, an export, an upload."""
    with _phase("Evaluating"):
        yield


@contextmanager
def compiling() -> Iterator[None]:
    """Pauses the clock of spec.stall while kernels are compiled; torch.compile and Triton are recognized without it."""
    with _phase("Compiling"):
        yield


@contextmanager
def _phase(name: str) -> Iterator[None]:
    entered = _say("phase_begins", name)
    try:
        yield
    finally:
        _say("phase_ends", entered)


def _say(what: str, *values: Any) -> Any:
    if "gpujob_runner.report.watch" not in sys.modules:
        return None
    try:
        from gpujob_runner.report import line

        return getattr(line, what)(*values)
    except Exception:
        return None
