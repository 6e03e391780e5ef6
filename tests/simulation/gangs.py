"""Gangs in random orders on few nodes, some of which the scheduler does not bind at first, and what they held when."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpujob.lifecycle.timings import Timings
from tests.simulation.api_server import Object, Program, gpus_of
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Story, World

NODES, GANGS, GPUS = 10, 20, 8
MOST = 62.0
"""Seconds for which a gang may hold nodes without being whole: 60, and what watches and writes take."""
TIMINGS = Timings(gather=0.5, explain_again=3600.0)
"""What waiting jobs read of their place in the queue is not looked at here."""


class Watched(World):
    """A world that looks, after every event, at what the children hold."""

    def __init__(self, story: Story, unbound: dict[str, Program]) -> None:
        super().__init__(story)
        self.unbound = unbound
        """What the pods of some jobs do instead."""
        self.since: dict[str, float] = {}
        """Since when a gang's pods have been partly bound, by the uid of its child."""
        self.half: set[str] = set()
        """The gangs that were half placed at some time, by uid."""
        self.longest = 0.0
        """The longest such time."""
        self.most = 0
        """The most GPUs of one node that living children were pinned to."""
        self.server.on_change.append(self._look)

    def submit(self, name: str, **spec: Any) -> None:
        super().submit(name, **spec)
        if name in self.unbound:
            uid = self.server.objects["gpujobs"][TEAM, name]["metadata"]["uid"]
            self.server.programs[uid] = self.unbound[name]

    def _look(self, plural: str, _: str, __: Object) -> None:
        if plural not in ("jobs", "pods"):
            return
        held: Counter[str] = Counter()
        without_node: Counter[str] = Counter()
        for pod in self.server.objects["pods"].values():
            if pod["status"]["phase"] == "Pending" and "nodeName" not in pod["spec"]:
                without_node[pod["metadata"]["ownerReferences"][0]["uid"]] += 1
        now, halves = self.server.loop.time(), dict[str, float]()
        for job in self.live_children():
            pinned = nodes_of(job)
            assert len(set(pinned)) == job["spec"]["completions"], "each pod has a node of its own"
            gpus = gpus_of(job["spec"]["template"]["spec"])
            held.update(dict.fromkeys(pinned, gpus))
            if without_node[uid := job["metadata"]["uid"]]:
                halves[uid] = self.since.get(uid, now)
                self.half.add(job["metadata"]["labels"]["gpujob.dev/job-uid"])
        # Those that are no longer half placed were until now.
        self.longest = max([self.longest, *(now - since for since in self.since.values())])
        self.since, self.most = halves, max(self.most, *held.values(), 0)


def nodes_of(job: Object) -> list[str]:
    """The nodes to which the pods of a Job are pinned."""
    affinity = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return [value for term in terms for each in term["matchFields"] for value in each["values"]]


@dataclass(frozen=True, slots=True)
class Order:
    """What became of one order of gangs: how each ended, which were half placed without the scheduler's refusal, for how long
    one was half placed at most, and the most GPUs of one node that were promised at one time."""

    seed: int
    states: Counter[str]
    half_placed: int
    longest: float
    most: int

    @property
    def good(self) -> bool:
        """Whether all ended, no node was promised twice, and what the scheduler refused was given back in time."""
        ended = self.states == {"Succeeded": GANGS}
        return ended and self.half_placed == 0 and self.most <= GPUS and 59.0 < self.longest <= MOST


def play(seed: int, timings: Timings = TIMINGS) -> Order:
    """Plays the order of a seed."""
    chance = random.Random(seed)
    deeds: list[tuple[float, Any]] = []
    for number in range(GANGS):
        size, gpus = chance.choice((2, 3, 5, 7, 10)), chance.choice((2, 4, 8, 8))
        deed = lambda world, n=number, s=size, g=gpus: world.submit(f"g{n}", nodes=s, gpusPerNode=g)  # noqa: E731
        deeds.append((round(chance.uniform(0.5, 20.0), 2), deed))
    program = Program(runs_for=chance.choice((3.0, 8.0)), starts_after=chance.choice((0.2, 2.0)), grace=0.0)
    refused = chance.sample(range(GANGS), 3)
    unbound = {f"g{number}": replace(program, unbound=1) for number in refused}
    by_time = tuple(sorted(deeds, key=lambda deed: deed[0]))

    async def main() -> Watched:
        world = Watched(Story("gangs", by_time, program, nodes=NODES, timings=timings, until=1500.0), unbound)
        await world.run()
        return world

    world: Watched = run(main())
    jobs = world.server.objects["gpujobs"]
    states = Counter(job["status"]["state"] for job in jobs.values())
    by_choice = {jobs[TEAM, name]["metadata"]["uid"] for name in unbound}
    return Order(seed, states, len(world.half - by_choice), round(world.longest, 2), world.most)


def table(orders: Sequence[Order]) -> list[str]:
    """What the orders have in common, a line for each rule."""
    longest = max((order.longest for order in orders), default=0.0)
    return [
        f"orders of {GANGS} gangs on {NODES} nodes            {len(orders):6}",
        f"all gangs succeeded                        {sum(order.states == {'Succeeded': GANGS} for order in orders):6}",
        f"no node was promised twice                 {sum(order.most <= GPUS for order in orders):6}",
        f"half placed by the scheduler's refusal only {sum(not order.half_placed for order in orders):5}",
        f"longest time with half a gang            {longest:6.1f} s",
    ]
