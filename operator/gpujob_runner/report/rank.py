"""The figures of one process: what the training thread adds to, in about a microsecond, and `figures` reads.

No locks: one thread adds, another reads, and a figure that is one step old does no harm. A step leaves its clock and its waiting in
two rings, and its amounts in sums; the reader computes all that follows from these.
"""

from __future__ import annotations

import time
import weakref
from array import array
from collections import deque
from operator import sub
from time import perf_counter
from typing import Any, Callable

from gpujob_runner.report.readings.ledger import Ledger
from gpujob_runner.report.settings import Settings
from gpujob_runner.report.standstill.phases import MOST_SPANS, Phases, slowest_step

WINDOW = 512
"""Steps over which quantiles and the share of waiting are taken."""
RING = 2 * WINDOW
"""Steps that are kept: as many again as are read, so that none is overwritten while it is."""
MOST_NAMES = 32
LONGEST_NAME = 64
QUANTILES = (0.5, 0.9, 0.99)


Drawn = tuple[float, float, float]
"""Samples, tokens, and seconds waited."""


def _no_optimizer() -> None:
    """The only optimizer's stand-in if there is no optimizer, or several."""


class Rank:
    """Counters of one process since it began to train."""

    __slots__ = (
        "_counted",
        "_first_clock",
        "_stepped",
        "began",
        "checkpoint",
        "clocks",
        "counted",
        "first_step",
        "frozen",
        "held",
        "ledger",
        "metrics",
        "only",
        "phases",
        "progress",
        "samples",
        "samples_from",
        "saved_steps",
        "settings",
        "skipped",
        "slowest_save",
        "started",
        "steps",
        "steps_from",
        "tokens",
        "tokens_from",
        "usual",
        "verdicts",
        "waited",
        "waits",
        "world_size",
    )

    only: Callable[[], Any]
    """Gives the optimizer that stepped last if no other takes turns with it: each of its steps begins a new one."""

    usual: int | None
    """The data set with one batch for each step, by its last step: the hook then counts it the short way."""

    verdicts: Any | None
    """What the hook keeps of held steps; None as long as there was none."""

    def __init__(self, settings: Settings, started: float) -> None:
        self.settings = settings
        self.world_size = 1
        self.steps = 0
        self.skipped = 0
        self.held = 0
        self.samples = 0.0
        self.tokens = 0.0
        self.waited = 0.0
        self.counted = 0
        self.started = started
        self.first_step: float | None = None
        self.progress: tuple[float, float | None, float] | None = None
        self.checkpoint: tuple[float, float] | None = None
        self.saved_steps = 0
        self.slowest_save: float | None = None
        self.metrics: dict[str, float] = {}
        self.steps_from = "optimizer"
        self.samples_from = "none" if settings.samples_per_step is None else "spec"
        self.tokens_from = "none" if settings.tokens_per_step is None else "spec"
        self.ledger = Ledger()
        self.only = _no_optimizer
        self.usual = None
        self.verdicts = None
        self._stepped: dict[int, Callable[[], Any]] = {}
        self._first_clock = 0.0
        self.began = perf_counter()
        self.phases = Phases(settings.phase_seconds)
        self.frozen: deque[tuple[float, float]] = deque(maxlen=MOST_SPANS)
        self.clocks = array("d", bytes(8 * RING))
        self.waits = array("d", bytes(8 * RING))
        self._counted: tuple[int, float] = (0, 0.0)

    # ---- what the optimizer's hook calls

    def begins_step(self, optimizer: Any) -> bool:
        """Whether this step of `optimizer` begins a new step of the training.

        It does when that optimizer stepped already since the last counted step: of optimizers that take turns one
        counts, an optimizer inside another counts once, and one for each parameter counts once. Optimizers that are gone
        take no turns any more.
        """
        stepped, key = self._stepped, id(optimizer)
        known = stepped.get(key, _no_optimizer)
        begins = known() is optimizer
        if not begins:
            known = weakref.ref(optimizer)
            begins = all(other() is None for other in stepped.values())
        if begins:
            stepped.clear()
        stepped[key] = known
        self.only = known if begins else _no_optimizer
        return begins

    def step(self, held: bool = False) -> None:
        """Counts a step now; `held` if it is not known yet whether GradScaler skipped it.

        Its samples come first: a reader between the two would see a program that makes steps and has no samples.
        """
        self._count(self.ledger.take(), None, None)
        if held:
            self.held += 1
        else:
            self.steps += 1

    def count_by(self, source: str) -> None:
        """Counts steps by `source` from now on, and by nothing else."""
        self.steps_from, self.usual = source, None

    def release(self, steps: int, skipped: int) -> None:
        """Records held steps that are known now: their number, and how many of them were skipped."""
        self.held -= steps
        self.steps += steps - skipped
        self.skipped += skipped

    # ---- what the user's one line calls

    def line(self, samples: float | None, tokens: float | None) -> None:
        """Counts a step that the program reports; from the first on nothing else counts steps.

        Steps that the hook saw before the first line are the same steps reported in another way: the first line adds none to them,
        and those that are held are taken, since the program says so.
        """
        first = self.steps_from != "line"
        self.count_by("line")
        self.release(self.held, 0)
        if first and self.steps > 0:
            self.add(self.ledger.take(), samples, tokens)
            return
        self._count(self.ledger.take(), samples, tokens)
        self.steps += 1

    def name_metric(self, name: str, value: float) -> None:
        """Keeps the last value of a training metric; names past the first 32 are left out."""
        name = "".join(char if char.isprintable() else "_" for char in str(name)[:LONGEST_NAME])
        if name in self.metrics or len(self.metrics) < MOST_NAMES:
            self.metrics[name] = value

    # ---- inside

    def _count(self, drawn: Drawn, samples: float | None, tokens: float | None) -> None:
        """Counts a step that drew this from the DataLoader, unless the caller says otherwise."""
        counted, clock = self.counted, perf_counter()
        place = counted % RING
        self.clocks[place] = clock
        self.waits[place] = drawn[2]
        if (
            self.samples_from == "dataloader"
            and self.tokens_from == "none"
            and not drawn[1]
            and samples is None is tokens
        ):
            # Nearly every step of a training without tokens: as `add` has it.
            self.samples += drawn[0]
            self.waited += drawn[2]
        else:
            self.add(drawn, samples, tokens)
        if not counted:
            self._first_clock, self.first_step = clock, time.time()
        self.counted = counted + 1

    def add(self, drawn: Drawn, samples: float | None, tokens: float | None) -> None:
        """Adds the samples and tokens of a step from the best source."""
        yielded, read, waited = drawn
        if samples is not None:
            self.samples_from = "line"
            self.samples += samples
        elif self.samples_from == "spec":
            self.samples += (self.settings.samples_per_step or 0) / self.world_size
        elif yielded and self.samples_from != "line":
            self.samples_from = "dataloader"
            self.samples += yielded
        if tokens is not None:
            self.tokens_from = "line"
            self.tokens += tokens
        elif self.tokens_from == "spec":
            self.tokens += (self.settings.tokens_per_step or 0) / self.world_size
        elif read and self.tokens_from != "line":
            self.tokens_from = "dataloader"
            self.tokens += read
        self.waited += waited

    # ---- what is read

    def durations(self) -> tuple[list[float], list[float]]:
        """(seconds of the last steps, seconds waited in them), oldest first."""
        counted = self.counted
        steps = min(counted - 1, WINDOW)
        if steps < 1:
            return [], []
        first = (counted - steps) % RING
        clocks = self._recent_clocks(counted)
        waits = (self.waits * 2)[first : first + steps].tolist()
        return list(map(sub, clocks[1:], clocks)), waits

    def _recent_clocks(self, counted: int) -> list[float]:
        """The clocks of the last steps of `counted`, oldest first, and of the one before them."""
        steps = min(counted - 1, WINDOW)
        before = (counted - steps - 1) % RING
        return (self.clocks * 2)[before : before + steps + 1].tolist()

    def still(self) -> float:
        """Seconds since the last sign of work: a step, a batch, the end of a phase; 0 in a phase, unless its bound is over. Without
        those in which the process did not get to run: then it could give no sign."""
        if self.phase_left():
            return 0.0
        last = self._last_sign()
        missed = sum(max(0.0, ended - max(began, last)) for began, ended in list(self.frozen))
        return max(0.0, perf_counter() - last - missed)

    def froze(self, began: float, ended: float) -> None:
        """Records that the process did not run between these clocks: its pod was stopped, or other programs had the CPUs."""
        self.frozen.append((began, ended))

    def phase_left(self) -> float | None:
        """Seconds for which the clock still stands in this phase; None outside of one."""
        return self.phases.left(self._last_sign())

    def _last_sign(self) -> float:
        last = self.clocks[(self.counted - 1) % RING] if self.counted else self.began
        return max(last, self.ledger.batch_at, self.phases.ended)

    def slowest(self) -> float | None:
        """Seconds of the longest of the last steps, without the time in phases, or without CPU; None before the second."""
        return (
            slowest_step(self._recent_clocks(self.counted), [*self.phases.spans, *self.frozen])
            if self.counted > 1
            else None
        )

    def last_step(self) -> tuple[float | None, float]:
        """(Unix time of the last step, seconds from the first step to it)."""
        counted = self.counted
        if not counted:
            return None, 0.0
        last = self.clocks[(counted - 1) % RING]
        if self._counted[0] != counted:
            # Once for each step: the wall clock may be set meanwhile, and the time of a reported step does not move.
            self._counted = (counted, time.time() - (perf_counter() - last))
        return self._counted[1], last - self._first_clock

    def figures(self) -> dict[str, Any]:
        """The exported figures of this process, by the names in `exposition.METRICS`; None is "no value"."""
        durations, waits = self.durations()
        total = sum(durations)
        progress, checkpoint = self.progress, self.checkpoint
        last, trained = self.last_step()
        return {
            "steps_total": self.steps,
            "skipped_steps_total": self.skipped,
            "samples_total": None if self.samples_from == "none" else self.samples,
            "tokens_total": None if self.tokens_from == "none" else self.tokens,
            "step_duration_seconds": _summary(durations, trained, max(0, self.counted - 1)),
            "data_wait_seconds_total": self.waited,
            "data_wait_ratio": min(1.0, sum(waits) / total) if total > 0 else None,
            "first_step_timestamp_seconds": self.first_step,
            "last_step_timestamp_seconds": last,
            "still_seconds": self.still(),
            "slowest_step_seconds": self.slowest(),
            "phase": {self.phases.current(): 1.0},
            "phase_left_seconds": self.phase_left(),
            "process_start_timestamp_seconds": self.started,
            "progress_ratio": progress and progress[0],
            "remaining_seconds": progress and progress[1],
            "progress_timestamp_seconds": progress and progress[2],
            "checkpoint_step": checkpoint and checkpoint[0],
            "checkpoint_timestamp_seconds": checkpoint and checkpoint[1],
            "checkpoint_save_seconds": self.slowest_save,
            "unsaved_steps": checkpoint and max(0, self.steps - self.saved_steps),
            "training_metric": dict(self.metrics),
        }


def _summary(durations: list[float], total: float, count: int) -> dict[str, float]:
    """Quantiles by nearest rank, and the sum and number of all."""
    summary = {"sum": total, "count": float(count)}
    ordered = sorted(durations)
    for quantile in QUANTILES if ordered else ():
        summary[str(quantile)] = ordered[min(len(ordered) - 1, int(quantile * len(ordered)))]
    return summary
