"""The result of reading a job's reporter: its figures, and whether it can be read, with the remedy if not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from gpujob.fleet.kubernetes.host_ports import REPORTS
from gpujob.status.attempts.progress import Measured
from gpujob.status.job.conditions import ConditionUpdate
from gpujob.values.untrusted import tables
from gpujob.values.vocabulary import ConditionType, Label, Reason


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The last report of a job's first pod; updates are empty while nothing is known."""

    measured: Measured | None = None
    updates: tuple[ConditionUpdate, ...] = ()

    @property
    def blocked(self) -> str:
        """The message about an unreachable pod; empty for others."""
        return next((update.message for update in self.updates if update.reason is Reason.TELEMETRY_BLOCKED), "")


_PLAIN: Final = re.compile(r"(?!(?i:true|false|yes|no|on|off|null|y|n)$)[A-Za-z][A-Za-z0-9._-]*")

_ANOTHER_PORT: Final = (
    "the pod is on the network of its node, where another program has this port: once that ends, the reporter takes "
    "it, and a new attempt has another one"
)

SILENT: Final = Telemetry()
"""Nothing was read, without anything to report."""

RECENT: Final = timedelta(minutes=10)
"""How long a job is exposed after its end: ten scrapes of a minute."""

TO_FIX: Final = frozenset(
    {Reason.TELEMETRY_BLOCKED.value, Reason.REPORT_UNREADABLE.value, Reason.REPORT_OF_ANOTHER.value}
)
"""What a user or admin must fix."""


def read(pod: str) -> ConditionUpdate:
    """The reporter answers."""
    return ConditionUpdate(
        ConditionType.TELEMETRY_REACHABLE, True, Reason.REPORTER_READ, f"pod {pod} reports its progress"
    )


def port_refused(pod: str, port: int) -> ConditionUpdate:
    """The pod responds but no reporter does: most likely there is none."""
    message = (
        f"nothing listens on port {port} of pod {pod}: its program does not import torch, or is not there yet; "
        "gpujob_report.step() reports from any Python program"
    )
    return ConditionUpdate(ConditionType.TELEMETRY_REACHABLE, False, Reason.NO_REPORTER, message)


def blocked(pod: str, port: int, job: str, operator: str, why: str) -> ConditionUpdate:
    """The pod cannot be reached: `job` is the value of its job label, `operator` the operator's namespace, `why` the network error."""
    message = (
        f"{_unreached(pod, port, operator, why)}; if a NetworkPolicy or a mesh "
        f"keeps it apart, add a NetworkPolicy with podSelector {{{Label.JOB}: {_quoted(job)}}} and ingress from "
        f"namespaceSelector {{kubernetes.io/metadata.name: {operator}}} to TCP port {port}"
    )
    return ConditionUpdate(ConditionType.TELEMETRY_REACHABLE, False, Reason.TELEMETRY_BLOCKED, message)


def blocked_on_its_node(pod: str, port: int, operator: str, why: str) -> ConditionUpdate:
    """The same for a pod in the host network, to which no NetworkPolicy applies."""
    message = (
        f"{_unreached(pod, port, operator, why)}; it is on the network of its node: let the nodes' firewall (a cloud's "
        f"security group) admit TCP ports {REPORTS.start} to {REPORTS.stop - 1} from the operator"
    )
    return ConditionUpdate(ConditionType.TELEMETRY_REACHABLE, False, Reason.TELEMETRY_BLOCKED, message)


def blocked_by_a_proxy(pod: str, port: int, operator: str, why: str) -> ConditionUpdate:
    """A proxy of a mesh answers in the place of the pod."""
    message = (
        f"a proxy answers in the place of port {port} of pod {pod} ({why}); let the mesh pass requests from namespace {operator} to "
        f"TCP port {port}, or exclude the port by an annotation in spec.podMetadata: traffic.sidecar.istio.io/excludeInboundPorts, "
        "config.linkerd.io/skip-inbound-ports"
    )
    return ConditionUpdate(ConditionType.TELEMETRY_REACHABLE, False, Reason.TELEMETRY_BLOCKED, message)


def _unreached(pod: str, port: int, operator: str, why: str) -> str:
    return f"port {port} of pod {pod} cannot be reached from namespace {operator} ({why})"


def _quoted(label: str) -> str:
    """A label's value that YAML reads as text: 123 and on would be none."""
    return label if _PLAIN.fullmatch(label) else f'"{label}"'


def unreadable(pod: str, port: int, why: str, on_host_network: bool = False) -> ConditionUpdate:
    """Another program listens on the port."""
    remedy = "if the program uses this port itself, give the reporter another one in spec.telemetry.port"
    message = (
        f"what port {port} of pod {pod} serves is no report ({why}); {_ANOTHER_PORT if on_host_network else remedy}"
    )
    return ConditionUpdate(ConditionType.TELEMETRY_REACHABLE, False, Reason.REPORT_UNREADABLE, message)


def anothers(pod: str, port: int, on_host_network: bool = False) -> ConditionUpdate:
    """A reporter responds without the identity of this job and attempt."""
    remedy = "if the program sets GPUJOB_JOB_UID or GPUJOB_ATTEMPT, leave them as they are"
    message = (
        f"the report on port {port} of pod {pod} is not of this attempt of the job, and nothing of it is counted; "
        f"{_ANOTHER_PORT if on_host_network else remedy}"
    )
    return ConditionUpdate(ConditionType.TELEMETRY_REACHABLE, False, Reason.REPORT_OF_ANOTHER, message)


def of_new_attempt(status: Mapping[str, Any]) -> tuple[ConditionUpdate, ...]:
    """The last attempt's condition for a new attempt, or without one: unknown."""
    if _held(status) is None:
        return ()
    message = "nothing was read of the current attempt so far"
    return (ConditionUpdate(ConditionType.TELEMETRY_REACHABLE, None, Reason.NOT_READ, message),)


def is_one(condition: Mapping[str, Any]) -> bool:
    """Whether a condition is about the reading: other writes include it, or it waits for its turn as progress does."""
    return condition.get("type") == ConditionType.TELEMETRY_REACHABLE


def differs(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether something must be fixed, or no longer must: both are worth a write when the job is due."""
    before, after = _held(held), _held(wanted)
    return before != after and not {before, after}.isdisjoint(TO_FIX)


def is_news(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether it is this attempt's first report that something must be fixed, which is written without delay.

    A port with changing responses is reported at the rate of progress.
    """
    return _held(held) in (None, Reason.NOT_READ) and _held(wanted) in TO_FIX


def _held(status: Mapping[str, Any]) -> str | None:
    return next((str(c.get("reason")) for c in tables(status, "conditions") if is_one(c)), None)
