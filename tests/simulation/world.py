"""One run in virtual time: a fleet, a story of what users do, an operator with faults, and what is left in the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpujob.lifecycle.timings import Timings
from gpujob.status.attempts.progress import Measured
from gpujob.status.attempts.standstill import Ranks, RankSeen
from gpujob.status.job.telemetry import Telemetry
from tests.builders import ANY_IMAGES, H100, node
from tests.simulation.api_server import ApiServer, Object, Program, has_ended
from tests.simulation.operator_process import OperatorProcess
from tests.simulation.virtual_time import VirtualLoop

TEAM = "team"
PATH = f"/apis/gpujob.dev/v1alpha1/namespaces/{TEAM}/gpujobs"
Deed = Callable[["World"], None]
STILL, LOOK = 80.0, 20.0
"""Seconds in which the rarest of the repeated looks, that at budgets, comes twice; and between two looks whether all rests."""


@dataclass(frozen=True, slots=True)
class Story:
    """What users do, by the second; and what their program does."""

    name: str
    deeds: tuple[tuple[float, Deed], ...]
    program: Program = field(default_factory=Program)
    nodes: int = 2
    finalizers: tuple[str, ...] = ()
    timings: Timings = field(default_factory=Timings)
    until: float = 1500.0


class World:
    """A running story."""

    def __init__(self, story: Story, skew: float = 0.0) -> None:
        self.story, self.skew = story, skew
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.server = ApiServer(loop)
        self.server.program, self.server.finalizers = story.program, list(story.finalizers)
        for number in range(story.nodes):
            raw = node(f"n{number}", H100)
            raw["metadata"] |= {"uid": f"n{number}", "creationTimestamp": "2025-12-01T00:00:00Z"}
            self.server.put("nodes", "ADDED", raw)
        self.processes: list[OperatorProcess] = []
        self.ends: dict[str, float] = {}
        """The second in which each job's status became final, by uid."""
        self.server.on_change.append(self._note_end)

    def _note_end(self, plural: str, event: str, obj: Object) -> None:
        if plural == "gpujobs" and (obj.get("status") or {}).get("state") in ("Succeeded", "Failed"):
            self.ends.setdefault(obj["metadata"]["uid"], self.server.loop.time())

    def start(self) -> OperatorProcess:
        """Starts an operator, which lists and leads."""
        self.processes.append(OperatorProcess(self.server, ANY_IMAGES, self.story.timings, self.skew))
        return self.processes[-1]

    async def run(self, faults: Callable[[World], None] = lambda _: None) -> None:
        """Plays the story to its end and beyond, until everything has settled."""
        loop = self.server.loop
        self.start()
        faults(self)
        for second, deed in self.story.deeds:
            loop.call_at(second, deed, self)
        await self._until_still()
        for process in self.processes:
            process.kill()
            await process.ended()

    async def _until_still(self) -> None:
        """Waits until the story's end, or until nothing has been due for a while in which every repeated look came twice."""
        loop, still = self.server.loop, 0.0
        while still < STILL and (left := self.story.until - loop.time()) > 0:
            await asyncio.sleep(min(left, LOOK))
            rests = not loop.calls_to_come() and all(process.rests() for process in self.processes)
            still = still + LOOK if rests else 0.0

    # What users do

    def submit(self, name: str, **spec: Any) -> None:
        body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": name}, "spec": spec}
        self.server.create(PATH, body)

    def edit(self, name: str, **spec: Any) -> None:
        def change(job: Object) -> None:
            job["spec"] = {key: value for key, value in {**job["spec"], **spec}.items() if value is not None}
            job["metadata"]["generation"] += 1

        self.server.change("gpujobs", (TEAM, name), change)

    def remove(self, name: str, propagation: str = "Background") -> None:
        held = self.server.objects["gpujobs"].get((TEAM, name))
        if held is not None:
            self.server.delete(f"{PATH}/{name}", held["metadata"]["uid"], propagation)

    # What reporters show

    def reads(self, still: float) -> None:
        """A leader reads of each first attempt that runs that no rank has shown a sign of work for this many seconds."""
        for process in self.processes:
            for uid, job in process.index.jobs.items() if process.leads else ():
                if job.status.get("attempt") != 1 or job.status.get("state") != "Running":
                    continue
                ranks = Ranks((RankSeen(0, "p", "n0", 24, still=still),))
                measured = Measured(
                    self.server.time(), counters={"steps": 24.0}, still=still, slowest_step=1.0, ranks=ranks
                )
                process.reconciler.work.telemetry[uid] = Telemetry(measured)
                process.reconciler.work.dirty.add(uid)
                process.cache.changed.set()

    # What is left

    def left(self) -> Any:
        """The end state, without what may differ between runs: times, numbers of attempts, uids, sentences."""
        jobs = {name: summary(job.get("status") or {}) for (_, name), job in self.server.objects["gpujobs"].items()}
        live = Counter(job["metadata"]["labels"]["gpujob.dev/job-uid"] for job in self.live_children())
        names = {job["metadata"]["uid"]: name for (_, name), job in self.server.objects["gpujobs"].items()}
        running = [
            pod for pod in self.server.objects["pods"].values() if pod["status"]["phase"] in ("Pending", "Running")
        ]
        return {
            "jobs": jobs,
            "live children": {names.get(uid, "?"): count for uid, count in sorted(live.items())},
            "pods": sorted(names.get(pod["metadata"]["labels"]["gpujob.dev/job-uid"], "?") for pod in running),
            "services": len(self.server.objects["services"]),
        }

    def live_children(self) -> list[Object]:
        """Child Jobs that have not ended and are not deleted."""
        return [
            job
            for job in self.server.objects["jobs"].values()
            if not has_ended(job) and "deletionTimestamp" not in job["metadata"]
        ]

    def overlap(self) -> float:
        """The longest time for which pods of two attempts of one job ran together."""
        longest, end = 0.0, self.server.loop.time()
        for one in self.server.ran:
            for other in self.server.ran:
                if one[0] == other[0] and one[2] != other[2]:
                    together = min(one[4] or end, other[4] or end) - max(one[3], other[3])
                    longest = max(longest, together)
        return longest

    def ran_on(self) -> float:
        """The longest time for which a pod ran after the end of its job."""
        now = self.server.loop.time()
        return max((0.0, *((each[4] or now) - self.ends.get(each[0], now) for each in self.server.ran)))


def summary(status: Mapping[str, Any]) -> Any:
    """What of a status must be the same after any fault."""
    conditions = {c["type"]: (c["status"], c["reason"]) for c in status.get("conditions", [])}
    placement = status.get("placement") or {}
    return {
        "state": status.get("state"),
        "conditions": dict(sorted(conditions.items())),
        "reason": status.get("display", {}).get("reason"),
        "pool": placement.get("pool"),
        "names a child": "jobName" in status,
        "failures": status.get("failures"),
        "why attempts failed": [(e.get("blame"), e["reason"]) for e in status.get("attempts", []) if "blame" in e],
        "ended": "completionTime" in status,
        "excluded": [each["name"] for each in status.get("excludedPools", [])],
        "excluded nodes": [(each["name"], each["attempt"], each["reason"]) for each in status.get("excludedNodes", [])],
    }
