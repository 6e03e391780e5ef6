"""Where more steps want to write than may at once, those that create children go before those that write statuses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection

import pytest

from gpujob.cluster.queue.creations import Creations
from gpujob.cluster.queue.hanging import REMEMBERED, SLOW, WIDE, Hanging
from gpujob.cluster.queue.step_slots import MOST_IN_A_ROW, StepSlots
from gpujob.cluster.writer.child_errors import ChildNotCreated
from gpujob.lifecycle.timings import Timings


class Known(Hanging):
    """Namespaces of which it is known whether their writes hang."""

    def __init__(self, hangs: Callable[[str], bool]) -> None:
        super().__init__(lambda: 0.0)
        self.hangs = hangs  # type: ignore[method-assign]

    def may_hang(self, namespaces: Collection[str]) -> set[str]:
        """Those that do."""
        return set(filter(self.hangs, namespaces))


def slots_of(each: int, total: int, hangs: Callable[[str], bool] = lambda _: False) -> StepSlots:
    """Slots at a time that stands still; `hangs`: where urgent steps hang."""
    return StepSlots(each, total, Known(hangs), lambda: 0.0)


async def order(slots: StepSlots, *steps: str) -> list[str]:
    """The order in which steps run that all come while the one slot is taken; those that create begin with c."""
    ran: list[str] = []

    async def step(name: str) -> None:
        async with slots.slot("team", urgent=name.startswith("c")):
            ran.append(name)
            await asyncio.sleep(0)

    async with slots.slot("team", urgent=False):
        tasks = [asyncio.create_task(step(name)) for name in steps]
        await asyncio.sleep(0)
        assert ran == []
    await asyncio.gather(*tasks)
    return ran


async def test_what_creates_goes_first_and_each_kind_in_its_order() -> None:
    assert await order(slots_of(1, 1), "t1", "c1", "t2", "c2") == ["c1", "c2", "t1", "t2"]


async def test_what_tells_is_not_kept_waiting_for_ever() -> None:
    many = [f"c{number}" for number in range(2 * MOST_IN_A_ROW)]
    ran = await order(slots_of(1, 1), "t1", "t2", *many)
    assert ran.index("t1") == MOST_IN_A_ROW
    assert ran.index("t2") == 2 * MOST_IN_A_ROW + 1


async def test_no_more_than_so_many_run_at_once() -> None:
    slots, now, most = slots_of(3, 9), 0, 0

    async def step(urgent: bool) -> None:
        nonlocal now, most
        async with slots.slot("team", urgent=urgent):
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

    await asyncio.gather(*(step(number % 2 == 0) for number in range(20)))
    assert (now, most) == (0, 3)


async def test_steps_that_are_cancelled_or_fail_leave_their_slot_to_others() -> None:
    slots = slots_of(1, 1)

    async def wait() -> None:
        async with slots.slot("team", urgent=True):
            await asyncio.sleep(60)

    async with slots.slot("team", urgent=False):
        given, waiting = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    # It was given the slot that was just free, and is cancelled before it runs.
    given.cancel()
    await asyncio.gather(given, return_exceptions=True)
    assert await asyncio.wait_for(order(slots, "t1"), 60) == ["t1"]
    try:
        async with slots.slot("team", urgent=False):
            raise RuntimeError
    except RuntimeError:
        pass
    assert await asyncio.wait_for(order(slots, "c1"), 60) == ["c1"]


class Writers:
    """Steps of namespaces, each of which writes until its event."""

    def __init__(self, slots: StepSlots) -> None:
        self.slots, self.ran, self.tasks = slots, list[str](), list[asyncio.Task[None]]()

    async def arrive(self, namespace: str, *names: str, until: asyncio.Event | None = None) -> None:
        """Steps come, and all that may run do."""

        async def step(name: str) -> None:
            async with self.slots.slot(namespace, urgent=False):
                self.ran.append(name)
                if until is not None:
                    await until.wait()

        self.tasks += [asyncio.create_task(step(name)) for name in names]
        await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def end(self) -> None:
        await asyncio.wait_for(asyncio.gather(*self.tasks), 60)


async def test_namespaces_whose_writes_hang_leave_a_slot_to_each_that_comes() -> None:
    writers, hang = Writers(slots_of(2, 8)), asyncio.Event()
    for namespace in "abc":
        await writers.arrive(namespace, *(f"{namespace}{number}" for number in range(9)), until=hang)
    assert writers.ran == ["a0", "a1", "b0", "b1", "c0", "c1"]
    await writers.arrive("team", "t0", "t1", "t2")
    assert writers.ran[6:] == ["t0", "t1", "t2"], "each in its turn, one at a time"
    hang.set()
    await writers.end()
    assert len(writers.ran) == 30


async def test_where_none_is_left_the_next_slot_goes_to_the_namespace_that_holds_the_fewest() -> None:
    writers, first, rest = Writers(slots_of(4, 4)), asyncio.Event(), asyncio.Event()
    await writers.arrive("a", "a0", until=first)
    await writers.arrive("a", "a1", "a2", until=rest)
    await writers.arrive("b", "b0", until=rest)
    await writers.arrive("c", "c0", until=rest)
    await writers.arrive("d", "d0", until=rest)
    assert writers.ran == ["a0", "a1", "b0", "c0"]
    first.set()
    await writers.settle()
    assert writers.ran == ["a0", "a1", "b0", "c0", "d0"]
    rest.set()
    await writers.end()
    assert sorted(writers.ran) == ["a0", "a1", "a2", "b0", "c0", "d0"]


async def test_what_a_namespace_may_hold_grows_when_others_are_done() -> None:
    writers, first, rest = Writers(slots_of(4, 8)), asyncio.Event(), asyncio.Event()
    for namespace in "bcd":
        await writers.arrive(namespace, f"{namespace}0", until=first)
    await writers.arrive("a", "a0", "a1", "a2", "a3", "a4", until=rest)
    assert writers.ran == ["b0", "c0", "d0", "a0"]
    first.set()
    await writers.settle()
    assert writers.ran == ["b0", "c0", "d0", "a0", "a1", "a2", "a3"]
    rest.set()
    await writers.end()
    assert writers.ran[-1] == "a4"


async def test_creations_that_hang_leave_slots_of_their_namespace_to_suspensions_and_reports() -> None:
    slots, hang, ran = slots_of(8, 24), asyncio.Event(), list[str]()

    async def step(name: str, urgent: bool) -> None:
        async with slots.slot("team", urgent=urgent):
            ran.append(name)
            if urgent:
                await hang.wait()

    tasks = [asyncio.create_task(step(f"c{number}", True)) for number in range(20)]
    await asyncio.sleep(0)
    assert ran == [f"c{number}" for number in range(6)]
    tasks += [asyncio.create_task(step(f"s{number}", False)) for number in range(20)]
    for _ in range(40):
        await asyncio.sleep(0)
    assert ran[6:] == [f"s{number}" for number in range(20)]
    hang.set()
    await asyncio.wait_for(asyncio.gather(*tasks), 60)
    assert len(ran) == 40


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def attempt(creations: Creations, clock: Clock, namespace: str, seconds: float, words: str = "") -> str:
    """How one creation ends that takes some seconds; empty if it succeeds."""
    try:
        with creations.one(namespace):
            clock.now += seconds
            if words:
                raise ChildNotCreated(words)
    except ChildNotCreated as error:
        return str(error)
    return ""


def test_where_creations_of_a_namespace_hang_two_try_for_all_of_its_jobs() -> None:
    clock = Clock()
    creations = Creations(clock, Timings())
    assert attempt(creations, clock, "a", SLOW, "no answer") == "no answer"
    with creations.one("a"), creations.one("a"):
        assert attempt(creations, clock, "a", 0.0) == "no answer", "it fails as they do, without a request"
        assert attempt(creations, clock, "b", 0.0) == ""
    # One of them succeeded.
    with creations.one("a"), creations.one("a"):
        assert attempt(creations, clock, "a", 0.0) == ""


def test_creations_that_fail_at_once_hold_back_no_other_one() -> None:
    clock = Clock()
    creations = Creations(clock, Timings())
    assert attempt(creations, clock, "a", 0.1, "exceeded quota") == "exceeded quota"
    with creations.one("a"), creations.one("a"):
        assert attempt(creations, clock, "a", 0.0) == ""


def test_what_hung_long_ago_counts_no_more() -> None:
    clock = Clock()
    creations = Creations(clock, Timings())
    attempt(creations, clock, "a", SLOW, "no answer")
    clock.now += REMEMBERED
    with creations.one("a"), creations.one("a"):
        assert attempt(creations, clock, "a", 0.0) == ""


def test_creations_hang_from_their_first_seconds_until_one_of_their_namespace_succeeds() -> None:
    clock = Clock()
    creations = Creations(clock, Timings())
    with creations.one("a"):
        assert not creations.hanging.hangs("a")
        clock.now += SLOW
        assert creations.hanging.hangs("a")
        assert not creations.hanging.hangs("b")
    assert not creations.hanging.hangs("a"), "it succeeded"
    attempt(creations, clock, "a", SLOW, "no answer")
    assert creations.hanging.hangs("a")
    attempt(creations, clock, "a", 0.1, "exceeded quota")
    assert creations.hanging.hangs("a"), "no creation has succeeded since"
    attempt(creations, clock, "a", 0.1)
    assert not creations.hanging.hangs("a")


async def test_where_they_hang_in_many_namespaces_all_of_these_leave_half_of_the_slots_to_the_others() -> None:
    hanging, hang, ran = {f"a{number}" for number in range(40)}, asyncio.Event(), list[str]()
    slots = slots_of(8, 16, hanging.__contains__)

    async def step(namespace: str, until: asyncio.Event | None) -> None:
        async with slots.slot(namespace, urgent=True):
            ran.append(namespace)
            if until is not None:
                await until.wait()

    tasks = [asyncio.create_task(step(namespace, hang)) for namespace in sorted(hanging)]
    await asyncio.sleep(0)
    assert len(ran) == 8
    tasks += [asyncio.create_task(step("team", None)) for _ in range(20)]
    for _ in range(60):
        await asyncio.sleep(0)
    assert ran[8:] == ["team"] * 20
    hang.set()
    await asyncio.wait_for(asyncio.gather(*tasks), 60)
    assert len(ran) == 60


async def test_where_each_namespace_may_hold_one_slot_a_creation_that_hangs_does_not_keep_a_suspension_waiting() -> (
    None
):
    slots, hang, ran = slots_of(8, 24, lambda namespace: True), asyncio.Event(), list[str]()

    async def step(name: str, namespace: str, urgent: bool) -> None:
        async with slots.slot(namespace, urgent=urgent):
            ran.append(name)
            await hang.wait()

    names = [f"space{number}" for number in range(30)]
    tasks = [asyncio.create_task(step("creation", name, True)) for name in names]
    await asyncio.sleep(0)
    assert ran == ["creation"] * 12
    tasks += [asyncio.create_task(step("suspension", name, False)) for name in names[:2] for _ in range(3)]
    await asyncio.sleep(0)
    assert ran[12:] == ["suspension"] * 2
    hang.set()
    await asyncio.wait_for(asyncio.gather(*tasks), 60)
    assert len(ran) == 36


async def test_namespaces_where_they_hang_keep_a_few_slots_and_go_last_beyond_them() -> None:
    """They hold none as the others come, which wait behind them."""
    hang, ran = asyncio.Event(), list[str]()
    slots = slots_of(1, 16, lambda namespace: namespace.startswith("a"))

    async def step(namespace: str, until: asyncio.Event) -> None:
        async with slots.slot(namespace, urgent=True):
            ran.append(namespace)
            await until.wait()

    first = asyncio.Event()
    tasks = [asyncio.create_task(step(f"first{number}", first)) for number in range(16)]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(step(f"{kind}{number}", hang)) for kind in "ab" for number in range(14)]
    await asyncio.sleep(0)
    assert len(ran) == 16
    first.set()
    for _ in range(60):
        await asyncio.sleep(0)
    assert sorted(ran[16:]) == sorted(["a0", "a13", *(f"b{number}" for number in range(14))]), "the first and the last"
    hang.set()
    await asyncio.wait_for(asyncio.gather(*tasks), 60)
    assert len(ran) == 44


def test_where_writes_hang_in_many_namespaces_those_of_others_may_until_one_succeeds() -> None:
    clock = Clock()
    hanging, many = Hanging(clock), [f"a{number}" for number in range(WIDE)]
    with hanging.one("b"):
        pass
    for namespace in many[1:]:
        hang(hanging, clock, namespace)
    assert hanging.may_hang(["a0", "a1", "b", "c"]) == {"a1"}
    hang(hanging, clock, "a0")
    assert hanging.may_hang(["a0", "a1", "b", "c"]) == {"a0", "a1", "c"}
    with hanging.one("c"):
        pass
    assert hanging.may_hang(["b", "c"]) == set()
    clock.now = REMEMBERED
    assert hanging.may_hang(["b", "c"]) == {"b"}, "that was long ago"
    clock.now += SLOW
    assert hanging.may_hang(["b", "d"]) == set(), "the first that hung did so long ago too"


def hang(hanging: Hanging, clock: Clock, namespace: str) -> None:
    """A write of a namespace hangs and fails."""
    try:
        with hanging.one(namespace):
            clock.now += SLOW
            raise TimeoutError
    except TimeoutError:
        pass


class Webhook:
    """Steps of a kind in 40 namespaces that hang for 40 seconds of the clock, on 16 slots."""

    def __init__(self, urgent: bool) -> None:
        self.clock, self.ran, self.tasks = Clock(), list[str](), list[asyncio.Task[None]]()
        self.creations = Hanging(self.clock)
        self.slots, self.urgent, self.timeout = StepSlots(8, 16, self.creations, self.clock), urgent, asyncio.Event()

    def arrive(self, namespace: str, *, hangs: bool) -> None:
        """A step comes."""
        self.tasks.append(asyncio.create_task(self._step(namespace, hangs)))

    async def _step(self, namespace: str, hangs: bool) -> None:
        noted = self.creations.one(namespace) if self.urgent else contextlib.nullcontext()
        with contextlib.suppress(TimeoutError):
            async with self.slots.slot(namespace, urgent=self.urgent):
                with noted:
                    self.ran.append(namespace)
                    if hangs:
                        await self.timeout.wait()
                        raise TimeoutError

    async def settle(self) -> None:
        for _ in range(200):
            await asyncio.sleep(0)

    async def pass_timeout(self) -> None:
        """40 seconds, after which those under way fail."""
        self.clock.now += 40.0
        before, self.timeout = self.timeout, asyncio.Event()
        before.set()
        await self.settle()


@pytest.mark.parametrize("urgent", [True, False])
async def test_a_webhook_of_many_namespaces_delays_one_that_it_exempts_by_one_timeout_at_most(urgent: bool) -> None:
    webhook = Webhook(urgent)
    for number in range(40):
        webhook.arrive(f"a{number}", hangs=True)
    await webhook.settle()
    assert len(webhook.ran) == 16
    webhook.arrive("early", hangs=False)
    await webhook.settle()
    assert "early" not in webhook.ran, "all slots are held"
    await webhook.pass_timeout()
    assert "early" in webhook.ran, "it came last, and takes turns with the first that wait"
    assert len(webhook.ran) == 16 + 1 + 8, "half of the slots"
    webhook.arrive("late", hangs=False)
    await webhook.settle()
    assert webhook.ran[-1] == "late", "a free slot"
    while len(webhook.ran) < 42:
        await webhook.pass_timeout()
    await webhook.pass_timeout()
    await asyncio.wait_for(asyncio.gather(*webhook.tasks), 60)
    assert len({*webhook.ran}) == 42
