"""Samples and tokens of batches, by shape alone, and which batches count for a step."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from gpujob_runner.report import guard
from gpujob_runner.report.readings import batches
from gpujob_runner.report.readings.batches import kept, size_of
from gpujob_runner.report.readings.ledger import Ledger


@pytest.fixture(autouse=True)
def nothing_in_vain_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_in_vain", {})


class Tensor:
    """What a tensor is to the reporter: a shape."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape


class Nested:
    """A nested tensor of torch, which has no shape, or one that is no number."""

    is_nested = True

    def __init__(self, samples: int, elements: int) -> None:
        self._samples, self._elements = samples, elements

    @property
    def shape(self) -> tuple[int, ...]:
        raise RuntimeError("NestedTensorImpl doesn't support sizes")

    def size(self, dimension: int) -> int:
        assert dimension == 0
        return self._samples

    def values(self) -> Tensor:
        return Tensor(self._elements)


class Sizes(list[int]):
    device = SimpleNamespace(type="cpu")


class Packed(NamedTuple):
    """As torch packs sequences."""

    data: Any
    batch_sizes: Any


class Table:
    """A dictionary of tensors that has a shape too, and refuses `in`, as tensordict does."""

    def __init__(self, parts: dict[str, Any], samples: int) -> None:
        self._parts, self.shape = parts, (samples,)

    def keys(self) -> Any:
        return self._parts.keys()

    def __getitem__(self, name: str) -> Any:
        return self._parts[name]

    def __contains__(self, name: str) -> bool:
        raise NotImplementedError


class Graphs:
    num_graphs = 7


class Encoding(dict[str, Any]):
    pass


class Named(NamedTuple):
    names: list[str]
    images: Any


@dataclasses.dataclass
class Record:
    name: str
    images: Any


class Endless(Mapping[str, Any]):
    """A mapping whose keys never end; `reads` counts how often it is read."""

    reads = 0

    def __iter__(self) -> Iterator[str]:
        return map(str, itertools.count())

    def __len__(self) -> int:
        return 1

    def __contains__(self, key: object) -> bool:
        return key != "input_ids"

    def __getitem__(self, key: str) -> Any:
        self.reads += 1
        return "text"


