"""Which pods a ResourceQuota counts: its scopes, which all must hold, as Kubernetes' quota controller evaluates them.

Source: k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go (podMatchesScopeFunc) and pkg/quota/v1/resources.go: a word of
spec.scopes is a scope whose operator is Exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpujob.values.untrusted import one_line, table

PRIORITY_CLASS: Final = "PriorityClass"
ACROSS_NAMESPACES: Final = "CrossNamespacePodAffinity"

OF_EACH_POD: Final = {"NotTerminating": True, "NotBestEffort": True, "Terminating": False, "BestEffort": False}
"""Scopes with the same answer for each pod of a job: it has no deadline of its own and has requests."""

LONGEST: Final = 253
"""The most characters of a name that are read: names of PriorityClasses have as many."""

NOT_OF_PODS: Final = frozenset({"VolumeAttributesClass"})
"""Scopes of other kinds of objects."""


@dataclass(frozen=True, slots=True)
class PodTraits:
    """The input of scopes: the pod's PriorityClass (empty: it has none), and whether its affinity spans namespaces."""

    priority_class: str = ""
    across_namespaces: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """One requirement."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    def holds(self, pod: PodTraits) -> bool | None:
        """Whether it holds for a pod; None if the scope or its operator is unknown."""
        if self.name == PRIORITY_CLASS:
            return self._has(pod.priority_class)
        if self.operator != "Exists":
            return None
        if self.name == ACROSS_NAMESPACES:
            return pod.across_namespaces
        return False if self.name in NOT_OF_PODS else OF_EACH_POD.get(self.name)

    def _has(self, value: str) -> bool | None:
        if self.operator == "Exists":
            return value != ""
        if self.operator == "DoesNotExist":
            return value == ""
        if self.operator == "In":
            return value != "" and value in self.values
        # As for labels, a pod without a value matches these neither.
        return value not in self.values if self.operator == "NotIn" else None

    def __str__(self) -> str:
        return " ".join((self.name, *([self.operator, *self.values] if self.operator != "Exists" else ())))


def read_scopes(spec: Mapping[str, Any]) -> tuple[Scope, ...]:
    """The scopes of a ResourceQuota's spec; an unreadable one becomes an unknown scope."""
    scopes, terms = spec.get("scopes") or [], table(spec, "scopeSelector").get("matchExpressions") or []
    found = [Scope(_word(each)) for each in (scopes if isinstance(scopes, list) else [scopes])]
    found += [_scope(each) for each in (terms if isinstance(terms, list) else [terms])]
    return tuple(found)


def hold(scopes: Iterable[Scope], pod: PodTraits) -> bool | None:
    """Whether all scopes hold for a pod; None if that depends on an unknown one."""
    answers = {scope.holds(pod) for scope in scopes}
    return False if False in answers else None if None in answers else True


def _scope(term: Any) -> Scope:
    values = table({"term": term}, "term").get("values") or []
    if not isinstance(term, dict) or not isinstance(values, list):
        return Scope(_word(term))
    return Scope(_word(term.get("scopeName")), _word(term.get("operator")), tuple(map(_word, values)))


def _word(value: Any) -> str:
    return one_line(str(value)[:LONGEST])
