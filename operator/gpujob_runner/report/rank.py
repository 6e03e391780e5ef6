"""The figures of one process: what the training thread adds to, in a few microseconds, and `figures` reads.

No locks: one thread adds, another reads, and a figure that is one step old does no harm.
"""

from __future__ import annotations

import time
import weakref
from array import array
from typing import Any

from gpujob_runner.report.batches import Ledger
from gpujob_runner.report.settings import Settings

WINDOW = 512
"""Steps over which quantiles and the share of waiting are taken."""
MOST_NAMES = 32
LONGEST_NAME = 64
QUANTILES = (0.5, 0.9, 0.99)


class Rank:
    """Counters of one process since it began to train."""

    def __init__(self, settings: Settings, started: float) -> None:
        self.settings = settings
        self.world_size = 1
        self.steps = 0
        self.skipped = 0
        self.held = 0
        self.samples = 0.0
        self.tokens = 0.0
        self.waited = 0.0
        self.trained_seconds = 0.0
        self.intervals = 0
        self.started = started
        self.first_step: float | None = None
        self.last_step: float | None = None
        self.progress: tuple[float, float | None, float] | None = None
        self.checkpoint: tuple[float, float] | None = None
        self.metrics: dict[str, float] = {}
        self.steps_from = "optimizer"
        self.samples_from = "none" if settings.samples_per_step is None else "spec"
        self.tokens_from = "none" if settings.tokens_per_step is None else "spec"
        self.ledger = Ledger()
        self._stepped: dict[int, weakref.ref[Any]] = {}
        self._last_clock: float | None = None
        self._durations = array("d", bytes(8 * WINDOW))
        self._waits = array("d", bytes(8 * WINDOW))

    # ---- what the optimizer's hook calls

    def begins_step(self, optimizer: Any) -> bool:
        """Whether this step of `optimizer` begins a new step of the training.

        It does when that optimizer stepped already since the last counted step: of optimizers that take turns one
        counts, an optimizer inside another counts once, and one for each parameter counts once. Optimizers that are gone
        take no turns any more.
        """
        stepped, key = self._stepped, id(optimizer)
        known = stepped.get(key)
        if known is not None and known() is optimizer:
            if len(stepped) > 1:
                stepped.clear()
                stepped[key] = known
            return True
        begins = all(other() is None for other in stepped.values())
        if begins:
            stepped.clear()
        stepped[key] = weakref.ref(optimizer)
        return begins

    def step(self, held: bool = False) -> None:
        """Counts a step now; `held` if it is not known yet whether GradScaler skipped it."""
        if held:
            self.held += 1
        else:
            self.steps += 1
        self._account(None, None)

    def release(self, steps: int, skipped: int) -> None:
        """Tells of held steps that are known now: `steps` of which `skipped` were skipped."""
        self.held -= steps
        self.steps += steps - skipped
        self.skipped += skipped

    # ---- what the user's one line calls

    def line(self, samples: float | None, tokens: float | None) -> None:
        """Counts a step told by the program; from the first on nothing else counts steps.

        Steps that the hook saw before the first line are the same steps told another way: the first line adds none to them.
        """
        first = self.steps_from != "line"
        self.steps_from = "line"
        if first and self.steps + self.held > 0:
            self._take(samples, tokens)
            return
        self.steps += 1
        self._account(samples, tokens)

    def name_metric(self, name: str, value: float) -> None:
        """Keeps the last value of a training metric; names past the first 32 are left out."""
        name = "".join(char if char.isprintable() else "_" for char in str(name)[:LONGEST_NAME])
        if name in self.metrics or len(self.metrics) < MOST_NAMES:
            self.metrics[name] = value

    # ---- inside

    def _account(self, samples: float | None, tokens: float | None) -> None:
        clock = time.perf_counter()
        waited = self._take(samples, tokens)
        last, self._last_clock = self._last_clock, clock
        now = time.time()
        if last is None:
            self.first_step = now
        else:
            place = self.intervals % WINDOW
            self._durations[place] = clock - last
            self._waits[place] = waited
            self.trained_seconds += clock - last
            self.intervals += 1
        self.last_step = now

    def _take(self, samples: float | None, tokens: float | None) -> float:
        """Adds the samples and tokens of a step from the best source; gives the seconds waited for data."""
        drawn_samples, drawn_tokens, waited = self.ledger.take()
        if samples is not None:
            self.samples_from = "line"
            self.samples += samples
        elif self.samples_from == "spec":
            self.samples += (self.settings.samples_per_step or 0) / self.world_size
        elif self.samples_from != "line" and drawn_samples:
            self.samples_from = "dataloader"
            self.samples += drawn_samples
        if tokens is not None:
            self.tokens_from = "line"
            self.tokens += tokens
        elif self.tokens_from == "spec":
            self.tokens += (self.settings.tokens_per_step or 0) / self.world_size
        elif self.tokens_from != "line" and drawn_tokens:
            self.tokens_from = "dataloader"
            self.tokens += drawn_tokens
        self.waited += waited
        return waited

    # ---- what is read

    def durations(self) -> tuple[list[float], list[float]]:
        """(seconds of the last steps, seconds waited in them), in no order."""
        known = min(self.intervals, WINDOW)
        return self._durations[:known].tolist(), self._waits[:known].tolist()

    def figures(self) -> dict[str, Any]:
        """What is exported of this process, by names of `exposition.METRICS`; None is "no value"."""
        durations, waits = self.durations()
        total = sum(durations)
        progress, checkpoint = self.progress, self.checkpoint
        return {
            "steps_total": self.steps,
            "skipped_steps_total": self.skipped,
            "samples_total": None if self.samples_from == "none" else self.samples,
            "tokens_total": None if self.tokens_from == "none" else self.tokens,
            "step_duration_seconds": _summary(durations, self.trained_seconds, self.intervals),
            "data_wait_seconds_total": self.waited,
            "data_wait_ratio": min(1.0, sum(waits) / total) if total > 0 else None,
            "first_step_timestamp_seconds": self.first_step,
            "last_step_timestamp_seconds": self.last_step,
            "process_start_timestamp_seconds": self.started,
            "progress_ratio": progress and progress[0],
            "remaining_seconds": progress and progress[1],
            "progress_timestamp_seconds": progress and progress[2],
            "checkpoint_step": checkpoint and checkpoint[0],
            "checkpoint_timestamp_seconds": checkpoint and checkpoint[1],
            "training_metric": dict(self.metrics),
        }


def _summary(durations: list[float], total: float, count: int) -> dict[str, float]:
    """Quantiles by nearest rank, and the sum and number of all."""
    summary = {"sum": total, "count": float(count)}
    ordered = sorted(durations)
    for quantile in QUANTILES if ordered else ():
        summary[str(quantile)] = ordered[min(len(ordered) - 1, int(quantile * len(ordered)))]
    return summary
