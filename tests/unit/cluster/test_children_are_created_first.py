"""Where more steps want to write than may at once, those that create children go before those that write statuses."""

from __future__ import annotations

import asyncio

from gpujob.cluster.queue.turns import MOST_IN_A_ROW, StepSlots


async def order(slots: StepSlots, *steps: str) -> list[str]:
    """The order in which steps run that all come while the one slot is taken; those that create begin with c."""
    ran: list[str] = []

    async def step(name: str) -> None:
        async with slots.slot(urgent=name.startswith("c")):
            ran.append(name)
            await asyncio.sleep(0)

    async with slots.slot(urgent=False):
        tasks = [asyncio.create_task(step(name)) for name in steps]
        await asyncio.sleep(0)
        assert ran == []
    await asyncio.gather(*tasks)
    return ran


async def test_what_creates_goes_first_and_each_kind_in_its_order() -> None:
    assert await order(StepSlots(1), "t1", "c1", "t2", "c2") == ["c1", "c2", "t1", "t2"]


async def test_what_tells_is_not_kept_waiting_for_ever() -> None:
    many = [f"c{number}" for number in range(2 * MOST_IN_A_ROW)]
    ran = await order(StepSlots(1), "t1", "t2", *many)
    assert ran.index("t1") == MOST_IN_A_ROW
    assert ran.index("t2") == 2 * MOST_IN_A_ROW + 1


async def test_no_more_than_so_many_run_at_once() -> None:
    slots, now, most = StepSlots(3), 0, 0

    async def step(urgent: bool) -> None:
        nonlocal now, most
        async with slots.slot(urgent=urgent):
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

    await asyncio.gather(*(step(number % 2 == 0) for number in range(20)))
    assert (now, most) == (0, 3)


async def test_steps_that_are_cancelled_or_fail_leave_their_slot_to_others() -> None:
    slots = StepSlots(1)

    async def wait() -> None:
        async with slots.slot(urgent=True):
            await asyncio.sleep(60)

    async with slots.slot(urgent=False):
        given, waiting = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    # It was given the slot that was just free, and is cancelled before it runs.
    given.cancel()
    await asyncio.gather(given, return_exceptions=True)
    assert await asyncio.wait_for(order(slots, "t1"), 5) == ["t1"]
    try:
        async with slots.slot(urgent=False):
            raise RuntimeError
    except RuntimeError:
        pass
    assert await asyncio.wait_for(order(slots, "c1"), 5) == ["c1"]
