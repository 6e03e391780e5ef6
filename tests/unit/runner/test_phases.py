"""The clock without a sign of work: phases stop it, the slowest step does not count them, and a stopped process is seen by its pod."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from gpujob_runner.report import settings
from gpujob_runner.report.rank import Rank
from gpujob_runner.report.settings import Settings
from gpujob_runner.report.standstill import phases, stack
from gpujob_runner.report.standstill.phases import Phases, slowest_step
from tests.unit.runner.test_no_false_alarm import FAKE, Run, write_tree


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        for module in ("standstill.phases", "rank"):
            monkeypatch.setattr(f"gpujob_runner.report.{module}.perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.parametrize(
    ("spans", "slowest"),
    [([], 30.0), ([(12.0, 38.0)], 10.0), ([(5.0, 45.0)], 5.0), ([(-9.0, 60.0)], 0.0), ([(60.0, 90.0)], 30.0),
     ([(12.0, 20.0), (20.0, 38.0)], 10.0), ([(10.0, 40.0)], 10.0)],
)  # fmt: skip
def test_the_slowest_step_without_phases(spans: list[tuple[float, float]], slowest: float) -> None:
    assert slowest_step([0.0, 10.0, 40.0, 50.0], spans) == slowest


def test_time_without_a_cpu_is_no_standstill_and_no_slow_step(clock: Clock) -> None:
    rank = Rank(Settings(0, "", "", None, None), 1.0)
    rank.step()
    clock.now += 3
    rank.froze(clock.now - 2, clock.now)
    assert rank.still() == 1
    clock.now += 100
    rank.froze(clock.now - 60, clock.now)
    clock.now += 4
    assert rank.still() == 45
    rank.step()
    assert (rank.still(), rank.slowest()) == (0, 45)
    # What was before a sign of work does not count against what follows it.
    clock.now += 50
    assert rank.still() == 50


def test_fewer_than_two_steps_have_no_slowest() -> None:
    assert slowest_step([], []) is None
    assert slowest_step([1.0], [(0.0, 2.0)]) is None


def test_signs_of_work_and_phases(clock: Clock) -> None:
    rank = Rank(Settings(0, "", "", None, None), 1.0)
    clock.now += 5
    assert rank.still() == 5
    rank.step()
    clock.now += 7
    assert rank.still() == 7
    rank.ledger.batch_at = clock.now
    clock.now += 2
    assert rank.still() == 2
    key = rank.phases.begin("Saving")
    clock.now += 500
    assert (rank.still(), rank.figures()["phase"]) == (0.0, {"Saving": 1.0})
    rank.phases.end(key)
    rank.phases.end(key)
    clock.now += 3
    assert (rank.still(), rank.figures()["phase"]) == (3.0, {"Training": 1.0})
    rank.step()
    assert rank.slowest() == 12.0


def test_phases_overlap_and_the_last_one_entered_is_told(clock: Clock) -> None:
    found = Phases()
    first = found.begin("Evaluating")
    clock.now += 1
    found.notice("Compiling")
    assert found.current() == "Compiling"
    found.end(first)
    assert (found.current(), found.is_reported, found.is_seen) == ("Compiling", False, True)
    clock.now += 1
    found.notice(None)
    assert (found.current(), found.is_seen, found.ended) == ("Training", False, clock.now)
    assert list(found.spans) == [(1000.0, 1001.0), (1001.0, 1002.0)]
    for _ in range(500):
        found.end(found.begin("Saving"))
    assert len(found.spans) == phases.MOST_SPANS


def of(limit: float | None = None) -> Rank:
    return Rank(Settings(0, "", "", None, None, phase_seconds=limit), 1.0)


def test_the_first_phase_of_a_kind_has_two_hours_without_a_sign(clock: Clock) -> None:
    rank = of()
    rank.step()
    clock.now += 5
    rank.phases.begin("Evaluating")
    clock.now += 7199
    assert (rank.still(), rank.phase_left()) == (0.0, 1.0)
    clock.now += 1
    assert (rank.still(), rank.phase_left(), rank.figures()["phase"]) == (7205.0, 0.0, {"Evaluating": 1.0})


def test_a_batch_in_a_phase_gives_it_its_bound_again(clock: Clock) -> None:
    rank = of()
    rank.phases.begin("Evaluating")
    clock.now += 7000
    rank.ledger.batch_at = clock.now
    clock.now += 7000
    assert (rank.still(), rank.phase_left()) == (0.0, 200.0)


@pytest.mark.parametrize(
    ("lengths", "bound"),
    [([], 7200.0), ([60.0], 7200.0), ([3600.0], 21600.0), ([3600.0, 60.0], 21600.0), ([1200.1], 7200.6)],
)
def test_a_later_phase_has_six_times_the_longest_of_its_kind(clock: Clock, lengths: list[float], bound: float) -> None:
    rank = of()
    for seconds in lengths:
        key = rank.phases.begin("Saving")
        clock.now += seconds
        rank.phases.end(key)
    assert rank.phases.bound("Saving") == pytest.approx(bound)
    assert rank.phases.bound("Evaluating") == 7200.0
    rank.phases.begin("Saving")
    clock.now += bound - 1
    assert rank.still() == 0.0
    clock.now += 2
    assert rank.still() == pytest.approx(bound + 1)


@pytest.mark.parametrize("way", ["said", "seen"])
def test_phase_seconds_replaces_the_bound(clock: Clock, way: str) -> None:
    rank = of(20.0)
    if way == "said":
        rank.phases.begin("Saving")
    else:
        rank.phases.notice("Compiling")
    clock.now += 19
    rank.phases.notice("Compiling" if way == "seen" else None)
    assert rank.still() == 0.0
    clock.now += 2
    assert rank.still() == 21.0
    rank.step()
    assert (rank.still(), rank.phase_left()) == (0.0, 20.0), "a step is a sign of work, also in a phase"


def test_phase_seconds_come_from_the_pod() -> None:
    read = settings.read({"GPUJOB_REPORT_PORT": "0", "GPUJOB_PHASE_SECONDS": "30"})
    assert read is not None
    assert read.phase_seconds == 30.0
    for odd in ("", "x", "-1", "0", "nan"):
        read = settings.read({"GPUJOB_REPORT_PORT": "0", "GPUJOB_PHASE_SECONDS": odd})
        assert read is not None
        assert read.phase_seconds is None, odd


@pytest.mark.parametrize(
    ("calls", "phase"),
    [([("/x/torch/_dynamo/convert_frame.py", "_compile")], "Compiling"),
     ([("/x/ast.py", "visit"), ("/x/triton/compiler/code_generator.py", "visit_For")], "Compiling"),
     ([("/x/torch/utils/cpp_extension.py", "load")], "Compiling"),
     ([("/x/torch/serialization.py", "save")], "Saving"), ([("/x/torch/serialization.py", "load")], None),
     ([("/x/safetensors/torch.py", "save_file")], "Saving"), ([("/x/safetensors/torch.py", "load_file")], None),
     ([("/x/torch/_dynamo/eval_frame.py", "compile_wrapper"), ("/x/train.py", "step")], None),
     ([("/x/torch/_inductor/compile_fx.py", "run")], None), ([("/code/save.py", "save")], None), ([], None)],
)  # fmt: skip
def test_phases_by_what_is_executed(calls: Any, phase: str | None) -> None:
    assert stack._phase_of(calls) == phase


def test_a_stopped_rank_of_a_pod_is_told_by_the_other(tmp_path: Path) -> None:
    site = write_tree(tmp_path / "site", FAKE)
    serves = Run(tmp_path, site, "3", "0.2", "hang", RANK="0", WORLD_SIZE="2")
    try:
        wait_for(lambda: (tmp_path / "report" / "port").exists())
        stops = Run(tmp_path, site, "3", "0.2", "hang", RANK="1", WORLD_SIZE="2")
        try:
            wait_for(lambda: '"rank": 1' in serves.ranks())
            stops.process.send_signal(signal.SIGSTOP)
            message = ""
            end = time.monotonic() + 120
            while time.monotonic() < end and "has not answered" not in message:
                message = serves.judged()
                time.sleep(0.5)
            assert "rank 1 (pod p0 on node n0) is at step" in message
            assert "its process is stopped, or keeps Python's lock" in message
        finally:
            stops.process.kill()
            stops.process.wait()
    finally:
        serves.process.kill()
        serves.process.wait()


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_the_stack_of_a_thread_that_is_not_there() -> None:
    assert stack.stack_of(1) == []


def test_a_hang_in_a_phase_is_a_stall_after_its_bound(tmp_path: Path) -> None:
    """A real process: what its stack shows gives a phase that the program says no second bound."""
    site = write_tree(tmp_path / "site", FAKE)
    run = Run(tmp_path, site, "3", "0.2", "hang in a save", GPUJOB_PHASE_SECONDS="15")
    try:
        message, end, began = "", time.monotonic() + 120, 0.0
        while time.monotonic() < end and "(phase Saving)" not in message:
            began = began or (time.monotonic() if "hangs" in run.output else 0.0)
            message = run.judged()
            time.sleep(0.5)
        assert time.monotonic() - began > 14.0
        assert re.match(
            r"no step for \d\d seconds after step 90; the bound is 10 seconds \(spec\.stall\.afterSeconds\); "
            r"rank 0 \(pod p0 on node n0\) is at step 90 \(phase Saving\)",
            message,
        ), message
        wait_for(lambda: "torch/serialization.py:" in run.judged())
        # It stays so for longer than the six seconds within which the reporter sees a phase by itself.
        end = time.monotonic() + 8.0
        while time.monotonic() < end:
            assert "(phase Saving)" in run.judged()
            time.sleep(0.5)
    finally:
        run.process.kill()
        run.process.wait()
