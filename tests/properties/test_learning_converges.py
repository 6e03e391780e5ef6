"""On two public tables of measured speeds a profile that explores ends on the truly best device, and says what that may cost."""

from __future__ import annotations

import pytest

from bench.learning.simulation import EXPLORING, Workload, gavel_catalog, of_gavel, of_mlperf, probed, simulated
from gpujob.values.quantity import MICRO

CATALOG = gavel_catalog()
WORKLOADS = (*of_gavel(), *of_mlperf(CATALOG))


def test_the_tables_are_there() -> None:
    assert (len(of_gavel()), len(of_mlperf(CATALOG))) == (26, 14)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name.replace(" ", "-"))
def test_exploring_jobs_end_on_the_best_device(workload: Workload) -> None:
    jobs = list(simulated(workload, CATALOG, EXPLORING, 40, seed=7))
    assert all(workload.is_best(job.device) for job in jobs[-10:]), [job.device for job in jobs]
    assert max(job.regret for job in jobs) <= (EXPLORING.exploration or 0)


def test_learning_costs_less_than_staying_with_priors_on_workloads_that_priors_get_wrong() -> None:
    wrong = [w for w in of_gavel() if w.name.startswith("Recommendation")]
    assert len(wrong) == 5
    for workload in wrong:
        jobs = list(simulated(workload, CATALOG, EXPLORING, 40, seed=3))
        always_wrong = 40 * (workload.dollars("V100") - workload.dollars(workload.best))
        assert sum(job.regret for job in jobs) < always_wrong / 5


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name.replace(" ", "-"))
def test_a_probing_job_runs_on_the_best_device(workload: Workload) -> None:
    job = probed(workload, CATALOG, seed=11)
    spread = [workload.price_of_work(device) for device in workload.speeds]
    near = [device for device in workload.speeds if workload.price_of_work(device) <= 1.15 * min(spread)]
    assert job.device in near
    assert job.regret < 5 * MICRO
