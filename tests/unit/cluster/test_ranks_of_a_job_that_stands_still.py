"""What the operator reads of the ranks of a job that stands still: strictly, of all pods, and only then."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_what_is_taken_of_a_report import Reading

from gpujob.cluster.metrics.exposition import MOST_BYTES, UnreadableReport
from gpujob.cluster.telemetry import scraper
from gpujob.cluster.telemetry.fetching import Refused, Silent, Unreached
from gpujob.cluster.telemetry.ranks import read_ranks
from gpujob.status.attempts.standstill import RankSeen
from gpujob.status.records.objects import PodState
from gpujob_runner.report.standstill.page import aged, ranks_page

POD = PodState("j-1", "c", "n1", "Running", running=True, leaving=False)


def page(*ranks: Any, uid: str = "u", attempt: str = "1") -> bytes:
    return json.dumps({"jobUid": uid, "attempt": attempt, "ranks": list(ranks)}).encode()


def test_what_the_reporter_writes_is_what_is_read() -> None:
    figures = {"steps_total": 7, "phase": {"Saving": 1.0}, "still_seconds": 3.5}
    told = {"rank": 3, "world_size": 8, "figures": figures, "stack": ["f (a.py:1)"], "silent": 12.0}
    assert read_ranks(ranks_page([told], "u", "1").encode(), POD, "u", 1) == (
        8, [RankSeen(3, "j-1", "n1", 7, "Saving", 3.5, 12.0, ("f (a.py:1)",))],
    )  # fmt: skip


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100000, page(uid="v"), page(attempt="2"), b"1" * 5000,
                                  b" " * (MOST_BYTES + 1), b'{"jobUid": "u", "attempt": 1}'])  # fmt: skip
def test_what_is_no_report_of_this_attempt(body: bytes) -> None:
    with pytest.raises(UnreadableReport):
        read_ranks(body, POD, "u", 1)


@pytest.mark.parametrize("odd", [None, "x", -1, 1e300, float("nan"), True, [], {}, 10**400])
def test_odd_members_read_as_absent(odd: Any) -> None:
    body = page(
        odd,
        {"rank": odd},
        {"rank": 1, "world": odd, "steps": odd, "phase": odd, "still": odd, "silent": odd, "stack": odd},
    )
    world, (seen,) = read_ranks(body, POD, "u", 1)
    assert (world, seen.rank, seen.steps, seen.still, seen.silent) == (1, 1, 0, 0.0, 0.0)


def test_bounds() -> None:
    many = [{"rank": number, "stack": ["x" * 900] * 60} for number in range(6)]
    _, ranks = read_ranks(page(*many[:6]), POD, "u", 1)
    assert all(len(each.stack) == 24 and {len(frame) for frame in each.stack} == {200} for each in ranks)
    _, ranks = read_ranks(page(*({"rank": number} for number in range(999))), POD, "u", 1)
    assert len(ranks) == 64


def test_a_process_that_writes_no_more_stands_still_unless_it_is_in_a_phase() -> None:
    def told(phase: str) -> dict[str, Any]:
        return {"rank": 1, "beat": 100.0, "figures": {"still_seconds": 5.0, "phase": {phase: 1.0}}}

    assert aged(told("Training"), 110.0) == told("Training")
    late = aged(told("Training"), 160.0)
    assert (late["figures"]["still_seconds"], late["silent"]) == (65.0, 60.0)
    assert aged(told("Compiling"), 160.0)["figures"]["still_seconds"] == 5.0
    for left, still in ((60.0, 0.0), (59.0, 60.0), (0.0, 60.0), ("x", 0.0), (-1.0, 60.0)):
        saving = told("Saving")
        saving["figures"] |= {"still_seconds": 0.0, "phase_left_seconds": left}
        assert aged(saving, 160.0)["figures"]["still_seconds"] == still, left
    for odd in ({}, {"beat": "x"}, {"beat": 1.0, "figures": 7}):
        assert aged(odd, 1e9) == odd


class Gang(Reading):
    """The job's pod, whose ranks are served beside its figures."""

    ranks: bytes | Exception = b""

    async def fetch(self, session: object, host: object, port: int, path: str = "/metrics") -> bytes:
        if path == "/metrics":
            if self.answer == b"silent":
                raise Silent("no reply within 3 seconds")
            return await super().fetch(session, host, port)
        self.asked.append(-port)
        if isinstance(self.ranks, Exception):
            raise self.ranks
        return self.ranks


def figures(still: float, phase: str = "Training") -> str:
    return (
        f'gpujob_up 1\ngpujob_steps_total{{rank="0"}} 9\ngpujob_still_seconds{{rank="0"}} {still}\n'
        f'gpujob_slowest_step_seconds{{rank="0"}} 2\ngpujob_phase{{rank="0",phase="{phase}"}} 1\n'
    )


