"""`python -m tests.simulation [--seed N]`: plays fault plans on all cores and prints what became of them; `make plans` runs it."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Sequence

import structlog

from tests.simulation.plans import FaultPlan, Outcome, fault_plans, play, table

Numbered = tuple[int, FaultPlan]


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 where a fault changed something. Arguments of pytest, which `make test` gives to each part, are left alone."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, default=1, help="which plans are drawn")
    seed = parser.parse_known_args(arguments)[0].seed
    began = time.monotonic()
    plans = list(fault_plans(seed))
    # What is loaded by now, above all the catalog, is left out of every collection of garbage in the workers.
    gc.freeze()
    with multiprocessing.get_context("fork").Pool() as pool:
        found = dict(pair for pairs in pool.imap_unordered(played, groups(plans)) for pair in pairs)
        pool.close()
        pool.join()
    outcomes = [found[number] for number in range(len(plans))]
    print("\n".join(table(outcomes)))
    bad = [outcome for outcome in outcomes if not outcome.good]
    for outcome in bad[:20]:
        print(f"FAILED {outcome}")
    cpu = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"seed {seed}, {cpu:.0f} s of CPU")
    print(f"{len(plans)} plans, {len(bad)} different in {time.monotonic() - began:.0f}s")
    return 1 if bad else 0


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


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    sys.exit(main(sys.argv[1:]))
