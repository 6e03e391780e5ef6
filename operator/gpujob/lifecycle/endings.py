"""Why an attempt ends although its child Job did not, each as one value for `attempts.end_attempt`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from gpujob.fleet.assembly.node_state import LostRoom
from gpujob.fleet.pools.arriving import Arriving
from gpujob.lifecycle.failures.failure import Failure
from gpujob.status.attempts.waits import refused_alike, with_pool_away, with_refusal
from gpujob.status.job import conditions
from gpujob.status.job.conditions import Update
from gpujob.status.observe.child import Observation
from gpujob.status.records.objects import ChildRecord, JobRecord
from gpujob.values.finding import counted, listed
from gpujob.values.vocabulary import Reason, State


@dataclass(frozen=True, slots=True)
class Ending:
    """The state and reason that follow, their conditions, and further members of the status."""

    reason: Reason
    updates: tuple[Update, ...]
    state: State = State.QUEUED
    members: Mapping[str, Any] = field(default_factory=dict)
    blame: str = ""
    """User or Infrastructure where the attempt failed."""
    message: str = ""
    """Why it ended, in a sentence."""


def suspension(child: ChildRecord) -> Ending:
    """spec.suspend became true; a plan follows after the child is deleted."""
    updates = conditions.of_plan(f"child Job {child.name} is deleted, its GPUs become free", child.attempt)
    return Ending(Reason.PLAN_ONLY, updates, State.SUSPENDED)


def kept(child: ChildRecord) -> Ending:
    """The child was deleted before a status named it, and a finalizer keeps it."""
    sentence = f"child Job {child.name} is deleted and a finalizer keeps it; attempt {child.attempt + 1} follows"
    reason = Reason.EARLIER_ATTEMPT_ENDING
    return Ending(reason, conditions.of_refusal(reason, sentence), State.RESTARTING)


def over_budget(message: str) -> Ending:
    """The job has spent its budget: suspended until the budget is raised."""
    return Ending(Reason.BUDGET_EXCEEDED, conditions.of_budget(message), State.SUSPENDED)


def no_interpreter(message: str) -> Ending:
    """The image cannot run the preflight; `message` is the preflight's. The next attempt runs without one."""
    return Ending(Reason.NO_INTERPRETER, conditions.of_recheck(message))


def nodes_did_not_come(
    job: JobRecord,
    child: ChildRecord,
    seconds: float,
    now: datetime,
    came: Arriving | None = None,
    *,
    bare: bool = False,
) -> Ending:
    """No node came to the pool within `seconds`, or the last one (`came`) offers no devices (`bare`) or was not enough."""
    pool = pool_of(job, child)
    away = with_pool_away(job.status, pool, now, seconds)
    why = f"no nodes came to pool {pool} within {seconds:g} seconds"
    if came is not None:
        lack = "offers no GPUs: check its driver and device plugin" if bare else "the scheduler did not bind all pods"
        why = f"node {came.node} came to pool {pool} at {came.since} and {lack}"
    sentence = f"{why}; other pools are tried, this one at {away[-1]['until']}"
    return _without_pool(Reason.NODES_DID_NOT_COME, sentence, away)


def not_bound(job: JobRecord, child: ChildRecord, why: str, seconds: float, rest: float, now: datetime) -> Ending:
    """The scheduler did not bind all pods within `seconds`; `why` is its message. The pool is not tried for `rest` seconds."""
    pool, reason = pool_of(job, child), Reason.UNSCHEDULABLE
    away = with_pool_away(job.status, pool, now, rest, reason, why)
    sentence = (
        f"after {seconds:g} seconds {why}; the job gave the GPUs of pool {pool} back, other pools are tried, "
        f"this one at {away[-1]['until']}"
    )
    return _without_pool(reason, sentence, away)


def without_room(job: JobRecord, child: ChildRecord, nodes: Mapping[str, LostRoom], row: int) -> Ending:
    """It has lost its room on these nodes, for the `row`th time in a row. The next decision sees why, so that nothing is left out."""
    taken = [name for name, room in nodes.items() if not room.why]
    lost = [(name, room.why) for name, room in nodes.items() if room.why]
    found = [f"other pods took its room on {'nodes' if len(taken) > 1 else 'node'} {listed(taken)}"] if taken else []
    found += [f"node {name} {why}" for name, why in lost[:1]]
    others = f" (and {counted(len(lost) - 1, 'more node')})" if lost[1:] else ""
    gave = f"the job gave the GPUs of pool {pool_of(job, child)} back and is placed again"
    again = f" (attempt {row} in a row that loses its node, each waits longer for it)" if row > 1 else ""
    sentence = f"{' and '.join(found)}{others}; {gave}{again}"
    return Ending(Reason.NODE_TAKEN, conditions.of_refusal(Reason.NODE_TAKEN, sentence))


def refused(
    job: JobRecord, child: ChildRecord, why: str, words: str, seconds: float, rest: float, now: datetime
) -> Ending:
    """The API server refused pods for `seconds`, in these words. Where it did on another pool in the same words, the job's namespace
    refuses them: no pool is tried for `rest` seconds."""
    pool, reason = pool_of(job, child), Reason.UNSCHEDULABLE
    away = with_refusal(job.status, pool, now, rest, why, words)
    gave = f"the job gave the GPUs of pool {pool} back"
    if alike := refused_alike(job.status, pool, words, now):
        same = f"as on pool {alike[0]} before, so that no pool is tried until {away[-1]['othersUntil']}"
        return _without_pool(reason, f"{why}; {gave}, {same}", away)
    sentence = f"after {seconds:g} seconds {why}; {gave}, other pools are tried, this one at {away[-1]['until']}"
    return _without_pool(reason, sentence, away)


def failed(failure: Failure, members: Mapping[str, Any], until: str, following: int) -> Ending:
    """An attempt failed and attempt `following` comes after a pause that lasts until `until`; `members` of the status count
    this failure."""
    elsewhere = f", not on {listed(failure.nodes)}" if failure.nodes else ""
    larger = f" and asks for {memory} on each GPU" if (memory := members.get("gpuMemory")) else ""
    sentence = f"{failure.message}; attempt {following} follows at {until}{elsewhere}{larger}"
    updates = conditions.of_refusal(failure.reason, sentence)
    return Ending(failure.reason, updates, State.RESTARTING, members, failure.blame.value, failure.message)


def seen_at_last(seen: Observation, failure: Failure, retried: int, *, too_late: bool = False) -> Observation:
    """The message of a job that ends with a failure: its retries after failures of this kind."""
    times = (
        f"; it was tried again {counted(retried, 'time')} (retries.{failure.blame.value.lower()})" if retried else ""
    )
    times += "; retries.withinSeconds is over" if too_late else ""
    return replace(seen, reason=failure.reason, message=f"{failure.message}{times}")


def probe_over(sentence: str, probes: Sequence[Mapping[str, Any]]) -> Ending:
    """A probe has its result, which `probes` (status.probes) contains."""
    updates = conditions.of_refusal(Reason.PROBED, sentence)
    return Ending(Reason.PROBED, updates, members={"probes": list(probes)})


def _without_pool(reason: Reason, sentence: str, away: Sequence[Mapping[str, Any]]) -> Ending:
    return Ending(reason, conditions.of_refusal(reason, sentence), members={"excludedPools": list(away)})


def pool_of(job: JobRecord, child: ChildRecord) -> str:
    """The pool of a child, by the job's status or by the child."""
    return str((job.status.get("placement") or child.hint.placement).get("pool", ""))
