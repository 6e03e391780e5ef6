"""How many samples and tokens a batch holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import prod
from typing import Any

from gpujob_runner.report import guard

DEEPEST = 4
MOST_DATA_SETS = 256
MOST_PARTS = 64
"""Parts of a batch that are inspected, in the training's thread."""
MOST_SAMPLES = 1024
"""Samples in a list whose tokens are added up."""
INSPECTIONS_IN_VAIN = 8
"""Batches of a data set without a size, one after the other, until it is left alone."""
BATCHES_BETWEEN_INSPECTIONS = 256
"""Of a data set that is left alone, so that another one of the same identity is not left alone too."""

NO_SIZE = (0, 0)
SEQUENCES = (list, tuple)
TEXTS = (str, bytes)


_in_vain: dict[int, int] = {}
"""Batches without a size since the last one with a size, by data set."""


def kept(batch: Any, depth: int = 0) -> Any:
    """The batch as it is now, for a later inspection: a program may take it apart meanwhile, as by `batch.pop("labels")`.

    Copies what holds the parts, never a part, and of a sequence the first part alone is kept so: that one is inspected.
    """
    kind = type(batch)
    if kind in SEQUENCES:
        if not batch or len(batch) > MOST_PARTS:
            return batch
        first = batch[0]
        if depth < DEEPEST and (type(first) in SEQUENCES or hasattr(first, "keys")):
            first = kept(first, depth + 1)
            return [first, *batch[1:]] if kind is list else (first, *batch[1:])
        return batch.copy() if kind is list else batch
    if kind is dict:
        return batch.copy() if len(batch) <= MOST_PARTS else batch
    if not hasattr(batch, "keys") or not isinstance(batch, Mapping):
        return batch
    names = islice(batch, MOST_PARTS)
    return {name: batch[name] for name in ("input_ids", *names) if name in batch}


def size_of(batch: Any, data_set: int = 0) -> tuple[int, int]:
    """(samples, tokens) of what a DataLoader yielded; 0 where it is unknown, and always once several batches failed.

    Samples are the leading dimension of the first tensor, tokens the elements of `input_ids`. Reads shapes only, never
    values, so that nothing waits for a device, and at most `MOST_PARTS` parts of a batch, whatever it is made of. A
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
        return _inspected(batch, data_set)
    except RuntimeError:  # such as of a nested tensor, which says its shape another way
        return _inspected_carefully(batch, data_set)
    except Exception as error:
        guard.failed("batches", error)
        return 0, 0


def _inspected_carefully(batch: Any, data_set: int) -> tuple[int, int]:
    try:
        return _inspected(batch, data_set)
    except Exception as error:
        guard.failed("batches", error)
        return 0, 0


def _inspected(batch: Any, data_set: int) -> tuple[int, int]:
    in_vain = _in_vain.get(data_set, 0)
    if in_vain < INSPECTIONS_IN_VAIN or in_vain % BATCHES_BETWEEN_INSPECTIONS == 0:
        found = Inspection().size(batch, 0)
        if found != NO_SIZE:
            if in_vain:
                del _in_vain[data_set]
            return found
    if len(_in_vain) >= MOST_DATA_SETS:
        _in_vain.clear()
    _in_vain[data_set] = in_vain + 1
    return NO_SIZE


class Inspection:
    """One inspection of a batch, which ends with what it found or when it has seen `MOST_PARTS` parts."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_PARTS

    def size(self, batch: Any, depth: int) -> tuple[int, int]:
        """(samples, tokens) of a part of a batch, `depth` containers inside it."""
        self.left -= 1
        if self.left < 0:
            return 0, 0
        shape = _shape_of(batch)
        if shape is not None:
            return _of_shaped(batch, shape)
        if depth >= DEEPEST or batch is None or isinstance(batch, TEXTS):
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
            found = _size_of_tokens(batch["input_ids"])
            if found != NO_SIZE:
                return found
        return self._first_size((batch[key] for key in islice(batch, self.left)), depth)

    def _of_sequence(self, batch: Any, depth: int) -> tuple[int, int]:
        """A list of alike samples counts its entries; inputs and targets side by side count as the inputs."""
        if not batch:
            return 0, 0
        first = batch[0]
        packed = _packed(batch)
        if packed:
            return packed, 0
        if _is_single(first) and all(part is None or _is_single(part) for part in islice(batch, MOST_PARTS)):
            return len(batch), 0
        if isinstance(batch, list) and len(batch) > 1 and all(map(_is_mapping, islice(batch, MOST_PARTS))):
            return len(batch), self._tokens_of(batch, depth)
        if isinstance(first, (list, tuple)) and depth == 0:
            return _packed(first) or len(first), 0
        return self._first_size(batch, depth)

    def _first_size(self, parts: Iterable[Any], depth: int) -> tuple[int, int]:
        """The first part that has a size; one number stands for one sample only where nothing else has a size."""
        single = NO_SIZE
        for part in parts:
            found = self.size(part, depth + 1)
            if found != NO_SIZE:
                if not _is_single(part):
                    return found
                single = found
            if self.left <= 0:
                break
        return single

    def _tokens_of(self, samples: list[Any], depth: int) -> int:
        """The tokens of a list of samples; 0 where the first has none, or where they are too many to be inspected."""
        if "input_ids" in samples[0]:
            return sum(map(_tokens_in, samples)) if len(samples) <= MOST_SAMPLES else 0
        if not self.size(samples[0], depth + 1)[1]:
            return 0
        tokens = sum(self.size(sample, depth + 1)[1] for sample in islice(samples, self.left + 1))
        return tokens if self.left >= 0 else 0


