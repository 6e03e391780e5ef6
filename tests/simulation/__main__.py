"""`python -m tests.simulation [--seed N]`: plays fault plans on all cores and prints what became of them; `make plans` runs it.

With `--orders N` it plays N random orders of gangs instead (`make gangs`), and with `--cpu-seconds S` as many of them as S seconds of
CPU allow: `make test` plays those, and prints how many they were."""

from __future__ import annotations

import argparse
import gc
import itertools
import multiprocessing
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import structlog

from tests.simulation import gangs
from tests.simulation.gangs import Order
from tests.simulation.plans import FaultPlan, Outcome, fault_plans, play, table

Numbered = tuple[int, FaultPlan]
T = TypeVar("T")
R = TypeVar("R")


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 where a fault changed something. Arguments of pytest, which `make test` gives to each part, are left alone."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, default=1, help="which plans are drawn")
    parser.add_argument(
        "--orders", type=int, default=0, help="random orders of gangs that are played in place of fault plans"
    )
    parser.add_argument("--cpu-seconds", type=float, default=0.0, help="CPU for which such orders are played instead")
    options = parser.parse_known_args(arguments)[0]
    began = time.monotonic()
    orders: list[Order] = []
    if options.orders or options.cpu_seconds:
        first, cores = options.seed * 10**6, multiprocessing.cpu_count()
        if options.orders:
            found = spread(ordered, split(range(first, first + options.orders)))
        else:
            shares = [Share(first + core, cores, options.cpu_seconds / cores) for core in range(cores)]
            found = spread(ordered_for, shares)
        orders = [order for many in found for order in many]
        print("\n".join(gangs.table(orders)))
        bad: list[object] = [order for order in orders if not order.good]
    else:
        plans = list(fault_plans(options.seed))
        outcome_of = dict(pair for pairs in spread(played, groups(plans)) for pair in pairs)
        outcomes = [outcome_of[number] for number in range(len(plans))]
        print("\n".join(table(outcomes)))
        bad = [outcome for outcome in outcomes if not outcome.good]
    for each in bad[:20]:
        print(f"FAILED {each}")
    cpu = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"seed {options.seed}, {cpu:.0f} s of CPU")
    what = f"{len(orders)} orders" if orders else f"{len(plans)} plans"
    print(f"{what}, {len(bad)} different in {time.monotonic() - began:.0f}s")
    return 1 if bad else 0


def spread(work: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """The results of parts of the work on all cores, in any order."""
    # What is loaded by now, above all the catalog, is left out of every collection of garbage in the workers.
    gc.freeze()
    with multiprocessing.get_context("fork").Pool() as pool:
        found = list(pool.imap_unordered(work, parts))
        pool.close()
        pool.join()
    return found


def split(seeds: range, size: int = 10) -> list[range]:
    """Seeds in parts of `size`."""
    return [seeds[first : first + size] for first in range(0, len(seeds), size)]


def groups(plans: Sequence[FaultPlan]) -> list[list[Numbered]]:
    """Plans with their numbers, those with one undisturbed run together."""
    alike: dict[tuple[str, float], list[Numbered]] = defaultdict(list)
    for number, plan in enumerate(plans):
        alike[plan.story, plan.shift].append((number, plan))
    return sorted(alike.values(), key=len, reverse=True)


def played(plans: Sequence[Numbered]) -> list[tuple[int, Outcome]]:
    """Plays plans in a worker; garbage is collected once for all of them, which takes a sixth of the time off."""
    gc.disable()
    outcomes = [(number, play(plan)) for number, plan in plans]
    gc.collect()
    return outcomes


class Share(NamedTuple):
    """What one worker plays: orders from a seed on, each `step` further, until it has used its seconds of CPU."""

    seed: int
    step: int
    seconds: float


def ordered_for(share: Share) -> list[Order]:
    """Plays orders of gangs in a worker for a time, at least one."""
    gc.disable()
    orders, seeds, until = [], itertools.count(share.seed, share.step), time.process_time() + share.seconds
    while not orders or time.process_time() < until:
        orders.append(gangs.play(next(seeds)))
    gc.collect()
    return orders


def ordered(seeds: range) -> list[Order]:
    """Plays orders of gangs in a worker."""
    gc.disable()
    orders = [gangs.play(seed) for seed in seeds]
    gc.collect()
    return orders


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    sys.exit(main(sys.argv[1:]))