class Keyed:
    """Something with keys that is no mapping."""

    def keys(self) -> Iterator[str]:
        return map(str, itertools.count())

    def __getitem__(self, key: str) -> Any:
        return None


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        pytest.param(Tensor(8, 3, 224, 224), (8, 0), id="images"),
        pytest.param([Tensor(8, 3), Tensor(8)], (8, 0), id="inputs and targets"),
        pytest.param((Tensor(8, 3), Tensor(8)), (8, 0), id="a tuple of them"),
        pytest.param({"input_ids": Tensor(4, 128), "labels": Tensor(4, 128)}, (4, 512), id="tokens"),
        pytest.param(
            {"labels": Tensor(4, 128), "input_ids": Tensor(4, 128)}, (4, 512), id="tokens, whatever comes first"
        ),
        pytest.param({"input_ids": Tensor(128)}, (1, 128), id="one sample of tokens"),
        pytest.param(Encoding(input_ids=Tensor(2, 5)), (2, 10), id="anything with keys"),
        pytest.param((Encoding(input_ids=Tensor(2, 5)), Tensor(2)), (2, 10), id="tokens and targets"),
        pytest.param({"pixel_values": Tensor(6, 3, 8, 8)}, (6, 0), id="a mapping without tokens"),
        pytest.param([{"image": Tensor(3, 8, 8)}, {"image": Tensor(3, 9, 9)}], (2, 0), id="a list of samples"),
        pytest.param([{"input_ids": Tensor(5)}, {"input_ids": Tensor(7)}], (2, 12), id="a list of samples with tokens"),
        pytest.param((["a.png", "b.png"], Tensor(2)), (2, 0), id="names and targets"),
        pytest.param(([Tensor(3, 8, 8)] * 5, [{}] * 5), (5, 0), id="detection"),
        pytest.param([Tensor(), Tensor(), Tensor()], (3, 0), id="numbers"),
        pytest.param(["a", "b"], (2, 0), id="texts"),
        pytest.param(Graphs(), (7, 0), id="graphs"),
        pytest.param(Tensor(), (1, 0), id="one number"),
        pytest.param([{"input_ids": Tensor(5)}] * 1024, (1024, 5120), id="many samples with tokens"),
        pytest.param([{"x": {"input_ids": Tensor(1, 5)}}] * 8, (8, 40), id="tokens deeper in samples"),
        pytest.param([{"x": {"input_ids": Tensor(1, 5)}}] * 500, (500, 0), id="too many to be added up"),
        pytest.param([{"input_ids": Tensor(5)}] * 1025, (1025, 0), id="more than are added up"),
        pytest.param(Named(["a"] * 3, Tensor(3, 8)), (3, 0), id="a named tuple"),
        pytest.param(Record("a", Tensor(3, 8)), (3, 0), id="a dataclass"),
        pytest.param(Record("a", {"input_ids": Tensor(3, 8)}), (3, 24), id="tokens in a dataclass"),
        pytest.param({str(n): "text" for n in range(40)} | {"x": Tensor(3)}, (3, 0), id="a wide mapping"),
        pytest.param({str(n): "text" for n in range(400)} | {"x": Tensor(3)}, (0, 0), id="too wide a mapping"),
        pytest.param([{"text": "x"}] * 1000, (1000, 0), id="many samples of text"),
        pytest.param(Keyed(), (0, 0), id="keys of what is no mapping"),
        pytest.param({"input_ids": [[1] * 5, [1] * 7]}, (2, 12), id="lists of tokens"),
        pytest.param({"input_ids": [Tensor(5), Tensor(7)]}, (2, 12), id="tensors of tokens of the samples"),
        pytest.param({"input_ids": [Tensor(3)] * 16}, (3, 48), id="lists of tokens, collated by torch"),
        pytest.param({"input_ids": [1] * 9}, (1, 9), id="one list of tokens"),
        pytest.param({"input_ids": [[1] * 2] * 1025}, (1025, 0), id="more lists of tokens than are added up"),
        pytest.param({"input_ids": ["a", "b"], "x": Tensor(2, 4)}, (2, 0), id="texts that are called tokens"),
        pytest.param([{"input_ids": [1] * 5}, {"input_ids": [1] * 7}], (2, 12), id="samples with lists of tokens"),
        pytest.param({"input_ids": Nested(2, 12)}, (2, 12), id="nested tokens"),
        pytest.param({"x": Nested(2, 12)}, (2, 0), id="a nested tensor"),
        pytest.param([Nested(2, 12), Tensor(2)], (2, 0), id="a nested tensor and targets"),
        pytest.param(Packed(Tensor(60, 3), Sizes([4, 4, 2])), (4, 0), id="packed sequences"),
        pytest.param((Packed(Tensor(60, 3), Sizes([4, 4, 2])), Tensor(4)), (4, 0), id="packed sequences and targets"),
        pytest.param({"x": Packed(Tensor(60, 3), Sizes([4, 2]))}, (4, 0), id="packed sequences in a mapping"),
        pytest.param(Table({"input_ids": Tensor(4, 9)}, 4), (4, 36), id="a dictionary of tensors with a shape"),
        pytest.param(Table({"x": Tensor(4, 9)}, 4), (4, 0), id="the same without tokens"),
        pytest.param({"epoch": Tensor(), "x": Tensor(3, 4)}, (3, 0), id="a number before the samples"),
        pytest.param([Tensor(), Tensor(3, 4)], (3, 0), id="a number beside the samples"),
        pytest.param([7, Tensor(3, 4)], (3, 0), id="a plain number beside the samples"),
        pytest.param((None, Tensor(3, 4)), (3, 0), id="none beside the samples"),
        pytest.param(("task", Tensor(3, 4)), (3, 0), id="a name beside the samples"),
        pytest.param(["a", None], (2, 0), id="texts, one missing"),
        pytest.param([], (0, 0), id="nothing"),
        pytest.param(None, (0, 0), id="none"),
        pytest.param(object(), (0, 0), id="something else"),
        pytest.param({"meta": "x", "deep": {"deeper": {"x": [Tensor(3)]}}}, (3, 0), id="nested"),
    ],
)
def test_size(batch: Any, size: tuple[int, int]) -> None:
    assert size_of(batch) == size
    assert batches.Inspection().size(batch, 0) == size, "the short way for the commonest batches says something else"


