"""The election has a thread of its own: work that keeps the operator's loop for longer than the Lease is valid costs no leadership."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gpujob.cluster.client.api_errors import JsonObject, NotFound
from gpujob.cluster.election.election import Leadership, LeaseTimings
from gpujob.cluster.election.lease_thread import LeaseThread

TIMINGS = LeaseTimings(duration=4, deadline=3.0, renew_every=0.2, retry_every=0.1)


class Client:
    """A Lease in memory, which is used from one loop alone, as connections are."""

    def __init__(self) -> None:
        self.lease: JsonObject | None = None
        self.holders: list[str] = []
        self.threads: set[int] = set()
        self.opened = self.closed = 0
        self.on_date: Callable[[str | None], None] = lambda header: None
        self.on_answer: Callable[[int], None] = lambda status: None

    async def __aenter__(self) -> Client:
        self.opened += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed += 1

    async def get(self, path: str, *, patience: Any) -> JsonObject:
        if self.lease is None:
            raise NotFound(404, "NotFound", path)
        return self.lease

    async def create(self, path: str, body: JsonObject, *, patience: Any) -> JsonObject:
        return await self.patch(path, body, "", patience=patience)

    async def patch(self, path: str, body: JsonObject, content_type: str, *, patience: Any) -> JsonObject:
        await asyncio.sleep(0)
        self.threads.add(threading.get_ident())
        self.holders.append(body["spec"]["holderIdentity"])
        spec = {**(self.lease or {"spec": {}})["spec"], **body["spec"]}
        self.lease = {"metadata": {"resourceVersion": str(len(self.holders))}, "spec": spec}
        self.on_date("Thu, 01 Jan 2026 12:00:00 GMT")
        self.on_answer(200)
        return self.lease


class Process:
    """One operator process: its election, and what its loop hears of the answers."""

    def __init__(self, in_a_thread: bool) -> None:
        self.client, self.heard = Client(), list[tuple[object, ...]]()
        self.leadership = Leadership(self.client, "ns", "lease", "me", timings=TIMINGS)  # type: ignore[arg-type]
        self.thread = LeaseThread(self.leadership, self.client, self.note_date, self.note_answer)  # type: ignore[arg-type]
        self.run: Callable[[], Awaitable[None]] = self.thread.run if in_a_thread else self.leadership.run

    def note_date(self, header: str | None, at: float) -> None:
        self.heard.append((threading.get_ident(), header, at))

    def note_answer(self, status: int) -> None:
        self.heard.append((threading.get_ident(), status))

    async def until_leading(self) -> asyncio.Task[None]:
        running = asyncio.ensure_future(self.run())
        while not self.leadership.is_leader():
            await asyncio.sleep(0.01)
        return running


def work_for(seconds: float) -> None:
    """One piece of the loop's work that computes for so long and never yields."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))


@pytest.mark.parametrize(("seconds", "in_a_thread"), [(1.0, True), (4.0, True), (4.0, False)])
async def test_a_piece_of_work_as_long_as_the_lease_is_valid_costs_no_leadership(
    seconds: float, in_a_thread: bool
) -> None:
    process = Process(in_a_thread)
    running = await process.until_leading()
    renewals = len(process.client.holders)
    work_for(seconds)
    assert process.leadership.is_leader() is in_a_thread
    renewed = len(process.client.holders) - renewals
    assert renewed >= seconds / TIMINGS.deadline if in_a_thread else renewed == 0
    assert (process.client.lease or {})["spec"]["leaseTransitions"] == 0
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert process.client.holders[-1] == ("" if in_a_thread else "me")


async def test_a_stop_ends_the_thread_after_the_lease_is_released() -> None:
    process = Process(True)
    threads, running = threading.active_count(), await process.until_leading()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert process.client.holders == ["me"] * (len(process.client.holders) - 1) + [""]
    assert (process.client.opened, process.client.closed) == (1, 1)
    assert not process.leadership.is_leader()
    assert process.client.threads.isdisjoint({threading.get_ident()})
    assert threading.active_count() <= threads + 1, "the executor keeps its idle thread"


async def test_a_stop_before_the_first_step_ends_it_too() -> None:
    process = Process(True)
    running = asyncio.ensure_future(process.run())
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 30)
    assert not process.leadership.is_leader()


async def test_an_error_of_the_election_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(True)

    async def fail(path: str, *, patience: Any) -> JsonObject:
        raise ZeroDivisionError

    monkeypatch.setattr(process.client, "get", fail)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(process.run(), 30)


async def test_the_loop_hears_of_each_answer_and_when_it_came() -> None:
    process = Process(True)
    running = await process.until_leading()
    began = time.monotonic()
    work_for(2.0)
    over = time.monotonic()
    await asyncio.sleep(0.1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    dates = [each for each in process.heard if len(each) == 3]
    assert {each[0] for each in process.heard} == {threading.get_ident()}
    assert any(began < float(str(at)) < over for _, _, at in dates), (
        "it came within the piece, and was heard of after it"
    )
    assert {each[1] for each in process.heard} == {200, "Thu, 01 Jan 2026 12:00:00 GMT"}
    assert 2 <= len(dates) <= len(process.heard) - len(dates) + 1, (
        "one of each for an answer; the last one may be under way"
    )
