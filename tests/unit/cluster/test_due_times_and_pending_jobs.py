"""The earliest of many times is known without a look at all of them, and a queue's version number shows a change."""

from __future__ import annotations

import random

import pytest

from gpujob.cluster.queue.due_times import SLACK, DueTimes
from gpujob.cluster.queue.work_queue import WaitingUids


@pytest.mark.parametrize("seed", range(4))
def test_they_are_taken_as_a_plain_table_would_give_them(seed: int) -> None:
    chance, due, plain = random.Random(seed), DueTimes(), dict[str, float]()
    for now in range(2000):
        uid = f"u{chance.randrange(50)}"
        if chance.random() < 0.2:
            assert due.pop(uid, None) == plain.pop(uid, None)
        else:
            due[uid] = plain[uid] = float(chance.randrange(now, now + 100))
        assert due.first() == min(((at, uid) for uid, at in plain.items()), default=None)
        if chance.random() < 0.1:
            taken = {uid for uid, at in plain.items() if at <= now}
            assert due.take(now) == taken
            plain = {uid: at for uid, at in plain.items() if uid not in taken}
        assert dict(due) == plain


def test_a_time_that_is_set_for_ever_anew_takes_no_more_room() -> None:
    due = DueTimes()
    for number in range(10_000):
        due["u"] = float(number)
    assert len(due._heap) <= 2 + SLACK + 1
    due.clear()
    assert (due.first(), due._heap) == (None, [])


def test_a_queue_that_is_looked_at_again_is_the_same_and_any_change_of_it_is_seen() -> None:
    queue = WaitingUids()
    versions = [queue.version]
    for change in (
        lambda: queue.put("a", 1), lambda: queue.put("b", 1), lambda: queue.put("a", 2), lambda: queue.discard("b"),
    ):  # fmt: skip
        change()
        versions.append(queue.version)
    assert len(set(versions)) == len(versions)
    queue.put("a", 2)
    queue.discard("b")
    assert queue.version == versions[-1]
    assert set(queue) == {"a"}