@pytest.mark.parametrize(
    ("batch", "take_apart", "size"),
    [
        pytest.param({"input_ids": Tensor(4, 9), "y": 1}, lambda b: b.pop("input_ids"), (4, 36), id="popped"),
        pytest.param(
            UserDict(input_ids=Tensor(4, 9)), lambda b: b.pop("input_ids"), (4, 36), id="popped as transformers has it"
        ),
        pytest.param(Encoding(input_ids=Tensor(4, 9)), lambda b: b.clear(), (4, 36), id="cleared"),
        pytest.param([Tensor(4, 9), Tensor(4)], lambda b: b.clear(), (4, 0), id="a list"),
        pytest.param([{"input_ids": Tensor(4, 9)}, Tensor(4)], lambda b: b[0].clear(), (4, 36), id="in a list"),
        pytest.param(({"input_ids": Tensor(4, 9)}, Tensor(4)), lambda b: b[0].clear(), (4, 36), id="in a tuple"),
        pytest.param({"input_ids": Tensor(4, 9)}, lambda b: b.update(input_ids=None), (4, 36), id="replaced"),
    ],
)
def test_a_batch_that_the_program_takes_apart_before_its_step_counts_as_it_came(
    batch: Any, take_apart: Callable[[Any], Any], size: tuple[int, int]
) -> None:
    held = kept(batch)
    take_apart(batch)
    assert size_of(held) == size


@pytest.mark.parametrize("batch", [Endless(), [[]] * 100_000, {n: n for n in range(100_000)}, None, "x"])
def test_what_is_kept_of_a_batch_is_little(batch: Any) -> None:
    held = kept(batch)
    assert held is batch or len(held) <= batches.MOST_PARTS + 1


def test_a_batch_inside_itself_is_kept() -> None:
    batch: list[Any] = []
    batch.append(batch)
    assert size_of(kept(batch)) == (1, 0)


def test_a_batch_that_holds_itself_ends() -> None:
    batch: list[Any] = []
    batch.append(batch)
    assert size_of([batch]) == (1, 0)


def test_batches_of_an_accumulated_step_add_up() -> None:
    ledger = Ledger()
    for _ in range(4):
        ledger.fetched(1, 8, 80, 0.5)
    assert ledger.take() == (32, 320, 2.0)
    assert ledger.take() == (0, 0, 0)


def test_an_evaluation_between_two_steps_is_not_trained_on() -> None:
    ledger = Ledger()
    ledger.fetched(1, 8, 0, 0)
    ledger.take()
    for _ in range(10):
        ledger.fetched(2, 100, 0, 0)
    ledger.ended(2)
    ledger.fetched(1, 8, 0, 0)
    assert ledger.take()[0] == 8


def test_an_evaluation_before_the_last_step_of_an_epoch_read_ahead_is_not_trained_on() -> None:
    ledger = Ledger()
    ledger.fetched(1, 8, 0, 0)
    ledger.fetched(1, 8, 0, 0)
    ledger.take()
    ledger.fetched(2, 100, 0, 0)
    ledger.ended(2)
    assert ledger.take()[0] == 0


def test_an_evaluation_before_the_training_is_not_trained_on() -> None:
    ledger = Ledger()
    ledger.fetched(2, 100, 0, 0)
    ledger.fetched(1, 8, 0, 0)
    assert ledger.take()[0] == 8


def test_of_two_data_sets_read_in_step_the_last_counts() -> None:
    ledger = Ledger()
    taken = []
    for _ in range(3):
        ledger.fetched(1, 8, 0, 0)
        ledger.fetched(2, 24, 0, 0)
        taken.append(ledger.take()[0])
    assert taken == [24, 24, 24]


def test_a_second_phase_on_other_data_counts() -> None:
    ledger = Ledger()
    ledger.fetched(1, 8, 0, 0)
    ledger.take()
    ledger.fetched(2, 16, 0, 0)
    assert ledger.take()[0] == 16


