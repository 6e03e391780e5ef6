"""What reading a job's reporter gave: what it measured, and whether it could be read at all, with the remedy if not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpujob.status.conditions import Claim
from gpujob.status.progress import Measured
from gpujob.vocabulary import ConditionType, Label, Reason


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What the reporter of a job's first pod said last; claims are none while nothing is known."""

    measured: Measured | None = None
    claims: tuple[Claim, ...] = ()


SILENT: Final = Telemetry()
"""Nothing was read, and nothing is to be said about that."""


def read(pod: str) -> Claim:
    """The reporter answers."""
    return Claim(ConditionType.TELEMETRY_REACHABLE, True, Reason.REPORTER_READ, f"pod {pod} reports its progress")


def nobody_listens(pod: str, port: int) -> Claim:
    """The pod answers and no reporter does: most likely there is none."""
    message = (
        f"nothing listens on port {port} of pod {pod}: its program does not import torch, or is not there yet; "
        "gpujob_report.step() reports from any Python program"
    )
    return Claim(ConditionType.TELEMETRY_REACHABLE, False, Reason.NO_REPORTER, message)


def blocked(pod: str, port: int, job: str, operator: str, why: str) -> Claim:
    """The pod cannot be reached; `operator` is the operator's namespace, `why` what the network said."""
    message = (
        f"port {port} of pod {pod} cannot be reached from namespace {operator} ({why}); if a NetworkPolicy or a mesh "
        f"keeps it apart, add a NetworkPolicy with podSelector {{{Label.JOB}: {job}}} and ingress from "
        f"namespaceSelector {{kubernetes.io/metadata.name: {operator}}} to TCP port {port}"
    )
    return Claim(ConditionType.TELEMETRY_REACHABLE, False, Reason.TELEMETRY_BLOCKED, message)


def unreadable(pod: str, port: int, why: str) -> Claim:
    """Something answers that is no reporter."""
    message = (
        f"what port {port} of pod {pod} serves is no report ({why}); if the program uses this port itself, give the "
        "reporter another one in spec.telemetry.port"
    )
    return Claim(ConditionType.TELEMETRY_REACHABLE, False, Reason.REPORT_UNREADABLE, message)


def is_worth_no_write(condition: Mapping[str, Any]) -> bool:
    """Whether a condition rides on the next write: only what somebody must mend is worth one of its own."""
    told = condition.get("reason") in (Reason.TELEMETRY_BLOCKED, Reason.REPORT_UNREADABLE)
    return condition.get("type") == ConditionType.TELEMETRY_REACHABLE and not told
