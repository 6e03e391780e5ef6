"""Progress is written seldom for each job, and two a second for the whole cluster whatever the jobs do."""

from __future__ import annotations

from gpujob.cluster.queue.turns import ProgressPace
from gpujob.lifecycle.timings import Timings

EVERY = Timings().progress


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_job_waits_for_its_time_unless_much_was_done() -> None:
    clock = Clock()
    pace = ProgressPace(clock, EVERY, 2.0)
    assert pace.wait("a", soon=False) == EVERY
    assert pace.wait("a", soon=True) == 0
    assert pace.wait("a", soon=False) == EVERY
    clock.now += EVERY
    assert pace.wait("a", soon=False) == 0


def test_a_thousand_jobs_that_all_have_much_to_say_take_turns() -> None:
    clock = Clock()
    pace, written = ProgressPace(clock, EVERY, 2.0), list[str]()
    jobs = {f"job-{number}" for number in range(1000)}
    while jobs and clock.now < 2000:
        for uid in sorted(jobs):
            if pace.wait(uid, soon=True) == 0:
                written.append(uid)
                jobs.discard(uid)
        clock.now += 0.25
    assert len(written) == 1000
    assert 490 < clock.now - 1000 < 510


def test_a_job_that_is_gone_keeps_no_turn() -> None:
    clock = Clock()
    pace = ProgressPace(clock, EVERY, 2.0)
    assert pace.wait("a", soon=True) == 0
    assert pace.wait("b", soon=True) > 0
    pace.forget("b")
    clock.now += 10
    assert pace.wait("a", soon=True) == 0
