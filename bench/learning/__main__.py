"""Prints, for each workload of two public tables, what is chosen after a profile's runs and what learning cost.

    python -m bench.learning [JOBS]

Regret is what a job cost more than on the device that is truly best for it; a job is an hour of work on that device.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.learning.simulation import (
    EXPLORING,
    GREEDY,
    PRIOR,
    Job,
    Workload,
    gavel_catalog,
    of_gavel,
    of_mlperf,
    probed,
    simulated,
)
from gpujob.catalog.catalog import Catalog
from gpujob.values.quantity import MICRO

POLICIES = {"prior": PRIOR, "learned": GREEDY, "explored": EXPLORING}
PROBED = "probed"
COLUMNS = (*POLICIES, PROBED)


def main(jobs: int) -> None:
    """Both tables."""
    catalog = gavel_catalog()
    _table("Gavel (K80, P100, V100)", of_gavel(), catalog, jobs)
    print()
    _table("MLPerf and others, the catalog's own rows", of_mlperf(catalog), catalog, jobs)


def _table(title: str, workloads: Sequence[Workload], catalog: Catalog, jobs: int) -> None:
    print(f"{title}: {len(workloads)} workloads, {jobs} jobs each (one that probes); regret in dollars over all jobs")
    print(f"{'workload':34} {'best':13}" + "".join(f"{name:>10} {'at the end':13}" for name in COLUMNS))
    totals, right = dict.fromkeys(COLUMNS, 0), dict.fromkeys(COLUMNS, 0)
    for number, workload in enumerate(workloads):
        cells = []
        for name in COLUMNS:
            ran = _ran(workload, catalog, name, jobs, number)
            regret = sum(job.regret for job in ran)
            totals[name] += regret
            right[name] += workload.is_best(ran[-1].device)
            cells.append(f"{regret / MICRO:10.2f} {ran[-1].device:13}")
        print(f"{workload.name[:34]:34} {workload.best:13}" + "".join(cells))
    print(
        f"{'total':48}" + "".join(f"{totals[n] / MICRO:10.2f} {right[n]:>2} of {len(workloads)} best" for n in COLUMNS)
    )


def _ran(workload: Workload, catalog: Catalog, column: str, jobs: int, seed: int) -> list[Job]:
    if column == PROBED:
        return [probed(workload, catalog, seed)]
    return list(simulated(workload, catalog, POLICIES[column], jobs, seed))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
