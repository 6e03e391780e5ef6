"""Conditions in the shape of metav1.Condition; the transition time changes only when the status does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpujob.status.observe.child import Observation
from gpujob.status.records.objects import ChildRecord
from gpujob.status.records.preflight_messages import SENTENCES
from gpujob.values.vocabulary import ConditionType, Reason, State

NOT_RUN: Final = "the preflight has not run yet"


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
    """The content of a condition."""

    type: ConditionType
    holds: bool | None
    """None: unknown."""
    reason: Reason
    message: str


Update = ConditionUpdate | ConditionType
"""A type alone: there is nothing to report of it, and the status has no such condition, whatever was there before."""


def of_child(seen: Observation, placed: str) -> tuple[Update, ...]:
    """The conditions of a job with a child; `placed` is the sentence of its decision.

    Aspects that have not happened yet have no condition: the state shows it, and every byte of a status is written with every
    change.
    """
    runs, done, failed = (seen.state is s for s in (State.RUNNING, State.SUCCEEDED, State.FAILED))
    ended = done or failed
    # The wait has its own reason; most others are the kubelet's, and in the message.
    own = (Reason.WAITING_FOR_DEVICES, Reason.UNSCHEDULABLE, Reason.CONTROL_PLANE_SILENT, Reason.CHILD_SUSPENDED)
    not_started = seen.reason if seen.reason in own else Reason.NOT_STARTED
    running_reason = seen.reason if runs else Reason.ENDED if ended else not_started
    running = ConditionUpdate(ConditionType.RUNNING, runs, running_reason, seen.message)
    complete = ConditionUpdate(ConditionType.COMPLETE, True, Reason.SUCCEEDED, seen.message)
    return (
        ConditionUpdate(ConditionType.PLACED, True, Reason.PLACED, placed),
        ConditionType.RUNNING if _only_placed(seen) else running,
        complete if done else ConditionType.COMPLETE,
        ConditionUpdate(ConditionType.FAILED, True, seen.reason, seen.message) if failed else ConditionType.FAILED,
        ConditionType.SUSPENDED,
    )


def of_preflight(child: ChildRecord, seen: Observation, *, disabled: bool, first: bool) -> tuple[Update, ...]:
    """The preflight's result, once there is one; `first`: the first result for this child.

    A passed preflight is written with the state that it allows, never by a write of its own. Where spec.preflight is Disabled there is
    no condition: the spec says it.
    """
    kind, check = ConditionType.PREFLIGHT_PASSED, seen.checked
    if not child.preflight and disabled:
        return (kind,)
    if not child.preflight:
        message = f"{SENTENCES[Reason.NO_INTERPRETER]({})}; attempt {child.attempt} runs without a preflight"
        return (ConditionUpdate(kind, None, Reason.NO_INTERPRETER, message),)
    if check is None:
        return (kind,) if first else ()
    if check.passed and seen.state in (State.PLACED, State.STARTING) and not seen.stuck:
        return ()
    return (ConditionUpdate(kind, check.passed, check.reason, check.message),)


def preflight_of_new_attempt(held: Iterable[Mapping[str, Any]]) -> tuple[ConditionUpdate, ...]:
    """The findings of an attempt's pods do not apply to the next one; empty if there were none.

    That an image cannot run the preflight stays: the next attempt depends on it.
    """
    said = (c for c in held if isinstance(c, Mapping) and c.get("type") == ConditionType.PREFLIGHT_PASSED)
    if not any(c.get("status") != "Unknown" for c in said):
        return ()
    return (ConditionUpdate(ConditionType.PREFLIGHT_PASSED, None, Reason.PREFLIGHT_PENDING, NOT_RUN),)


def of_recheck(message: str) -> tuple[Update, ...]:
    """The conditions of a job whose image cannot run the preflight: the next attempt runs without."""
    return (
        *of_refusal(Reason.NO_INTERPRETER, f"{message}; a new attempt runs without a preflight"),
        ConditionUpdate(ConditionType.PREFLIGHT_PASSED, None, Reason.NO_INTERPRETER, message),
    )


def of_refusal(reason: Reason, message: str) -> tuple[Update, ...]:
    """The conditions of a job that waits for a placement."""
    return (ConditionUpdate(ConditionType.PLACED, False, reason, message), *_nothing_runs(), _not_suspended())


def of_plan(message: str, stopped: int | None = None) -> tuple[Update, ...]:
    """The conditions of a suspended job: a plan only; `stopped` is the previous attempt."""
    now = f"attempt {stopped} was stopped and nothing new is created" if stopped else "nothing is created"
    return (
        ConditionUpdate(ConditionType.PLACED, False, Reason.PLAN_ONLY, message),
        *_nothing_runs(),
        ConditionUpdate(ConditionType.SUSPENDED, True, Reason.PLAN_ONLY, f"spec.suspend is true: {now}"),
    )


def of_budget(message: str) -> tuple[Update, ...]:
    """The conditions of a job that has spent its budget: suspended, though spec.suspend is not set."""
    return (
        ConditionUpdate(ConditionType.PLACED, False, Reason.BUDGET_EXCEEDED, message),
        *_nothing_runs(),
        ConditionUpdate(ConditionType.SUSPENDED, True, Reason.BUDGET_EXCEEDED, message),
    )


def of_loss(reason: Reason, message: str) -> tuple[Update, ...]:
    """The conditions of a job that ends without an end of its child."""
    return (
        ConditionUpdate(ConditionType.RUNNING, False, Reason.ENDED, message),
        ConditionType.COMPLETE,
        ConditionUpdate(ConditionType.FAILED, True, reason, message),
        ConditionType.SUSPENDED,
    )


def merged(
    held: Sequence[Mapping[str, Any]], updates: Iterable[Update], generation: int, now: str
) -> list[dict[str, Any]]:
    """The condition list after `updates`: stored ones of other types stay, times change with the status only."""
    by_type = {str(c.get("type")): dict(c) for c in held if isinstance(c, Mapping)}
    for update in updates:
        if isinstance(update, ConditionType):
            by_type.pop(update, None)
            continue
        status = "Unknown" if update.holds is None else str(update.holds)
        before = by_type.get(update.type)
        since = before.get("lastTransitionTime", now) if before and before.get("status") == status else now
        by_type[update.type] = {
            "type": update.type.value,
            "status": status,
            "reason": update.reason.value,
            "message": update.message[:4096],
            "lastTransitionTime": since,
            "observedGeneration": generation,
        }
    return [by_type[key] for key in sorted(by_type)]


def _nothing_runs() -> tuple[Update, ...]:
    running = ConditionUpdate(ConditionType.RUNNING, False, Reason.NOT_STARTED, "the job is not placed")
    return running, ConditionType.COMPLETE, ConditionType.FAILED


def _only_placed(seen: Observation) -> bool:
    """Whether the pods have no fact beyond the condition Placed."""
    return seen.state is State.PLACED and seen.reason is Reason.PLACED and not seen.stuck


def _not_suspended() -> ConditionUpdate:
    """For a job without a child the time of its resumption counts as long as it waits."""
    return ConditionUpdate(ConditionType.SUSPENDED, False, Reason.NOT_SUSPENDED, "spec.suspend is not set")
