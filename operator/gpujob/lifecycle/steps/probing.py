"""Probes: short runs that measure a program on a pool before the job stays there."""

from __future__ import annotations

from gpujob.lifecycle.steps.evaluation import Evaluation
from gpujob.status.attempts import probe_runs, waits
from gpujob.status.attempts.probe_runs import Course, Result
from gpujob.status.observe.child import Observation
from gpujob.status.records.objects import ChildRecord
from gpujob.values.vocabulary import State


def probe_result(evaluation: Evaluation, child: ChildRecord) -> Result | None:
    """The result of a probe, once it is over; a probe whose program ends successfully was the whole job."""
    seen = evaluation.observe(child)
    if child.ended == "Failed":
        return Result(str(child.hint.placement.get("pool", "")), failed=seen.message)
    if child.ended:
        return None
    course = _course(evaluation, child, seen)
    evaluation.requeue(course.left)
    return probe_runs.result(child, evaluation.view.telemetry.measured, course)


def _course(evaluation: Evaluation, child: ChildRecord, seen: Observation) -> Course:
    """How long a probe has existed and run."""
    now, limits = evaluation.now, evaluation.timings.probe
    if evaluation.sightings.probe[0] != child.uid:
        made = waits.read_time(child.created) or now.server
        age = max(0.0, (now.server - made).total_seconds())
        evaluation.see(probe=(child.uid, now.elapsed, age))
    _, since, age = evaluation.sightings.probe
    age += now.elapsed - since
    if seen.state is not State.RUNNING and not evaluation.job.status.get("startTime"):
        return Course(age, None, seen.message, limits=limits)
    if evaluation.sightings.ran[0] != child.name:
        evaluation.see(ran=(child.name, now.elapsed))
    ran = now.elapsed - evaluation.sightings.ran[1]
    return Course(age, ran, seen.message, evaluation.view.telemetry.blocked, limits)
