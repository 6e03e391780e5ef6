"""What a run adds to its profile, once; and when a trial is over and what its job then says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from gpujob.api.kinds.gpujob_status import GPUJobStatus
from gpujob.api.kinds.gpujobprofile import GPUJobProfile
from gpujob.lifecycle import endings
from gpujob.lifecycle.attempts import end_attempt
from gpujob.placement.request.profile_measurements import profile_of
from gpujob.status.attempts import probe_runs
from gpujob.status.attempts.probe_runs import Course
from gpujob.status.attempts.progress import Measured
from gpujob.status.attempts.waits import write_time
from gpujob.status.job import job_status
from gpujob.status.observe.child import observe
from gpujob.status.profile import KEPT, MEASUREMENTS, Ran, after_run, from_status
from gpujob.status.records.objects import ChildRecord, JobRecord, PodState
from gpujob.status.records.read_objects import read_child, read_job
from gpujob.values.vocabulary import Annotation, Label, Reason, State

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ran(number: int = 0, device: str = "MI300X", tokens: float = 2553.0, seconds: int = 600, **rates: float) -> Ran:
    rates = rates or {"steps": 1.5, "tokens": tokens}
    return Ran(
        f"job-{number}", device, device, "2x8", "Mixed", rates, seconds, 3_200_000, NOW + timedelta(hours=number)
    )


def after(*every: Ran) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in every:
        found = after_run("team", "llama", profile_of(found), each) or found
    GPUJobProfile.model_validate(orjson.loads(orjson.dumps(found)))
    return found


def test_a_run_makes_a_profile_that_kubectl_can_show() -> None:
    found = after(ran())
    assert found["metadata"]["name"] == "llama"
    assert (found["status"]["summary"], found["status"]["runs"]) == ("2x8 MI300X: 2,553 tokens/s", 1)
    (measurement,) = found["status"]["measurements"]
    assert measurement == {
        "device": "MI300X",
        "accelerator": "MI300X",
        "shape": "2x8",
        "precision": "Mixed",
        "unit": "tokens",
        "perSecond": "2553",
        "count": 1,
        "runs": [
            {"job": "job-0", "perSecond": "2553", "seconds": 600, "time": "2026-01-01T12:00:00Z", "dollars": "3.20"}
        ],
    }


def test_a_run_counts_once_however_often_its_step_is_repeated() -> None:
    assert after(ran(1), ran(1)) == after(ran(1))


def test_a_run_that_measured_nothing_for_long_enough_adds_nothing() -> None:
    assert after(ran(seconds=5)) == {}
    assert after(ran(steps=0.0)) == {}


def test_old_runs_go_and_are_still_counted() -> None:
    found = after(*(ran(number) for number in range(20)))
    (measurement,) = found["status"]["measurements"]
    assert (measurement["count"], len(measurement["runs"])) == (20, KEPT)
    assert measurement["runs"][-1]["job"] == "job-19"


def test_a_profile_stays_small() -> None:
    found = after(*(ran(number, device=f"device-{number}") for number in range(MEASUREMENTS + 5)))
    assert len(found["status"]["measurements"]) == MEASUREMENTS
    assert "device-0" not in {m["device"] for m in found["status"]["measurements"]}
    assert len(orjson.dumps(found)) < 100_000


def test_a_run_of_a_clock_that_was_ahead_does_not_stay_the_newest() -> None:
    ahead = replace(ran(0, tokens=9.0), ended=NOW + timedelta(days=30_000))
    found = after(ahead, *(ran(number) for number in range(1, 12)))
    (measurement,) = found["status"]["measurements"]
    assert measurement["perSecond"] == "2553"
    assert "job-0" not in {run["job"] for run in measurement["runs"]}


def trial(ended: str = "", **placement: Any) -> ChildRecord:
    hint = {
        "pool": "mi300x", "vendor": "AMD", "accelerator": "MI300X", "nodes": 2, "gpusPerNode": 8, "image": "i",
        "runtime": "own", "probe": 50, **placement,
    }  # fmt: skip
    annotations = {Annotation.PLACEMENT: orjson.dumps(hint).decode()}
    status = {"conditions": [{"type": ended, "status": "True"}]} if ended else {}
    metadata = {"name": "j-1", "labels": {Label.ATTEMPT: "1"}, "annotations": annotations}
    return read_child({"metadata": metadata, "spec": {}, "status": status})


def job(generation: int = 1, **status: Any) -> JobRecord:
    metadata = {"name": "j", "uid": "u", "generation": generation}
    return read_job({"metadata": metadata, "spec": {}, "status": {"startTime": "2026-01-01T12:00:00Z", **status}})


def course(minutes: float, created: float | None = None) -> Course:
    """A trial whose pods have run so long, and whose child was created a minute before that."""
    return Course(60 * (minutes + 1 if created is None else created), 60 * minutes)


@pytest.mark.parametrize(
    ("steps", "rate", "minutes", "sentence"),
    [
        (49, 2553.0, 5, None),
        (50, 2553.0, 5, "the trial on pool mi300x measured 2,553 tokens/s"),
        (50, 0.0, 5, None),
        (50, 1e-320, 5, None),
        (3, 12.0, 15, "the trial on pool mi300x measured 12 tokens/s"),
        (0, 0.0, 15, "the trial on pool mi300x reported no step within 900 seconds; its program needs to report"),
    ],
)
def test_a_trial_is_over_after_its_steps_or_its_time(
    steps: int, rate: float, minutes: int, sentence: str | None
) -> None:
    measured = Measured(at=NOW, counters={"steps": float(steps)}, rates={"tokens": rate})
    found = probe_runs.result(trial(), measured, course(minutes))
    assert (found and found.sentence) == sentence


def test_a_trial_whose_pods_do_not_start_is_over_and_another_place_is_preferred() -> None:
    waits = "0 of 2 pods run; pod j-1-0-x starts on node a: ImagePullBackOff"
    assert probe_runs.result(trial(), None, Course(899.0, None, waits)) is None
    result = probe_runs.result(trial(), None, Course(900.0, None, waits))
    assert result is not None
    assert result.sentence == f"the trial on pool mi300x did not start within 900 seconds: {waits}"
    status = {"probes": probe_runs.with_result({}, trial(), result, "Mixed", NOW)}
    GPUJobStatus.model_validate(orjson.loads(orjson.dumps(status)))
    assert status["probes"][0]["unmeasured"] == f"did not start within 900 seconds: {waits}"
    assert (list(probe_runs.failed(status)), probe_runs.measurements(status)) == ([], ())
    assert list(probe_runs.tried(status)) == list(probe_runs.unstarted(status)) == [("MI300X", "2x8")]


def test_a_trial_that_starts_late_has_its_time_and_none_lasts_for_ever() -> None:
    assert Course(899.0, 0.0).left == 900.0
    assert Course(1799.0, 0.0).left == 1.0
    # An operator that starts again counts from zero; the child's age does not.
    assert Course(1800.0, 3.0).left == 0.0
    assert Course(-7200.0, None).left > 0


def test_the_real_run_is_no_trial() -> None:
    assert probe_runs.result(trial(probe=None), None, course(60 * 24)) is None


def test_a_trial_whose_program_has_ended_was_the_whole_job() -> None:
    measured = Measured(at=NOW, counters={"steps": 60.0}, rates={"tokens": 2553.0})
    assert probe_runs.result(trial(ended="Complete"), measured, course(5)) is None
    assert probe_runs.result(trial(ended="Complete"), None, course(60 * 24)) is None


def test_a_trial_that_told_of_no_step_is_over_and_excludes_no_pool() -> None:
    result = probe_runs.result(trial(), None, course(15))
    assert result is not None
    status = {"probes": probe_runs.with_result({}, trial(), result, "Mixed", NOW)}
    GPUJobStatus.model_validate(orjson.loads(orjson.dumps(status)))
    assert (list(probe_runs.failed(status)), probe_runs.measurements(status)) == ([], ())
    assert list(probe_runs.tried(status)) == [("MI300X", "2x8")]
    assert list(probe_runs.unstarted(status)) == []


def test_an_edit_of_the_job_forgets_trials_that_failed_and_keeps_what_was_measured() -> None:
    probes = [{"pool": "a", "perSecond": "1"}, {"pool": "b", "failed": "no such file"}, {"pool": "c", "started": False}]
    held = {"probes": probes, "observedGeneration": 1}
    assert probe_runs.kept(job(1, **held)) == probes
    assert probe_runs.kept(job(2, **held)) == probes[:1]


def test_trials_of_one_pool_in_two_shapes_are_both_remembered() -> None:
    first, second = trial(nodes=1), trial(nodes=2)
    result, probes = probe_runs.Result("mi300x", "tokens", 10.0), []
    for child in (first, second, first):
        probes = probe_runs.with_result({"probes": probes}, child, result, "Mixed", NOW)
    assert sorted(probe_runs.tried({"probes": probes})) == [("MI300X", "1x8"), ("MI300X", "2x8")]


def test_a_job_after_a_trial_waits_for_the_next_and_keeps_what_was_measured_and_paid() -> None:
    held = {"placement": {"pool": "mi300x", "pricePerHour": "36.00"}, "jobName": "j-1", "attempt": 1}
    one = job(**held)
    result = probe_runs.Result("mi300x", "tokens", 2553.0)
    end = NOW + timedelta(minutes=10)
    probes = probe_runs.with_result(one.status, trial(), result, "Mixed", end)
    status = end_attempt(one, trial(), endings.probe_over(result.sentence, probes), write_time(end))
    GPUJobStatus.model_validate(orjson.loads(orjson.dumps(status)))
    assert (status["state"], status["display"]["reason"], "jobName" in status) == ("Queued", "Probed", False)
    assert status["cost"] == {"accrued": "6.00", "earlier": "6.00"}
    (measurement,) = probe_runs.measurements(status)
    assert (measurement.device, measurement.shape, measurement.per_second) == ("MI300X", "2x8", 2553.0)

    failed = probe_runs.Result("h100", failed="pod x failed with exit code 1")
    both = {**status, "probes": probe_runs.with_result(status, trial(pool="h100"), failed, "Mixed", end)}
    assert len(probe_runs.measurements(both)) == 1
    assert list(probe_runs.failed(both)) == [("h100", "pod x failed with exit code 1")]


@pytest.mark.parametrize(
    "probes", [None, 3, [None], [{"pool": 3, "failed": []}], [{"perSecond": "x"}], [{"shape": "9e9x1"}]]
)
def test_trials_that_somebody_forged_are_none(probes: Any) -> None:
    assert probe_runs.measurements({"probes": probes}) == ()
    assert list(probe_runs.failed({"probes": probes})) == []
    assert list(probe_runs.tried({"probes": probes})) == []
    assert list(probe_runs.unstarted({"probes": probes})) == []


RUNS = PodState("j-1-0", "c", "n", "Running", running=True, leaving=False, started="2026-01-01T12:00:00Z")


def test_a_trial_that_runs_is_told_apart_from_the_job_itself() -> None:
    seen = observe(trial(), [RUNS], ran=True)
    assert (seen.state, seen.reason) == (State.RUNNING, Reason.PROBING)
    assert seen.message.endswith("; this is a probe of 50 steps, the job itself follows")
    status = job_status.placed(job(), trial(), seen, "2026-01-01T12:00:00Z")
    assert status["display"]["accelerator"] == "2x8 MI300X (probe)"
    assert status["display"]["reason"] == "Probing"
    real = observe(trial(probe=None), [RUNS], ran=True)
    assert real.reason is Reason.RUNNING


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ({"startTime": "2026-01-01T11:50:00Z", "progress": {"updated": "2026-01-01T12:00:00Z"},
          "throughput": {"stepsPerSecond": "1.5", "tokensPerSecond": "lots"}}, ({"steps": 1.5}, 600.0)),
        ({"progress": {"updated": "2026-01-01T12:00:00Z"}, "throughput": {"stepsPerSecond": "1.5"}}, ({"steps": 1.5}, 0.0)),
        ({"startTime": "2026-01-01T11:50:00Z", "throughput": {"stepsPerSecond": "1.5"}}, ({"steps": 1.5}, 0.0)),
        ({"startTime": "2026-01-01T11:50:00Z", "progress": {"updated": "2026-01-01T12:00:00Z"}}, ({}, 0.0)),
        ({"throughput": "fast"}, ({}, 0.0)),
    ],
)  # fmt: skip
def test_the_rates_of_a_run_that_another_operator_read(
    status: dict[str, Any], found: tuple[dict[str, float], float]
) -> None:
    assert from_status(status) == found
