"""Why the API server refuses the pods of a Job, and why a pod's volumes or network are not there: only events say it.

Everyone who may write events in the namespace can write such a one, so that of its text one bounded line is repeated. Nothing else
follows from it, except that a job without any pod gives its GPUs back earlier, and waits (`is_same_refusal`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpujob.values.untrusted import one_line, table

FAILED_CREATE: Final = "FailedCreate"
"""The reason of the Job controller's event if a quota, an admission policy or a missing object rejects pods."""

CONTROLLER: Final = "job-controller"

LONGEST: Final = 400
"""Characters of the API server's words that are repeated."""

UNREADY: Final = frozenset(
    {"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "NetworkNotReady"}
)
"""The reasons of the events about a pod that cannot start its containers (pkg/kubelet/events, pkg/volume)."""

_HEAD: Final = re.compile(
    r"^(?:Error creating:\s*)?(?:(?:pods?|Pod) \"[^\"]{0,253}\" is (?:forbidden|invalid): )?", re.IGNORECASE
)
"""What each try has before its words: the name of a pod that is another one the next time."""

_REMEDIES: Final = (
    (re.compile(r"service ?account", re.IGNORECASE), "create the ServiceAccount, or correct spec.serviceAccountName"),
    (re.compile(r"quota"), "raise that ResourceQuota, or ask for less"),
    (re.compile(r"PodSecurity"), "give the namespace another Pod Security level, or the job what that level allows"),
    (re.compile(r"(?:minimum|maximum).{0,64} per (?:Container|Pod)"), "change that LimitRange, or resources"),
    (re.compile(r"admission webhook|ValidatingAdmissionPolicy"), "ask who runs that webhook or policy"),
    (re.compile(r"PriorityClass"), "create the PriorityClass, or correct spec.priorityClassName"),
    (re.compile(r"RuntimeClass"), "create the RuntimeClass, or correct the GPUPool that names it"),
)
"""What can be done, by the API server's own words (Kubernetes 1.31 to 1.36); the first that applies."""


_VARIES: Final = re.compile(r"[a-z][-a-z0-9]*-[0-9a-f]{8}-\d+(?:-[a-z0-9]+)*|(?<==)\d[0-9A-Za-z.]*")
"""What differs between two tries of one job: the names of its child Job and pods, and the amounts of a quota (`pods=4`)."""


def refusal_of(events: Iterable[Mapping[str, Any]]) -> str:
    """The words of the newest of these events (events.k8s.io/v1), on one line; empty if the Job controller wrote none of them."""
    return _words([event for event in events if event.get("reason") == FAILED_CREATE and _is_the_controllers(event)])


def unready_of(events: Iterable[Mapping[str, Any]]) -> str:
    """The same of the events about a pod whose volumes, network or sandbox are not there."""
    return _words([event for event in events if event.get("reason") in UNREADY])


def _words(found: Sequence[Mapping[str, Any]]) -> str:
    note = max(found, key=_time).get("note") if found else ""
    words = note if isinstance(note, str) else ""
    words = one_line(_HEAD.sub("", words[: 4 * LONGEST].strip(), count=1).strip())
    return words if len(words) <= LONGEST else f"{words[:LONGEST]}…"


def remedy_of(words: str) -> str:
    """What can be done against a refusal with these words; empty where they are of no known kind."""
    return next((remedy for pattern, remedy in _REMEDIES if pattern.search(words)), "")


def is_same_refusal(words: str, others: str) -> bool:
    """Whether two refusals of a job's pods differ only in the pod and in amounts: what is refused on two pools in these words is
    refused in the job's namespace."""
    return bool(words) and _without_names(words) == _without_names(others)


def _without_names(words: str) -> str:
    return _VARIES.sub("", words)


def _is_the_controllers(event: Mapping[str, Any]) -> bool:
    return CONTROLLER in (event.get("reportingController"), table(event, "deprecatedSource").get("component"))


def _time(event: Mapping[str, Any]) -> str:
    """When an event was seen last: all times are RFC 3339 in UTC, so that the first 19 characters compare as text."""
    series, metadata = table(event, "series"), table(event, "metadata")
    times = (series.get("lastObservedTime"), event.get("deprecatedLastTimestamp"), event.get("eventTime"))
    return max(str(time or "")[:19] for time in (*times, metadata.get("creationTimestamp")))
