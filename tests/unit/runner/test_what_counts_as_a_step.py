"""Steps of one process: optimizers that take turns, the program's own line, and amounts from the spec."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gpujob_runner.report import guard, process
from gpujob_runner.report.hooks import torch_hooks
from gpujob_runner.report.rank import MOST_NAMES, RING, WINDOW, Rank
from gpujob_runner.report.settings import Settings


class Optimizer:
    """What an optimizer is here: an object of its own."""


def a_rank(samples_per_step: float | None = None, tokens_per_step: float | None = None) -> Rank:
    return Rank(Settings(0, "", "/nowhere", samples_per_step, tokens_per_step), started=1.0)


OPTIMIZER = Optimizer()


def steps(order: str) -> int:
    """Counted steps when the optimizers named by letters step in this order."""
    rank, optimizers = a_rank(), {letter: Optimizer() for letter in order}
    for letter in order:
        if rank.begins_step(optimizers[letter]):
            rank.step()
    return rank.steps


@pytest.mark.parametrize(
    ("order", "counted"),
    [
        pytest.param("AAAA", 4, id="one optimizer"),
        pytest.param("DGDGDG", 3, id="two that take turns"),
        pytest.param("DDDDDGDDDDDG", 10, id="a critic that steps five times for one step of its generator"),
        pytest.param("abcdabcdabcd", 3, id="one for each parameter"),
        pytest.param("abcddcbaabcd", 3, id="in another order"),
        pytest.param("IOIOIO", 3, id="one inside another"),
        pytest.param(
            "AAABBB", 5, id="one after another: the first step of the second belongs to the last of the first"
        ),
    ],
)
def test_optimizers(order: str, counted: int) -> None:
    assert steps(order) == counted


def test_an_optimizer_that_is_gone_takes_no_turns_any_more() -> None:
    rank = a_rank()
    for _ in range(3):
        optimizer = Optimizer()
        for _ in range(2):
            if rank.begins_step(optimizer):
                rank.step()
        del optimizer
    assert rank.steps == 6


def test_the_first_line_takes_over_the_steps_seen_before() -> None:
    rank = a_rank()
    for _ in range(3):
        if rank.steps_from == "optimizer" and rank.begins_step(OPTIMIZER):
            rank.step()
        rank.line(samples=8, tokens=None)
    assert (rank.steps, rank.samples) == (3, 24)


def test_a_first_step_whose_fate_only_the_device_knows_is_one_of_the_lines() -> None:
    rank = a_rank()
    rank.step(held=True)
    for _ in range(400):
        rank.line(samples=8, tokens=None)
    assert (rank.steps, rank.held, rank.samples) == (400, 0, 3200)


def test_a_line_before_its_optimizer_counts_once() -> None:
    rank = a_rank()
    for _ in range(3):
        rank.line(samples=8, tokens=None)
        if rank.steps_from == "optimizer" and rank.begins_step(OPTIMIZER):
            rank.step()
    assert (rank.steps, rank.samples) == (3, 24)


def test_a_line_without_samples_leaves_them_to_the_data_loader() -> None:
    rank = a_rank()
    for _ in range(3):
        rank.ledger.fetched(1, 8, 80, 0.0)
        rank.line(None, None)
    assert (rank.samples, rank.samples_from, rank.tokens) == (24, "dataloader", 240)


def test_samples_told_by_a_line_are_not_counted_by_the_data_loader_too() -> None:
    rank = a_rank()
    for _ in range(3):
        rank.ledger.fetched(1, 8, 80, 0.0)
        rank.line(5, None)
    assert (rank.samples, rank.samples_from, rank.tokens) == (15, "line", 240)


def test_samples_of_the_spec_are_shared_by_the_ranks() -> None:
    rank = a_rank(samples_per_step=256)
    rank.world_size = 8
    rank.ledger.fetched(1, 9, 0, 0.0)
    rank.step()
    rank.step()
    assert (rank.samples, rank.samples_from) == (64, "spec")


def test_tokens_of_the_spec_go_with_samples_of_the_data_loader() -> None:
    rank = a_rank(tokens_per_step=1000)
    for _ in range(3):
        rank.ledger.fetched(1, 9, 0, 0.0)
        rank.step()
    assert (rank.samples, rank.samples_from, rank.tokens, rank.tokens_from) == (27, "dataloader", 3000, "spec")


def test_tokens_that_begin_later_count_from_then_on() -> None:
    rank = a_rank()
    for tokens in (0, 0, 80, 80):
        rank.ledger.fetched(1, 8, tokens, 0.0)
        rank.step()
    assert (rank.samples, rank.tokens, rank.tokens_from) == (32, 160, "dataloader")


def test_durations_are_of_the_last_steps_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("gpujob_runner.report.rank.perf_counter", lambda: clock[0])
    monkeypatch.setattr("time.time", lambda: 5000.0 + clock[0])
    rank, seconds = a_rank(), [(number % 7 + 1) / 8 for number in range(3 * RING)]
    rank.step()
    for number, passed in enumerate(seconds, 1):
        clock[0] += passed
        rank.ledger.fetched(1, 8, 0, passed / 2)
        rank.step()
        if number in (1, 5, WINDOW, RING - 1, RING, RING + 1, len(seconds)):
            known = seconds[max(0, number - WINDOW) : number]
            assert rank.durations() == (known, [each / 2 for each in known])
    clock[0] += 60
    assert rank.last_step() == (5000.0 + clock[0] - 60, sum(seconds))
    figures = rank.figures()
    assert (figures["first_step_timestamp_seconds"], figures["data_wait_ratio"]) == (5100.0, 0.5)
    assert figures["step_duration_seconds"]["count"] == len(seconds)


def test_a_step_that_was_told_stays_when_the_wall_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = a_rank()
    rank.step()
    told = rank.last_step()
    monkeypatch.setattr("time.time", lambda: 5.0)
    assert rank.last_step() == told


class Batch:
    """What a batch of eight is to the reporter."""

    shape = (8, 4)


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> Rank:
    """A rank that the hook counts for, with the ledger of the process."""
    rank = a_rank()
    rank.ledger = process.ledger
    process.ledger.forget()
    monkeypatch.setattr(process, "rank", rank)
    return rank


def fetch_and_step(optimizer: Optimizer, *data_sets: int, batch: object = None) -> None:
    for data_set in data_sets:
        if process.ledger.unseen is not None:
            process.ledger.inspect()
        process.ledger.unseen = (data_set, batch or [Batch(), Batch()], 0.25, None)
    torch_hooks.after_step(optimizer, (), {})


def test_the_short_way_of_the_hook_counts_as_the_long_one(hooked: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        fetch_and_step(OPTIMIZER, 1)
    with monkeypatch.context() as patched:
        patched.setattr(torch_hooks, "_stepped", None)
        fetch_and_step(OPTIMIZER, 1)
    fetch_and_step(OPTIMIZER, 1, 1)  # Two batches accumulated.
    fetch_and_step(OPTIMIZER, 1)
    fetch_and_step(OPTIMIZER, 2, 1)  # A batch of another data set before.
    fetch_and_step(OPTIMIZER)
    fetch_and_step(OPTIMIZER, 1, batch={"input_ids": Batch()})
    assert (hooked.steps, hooked.samples, hooked.tokens, hooked.waited) == (9, 72, 32, 2.25)
    assert (hooked.counted, hooked.steps_from, hooked.samples_from, guard.failures) == (
        9,
        "optimizer",
        "dataloader",
        {},
    )


def test_a_step_that_a_scaler_looks_at_never_takes_the_short_way(hooked: Rank) -> None:
    optimizer = Optimizer()
    for _ in range(2):
        fetch_and_step(optimizer, 1)
    verdict = SimpleNamespace(device=SimpleNamespace(type="cpu"), item=lambda: 1.0)
    optimizer.found_inf = verdict  # type: ignore[attr-defined]
    fetch_and_step(optimizer, 1)
    assert (hooked.steps, hooked.skipped) == (2, 1)


def test_a_line_after_usual_steps_takes_over(hooked: Rank) -> None:
    for _ in range(3):
        fetch_and_step(OPTIMIZER, 1)
    for _ in range(3):
        hooked.line(None, None)
        fetch_and_step(OPTIMIZER, 1)
    assert hooked.steps == 5, "the first line is the step that the hook saw last"


def test_a_held_step_counts_once_it_is_known() -> None:
    rank = a_rank()
    for _ in range(4):
        rank.step(held=True)
    assert rank.steps == 0
    rank.release(4, skipped=1)
    assert (rank.steps, rank.skipped, rank.held) == (3, 1, 0)


def test_quantiles_are_of_the_last_steps() -> None:
    rank = a_rank()
    for _ in range(WINDOW + 10):
        rank.step()
    durations, waits = rank.durations()
    assert len(durations) == len(waits) == WINDOW
    summary = rank.figures()["step_duration_seconds"]
    assert summary["count"] == WINDOW + 9
    assert 0 <= summary["0.5"] <= summary["0.9"] <= summary["0.99"]


def test_a_training_metric_too_many_is_left_out() -> None:
    rank = a_rank()
    for number in range(MOST_NAMES + 5):
        rank.name_metric(f"name {number}", 1.0)
    rank.name_metric("name 0", 2.0)
    assert len(rank.metrics) == MOST_NAMES
    assert rank.metrics["name 0"] == 2.0


def test_what_is_not_known_has_no_value() -> None:
    figures = a_rank().figures()
    assert [name for name, value in figures.items() if value is None] == [
        "samples_total",
        "tokens_total",
        "data_wait_ratio",
        "first_step_timestamp_seconds",
        "last_step_timestamp_seconds",
        "slowest_step_seconds",
        "phase_left_seconds",
        "progress_ratio",
        "remaining_seconds",
        "progress_timestamp_seconds",
        "checkpoint_step",
        "checkpoint_timestamp_seconds",
        "checkpoint_save_seconds",
        "unsaved_steps",
    ]


@pytest.mark.parametrize("source", ["optimizer", "line"])
def test_no_reader_sees_a_step_without_its_samples(source: str) -> None:
    """What the operator reads first decides by which counter it measures, so that samples are there before the step is."""
    told: list[tuple[int, float]] = []

    class Read(Rank):
        """A rank that is read right after it has counted the samples of a step."""

        def add(self, *drawn: object) -> None:
            super().add(*drawn)  # type: ignore[arg-type]
            told.append((self.steps, self.samples))

    rank = Read(Settings(0, "", "/nowhere", None, None), started=1.0)
    for number in range(3):
        rank.ledger.fetched(1, 32, 0, 0.0)
        rank.step() if source == "optimizer" else rank.line(32, None)
        assert rank.steps == number + 1
    assert told[0] == (0, 32.0)