def test_every_batch_of_an_epoch_counts_with_its_own_size() -> None:
    ledger, taken = Ledger(), []
    for samples in (8, 8, 8, 3):
        ledger.unseen = (1, [Tensor(samples, 4), Tensor(samples)], 0.5, None)
        taken.append(ledger.take())
    assert taken == [(8, 0, 0.5), (8, 0, 0.5), (8, 0, 0.5), (3, 0, 0.5)]
    assert ledger.take() == (0, 0, 0)


def test_a_batch_of_another_data_set_between_two_steps_is_not_trained_on() -> None:
    ledger = Ledger()
    for data_set, samples in ((1, 8), (2, 100), (1, 8)):
        if ledger.unseen is not None:
            ledger.inspect()
        ledger.unseen = (data_set, Tensor(samples), 0.0, None)
        if data_set == 1:
            assert ledger.take()[0] == 8


class DataSet:
    """One that another may follow at the same place in memory."""


def test_an_evaluation_of_the_identity_that_a_trained_data_set_had_is_not_trained_on() -> None:
    ledger, first, second = Ledger(), DataSet(), DataSet()
    for data_set, identity in ((first, 1), (second, 2)):
        ledger.unseen = (identity, Tensor(8), 0.0, data_set)
        ledger.inspect()
        assert ledger.take()[0] == 8
    del first, data_set
    ledger.unseen = (1, Tensor(24), 0.0, DataSet())
    ledger.inspect()
    ledger.unseen = (2, Tensor(8), 0.0, second)
    assert ledger.take()[0] == 8


class Broken:
    """A batch that cannot be looked at."""

    looks = 0

    @property
    def shape(self) -> None:
        Broken.looks += 1
        raise ValueError("not now")


def test_batches_that_cannot_be_looked_at_are_nothing_and_soon_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "failures", {})
    monkeypatch.setattr(guard, "say", lambda text: None)
    ledger = Ledger()
    for _ in range(9):
        ledger.unseen = (1, Broken(), 0.25, None)
        assert ledger.take() == (0, 0, 0.25)
    assert (Broken.looks, guard.failures) == (3, {"batches": 3})


class Counted:
    """A part of a batch that counts how often one is looked at."""

    looks = 0

    def __getattr__(self, name: str) -> Any:
        if name == "shape":
            Counted.looks += 1
        raise AttributeError(name)


@pytest.mark.parametrize(
    "batch",
    [
        {n: {m: {k: [Counted()] for k in range(24)} for m in range(24)} for n in range(24)},
        [{"a": Counted()} for _ in range(100_000)],
        [[Counted()] * 100_000] * 2,
        {n: Counted() for n in range(100_000)},
        tuple({"a": Counted(), "b": {"c": Counted()}} for _ in range(100_000)),
    ],
    ids=["nested", "samples", "lists", "wide", "a tuple"],
)
def test_a_look_at_a_batch_has_an_end(batch: Any) -> None:
    Counted.looks = 0
    began = time.process_time()
    size_of(batch)
    assert time.process_time() - began < 0.05
    assert Counted.looks <= batches.MOST_PARTS


def test_a_mapping_without_an_end_is_read_for_a_while() -> None:
    endless = Endless()
    assert size_of(endless) == (0, 0)
    assert endless.reads <= batches.MOST_PARTS


def test_a_data_set_without_a_size_is_left_alone_and_looked_at_again_now_and_then() -> None:
    Counted.looks = 0
    for _ in range(batches.BATCHES_BETWEEN_INSPECTIONS):
        assert size_of(Counted(), 7) == (0, 0)
    assert Counted.looks == batches.INSPECTIONS_IN_VAIN
    assert size_of({"x": Tensor(4)}, 8) == (4, 0), "another data set"
    assert size_of({"x": Tensor(4)}, 7) == (4, 0), "the time to look again"
    assert size_of({"x": Tensor(4)}, 7) == (4, 0)
    for _ in range(batches.INSPECTIONS_IN_VAIN - 1):
        size_of(None, 7)
    assert size_of({"x": Tensor(4)}, 7) == (4, 0), "batches without a size between others"
