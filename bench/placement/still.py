"""Measures the same decisions on a fleet at rest, each three times, and takes the best: what they cost by themselves.

    python -m bench.placement.still [DECISIONS]

On a shared machine, one run of a decision measures other programs too. No result is kept from one decision to the next, nor are
estimates of models. Of five decisions one is explained in full.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import islice
from typing import Final

from bench.placement import world
from bench.placement.__main__ import Cluster, events
from gpujob.cluster.app.short_pauses import THRESHOLDS
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.request import model_requirements
from gpujob.placement.request.demand import Demand

RUNS: Final = 3
EXPLAINED: Final = 5
PODS: Final = 1000
"""Pods that come or go before the fleet is at rest."""


def best(decision: Callable[[], object]) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(RUNS):
        model_requirements.estimates_of.cache_clear()
        began = time.thread_time()
        decision()
        times.append(time.thread_time() - began)
    return min(times)


def kind(demand: Demand) -> str:
    """What sets the job apart."""
    if demand.model is None:
        return "two shapes" if len(demand.gangs) > 1 else "without model, one shape"
    return "with a model that sizes the gang" if demand.sized_by_model else "with a model and its GPUs named"


def main(decisions: int) -> None:
    """Prints a line for each kind of job: how many, and the median, 99th percentile and worst in milliseconds."""
    gc.set_threshold(*THRESHOLDS)
    cluster = Cluster()
    cluster.list_all()
    for event, pod in islice(events(), PODS):
        cluster.event(event, pod)
    fleet, catalog = cluster.index.fleet(), cluster.index.catalog
    gc.collect()
    gc.freeze()
    times: dict[str, list[float]] = defaultdict(list)
    for number, demand in enumerate(world.demands(decisions)):
        verdict = choose(demand, fleet, catalog).verdict
        seconds = best(lambda demand=demand: choose(demand, fleet, catalog))  # type: ignore[misc]
        for name in ("all", kind(demand), verdict.value):
            times[f"choice, {name}"].append(seconds)
        if number % EXPLAINED == 0:
            seconds = best(lambda demand=demand: decide(demand, fleet, catalog))  # type: ignore[misc]
            for name in ("all", kind(demand)):
                times[f"explanation, {name}"].append(seconds)
    print(f"{'best of ' + str(RUNS):48} {'jobs':>5} {'p50 ms':>8} {'p99 ms':>8} {'worst':>8}")
    for name, found in sorted(times.items()):
        ordered = sorted(found)
        figures = (statistics.median(ordered), ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], ordered[-1])
        print(f"{name:48} {len(ordered):5} " + " ".join(f"{each * 1e3:8.3f}" for each in figures))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
