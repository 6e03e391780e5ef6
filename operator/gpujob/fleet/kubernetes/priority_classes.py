"""The cluster's PriorityClasses: the order of waiting jobs, and the names that a job can use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpujob.values.untrusted import table, whole_number

HIGHEST: Final = 2_000_001_000
"""The value of system-node-critical, the highest that Kubernetes knows."""

OF_THE_SYSTEM: Final = "system-"
"""Prefix of the class names that Kubernetes reserves: only system-node-critical and system-cluster-critical have it
(k8s.io/kubernetes pkg/apis/scheduling/validation).
"""
SYSTEM_NAMESPACE: Final = "kube-system"


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A PriorityClass: its value, higher goes first, and whether it is the default of pods without a class."""

    name: str
    value: int = 0
    default: bool = False


Priorities = Mapping[str, PriorityClass]
"""All PriorityClasses by name. Each cluster has two built-in ones, so an empty set means that they are unknown."""


def read_priority(raw: Mapping[str, Any]) -> PriorityClass:
    """The record of a PriorityClass object; an unreadable value counts as that of a pod without a class."""
    value = raw.get("value")
    number = value if isinstance(value, int) and not isinstance(value, bool) else whole_number(value)
    value = number if number is not None and -HIGHEST <= number <= HIGHEST else 0
    return PriorityClass(str(table(raw, "metadata").get("name"))[:253], value, raw.get("globalDefault") is True)


def class_of(name: str | None, known: Priorities) -> str:
    """The class of a pod: the one that the job names, else the cluster's default; empty if there is neither."""
    if name is not None:
        return name
    defaults = (each for each in known.values() if each.default)
    # Among several defaults Kubernetes uses the lowest.
    lowest = min(defaults, key=lambda each: (each.value, each.name), default=None)
    return lowest.name if lowest else ""


def priority_of(name: str | None, known: Priorities) -> int:
    """The value of a class, of the cluster's default if a job names none; 0 if there is neither."""
    held = known.get(class_of(name, known))
    return held.value if held else 0


def can_reserve(name: str | None, namespace: str) -> bool:
    """Whether jobs of a class can reserve devices: not those with a reserved class outside its namespace, which every user can
    write.
    """
    return namespace == SYSTEM_NAMESPACE or not (name or "").startswith(OF_THE_SYSTEM)
