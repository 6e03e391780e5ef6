"""The Lease: a fence by our own clock, takeover by what we saw change, and nothing written but the Lease."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from gpujob.cluster.app.http_server import hindrances
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.reflector import WatchHealth
from gpujob.cluster.client.api_errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    JsonObject,
    NotFound,
    OutcomeUnknown,
    Unreachable,
)
from gpujob.cluster.client.outage_gate import OutageGate
from gpujob.cluster.election.election import (
    Acquire,
    Leadership,
    LeaseRecord,
    LeaseTimings,
    Renew,
    Sighting,
    Wait,
    next_step,
    record_of,
    sight,
)

# --- The pure part


def held_by(holder: str, renewed: str = "t1") -> LeaseRecord:
    return LeaseRecord(holder, duration=15, acquired="t0", renewed=renewed, transitions=0)


@pytest.mark.parametrize("record", [None, held_by("")])
def test_a_lease_that_nobody_holds_is_taken(record: LeaseRecord | None) -> None:
    assert next_step(Sighting(record, since=100), "me", now=100) == Acquire()


def test_our_own_lease_is_renewed_however_old_it_is() -> None:
    assert next_step(Sighting(held_by("me"), since=0), "me", now=9999) == Renew()


def test_anothers_lease_is_left_alone_until_it_was_unchanged_for_its_duration() -> None:
    seen = Sighting(held_by("other"), since=100)
    assert next_step(seen, "me", now=104) == Wait(11)
    assert next_step(seen, "me", now=114.5) == Wait(0.5)
    assert next_step(seen, "me", now=115) == Acquire()


def test_only_a_change_of_the_record_starts_the_wait_again() -> None:
    seen = sight(None, held_by("other", "t1"), now=100)
    assert sight(seen, held_by("other", "t1"), now=110).since == 100
    assert sight(seen, held_by("other", "t2"), now=110).since == 110


def test_a_lease_without_a_duration_is_given_ours() -> None:
    assert record_of({"spec": {"holderIdentity": "x"}}).duration == 15
    assert record_of({}) == LeaseRecord("", 15, "", "", 0)


def test_timings_that_leave_no_room_between_two_leaders_are_refused() -> None:
    with pytest.raises(ValueError, match="deadline < duration"):
        LeaseTimings(duration=10, deadline=10)
    assert LeaseTimings() == LeaseTimings(duration=15, deadline=10, renew_every=5, retry_every=2)


# --- The loop, against a scripted API


class Api:
    """A Lease store with versions, a clock that sleeping moves, and failures on demand."""

    def __init__(self) -> None:
        self.lease: JsonObject | None = None
        self.version = 0
        self.now = 1000.0
        self.calls: list[str] = []
        self.failing: ApiError | None = None
        self.has_namespace = True
        self.lost_answers = 0
        self.takes = 0.0

    def clock(self) -> float:
        return self.now

    def write(self, spec: JsonObject) -> JsonObject:
        self.version += 1
        before = self.lease["spec"] if self.lease else {}
        self.lease = {"metadata": {"resourceVersion": str(self.version)}, "spec": {**before, **spec}}
        return self.lease

    def called(self, verb: str) -> None:
        self.calls.append(verb)
        self.now += self.takes
        if self.failing is not None:
            raise self.failing

    def answered(self) -> None:
        if self.lost_answers:
            self.lost_answers -= 1
            raise OutcomeUnknown(0, "Reset", "connection reset")

    async def get(self, path: str, *, patience: Any) -> JsonObject:
        self.called("get")
        if self.lease is None:
            raise NotFound(404, "NotFound", path)
        return self.lease

    failing_writes: ApiError | None = None

    async def create(self, path: str, body: JsonObject, *, patience: Any) -> JsonObject:
        self.called("create")
        if self.failing_writes is not None:
            raise self.failing_writes
        if not self.has_namespace:
            raise NotFound(404, "NotFound", 'namespaces "system" not found')
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", path)
        made = self.write(body["spec"])
        self.answered()
        return made

    async def patch(self, path: str, body: JsonObject, content_type: str, *, patience: Any) -> JsonObject:
        self.called("patch")
        assert (patience.tries, patience.queued) == (1, False)
        if self.lease is None:
            raise NotFound(404, "NotFound", path)
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", path)
        made = self.write(body["spec"])
        self.answered()
        return made


class Part:
    """One process of the election, stepped by hand."""

    def __init__(self, api: Api, identity: str = "me") -> None:
        self.api, self.lost, self.lost_at, self.may_lead = api, 0, 0.0, True
        self.it = Leadership(
            api,
            "ns",
            "gpujob-operator",
            identity,
            on_lost=self.on_lost,
            may_lead=lambda: self.may_lead,
            clock=api.clock,
            wall=lambda: datetime.fromtimestamp(api.now, UTC),
            chance=lambda: 0.0,
        )

    def on_lost(self) -> None:
        self.lost += 1
        self.lost_at = self.api.now

    async def step(self) -> float:
        return await self.it._round()

    async def play(self, seconds: float) -> None:
        end = self.api.now + seconds
        while self.api.now < end:
            self.api.now += await self.step()


async def test_the_first_process_makes_the_lease_and_renews_it_every_five_seconds() -> None:
    api = Api()
    part = Part(api)
    assert not part.it.is_leader()
    assert await part.step() == 5
    assert part.it.is_leader()
    assert part.it.acquired.is_set()
    api.now += 5
    await part.step()
    assert api.calls == ["get", "create", "patch"], "at rest one write per renewal, and no read"
    assert api.lease is not None
    spec = api.lease["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("me", 15, 0)
    assert spec["acquireTime"] == "1970-01-01T00:16:40.000000Z"
    assert spec["renewTime"] == "1970-01-01T00:16:45.000000Z"


async def test_who_may_not_lead_neither_takes_the_lease_nor_renews_it() -> None:
    api = Api()
    part, other = Part(api), Part(api, "other")
    part.may_lead = False
    await part.play(20)
    assert (api.calls, part.it.is_leader()) == ([], False)
    part.may_lead = True
    await part.step()
    assert part.it.is_leader()
    part.may_lead = False
    await part.step()
    assert (part.it.is_leader(), part.lost) == (False, 1)
    assert api.lease is not None
    assert api.lease["spec"]["holderIdentity"] == "me", "it runs out: what this process has sent may still arrive"
    await other.step()
    assert not other.it.is_leader()
    await other.play(16)
    assert other.it.is_leader()


async def test_the_fence_falls_by_our_own_clock_without_any_step() -> None:
    api = Api()
    part = Part(api)
    await part.step()
    api.now += 9.999
    assert part.it.is_leader()
    api.now += 0.001
    assert not part.it.is_leader(), "a process that was frozen sees it before it does anything else"


async def test_the_fence_counts_from_when_the_renewal_was_sent() -> None:
    api = Api()
    api.takes = 1.0
    part = Part(api)
    await part.step()
    sent = 1001.0  # the read before it took a second
    api.now = sent + 9.9
    assert part.it.is_leader()
    api.now = sent + 10
    assert not part.it.is_leader()


async def test_a_leader_that_cannot_renew_says_so_once_and_before_anyone_else_may_lead() -> None:
    api = Api()
    part = Part(api)
    await part.step()
    began = api.now
    api.failing = Unreachable(0, "Timeout", "no answer")
    while not part.lost:
        api.now += await part.step()
    assert part.lost_at - began == pytest.approx(10, abs=0.01)
    await part.play(30)
    assert part.lost == 1
    assert not part.it.acquired.is_set()
    api.failing = None
    await part.play(3)
    assert part.it.is_leader()


async def test_a_second_process_waits_for_the_duration_and_then_takes_over() -> None:
    api = Api()
    first, second = Part(api, "first"), Part(api, "second")
    await first.step()
    began = api.now
    while not second.it.is_leader():
        assert api.now - began < 18
        api.now += await second.step()
        assert not (first.it.is_leader() and second.it.is_leader())
    assert api.now - began >= 15
    assert api.lease is not None
    assert api.lease["spec"]["leaseTransitions"] == 1
    await first.step()
    assert first.lost == 1
    assert not first.it.is_leader()


async def test_a_candidate_that_slept_looks_again_before_it_judges() -> None:
    api = Api()
    first, second = Part(api, "first"), Part(api, "second")
    await first.step()
    await second.step()
    for _ in range(12):
        api.now += 5
        await first.step()
    await second.step()
    assert first.it.is_leader()
    assert not second.it.is_leader()


async def test_the_clocks_of_two_machines_are_never_compared() -> None:
    api = Api()
    api.write({"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": "1999-01-01T00:00:00.000000Z"})
    part = Part(api)
    await part.play(14)
    assert not part.it.is_leader(), "an ancient stamp means nothing; only that it did not change for 15 s does"
    await part.play(4)
    assert part.it.is_leader()


async def test_two_that_reach_for_the_lease_at_once_do_not_both_get_it() -> None:
    api = Api()
    part = Part(api)
    real_get = api.get

    async def beaten(path: str, *, patience: Any) -> JsonObject:
        try:
            return await real_get(path, patience=patience)
        finally:
            api.write({"holderIdentity": "other", "leaseDurationSeconds": 15})
            api.get = real_get  # type: ignore[method-assign]

    api.get = beaten  # type: ignore[method-assign]
    await part.step()
    assert not part.it.is_leader()
    await part.step()
    assert not part.it.is_leader()


async def test_a_renewal_whose_answer_was_lost_is_looked_up_and_not_believed() -> None:
    api = Api()
    part = Part(api)
    await part.step()
    api.now += 5
    api.lost_answers = 1
    delay = await part.step()
    api.now += delay
    await part.step()
    assert api.calls == ["get", "create", "patch", "get", "patch"]
    assert part.it.is_leader()
    assert part.lost == 0


async def test_a_lease_that_another_took_is_given_up_at_once() -> None:
    api = Api()
    part = Part(api)
    await part.step()
    api.write({"holderIdentity": "thief"})
    api.now += 5
    api.now += await part.step()
    await part.step()
    assert part.lost == 1
    assert not part.it.is_leader()


async def test_a_clean_stop_releases_the_lease_and_the_next_takes_over_at_once() -> None:
    api = Api()
    first, second = Part(api, "first"), Part(api, "second")
    task = asyncio.create_task(first.it.run())
    async with asyncio.timeout(60):
        await first.it.acquired.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert api.lease is not None
    assert api.lease["spec"]["holderIdentity"] == ""
    assert not first.it.is_leader()
    assert first.lost == 0, "a stop that was asked for is no loss"
    await second.step()
    assert second.it.is_leader()


async def test_a_candidate_that_stops_writes_nothing() -> None:
    api = Api()
    api.write({"holderIdentity": "other", "leaseDurationSeconds": 15})
    part = Part(api)
    task = asyncio.create_task(part.it.run())
    async with asyncio.timeout(60):
        while "get" not in api.calls:
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert api.calls == ["get"]


def test_an_identity_is_needed() -> None:
    with pytest.raises(ValueError, match="identity"):
        Leadership(Api(), "ns", "name", "")


async def test_a_namespace_that_is_missing_is_asked_for_ever_less_often() -> None:
    api = Api()
    api.has_namespace = False
    part = Part(api)
    waits = []
    for _ in range(7):
        waits.append(await part.step())
        api.now += waits[-1]
    assert waits == [2, 4, 8, 16, 32, 60, 60]
    assert not part.it.is_leader()
    api.has_namespace = True
    assert await part.step() == 5
    assert part.it.is_leader()


async def test_a_lease_that_cannot_be_written_is_no_readiness_and_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """Every read is well, so that only the Lease shows that this process can never lead."""
    api = Api()
    part = Part(api)
    api.failing_writes = Forbidden(403, "Forbidden", "leases is forbidden")
    await part.play(10)
    seconds, error = part.it.failing()
    assert (5 <= seconds <= 12, error) == (True, "403 Forbidden: leases is forbidden")
    assert "[warning" not in capsys.readouterr().out
    await part.play(30)
    cache, gate = ObjectCache([]), OutageGate(api.clock)
    (line,) = hindrances(cache, WatchHealth([]), gate, part.it.failing())
    assert re.fullmatch(
        r"the Lease could not be read or written for \d\d s, the last error: 403 Forbidden: leases is forbidden", line
    )
    assert "[warning" in capsys.readouterr().out
    api.failing_writes = None
    await part.play(5)
    assert (part.it.failing(), part.it.is_leader()) == ((0.0, ""), True)


async def test_a_candidate_that_waits_for_another_leader_is_ready() -> None:
    api = Api()
    leader, candidate = Part(api, "leader"), Part(api)
    for _ in range(20):
        await leader.step()
        await candidate.step()
        api.now += 4
    assert (candidate.it.is_leader(), candidate.it.failing()) == (False, (0.0, ""))


async def test_where_each_answer_takes_three_seconds_there_is_a_leader_all_the_same() -> None:
    api = Api()
    api.takes = 3.0
    part = Part(api)
    delay = await part.step()
    assert part.it.is_leader()
    for _ in range(10):
        api.now += delay
        assert part.it.is_leader()
        delay = await part.step()
    assert (part.it.is_leader(), part.lost, delay) == (True, 0, 2.0)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"kind": "Lease"},
        {"metadata": {"resourceVersion": "9"}, "spec": {"leaseDurationSeconds": "soon"}},
        {"metadata": 5},
    ],
)
async def test_an_answer_that_is_no_lease_ends_no_process(answer: JsonObject) -> None:
    """A proxy gives it; a leader leads on until its time is over, and no other process takes the Lease for it."""
    api = Api()
    part, candidate = Part(api), Part(api, "other")
    await part.step()
    good, api.lease = api.lease, answer
    await candidate.step()
    assert not candidate.it.is_leader()
    api.now += 5
    part.it._lease = None
    await part.step()
    assert part.it.is_leader()
    assert part.it.failing()[1].startswith("0 NoLease: the answer is no Lease: ")
    api.lease = good
    await part.step()
    assert part.it.failing() == (0.0, "")
