"""What a volume requires of a node: the terms of a PersistentVolume's affinity and its zone labels, or a StorageClass's topologies.

The terms are Kubernetes' own: terms are alternatives, the expressions of one hold together; zone labels of old volumes name
several zones with __ between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpujob.fleet.kubernetes.objects import Labels, Node, Selector
from gpujob.values.finding import several
from gpujob.values.untrusted import one_line, table, tables, whole_number

ZONES: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region",
                "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region")  # fmt: skip
"""Labels of a PersistentVolume that a node must have too."""

SUCCESSORS: Final = dict(zip(ZONES[2:], ZONES[:2], strict=True))
"""The node label in place of an old one; kube-scheduler reads it if the old one is absent (plugin VolumeZone)."""

ZONES_OF_DRIVERS: Final = ("topology.ebs.csi.aws.com/zone", "topology.gke.io/zone", "topology.disk.csi.azure.com/zone")
"""Labels with the zone of a node under the names of the clouds' CSI drivers, with the same values."""

NEVER_ATTACHED: Final = frozenset({"nfs", "azureFile", "glusterfs", "cephfs", "hostPath", "local"})
"""Sources of a PersistentVolume that nothing attaches to a node, so that its access modes bind no pod to one."""

DRIVERS_WITHOUT_ATTACHMENT: Final = frozenset(
    {"nfs.csi.k8s.io", "smb.csi.k8s.io", "efs.csi.aws.com", "fsx.csi.aws.com", "file.csi.azure.com", "blob.csi.azure.com",
     "beegfs.csi.netapp.com"}
)  # fmt: skip
"""CSI drivers whose CSIDriver says attachRequired: false."""

HOSTNAME: Final = "kubernetes.io/hostname"

NAMES: Final = frozenset({HOSTNAME, "metadata.name"})
"""Labels and fields with a node's own name; an autoscaler's nodes have new ones."""

LONGEST: Final = 253
"""Characters of a name in Kubernetes; of longer words the rest is not shown."""

_ONE_WORD: Final = SUCCESSORS | dict.fromkeys(ZONES_OF_DRIVERS, ZONES[0])


