"""Namespaces as far as they decide where a job may run: their labels, and the Pod Security level that they enforce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpujob.untrusted import table

ENFORCE: Final = "pod-security.kubernetes.io/enforce"
"""The label by which the API server refuses pods (https://kubernetes.io/docs/concepts/security/pod-security-admission/)."""

PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace's labels."""

    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def level(self) -> str:
        """The level that it enforces. Without a label that is the cluster's default, which is `privileged` unless an
        admin changed it; a word that is no level counts as the strictest, as for the API server."""
        said = self.labels.get(ENFORCE, PRIVILEGED)
        return said if said in (PRIVILEGED, BASELINE) else RESTRICTED

    def lacks(self, wanted: tuple[tuple[str, str], ...]) -> tuple[str, str] | None:
        """The first of some labels that it does not have."""
        return next((label for label in wanted if self.labels.get(label[0]) != label[1]), None)


def read_namespace(raw: Mapping[str, Any]) -> Namespace:
    """The record of a Namespace object."""
    labels = table(table(raw, "metadata"), "labels")
    return Namespace({key: value for key, value in labels.items() if isinstance(key, str) and isinstance(value, str)})
