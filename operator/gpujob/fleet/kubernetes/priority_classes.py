"""The cluster's PriorityClasses: which of the waiting jobs is placed first, and which names a job may write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpujob.values.untrusted import table, whole_number

HIGHEST: Final = 2_000_001_000
"""The value of system-node-critical, the highest that Kubernetes knows."""

OF_THE_SYSTEM: Final = "system-"
"""How names of the classes begin that Kubernetes keeps for itself: only system-node-critical and system-cluster-critical
have such names (k8s.io/kubernetes pkg/apis/scheduling/validation)."""
SYSTEM_NAMESPACE: Final = "kube-system"


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A PriorityClass: its value, the higher the sooner, and whether pods without a class have it."""

    name: str
    value: int = 0
    default: bool = False


Priorities = Mapping[str, PriorityClass]
"""All PriorityClasses by name. Each cluster has two of its own, so that none at all means that nothing is known of them."""


def read_priority(raw: Mapping[str, Any]) -> PriorityClass:
    """The record of a PriorityClass object; a value that is no number is none, as of a pod without a class."""
    value = raw.get("value")
    number = value if isinstance(value, int) and not isinstance(value, bool) else whole_number(value)
    value = number if number is not None and -HIGHEST <= number <= HIGHEST else 0
    return PriorityClass(str(table(raw, "metadata").get("name"))[:253], value, raw.get("globalDefault") is True)


def class_of(name: str | None, known: Priorities) -> str:
    """The class that a pod gets: the one that the job names, else the cluster's default; empty where there is neither."""
    if name is not None:
        return name
    defaults = (each for each in known.values() if each.default)
    # Of several defaults Kubernetes takes the lowest.
    lowest = min(defaults, key=lambda each: (each.value, each.name), default=None)
    return lowest.name if lowest else ""


def priority_of(name: str | None, known: Priorities) -> int:
    """The value of a class, of the cluster's default where a job names none; 0 where there is neither."""
    held = known.get(class_of(name, known))
    return held.value if held else 0


def holds_devices(name: str | None, namespace: str) -> bool:
    """Whether devices are held for jobs of a class: not for those that write one of Kubernetes' own outside its namespace,
    which anybody may do."""
    return namespace == SYSTEM_NAMESPACE or not (name or "").startswith(OF_THE_SYSTEM)
