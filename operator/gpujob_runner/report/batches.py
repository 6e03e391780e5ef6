"""How many samples and tokens a batch holds, and which of the batches fetched were trained on."""

from __future__ import annotations

from math import prod
from typing import Any

from gpujob_runner.report import guard

DEEPEST = 4
MOST_DATA_SETS = 256

NOTHING = (0.0, 0.0, 0.0)
SEQUENCES = (list, tuple)
KEYS: type = type({}.keys())


def size_of(batch: Any) -> tuple[int, int]:
    """(samples, tokens) of what a DataLoader yielded; 0 where it cannot be told, and always once several batches failed.

    Samples are the leading dimension of the first tensor, tokens the elements of `input_ids`. Reads shapes only, never
    values, so that nothing waits for a device.
    """
    if guard.failures and guard.is_off("batches"):
        return 0, 0
    try:
        if type(batch) in SEQUENCES and batch:
            # Nearly every batch: inputs and targets side by side. What follows would say the same, only later.
            shape = getattr(batch[0], "shape", None)
            if shape and not hasattr(batch[0], "keys"):
                return int(shape[0]), 0
        return _size(batch, 0)
    except Exception as error:
        guard.failed("batches", error)
        return 0, 0


def _size(batch: Any, depth: int) -> tuple[int, int]:
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return (int(shape[0]) if len(shape) else 1), 0
    if depth >= DEEPEST or batch is None or isinstance(batch, (str, bytes)):
        return 0, 0
    if type(batch) is not dict:
        graphs = getattr(batch, "num_graphs", None)
        if isinstance(graphs, int):
            return graphs, 0
    if hasattr(batch, "keys"):
        return _size_of_mapping(batch, depth)
    if isinstance(batch, (list, tuple)):
        return _size_of_sequence(batch, depth)
    return 0, 0


def _size_of_mapping(batch: Any, depth: int) -> tuple[int, int]:
    keys = batch.keys()
    if type(keys) is not KEYS:
        keys = list(keys)
    if "input_ids" in keys:
        shape = getattr(batch["input_ids"], "shape", None)
        if shape is not None:
            return (int(shape[0]) if len(shape) > 1 else 1), int(prod(shape))
    for key in keys:
        found = _size(batch[key], depth + 1)
        if found != (0, 0):
            return found
    return 0, 0


def _size_of_sequence(batch: Any, depth: int) -> tuple[int, int]:
    """A list of alike samples counts its entries; inputs and targets side by side count as the inputs."""
    if not batch:
        return 0, 0
    first = batch[0]
    if isinstance(first, (str, bytes, int, float)):
        return len(batch), 0
    if isinstance(batch, list) and len(batch) > 1 and all(hasattr(entry, "keys") for entry in batch):
        return len(batch), sum(_size(entry, depth + 1)[1] for entry in batch)
    if isinstance(first, (list, tuple)) and depth == 0:
        return len(first), 0
    shape = getattr(first, "shape", None)
    if shape is not None and not len(shape):
        return len(batch), 0
    return _size(first, depth + 1)


class Ledger:
    """Batches fetched since the last step, by data set, until a step tells which of them were trained on.

    A data set is trained on once it was the one read last before a step. From then on its batches count, and those of
    others (an evaluation between two steps) do not, unless no trained one was read.
    """

    __slots__ = ("_last", "_trained", "pending", "unseen")

    unseen: tuple[int, Any, float] | None
    """(data set, batch, seconds waited) of the batch that was yielded last. It is looked at with the next batch or step, and let go of.

    Between a batch and the first kernel of its step the device is idle, so that each microsecond there would be one of
    the step; after an optimizer's step the device has work for a while.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begins anew, as in a forked child."""
        self.pending: dict[int, list[float]] = {}
        self._trained: set[int] = set()
        self._last: int | None = None
        self.unseen = None

    def look(self) -> None:
        """Looks at the batch that was yielded last."""
        unseen, self.unseen = self.unseen, None
        if unseen is not None:
            samples, tokens = size_of(unseen[1])
            self.fetched(unseen[0], samples, tokens, unseen[2])

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
        self.look()
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
                samples, tokens = size_of(unseen[1])
                return samples, tokens, unseen[2]
            self.look()
        pending = self.pending
        if not pending:
            return NOTHING
        drawn = [entry for data_set, entry in pending.items() if data_set in self._trained]
        if not drawn and self._last in pending:
            drawn = [pending[self._last]]
            if len(self._trained) >= MOST_DATA_SETS:
                self._trained.clear()
            self._trained.add(self._last)
        pending.clear()
        if not drawn:
            return NOTHING
        if len(drawn) == 1:
            return drawn[0][0], drawn[0][1], drawn[0][2]
        return sum(e[0] for e in drawn), sum(e[1] for e in drawn), sum(e[2] for e in drawn)
