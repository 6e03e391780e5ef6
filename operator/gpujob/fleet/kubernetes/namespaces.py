"""Namespaces as input of placement: their labels, the Pod Security level that they enforce, and the nodes of their pods."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gpujob.values.untrusted import one_line, table
from gpujob.values.vocabulary import Annotation

ENFORCE: Final = "pod-security.kubernetes.io/enforce"
"""The label by which the API server rejects pods (https://kubernetes.io/docs/concepts/security/pod-security-admission/)."""

PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"

UID_RANGE: Final = "openshift.io/sa.scc.uid-range"
GROUP_RANGES: Final = "openshift.io/sa.scc.supplemental-groups"
"""Annotations by which OpenShift gives a namespace its ids: start/size or start-end, groups as a list of such ranges. Its
SecurityContextConstraints restricted-v2 refuse a runAsUser and an fsGroup outside
(https://docs.redhat.com/en/documentation/openshift_container_platform/4.20/html/authentication_and_authorization/managing-pod-security-policies)."""

NODE_SELECTORS: Final = ("scheduler.alpha.kubernetes.io/node-selector", "openshift.io/node-selector")
"""Annotations with the labels that admission adds to the nodeSelector of each pod: by PodNodeSelector of Kubernetes (off unless an
admin enables it), and by OpenShift, which reads its own where the other is absent
(https://github.com/openshift/kubernetes openshift-kube-apiserver/admission/scheduler/nodeenv)."""

ANNOTATIONS: Final = (UID_RANGE, GROUP_RANGES, *NODE_SELECTORS, Annotation.MONTHLY_BUDGET)
"""Annotations of a namespace that are read."""

LONGEST_SELECTOR: Final = 4096
"""Characters of a node selector that are read; a longer one counts as unreadable."""

MOST_ID: Final = 2**31 - 1

_RANGE: Final = re.compile(r"([0-9]{1,10})([/-])([0-9]{1,10})", re.ASCII)

_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"

_SUBDOMAIN: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"

_LABEL: Final = re.compile(rf"\s*((?:{_SUBDOMAIN}/)?{_NAME})\s*=\s*((?:{_NAME})?)\s*", re.ASCII)
"""A label as key=value, as admission accepts it."""


class IdRanges(NamedTuple):
    """First and last of the uids and of the groups that pods of a namespace may have."""

    uids: tuple[int, int]
    groups: tuple[int, int]


class NodeSelection(NamedTuple):
    """The labels that a namespace requires of the nodes of its pods."""

    annotation: str
    """The annotation that requires them."""
    labels: tuple[tuple[str, str], ...] = ()
    unread: str = ""
    """Its text if that is no list of key=value; then the API server refuses each pod."""

    def lacking(self, labels: Mapping[str, str]) -> str:
        """The first label that a node with these lacks, as key=value; empty if it has all."""
        return next((f"{key}={value}" for key, value in self.labels if labels.get(key) != value), "")


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace's labels, and the ids of its pods if the platform assigns them."""

    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    ids: IdRanges | None = None
    """The uids and groups that OpenShift assigns to its pods; None if it assigns none."""

    monthly_budget: str | None = None
    """What its jobs may cost in a month, as an admin wrote it; None without the annotation."""

    terminating: bool = False
    """Whether it is being deleted, so that the API server creates nothing in it."""

    selection: NodeSelection | None = None
    """What admission requires of the nodes of its pods; None if nothing."""

    @property
    def level(self) -> str:
        """The level that it enforces. Without a label that is the cluster's default, which is `privileged` unless an
        admin changed it; a word that is no level counts as the strictest, as for the API server."""
        said = self.labels.get(ENFORCE, PRIVILEGED)
        return said if said in (PRIVILEGED, BASELINE) else RESTRICTED

    def lacks(self, wanted: tuple[tuple[str, str], ...]) -> tuple[str, str] | None:
        """The first of some labels that it lacks."""
        return next((label for label in wanted if self.labels.get(label[0]) != label[1]), None)


def read_namespace(raw: Mapping[str, Any]) -> Namespace:
    """The record of a Namespace object."""
    metadata = table(raw, "metadata")
    labels, annotations = table(metadata, "labels"), table(metadata, "annotations")
    uids = _range(annotations.get(UID_RANGE))
    groups = _range(annotations.get(GROUP_RANGES)) or uids
    return Namespace(
        {key: value for key, value in labels.items() if isinstance(key, str) and isinstance(value, str)},
        IdRanges(uids, groups) if uids and groups else None,
        str(annotations[Annotation.MONTHLY_BUDGET]) if Annotation.MONTHLY_BUDGET in annotations else None,
        is_terminating(raw),
        read_selection(raw),
    )


def read_selection(raw: Mapping[str, Any]) -> NodeSelection | None:
    """The node selector of a Namespace object by its annotations; None without one, or if it is empty."""
    annotations = table(table(raw, "metadata"), "annotations")
    name = next((each for each in NODE_SELECTORS if each in annotations), "")
    written = str(annotations.get(name, ""))
    if not written.strip():
        return None
    each = [_LABEL.fullmatch(part) for part in written.split(",")] if len(written) <= LONGEST_SELECTOR else [None]
    labels = {found[1]: found[2] for found in each if found is not None}
    if None in each:
        return NodeSelection(name, unread=one_line(written[:120]))
    return NodeSelection(name, tuple(sorted(labels.items())))


def is_terminating(raw: Mapping[str, Any]) -> bool:
    """Whether a Namespace object is being deleted, which no one can stop."""
    return bool(table(raw, "metadata").get("deletionTimestamp")) or table(raw, "status").get("phase") == "Terminating"


def _range(written: Any) -> tuple[int, int] | None:
    """The first range of a list, as its first and last id; None if it cannot be read."""
    found = _RANGE.fullmatch(written.partition(",")[0].strip()) if isinstance(written, str) else None
    if found is None:
        return None
    first, second = int(found[1]), int(found[3])
    last = first + second - 1 if found[2] == "/" else second
    return (first, last) if 0 < first <= last <= MOST_ID else None
