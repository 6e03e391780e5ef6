"""Fault plans from a seed: what becomes of which write of which story, and whether the end state is that of the undisturbed run."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from tests.simulation.faults import PLANS
from tests.simulation.stories import stories
from tests.simulation.virtual_time import run
from tests.simulation.world import Story, World

EACH: Final = 6
"""Plans of each story and fault."""

SHIFTS: Final = 6
"""Different times by which users of one story act later: each needs an undisturbed run."""

SKEWS: Final = (3600.0, 360.0, -360.0, -3600.0)
"""Seconds by which the clock of the operator's machine is ahead from the beginning."""

MOST_OVERLAP: Final = 2.0
"""Seconds for which two attempts may run together where a create arrives late: until the operator sees and ends it."""

MOST_AFTER_END: Final = 75.0 + 12.0
"""Seconds for which a pod may run after its job's end: until any fault is healed, and the longest grace of a story."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """One run: a story whose users act `shift` seconds later, and a fault at one write, or a clock that is wrong all the time."""

    story: str
    fault: str
    write: int = 0
    shift: float = 0.0
    skew: float = 0.0

    @property
    def most_overlap(self) -> float:
        """Seconds for which two attempts of a job may run together."""
        return MOST_OVERLAP if "late" in self.fault else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a plan: whether the end state is the undisturbed one, and the longest times with two attempts at once and of a
    pod after the job's end."""

    plan: FaultPlan
    same: bool
    overlap: float
    after_end: float = 0.0

    @property
    def good(self) -> bool:
        """Whether the fault changed nothing."""
        return self.same and self.overlap <= self.plan.most_overlap and self.after_end <= MOST_AFTER_END


def fault_plans(seed: int, each: int = EACH) -> Iterator[FaultPlan]:
    """The plans of a seed: of each story and fault at `each` writes, every second one with users that act later; and each clock."""
    for story in stories(0.0):
        chance = random.Random(f"{seed} {story.name}")
        writes = undisturbed(story.name, 0.0)[1]
        shifts = [round(chance.uniform(0.0, 9.0), 2) for _ in range(SHIFTS)]
        for fault in PLANS:
            chosen = chance.sample(range(1, writes + 1), min(each, writes))
            # A story with few writes has some of them twice, at other times.
            chosen += chance.choices(range(1, writes + 1), k=each - len(chosen))
            for number, write in enumerate(chosen):
                shift = chance.choice(shifts) if number % 2 or number >= writes else 0.0
                yield FaultPlan(story.name, fault, write, shift)
        for skew in SKEWS:
            way = "ahead" if skew > 0 else "behind"
            yield FaultPlan(story.name, f"the clock is {way} all the time", skew=skew)


def play(plan: FaultPlan) -> Outcome:
    """Plays a plan to its end and beyond."""
    wanted, _ = undisturbed(plan.story, plan.shift)
    fault = PLANS.get(plan.fault)
    world = run(_world(told(plan.story, plan.shift), plan, fault))
    return Outcome(plan, world.left() == wanted, round(world.overlap(), 2), round(world.ran_on(), 2))


async def _world(story: Story, plan: FaultPlan, fault: Any) -> World:
    world = World(story, plan.skew)
    await world.run((lambda world: fault(world, plan.write)) if fault else lambda _: None)
    return world


@cache
def undisturbed(name: str, shift: float) -> tuple[Any, int]:
    """The end state of a story without faults, and how many writes the operator makes in it."""
    world = run(_world(told(name, shift), FaultPlan(name, "none"), None))
    return world.left(), world.processes[0].writes


def told(name: str, shift: float) -> Story:
    """A story with what users do `shift` seconds later."""
    found = next((story for story in stories(shift) if story.name == name), None)
    return found or next(story for story in stories(0.0) if story.name == name)


def table(outcomes: Iterable[Outcome]) -> list[str]:
    """A line for each fault: plans, those whose end state is the undisturbed one, the longest overlap of two attempts, and the longest
    run of a pod after the job's end."""
    by_fault: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_fault.setdefault(outcome.plan.fault, []).append(outcome)
    width = max(map(len, by_fault), default=5)
    rows = [f"{'fault':{width}}  plans   same  overlap  after end"]
    for fault, found in by_fault.items():
        same, longest = sum(outcome.same for outcome in found), max(outcome.overlap for outcome in found)
        after = max(outcome.after_end for outcome in found)
        rows.append(f"{fault:{width}}  {len(found):5}  {same:5}  {longest:5.2f} s  {after:7.2f} s")
    every = [outcome for found in by_fault.values() for outcome in found]
    return [*rows, f"{'all':{width}}  {len(every):5}  {sum(outcome.same for outcome in every):5}"]
