"""The operator's own metrics: what they say of jobs and pools, and that a thousand jobs stay few series."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gpujob.cluster.metrics.collector import FleetCollector, JobView, PoolView, Snapshot
from gpujob.values.vocabulary import State


def series(snapshot: Snapshot) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by metric and by the values of the labels, in the order of the labels' names."""
    registry = CollectorRegistry()
    registry.register(FleetCollector(lambda: snapshot))
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


def running(number: int = 0) -> JobView:
    return JobView(
        namespace="team",
        name=f"job-{number}",
        pool=f"pool-{number % 10}",
        vendor="AMD",
        accelerator="MI300X",
        profile="llama",
        state=State.RUNNING,
        gpus=16,
        dollars=1_230_000,
        progress=0.42,
        last_step_at=1767225700.0,
        on_device=True,
        counters={"steps": 10.0, "samples": 320.0, "tokens": 163840.0},
        rates={"steps": 0.5, "samples": 16.0, "tokens": 8192.0},
    )


def test_a_running_job_is_told_with_its_figures() -> None:
    found = series(Snapshot(ran=[running()]))
    job = ("job-0", "team")
    assert found["gpujob_job_info"] == {("MI300X", *job, "pool-0", "llama", "Running", "AMD"): 1.0}
    assert found["gpujob_job_cost_dollars_total"][job] == pytest.approx(1.23)
    assert found["gpujob_job_tokens_total"][job] == 163840.0
    assert found["gpujob_job_tokens_per_second"][job] == 8192.0
    assert found["gpujob_job_gpus"][job] == 16.0
    assert found["gpujob_job_progress_ratio"][job] == 0.42


def test_what_is_unknown_has_no_series() -> None:
    ended = JobView("team", "old", "p", "AMD", "MI300X", "", State.SUCCEEDED, 8, None, None)
    names = [
        name for name, values in series(Snapshot(ran=[ended])).items() if values and name.startswith("gpujob_job_")
    ]
    assert names == ["gpujob_job_info"]


def test_pools_tell_what_is_free_what_is_held_and_the_price() -> None:
    found = series(
        Snapshot(pools=[PoolView("p", "AMD", "MI300X", 16, 4, 8, 2_100_000), PoolView("q", "", "", 1, 1, 0, None)])
    )
    assert [found[f"gpujob_pool_gpus{what}"]["MI300X", "p", "AMD"] for what in ("", "_free", "_held")] == [16, 4, 8]
    assert found["gpujob_pool_price_dollars_per_gpu_hour"] == {("MI300X", "p", "AMD"): 2.1}


def test_a_thousand_jobs_are_twelve_series_each_at_most() -> None:
    found = series(Snapshot(ran=[running(number) for number in range(1000)]))
    of_jobs = sum(len(values) for name, values in found.items() if name.startswith("gpujob_job_"))
    assert of_jobs == 12_000
    assert sum(map(len, found.values())) - of_jobs < 60


def test_no_series_of_a_job_that_is_called_as_another_scrape_job_answers_for_that_one() -> None:
    """The ServiceMonitor honors the labels of these series, so that their `job` is the GPUJob; `up` is not among them."""
    found = series(Snapshot(ran=[replace(running(), name="apiserver", namespace="default")]))
    named = {name for name, values in found.items() if any("apiserver" in labels for labels in values)}
    assert len(named) >= 8
    assert {name for name in named if not name.startswith("gpujob_job_")} == set()


def test_failed_preflights_are_counted_by_pool_and_reason() -> None:
    found = series(Snapshot(preflight_failed={("p", "DevicePermission"): 3, ("q", "ImageBroken"): 1}))
    wanted = {("p", "DevicePermission"): 3.0, ("q", "ImageBroken"): 1.0}
    assert found["gpujob_jobs_preflight_failed"] == wanted
