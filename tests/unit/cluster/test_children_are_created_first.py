"""Where more steps want to write than may at once, those that create children go before those that write statuses."""

from __future__ import annotations

import asyncio

from gpujob.cluster.queue.step_slots import MOST_IN_A_ROW, StepSlots


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
    assert await order(StepSlots(1, 1), "t1", "c1", "t2", "c2") == ["c1", "c2", "t1", "t2"]


async def test_what_tells_is_not_kept_waiting_for_ever() -> None:
    many = [f"c{number}" for number in range(2 * MOST_IN_A_ROW)]
    ran = await order(StepSlots(1, 1), "t1", "t2", *many)
    assert ran.index("t1") == MOST_IN_A_ROW
    assert ran.index("t2") == 2 * MOST_IN_A_ROW + 1


async def test_no_more_than_so_many_run_at_once() -> None:
    slots, now, most = StepSlots(3, 9), 0, 0

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
    slots = StepSlots(1, 1)

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
    assert await asyncio.wait_for(order(slots, "t1"), 5) == ["t1"]
    try:
        async with slots.slot("team", urgent=False):
            raise RuntimeError
    except RuntimeError:
        pass
    assert await asyncio.wait_for(order(slots, "c1"), 5) == ["c1"]


async def test_a_namespace_whose_writes_hang_leaves_slots_to_the_others() -> None:
    slots, hanging, ran = StepSlots(2, 5), asyncio.Event(), list[str]()

    async def step(namespace: str, name: str, until: asyncio.Event | None) -> None:
        async with slots.slot(namespace, urgent=True):
            ran.append(name)
            if until is not None:
                await until.wait()

    async def arrive(namespace: str, *names: str, until: asyncio.Event | None = None) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(step(namespace, name, until)) for name in names]
        for _ in range(9):
            await asyncio.sleep(0)
        return tasks

    slow = await arrive("slow", "s1", "s2", "s3", "s4", until=hanging)
    assert ran == ["s1", "s2"]
    await asyncio.gather(*await arrive("team", "t1", "t2", "t3"))
    assert ran == ["s1", "s2", "t1", "t2", "t3"]
    slower = await arrive("slower", "u1", "u2", "u3", until=hanging)
    one = asyncio.Event()
    holds = await arrive("full", "f1", until=one)
    late = await arrive("slow", "s5") + await arrive("full", "f2") + await arrive("team", "t4")
    assert ran[5:] == ["u1", "u2", "f1"]
    one.set()
    await asyncio.wait_for(asyncio.gather(*holds, *late[1:]), 5)
    assert ran[8:] == ["f2", "t4"]
    hanging.set()
    await asyncio.wait_for(asyncio.gather(*slow, *slower, *late), 5)
    assert sorted(ran[10:]) == ["s3", "s4", "s5", "u3"]


async def test_the_next_slot_goes_to_the_namespace_that_holds_the_fewest() -> None:
    slots, ran, first, second = StepSlots(2, 2), list[str](), asyncio.Event(), asyncio.Event()

    async def step(namespace: str, until: asyncio.Event) -> None:
        async with slots.slot(namespace, urgent=True):
            ran.append(namespace)
            await until.wait()

    tasks = [asyncio.create_task(step("a", until)) for until in (first, second, second)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(step("b", second)))
    await asyncio.sleep(0)
    assert ran == ["a", "a"]
    first.set()
    for _ in range(9):
        await asyncio.sleep(0)
    assert ran == ["a", "a", "b"]
    second.set()
    await asyncio.wait_for(asyncio.gather(*tasks), 5)
