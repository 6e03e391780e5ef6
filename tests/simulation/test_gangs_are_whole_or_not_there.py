"""Twenty gangs on ten nodes, in random orders, three of which the scheduler does not bind at first: no node is ever promised twice,
a gang that is not whole gives everything back after 60 seconds, and all end."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from typing import Any

from tests.simulation.api_server import Object, Program
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Story, World

NODES, GANGS, GPUS = 10, 20, 8
MOST = 62.0
"""Seconds for which a gang may hold nodes without being whole: 60, and what watches and writes take."""
ORDERS = int(os.environ.get("GPUJOB_ORDERS", "12"))
"""Random orders that are played; GPUJOB_ORDERS=1000 plays a thousand."""


class Watched(World):
    """A world that looks, after every event, at what the children hold."""

    def __init__(self, story: Story, unbound: dict[str, Program]) -> None:
        super().__init__(story)
        self.unbound = unbound
        """What the pods of some jobs do instead."""
        self.since: dict[str, float] = {}
        """Since when a gang's pods have been partly bound, by the uid of its child."""
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
            held.update({node: gpus_of(job) for node in pinned})
            if without_node[uid := job["metadata"]["uid"]]:
                halves[uid] = self.since.get(uid, now)
        # Those that are no longer half placed were until now.
        self.longest = max([self.longest, *(now - since for since in self.since.values())])
        self.since, self.most = halves, max(self.most, *held.values(), 0)


def nodes_of(job: Object) -> list[str]:
    affinity = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return [value for term in terms for each in term["matchFields"] for value in each["values"]]


def gpus_of(job: Object) -> int:
    limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    return int(limits["nvidia.com/gpu"])


def play(seed: int) -> Watched:
    chance = random.Random(seed)
    deeds: list[tuple[float, Any]] = []
    for number in range(GANGS):
        size, gpus = chance.choice((2, 3, 5, 7, 10)), chance.choice((2, 4, 8, 8))
        deed = lambda world, n=number, s=size, g=gpus: world.submit(f"g{n}", nodes=s, gpusPerNode=g)  # noqa: E731
        deeds.append((round(chance.uniform(0.5, 20.0), 2), deed))
    program = Program(runs_for=chance.choice((3.0, 8.0)), starts_after=chance.choice((0.2, 2.0)), grace=0.0)
    unbound = {f"g{number}": replace(program, unbound=1) for number in chance.sample(range(GANGS), 3)}
    by_time = tuple(sorted(deeds, key=lambda deed: deed[0]))

    async def main() -> Watched:
        world = Watched(Story("gangs", by_time, program, nodes=NODES, until=1500.0), unbound)
        await world.run()
        return world

    return run(main())  # type: ignore[no-any-return]


def test_no_node_is_promised_twice_and_a_gang_that_is_not_whole_gives_everything_back() -> None:
    for seed in range(ORDERS):
        world = play(seed)
        states = Counter(job["status"]["state"] for job in world.server.objects["gpujobs"].values())
        assert states == {"Succeeded": GANGS}, seed
        assert world.most <= GPUS, seed
        assert 59.0 < world.longest <= MOST, seed
