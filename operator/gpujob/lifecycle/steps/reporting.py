"""The status of a job with a live child, and the end at a limit that this status has reached."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpujob.fleet.pools.arriving import Arriving
from gpujob.lifecycle import endings
from gpujob.lifecycle.actions import Action, Finish, Nothing, Numbers, WriteStatus
from gpujob.lifecycle.attempts import with_entry
from gpujob.lifecycle.limits import nearest_limit
from gpujob.lifecycle.stalls import Stall
from gpujob.lifecycle.steps import ends, lasting
from gpujob.lifecycle.steps.evaluation import Evaluation
from gpujob.lifecycle.steps.stalling import with_stall
from gpujob.lifecycle.steps.waiting import Unbound
from gpujob.status.attempts import progress
from gpujob.status.job import job_status, telemetry
from gpujob.status.observe.child import Observation, held_in_vain, waits_for_devices
from gpujob.status.records.objects import ChildRecord
from gpujob.values.untrusted import condition, table
from gpujob.values.vocabulary import ConditionType, Reason, State


def report(
    evaluation: Evaluation,
    child: ChildRecord,
    bare: Arriving | None = None,
    unbound: Unbound | None = None,
    stalled: Stall | None = None,
) -> Action:
    """The status that the child and its pods show; `bare`: the new node without devices that they wait for; `stalled`: why they
    make no step."""
    job, view, seen = evaluation.job, evaluation.view, evaluation.observe(child)
    if unbound and seen.stuck and seen.state is State.PLACED:
        seen = held_in_vain(seen, unbound.until, silent=unbound.silent)
    seen = waits_for_devices(bare) if bare and seen.state is State.PLACED else _patiently(evaluation, seen, unbound)
    if _is_reported_later(evaluation, child, seen):
        return Nothing()
    status = job_status.placed(job, child, seen, evaluation.now.text, view.telemetry, view.price_now)
    status = ends.with_cost(evaluation, status)
    status = with_stall(evaluation, status, stalled) if seen.state is State.RUNNING else status
    if not child.leaving and (limited := _limited(evaluation, child, status)) is not None:
        return limited
    if seen.state is not State.RUNNING:
        return WriteStatus(status, Numbers.NEWS if _has_words(evaluation, seen) else Numbers.SAME)
    return WriteStatus(status, _numbers(evaluation, status))


def _has_words(evaluation: Evaluation, seen: Observation) -> bool:
    """Whether the stored sentence lacks known words of events; a new sentence alone causes no write."""
    held = str(condition(evaluation.job.status, ConditionType.RUNNING).get("message", ""))
    words = evaluation.refused.removesuffix(".")
    return bool(words) and words in seen.message and words not in held


def _is_reported_later(evaluation: Evaluation, child: ChildRecord, seen: Observation) -> bool:
    """Whether a child was made just now and may soon run, so that Placed and Running are one write."""
    made = evaluation.unwritten(child)
    if made is None or not child.nodes or seen.state is not State.PLACED or seen.reason is not Reason.PLACED:
        return False
    left = made.seconds_left(evaluation.timings.placed, evaluation.now.elapsed)
    evaluation.requeue(left)
    return left > 0


def _limited(evaluation: Evaluation, child: ChildRecord, status: Mapping[str, Any]) -> Action | None:
    """The end of an attempt whose job has reached a limit; `status` is the status without that limit."""
    job, now = evaluation.job, evaluation.now
    limit = nearest_limit(job, status, lasting.run_clock(evaluation, status.get("startTime")))
    if limit is None:
        return None
    if limit.seconds_left > 0:
        if status.get("startTime") and limit.seconds_left < math.inf:
            evaluation.requeue(limit.seconds_left)
        return None
    if limit.reason is Reason.BUDGET_EXCEEDED:
        return ends.end(evaluation, child, endings.over_budget(limit.message))
    last = job_status.expired(job, status, limit.reason, limit.message, child.name, now.text)
    why = (limit.reason.value, "", limit.message)
    return Finish(child, with_entry(job, child, last, why, now.text))


def _numbers(evaluation: Evaluation, status: Mapping[str, Any]) -> Numbers:
    """Whether the status has other numbers than the stored one; if not, it is compared again after a while."""
    held = evaluation.job.status
    if not progress.differs(held, status) and not telemetry.differs(held, status):
        evaluation.requeue(evaluation.timings.progress)
        return Numbers.SAME
    news_of_it = progress.is_worth_a_write(held, status) or telemetry.is_news(held, status)
    return Numbers.NEWS if news_of_it else Numbers.MOVED


def _patiently(evaluation: Evaluation, seen: Observation, unbound: Unbound | None) -> Observation:
    """Pods that do not run yet are reported only after a delay: most run before a user could read it."""
    job, timings, now = evaluation.job, evaluation.timings, evaluation.now.elapsed
    if seen.state not in (State.PLACED, State.STARTING):
        evaluation.see(not_running=None)
        return seen
    known = job.status.get("startTime") or table(job.status, "display").get("reason") == seen.reason
    if seen.reason is Reason.CHILD_SUSPENDED and known:
        evaluation.see(not_running=None)
        return seen
    before, starting = evaluation.sightings.not_running, timings.checking if seen.checking else timings.starting
    since = before[1] if before is not None and before[0] is seen.state else _since(evaluation, starting)
    evaluation.see(not_running=(seen.state, since))
    ripe = since + (starting if seen.state is State.STARTING else timings.pending)
    if ripe <= now and (seen.reason, seen.stuck) == (Reason.PLACED, "") and unbound:
        return held_in_vain(replace(seen, message=unbound.why), unbound.until, silent=unbound.silent)
    if ripe <= now or job.status.get("state") == State.STARTING:
        return seen
    evaluation.requeue(ripe - now)
    return Observation(State.PLACED, Reason.PLACED, seen.message)


def _since(evaluation: Evaluation, starting: float) -> float:
    """The time at which pods in a new state were first seen: now. Pods of a burst that were not read until Placed was due count
    from the creation of their child, so that one write says Placed and Starting."""
    now, made = evaluation.now.elapsed, evaluation.child and evaluation.unwritten(evaluation.child)
    return made.since if made and now - made.since >= starting else now