async def test_ranks_are_read_from_half_the_bound_on(monkeypatch: pytest.MonkeyPatch) -> None:
    gang = Gang(monkeypatch)
    gang.ranks = page({"rank": 0, "steps": 9, "still": 45.0}, {"rank": 1, "steps": 8, "still": 44.0})
    await gang.read(0.0, figures(44.9))
    assert (gang.asked, gang.measured.ranks.seen, gang.measured.compared) == ([9466], (), True)
    await gang.read(15.0, figures(45.0))
    assert gang.asked == [9466, 9466, -9466]
    assert [each.rank for each in gang.measured.ranks.seen] == [0, 1]
    assert (gang.measured.still, gang.measured.compared) == (44.0, True)
    assert "u" in gang.work.dirty


async def test_the_reading_of_the_first_pod_alone_is_marked_until_all_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    gang, seen = Gang(monkeypatch), []
    gang.ranks = page({"rank": 0, "steps": 9, "still": 45.0})
    fetch = gang.fetch

    async def look(session: object, host: object, port: int, path: str = "/metrics") -> bytes:
        if path != "/metrics":
            seen.append((gang.measured.compared, gang.measured.ranks.seen))
        return await fetch(session, host, port, path)

    monkeypatch.setattr(scraper, "fetch", look)
    await gang.read(0.0, figures(60.0))
    await gang.read(15.0, figures(75.0))
    assert seen == [(False, ()), (False, ())]
    assert gang.measured.compared


async def test_a_phase_in_another_pod_stops_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    gang = Gang(monkeypatch)
    gang.ranks = page({"rank": 0, "still": 200.0}, {"rank": 1, "still": 0, "phase": "Evaluating"})
    await gang.read(0.0, figures(200.0))
    assert gang.measured.still == 0.0


@pytest.mark.parametrize(
    ("error", "why"),
    [(Refused(), "has no reporter on port 9466"),
     (Silent(""), "accepts connections on port 9466 and does not answer: its process is stopped, or keeps Python's lock"),
     (Unreached("EHOSTUNREACH"), "cannot be reached on port 9466 (EHOSTUNREACH)")],
)  # fmt: skip
async def test_a_pod_whose_ranks_are_not_read_is_named(
    monkeypatch: pytest.MonkeyPatch, error: Exception, why: str
) -> None:
    gang = Gang(monkeypatch)
    gang.ranks = error
    await gang.read(0.0, figures(200.0))
    assert [each[1] for each in gang.measured.ranks.unread] == [why]
    assert gang.measured.still == 200.0


async def test_a_process_that_answered_and_hangs_as_a_whole_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    gang = Gang(monkeypatch)
    gang.ranks = Silent("")
    await gang.read(0.0, figures(1.0))
    for seconds in (15.0, 30.0, 100.0):
        await gang.read(seconds, "silent")
    assert gang.measured.still == 101.0
    assert gang.measured.at.timestamp() == gang.work.wall().timestamp()


async def test_one_that_compiled_when_it_last_answered_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    gang = Gang(monkeypatch)
    await gang.read(0.0, figures(0.0, "Compiling"))
    await gang.read(100.0, "silent")
    assert gang.measured.still == 0.0
    await gang.read(1e6, "silent")
    assert gang.measured.still == 0.0, "an earlier reporter gives no bound"
    never = Gang(monkeypatch)
    await never.read(100.0, "silent")
    assert "u" not in never.work.telemetry


async def test_one_whose_phase_is_over_its_bound_does(monkeypatch: pytest.MonkeyPatch) -> None:
    gang = Gang(monkeypatch)
    gang.ranks = Silent("")
    await gang.read(0.0, figures(0.0, "Saving") + 'gpujob_phase_left_seconds{rank="0"} 100\n')
    read = []
    for seconds in (15.0, 99.0, 100.0, 130.0):
        await gang.read(seconds, "silent")
        read.append(gang.measured.still)
    assert read == [0.0, 0.0, 100.0, 130.0]
    await gang.read(140.0, figures(0.0, "Saving") + 'gpujob_phase_left_seconds{rank="0"} 100\n')
    await gang.read(160.0, "silent")
    assert gang.measured.still == 0.0, "it answered, and has time again"


async def test_one_that_does_not_answer_is_read_as_often_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that is blocked is asked seldom: one that accepts and does not answer is a process that stopped."""
    gang = Gang(monkeypatch)
    gang.ranks = Silent("")
    await gang.read(0.0, figures(1.0))
    for seconds in (15.0, 75.0, 90.0):
        await gang.read(seconds, "silent")
    stopped = gang.scraper._memory["u"]
    assert stopped.next_at == 105.0
    never = Gang(monkeypatch)
    for seconds in (15.0, 75.0, 90.0):
        await never.read(seconds, "silent")
    assert never.scraper._memory["u"].next_at == 90.0 + 20 * 15.0
