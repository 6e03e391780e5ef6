"""How many samples and tokens a batch holds, and which of the batches fetched were trained on."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from math import prod
from typing import Any

from gpujob_runner.report import guard

DEEPEST = 4
MOST_DATA_SETS = 256
MOST_LOOKS = 64
"""Parts of a batch that are looked at, in the training's thread."""
MOST_SAMPLES = 1024
"""Samples in a list whose tokens are added up."""
LOOKS_IN_VAIN = 8
"""Batches of a data set without a size, one after the other, until it is left alone."""
BATCHES_BETWEEN_LOOKS = 256
"""Of a data set that is left alone, so that another one of the same identity is not left alone for ever."""

NOTHING = (0.0, 0.0, 0.0)
NO_SIZE = (0, 0)
SEQUENCES = (list, tuple)


_in_vain: dict[int, int] = {}
"""Batches without a size since the last one with a size, by data set."""


def size_of(batch: Any, data_set: int = 0) -> tuple[int, int]:
    """(samples, tokens) of what a DataLoader yielded; 0 where it cannot be told, and always once several batches failed.

    Samples are the leading dimension of the first tensor, tokens the elements of `input_ids`. Reads shapes only, never
    values, so that nothing waits for a device, and at most `MOST_LOOKS` parts of a batch, whatever it is made of. A
    `data_set` (any identity of it) whose batches show no size is left alone after some.
    """
    if guard.failures and guard.is_off("batches"):
        return 0, 0
    try:
        if type(batch) in SEQUENCES and batch:
            # Nearly every batch: inputs and targets side by side. What follows would say the same, only later.
            shape = getattr(batch[0], "shape", None)
            if shape and not hasattr(batch[0], "keys"):
                return int(shape[0]), 0
        return _looked_at(batch, data_set)
    except Exception as error:
        guard.failed("batches", error)
        return 0, 0


def _looked_at(batch: Any, data_set: int) -> tuple[int, int]:
    in_vain = _in_vain.get(data_set, 0)
    if in_vain < LOOKS_IN_VAIN or in_vain % BATCHES_BETWEEN_LOOKS == 0:
        found = Look().size(batch, 0)
        if found != NO_SIZE:
            if in_vain:
                del _in_vain[data_set]
            return found
    if len(_in_vain) >= MOST_DATA_SETS:
        _in_vain.clear()
    _in_vain[data_set] = in_vain + 1
    return NO_SIZE


class Look:
    """One look at a batch, which ends with what it found or when it has seen `MOST_LOOKS` parts."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_LOOKS

    def size(self, batch: Any, depth: int) -> tuple[int, int]:
        """(samples, tokens) of a part of a batch, `depth` containers inside it."""
        self.left -= 1
        if self.left < 0:
            return 0, 0
        shape = getattr(batch, "shape", None)
        if shape is not None:
            return (int(shape[0]) if len(shape) else 1), 0
        if depth >= DEEPEST or batch is None or isinstance(batch, (str, bytes)):
            return 0, 0
        if type(batch) is dict:
            return self._of_mapping(batch, depth)
        graphs = getattr(batch, "num_graphs", None)
        if isinstance(graphs, int):
            return graphs, 0
        if isinstance(batch, (list, tuple)):
            return self._of_sequence(batch, depth)
        if isinstance(batch, Mapping):
            return self._of_mapping(batch, depth)
        fields = getattr(type(batch), "__dataclass_fields__", None)
        if fields is not None:
            return self._of_mapping({name: getattr(batch, name, None) for name in islice(fields, self.left)}, depth)
        return 0, 0

    def _of_mapping(self, batch: Mapping[Any, Any], depth: int) -> tuple[int, int]:
        if "input_ids" in batch:
            shape = getattr(batch["input_ids"], "shape", None)
            if shape is not None:
                return (int(shape[0]) if len(shape) > 1 else 1), int(prod(shape))
        for key in islice(batch, self.left):
            found = self.size(batch[key], depth + 1)
            if found != NO_SIZE or self.left <= 0:
                return found
        return 0, 0

    def _of_sequence(self, batch: Any, depth: int) -> tuple[int, int]:
        """A list of alike samples counts its entries; inputs and targets side by side count as the inputs."""
        if not batch:
            return 0, 0
        first = batch[0]
        if isinstance(first, (str, bytes, int, float)):
            return len(batch), 0
        if isinstance(batch, list) and len(batch) > 1 and all(map(_is_mapping, islice(batch, MOST_LOOKS))):
            return len(batch), self._tokens_of(batch, depth)
        if isinstance(first, (list, tuple)) and depth == 0:
            return len(first), 0
        shape = getattr(first, "shape", None)
        if shape is not None and not len(shape):
            return len(batch), 0
        return self.size(first, depth + 1)

    def _tokens_of(self, samples: list[Any], depth: int) -> int:
        """The tokens of a list of samples; 0 where the first has none, or where they are too many to be looked at."""
        if "input_ids" in samples[0]:
            return sum(map(_tokens_in, samples)) if len(samples) <= MOST_SAMPLES else 0
        if not self.size(samples[0], depth + 1)[1]:
            return 0
        tokens = sum(self.size(sample, depth + 1)[1] for sample in islice(samples, self.left + 1))
        return tokens if self.left >= 0 else 0


def _is_mapping(part: Any) -> bool:
    return isinstance(part, Mapping)


def _tokens_in(sample: Any) -> int:
    """The elements of the `input_ids` of one sample of a list."""
    if not isinstance(sample, Mapping) or "input_ids" not in sample:
        return 0
    shape = getattr(sample["input_ids"], "shape", None)
    return 0 if shape is None else int(prod(shape))


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
            samples, tokens = size_of(unseen[1], unseen[0])
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
                samples, tokens = size_of(unseen[1], unseen[0])
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
