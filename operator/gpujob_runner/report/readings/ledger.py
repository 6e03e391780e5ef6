"""Which of the batches that were fetched were trained on."""

from __future__ import annotations

import weakref
from typing import Any

from gpujob_runner.report.readings.batches import MOST_DATA_SETS, size_of

NOTHING = (0.0, 0.0, 0.0)


class Ledger:
    """Batches fetched since the last step, by data set, until a step shows which of them were trained on.

    A data set is trained on once it was the one read last before a step. From then on its batches count, and those of
    others (an evaluation between two steps) do not, unless no trained one was read. With a data set its identity goes,
    which another one may get.
    """

    __slots__ = ("_last", "_last_itself", "_trained", "batch_at", "pending", "unseen")

    unseen: tuple[int, Any, float, Any] | None
    """(identity of the data set, batch, seconds waited, data set) of the batch that was yielded last. It is inspected with the
    next batch or step, and released.

    Between a batch and the first kernel of its step the device is idle, so that each microsecond there would be one of
    the step; after an optimizer's step the device has work for a while.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begins again, as in a forked child."""
        self.pending: dict[int, list[float]] = {}
        self._trained: dict[int, Any] = {}
        self._last: int | None = None
        self._last_itself: Any = None
        self.unseen = None
        self.batch_at = 0.0
        """When any batch was fetched last, by `perf_counter`: also one of an evaluation."""

    def inspect(self) -> None:
        """Inspects the batch that was yielded last."""
        unseen, self.unseen = self.unseen, None
        if unseen is not None:
            samples, tokens = size_of(unseen[1], unseen[0])
            self.fetched(unseen[0], samples, tokens, unseen[2])
            self._last_itself = unseen[3]

    def fetched(self, data_set: int, samples: int, tokens: int, waited: float) -> None:
        """A batch of `data_set` (any identity of it) came after `waited` seconds."""
        entry = self.pending.get(data_set)
        if entry is None:
            entry = self.pending[data_set] = [0.0, 0.0, 0.0]
        entry[0] += samples
        entry[1] += tokens
        entry[2] += waited
        self._last = data_set

    def ended(self, data_set: int) -> None:
        """`data_set` was read to its end; if that was without a step, while another is trained on, it was evaluation."""
        self.inspect()
        if self._last == data_set and self._trained and data_set not in self._trained:
            self._last = None

    def usual(self) -> int | None:
        """The data set that was read last, if it is trained on."""
        return self._last if self._last in self._trained else None

    def take(self) -> tuple[float, float, float]:
        """(samples, tokens, seconds waited) of the step taken now; what was not trained on is forgotten."""
        unseen = self.unseen
        if unseen is not None:
            if not self.pending and unseen[0] in self._trained:
                # Nearly every step: one batch, of what is trained on. What follows would say the same.
                self.unseen, self._last = None, unseen[0]
                samples, tokens = size_of(unseen[1], unseen[0])
                return samples, tokens, unseen[2]
            self.inspect()
        pending = self.pending
        if not pending:
            return NOTHING
        drawn = [entry for data_set, entry in pending.items() if data_set in self._trained]
        if not drawn and self._last in pending:
            drawn = [pending[self._last]]
            if len(self._trained) >= MOST_DATA_SETS:
                self._trained.clear()
            self._trained[self._last] = self._while_it_is_there(self._last)
        self._last_itself = None
        pending.clear()
        if not drawn:
            return NOTHING
        if len(drawn) == 1:
            return drawn[0][0], drawn[0][1], drawn[0][2]
        return sum(e[0] for e in drawn), sum(e[1] for e in drawn), sum(e[2] for e in drawn)

    def _while_it_is_there(self, identity: int) -> Any:
        """What lets go of the identity of the data set that was read last, once that is gone; None where nothing can."""
        trained = self._trained
        try:
            return weakref.ref(self._last_itself, lambda _: trained.pop(identity, None))
        except TypeError:  # such as a list
            return None
