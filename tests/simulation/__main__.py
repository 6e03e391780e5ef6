"""`python -m tests.simulation [SEED]`: plays the fault plans of a seed on all cores and prints what became of them; `make plans`."""

from __future__ import annotations

import multiprocessing
import sys
import time

import structlog

from tests.simulation.plans import FaultPlan, Outcome, fault_plans, play, table


def main(seed: int) -> int:
    """The exit code: 1 where a fault changed something."""
    began = time.monotonic()
    plans = list(fault_plans(seed))
    with multiprocessing.get_context("fork").Pool() as pool:
        outcomes = pool.map(played, plans, chunksize=16)
    print("\n".join(table(outcomes)))
    bad = [outcome for outcome in outcomes if not outcome.good]
    for outcome in bad[:20]:
        print(f"another end: {outcome}")
    print(f"seed {seed}: {len(plans)} plans in {time.monotonic() - began:.0f} s, {len(bad)} with another end")
    return 1 if bad else 0


def played(plan: FaultPlan) -> Outcome:
    """Plays a plan in a worker."""
    return play(plan)


if __name__ == "__main__":
    sys.path.insert(0, "tests")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