def _of_shaped(batch: Any, shape: Sequence[int]) -> tuple[int, int]:
    """A tensor; or a table or a dictionary of tensors, which has a shape and keys."""
    samples = int(shape[0]) if len(shape) else 1
    keys = getattr(batch, "keys", None)
    if keys is None or "input_ids" not in keys():
        return samples, 0
    return samples, _size_of_tokens(batch["input_ids"])[1]


def _is_mapping(part: Any) -> bool:
    return isinstance(part, Mapping)


def _is_single(part: Any) -> bool:
    """Whether a part is one text or one number."""
    if isinstance(part, (*TEXTS, int, float)):
        return True
    shape = _shape_of(part)
    return shape is not None and not len(shape)


def _is_nested(part: Any) -> bool:
    return getattr(part, "is_nested", False) is True


def _shape_of(part: Any) -> Sequence[int] | None:
    """The shape; of a nested tensor, whose samples differ in length, its number of samples alone."""
    return (int(part.size(0)),) if _is_nested(part) else getattr(part, "shape", None)


def _packed(part: Any) -> int:
    """The sequences of a PackedSequence, whose first tensor has a row for each element: torch keeps their sizes on the host."""
    sizes = getattr(part, "batch_sizes", None)
    return int(sizes[0]) if sizes is not None and sizes.device.type == "cpu" and len(sizes) else 0


def _tokens_in(sample: Any) -> int:
    """The elements of the `input_ids` of one sample of a list."""
    if not isinstance(sample, Mapping) or "input_ids" not in sample:
        return 0
    return _length(sample["input_ids"]) or 0


def _length(sequence: Any) -> int | None:
    """The elements of one sequence of tokens; None for another value."""
    shape = getattr(sequence, "shape", None)
    if shape is not None:
        return int(prod(shape))
    return len(sequence) if type(sequence) in SEQUENCES and (not sequence or isinstance(sequence[0], int)) else None


def _size_of_tokens(ids: Any) -> tuple[int, int]:
    """(samples, tokens) of what stands under `input_ids`: a tensor, or a list of the samples' tensors or lists."""
    if _is_nested(ids):
        return int(ids.size(0)), int(prod(ids.values().shape))
    shape = getattr(ids, "shape", None)
    if shape is not None:
        return (int(shape[0]) if len(shape) > 1 else 1), int(prod(shape))
    if type(ids) not in SEQUENCES or not ids:
        return NO_SIZE
    if isinstance(ids[0], int):
        return 1, len(ids)
    lengths = [_length(sequence) for sequence in islice(ids, MOST_SAMPLES)]
    tokens = sum(length or 0 for length in lengths)
    if not tokens or None in lengths:
        return NO_SIZE
    if len(ids) > 1 and len(getattr(ids[0], "shape", ())) == 1 and len(set(lengths)) == 1:
        # Lists of one length, collated by torch: a tensor for each place, with an element of each sample.
        return lengths[0] or 0, tokens
    return len(ids), tokens if len(ids) <= MOST_SAMPLES else 0
