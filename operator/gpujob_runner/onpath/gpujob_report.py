"""Lines by which a program tells its GPUJob what cannot be seen from outside; without a GPUJob they do nothing.

    import gpujob_report

    gpujob_report.step(samples=32, tokens=65536, loss=loss)   # after each optimizer step; every argument may be left out
    gpujob_report.progress(0.42, remaining_seconds=1800)
    gpujob_report.checkpoint(step)                            # after the checkpoint is on disk

No line waits for a device, raises, or sends anything anywhere. Values are of the process that says them. One file without
dependencies: copy it beside a program that also runs elsewhere.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["checkpoint", "progress", "step"]


def step(samples: float | None = None, tokens: float | None = None, loss: Any = None) -> None:
    """Counts one optimizer step; from the first call on steps are counted by this line alone.

    `samples` and `tokens` are what this process trained on in the step; left out, they come from the DataLoader. `loss` is a number
    or a tensor of one element; on a GPU it is copied without waiting, at most once a second.
    """
    _say("step", samples, tokens, loss)


def progress(ratio: float, remaining_seconds: float | None = None) -> None:
    """Says how much of the training is done, from 0 to 1, and when it will end."""
    _say("progress", ratio, remaining_seconds)


def checkpoint(step: float | None = None) -> None:
    """Says that a checkpoint of `step` is safe now; left out, the step counted last."""
    _say("checkpoint", step)


def _say(what: str, *values: Any) -> None:
    if "gpujob_runner.report.watch" not in sys.modules:
        return
    try:
        from gpujob_runner.report import line

        getattr(line, what)(*values)
    except Exception:
        pass
