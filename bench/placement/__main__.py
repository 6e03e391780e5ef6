"""Measures placement on a fleet of 10,000 nodes, 100 pools and 30 runtimes; prints milliseconds and ratios.

    python -m bench.placement [DECISIONS]

A ratio is to a plain loop of the same run that visits each of the 3,000 pairs of a pool and a runtime once and compares
two numbers, so that figures of different machines compare. No two demands are alike, no answer is kept, and a pod comes
or goes before each decision. Times are of the CPU, since others may share the machine. Garbage is collected as the operator does:
between two decisions (`turns.collect_if_due`), and within one by the thresholds of `short_pauses`.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import orjson

from bench.placement import world
from gpujob.cluster.app.short_pauses import prepare
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.queue.turns import collect_if_due
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.request.demand import Demand

FIRST = 100
"""Decisions after the start, shown separately: they fill the caches of facts about pools and images."""

EXPLAINED = 10
"""Of so many decisions one is explained in full, and compared with the choice."""

PAGE = 500
"""Objects in a page of a list, as the operator asks for them."""


LISTED: Final = {
    "nodes": world.nodes,
    "pods": world.pods,
    "gpupools": world.gpupools,
    "resourcequotas": world.quotas,
}
"""What the cluster holds of each kind."""


class Cluster:
    """The operator's own path from lists and events to a fleet, without the network."""

    def __init__(self) -> None:
        self.cache = ObjectCache(mirrored("gpujob-runner-x"))
        self.index = ClusterIndex(self.cache, world.catalog())
        self._version = 1

    def list_all(self, kinds: Sequence[str] = tuple(LISTED)) -> float:
        """Takes the cold lists; the seconds that reading them and making the first fleet takes."""
        seconds = 0.0
        for kind in kinds:
            listing, trim = self.cache.listing(kind), self.cache.kinds[kind].trim
            for page in _pages(LISTED[kind]()):
                began = time.thread_time()
                listing.add(orjson.loads(trim(page)))
                seconds += time.thread_time() - began
            began = time.thread_time()
            listing.commit("1")
            seconds += time.thread_time() - began
            del listing
        began = time.thread_time()
        self.take()
        self.index.fleet()
        return seconds + time.thread_time() - began

    def take(self) -> None:
        """Brings the index up to date."""
        self.index.take(self.cache.take_changes())

    def event(self, kind: str, pod: world.Object) -> None:
        """One event of the watch of pods."""
        self._version += 1
        pod["metadata"]["resourceVersion"] = str(self._version)
        self.cache.apply("pods", kind, pod)
        self.take()


def _pages(objects: Iterator[world.Object]) -> Iterator[bytes]:
    while page := list(islice(objects, PAGE)):
        yield orjson.dumps(page)


def events() -> Iterator[tuple[str, world.Object]]:
    """Pods that come to nodes and end again."""
    chance, there = random.Random(3), list[world.Object]()
    names = [
        (node["metadata"]["name"], next(k for k in node["status"]["capacity"] if "/gpu" in k)) for node in world.nodes()
    ]
    for number in range(10**9):
        if there and chance.random() < 0.5:
            yield "DELETED", there.pop(chance.randrange(len(there)))
        else:
            node, resource = chance.choice(names)
            there.append(world.pod(f"new-{number}", node, {"cpu": "8", "memory": "64Gi", resource: "1"}))
            yield "ADDED", there[-1]


def plain_loop() -> float:
    """Seconds to visit each pair of a pool and a runtime once."""
    pools, runtimes = range(len(world.DEVICES) * len(world.REGIONS)), range(world.RUNTIMES)
    times = []
    for _ in range(50):
        began, larger = time.thread_time(), 0
        for pool in pools:
            for runtime in runtimes:
                if pool > runtime:
                    larger += 1
        times.append(time.thread_time() - began)
    return statistics.median(times)


def memory() -> int:
    """Bytes that cache, index and fleet hold after the cold lists."""
    tracemalloc.start()
    cluster = Cluster()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    cluster.list_all()
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return held


def told(name: str, seconds: Sequence[float], loop: float) -> None:
    """One line: median and 99th percentile in milliseconds and as ratios."""
    ordered = sorted(seconds)
    middle, late = statistics.median(ordered), ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    print(f"{name:34} {middle * 1e3:10.3f} {late * 1e3:10.3f} {middle / loop:10.2f} {late / loop:10.2f}", flush=True)


def main(decisions: int) -> None:
    """Prints the table."""
    prepare()
    loop, of_nodes, cluster = plain_loop(), Cluster().list_all(("nodes",)), Cluster()
    cold = cluster.list_all()
    fleet: Fleet = cluster.index.fleet()
    nodes, pods = (len(cluster.cache.objects(kind)) for kind in ("nodes", "pods"))
    print(f"{nodes} nodes, {pods} pods, {len(fleet.pools)} pools, {world.RUNTIMES} runtimes; "
          f"{sum(pool.free for pool in fleet.pools)} of {sum(pool.total for pool in fleet.pools)} GPUs are free")  # fmt: skip
    print(f"{'':34} {'p50 ms':>10} {'p99 ms':>10} {'p50 ratio':>10} {'p99 ratio':>10}")
    told("plain loop over 3,000 pairs", [loop], loop)
    changes, demands = events(), world.demands(FIRST + decisions)
    gc.collect()
    placed, event, snapshot, explained = 0, list[float](), list[float](), list[float]()
    chosen: list[tuple[float, Demand]] = []
    for demand in demands:
        kind, pod = next(changes)
        collect_if_due()
        began = time.thread_time()
        cluster.event(kind, pod)
        event.append(time.thread_time() - began)
        began = time.thread_time()
        fleet = cluster.index.fleet()
        snapshot.append(time.thread_time() - began)
        began = time.thread_time()
        pick = choose(demand, fleet, cluster.index.catalog)
        chosen.append((time.thread_time() - began, demand))
        placed += pick.choice is not None
        if len(chosen) % EXPLAINED == 0:
            collect_if_due()
            began = time.thread_time()
            decision = decide(demand, fleet, cluster.index.catalog)
            explained.append(time.thread_time() - began)
            assert (decision.verdict, decision.choice) == (pick.verdict, pick.choice)
    told(f"choice, first {FIRST}", [seconds for seconds, _ in chosen[:FIRST]], loop)
    told("choice", [seconds for seconds, _ in chosen[FIRST:]], loop)
    told("choice of jobs with a model", [seconds for seconds, demand in chosen[FIRST:] if demand.model], loop)
    told(f"full explanation, first {FIRST // EXPLAINED}", explained[: FIRST // EXPLAINED], loop)
    told("full explanation", explained[FIRST // EXPLAINED :], loop)
    told("pod event", event, loop)
    told("snapshot after a pod event", snapshot, loop)
    told("cold list of nodes to a fleet", [of_nodes], loop)
    told("all cold lists to a fleet", [cold], loop)
    print(f"{placed} of {len(chosen)} jobs have a place; cache, index and fleet hold {memory() / 2**20:.0f} MiB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