@dataclass(frozen=True, slots=True)
class Expression:
    """One expression of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    of_name: bool = False
    """Whether it is about a field of the node (metadata.name) and not about its labels."""

    def __str__(self) -> str:
        names = [value[:LONGEST] for value in self.values]
        return " ".join((self.key[:LONGEST], self.operator[:LONGEST], *([several(names, joint=" ")] if names else [])))


@dataclass(frozen=True, slots=True)
class Tie:
    """What a PersistentVolume requires of a node: one of the terms, and each of the zone labels."""

    terms: tuple[tuple[Expression, ...], ...] = ()
    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __str__(self) -> str:
        words = [str(expression) for term in self.terms for expression in term]
        words += [f"{key} In {' '.join(values)}" for key, values in self.zones]
        return one_line(several(words)) if words else ""

    def allows(self, node: Node) -> bool:
        """Whether a node can mount the volume; an empty term matches nothing, as in Kubernetes."""
        labels = node.labels
        if not all(labels.get(key, labels.get(SUCCESSORS.get(key, key))) in values for key, values in self.zones):
            return False
        return not self.terms or any(term and all(_holds(rule, node) for rule in term) for term in self.terms)

    @property
    def alternatives(self) -> tuple[tuple[Expression, ...], ...]:
        """The same as terms alone."""
        zones = tuple(Expression(key, "In", values) for key, values in self.zones)
        return tuple((*term, *zones) for term in self.terms if term) if self.terms else (zones,)

    @property
    def named(self) -> tuple[str, ...] | None:
        """The names of the only nodes that it allows, if it requires nothing else, as a local disk does."""
        rule = self.terms[0][0] if len(self.terms) == 1 and len(self.terms[0]) == 1 and not self.zones else None
        return rule.values if rule is not None and rule.key in NAMES and rule.operator == "In" else None

    @property
    def sure(self) -> Selector:
        """The terms that the labels of each of its nodes satisfy."""
        only = self.terms[0] if len(self.terms) == 1 else ()
        zones = ((key, "In", values) for key, values in self.zones)
        return (*((rule.key, rule.operator, rule.values) for rule in only if not rule.of_name), *zones)

    def may_allow(self, known: Selector) -> bool:
        """Whether a new node can mount the volume, if only these terms about its labels are known."""
        if not all(_may_hold(Expression(key, "In", values), known) for key, values in self.zones):
            return False
        return not self.terms or any(term and all(_may_hold(rule, known) for rule in term) for term in self.terms)


def new_node_mounts(ties: Sequence[Tie], selector: Selector) -> bool:
    """Whether a node to be added to a pool with this selector may mount all of these volumes."""
    known = (*selector, *(term for tie in ties for term in tie.sure))
    return all(tie.may_allow(known) for tie in ties)


UNTIED: Final = Tie()


def alternatives_text(ties: Sequence[Tie]) -> str:
    """What is required of a node that must satisfy one of these, at least one, whatever their order: the names of many local disks'
    nodes are one list.
    """
    names = {name for tie in ties for name in tie.named or ()}
    if len(ties) > 1 and all(tie.named is not None for tie in ties):
        return one_line(str(Expression(HOSTNAME, "In", tuple(sorted(names)))))
    return min(map(str, ties)) + (f", or what {len(ties) - 1} more ask for" if len(ties) > 1 else "")


def one_of(ties: Iterable[Tie]) -> Tie:
    """What is required of a node that must satisfy one of these."""
    each = [*dict.fromkeys(ties)]
    if len(each) == 1 or UNTIED in each:
        return UNTIED if UNTIED in each else each[0]
    return Tie(tuple(dict.fromkeys(term for tie in each for term in tie.alternatives)))


def read_tie(raw: Mapping[str, Any]) -> Tie:
    """The requirements of a PersistentVolume object; never raises for its contents."""
    required = table(table(table(raw, "spec"), "nodeAffinity"), "required")
    zones = {key: value for key, value in table(table(raw, "metadata"), "labels").items()
             if key in ZONES and isinstance(value, str)}  # fmt: skip
    return Tie(
        tuple(
            (*_expressions(term, "matchExpressions", of_name=False), *_expressions(term, "matchFields", of_name=True))
            for term in tables(required, "nodeSelectorTerms")
        ),
        tuple((key, tuple(value.split("__"))) for key, value in zones.items()),
    )


def on_many_nodes(spec: Mapping[str, Any]) -> bool:
    """Whether several nodes can mount a PersistentVolume of this spec at a time although a claim says ReadWriteOnce: it has a mode
    for many too, or nothing attaches it to a node (k8s.io/kubernetes pkg/volume/util IsMultiAttachAllowed).
    """
    modes, driver = spec.get("accessModes"), table(spec, "csi").get("driver")
    if isinstance(modes, list) and any(mode in ("ReadWriteMany", "ReadOnlyMany") for mode in modes):
        return True
    return not NEVER_ATTACHED.isdisjoint(spec) or (isinstance(driver, str) and driver in DRIVERS_WITHOUT_ATTACHMENT)


def read_topologies(raw: Mapping[str, Any]) -> Tie:
    """The allowedTopologies of a StorageClass object; never raises for its contents."""
    each = (tables(term, "matchLabelExpressions") for term in tables(raw, "allowedTopologies"))
    return Tie(tuple(tuple(Expression(str(rule.get("key")), "In", texts_of(rule)) for rule in rules) for rules in each))


def texts_of(rule: Mapping[str, Any]) -> tuple[str, ...]:
    """The values of a rule of a selector."""
    values = rule.get("values")
    return tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()


def _expressions(term: Mapping[str, Any], field_name: str, *, of_name: bool) -> Iterable[Expression]:
    for rule in tables(term, field_name):
        yield Expression(str(rule.get("key")), str(rule.get("operator")), texts_of(rule), of_name)


def _holds(rule: Expression, node: Node) -> bool:
    labels: Labels = {"metadata.name": node.name} if rule.of_name else node.labels
    return _accepts(rule, labels.get(rule.key, labels.get(SUCCESSORS.get(rule.key, rule.key))))


def _may_hold(rule: Expression, known: Selector) -> bool:
    """Whether a label of a new node can satisfy an expression together with the known terms about it."""
    if rule.key in NAMES:
        return rule.operator != "In"
    key = _ONE_WORD.get(rule.key, rule.key)
    terms = [Expression(*term) for term in known if _ONE_WORD.get(term[0], term[0]) == key]
    listed = [value for term in (rule, *terms) if term.operator == "In" for value in term.values]
    if not listed and rule.operator in ("Gt", "Lt"):
        return True
    # Where no term lists values, the label may be absent or have another one.
    values: list[str | None] = [*listed] or ["?", None]
    return any(all(_accepts(term, value) for term in (rule, *terms)) for value in values)


def _accepts(rule: Expression, value: str | None) -> bool:
    """Whether the value of a label satisfies an expression; None: the node lacks the label."""
    values, operator = rule.values, rule.operator
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator in ("Exists", "DoesNotExist"):
        return bool((value is not None) == (operator == "Exists"))
    if operator in ("Gt", "Lt") and len(values) == 1:
        mine, theirs = whole_number(value), whole_number(values[0])
        if mine is not None and theirs is not None:
            return mine > theirs if operator == "Gt" else mine < theirs
    return False
