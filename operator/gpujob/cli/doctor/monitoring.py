"""Checks of monitoring: whether a Prometheus selects the chart's objects, and Grafana's sidecar its dashboards."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from gpujob.cli.doctor.facts import Facts, Raw
from gpujob.cli.doctor.finding import Found, fine, set_values, unknown, warning
from gpujob.values.finding import several
from gpujob.values.untrusted import one_line, table, tables

SELECTORS: Final = {
    "ServiceMonitor": ("serviceMonitorSelector", "serviceMonitorNamespaceSelector", "serviceMonitor"),
    "PodMonitor": ("podMonitorSelector", "podMonitorNamespaceSelector", "podMonitor"),
    "PrometheusRule": ("ruleSelector", "ruleNamespaceSelector", "prometheusRule"),
}
"""For each kind: the fields of a Prometheus that select it, and the chart's value."""

LONGEST_REMEDY: Final = 1000
"""Characters of a command with labels that others chose."""

SIDECAR: Final = "k8s-sidecar"
"""What the image of Grafana's sidecar is called."""
OTHER_SIDECARS: Final = ("datasource", "alert", "notifier", "plugin", "rule")
"""Words in the names of sidecars that select something else than dashboards."""


def selectors(facts: Facts) -> Iterator[Found]:
    """Whether some Prometheus selects each of the chart's ServiceMonitor, PodMonitor and PrometheusRule."""
    check = "prometheus"
    if facts.live is None:
        return
    if facts.live.prometheuses is None or facts.live.monitors is None:
        yield unknown(
            check, "objects of monitoring.coreos.com may not be read", "ask an admin for the right to list them"
        )
        return
    if not facts.live.prometheuses:
        said = "the cluster has no Prometheus object: what scrapes the operator cannot be seen"
        yield unknown(
            check, said, "scrape the Service's port metrics, and job pods by their annotations (docs/monitoring.md)"
        )
        return
    namespaces = {
        str(table(raw, "metadata").get("name")): table(table(raw, "metadata"), "labels")
        for raw in facts.kinds.get("Namespace", ())
    }
    for kind, (field, of_namespaces, value) in SELECTORS.items():
        made = [raw for raw in facts.live.monitors if raw.get("kind") == kind]
        if not made:
            remedy = set_values(f"--set monitoring.{value}.enabled=true")
            yield warning(check, f"there is no {kind} of the chart", remedy)
            continue
        for monitor in made:
            metadata = table(monitor, "metadata")
            name = one_line(f"{metadata.get('namespace')}/{metadata.get('name')}"[:520])
            own = namespaces.get(str(metadata.get("namespace")), {})
            if any(_selects(each, field, of_namespaces, metadata, own) for each in facts.live.prometheuses):
                yield fine(check, f"a Prometheus selects {kind} {name}")
                continue
            steps = (_steps(each, SELECTORS[kind], metadata, own) for each in facts.live.prometheuses)
            remedy = next(filter(None, steps), f"let a Prometheus select it by {field} and {of_namespaces}")
            yield warning(check, f"no Prometheus selects {kind} {name}", remedy)


def _selects(
    prometheus: Raw, field: str, of_namespaces: str, metadata: Mapping[str, Any], own: Mapping[str, Any]
) -> bool:
    spec = table(prometheus, "spec")
    return (
        _reaches(prometheus, of_namespaces, metadata, own)
        and isinstance(spec.get(field), dict)
        and (matches(spec[field], table(metadata, "labels")))
    )


def _reaches(prometheus: Raw, of_namespaces: str, metadata: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Whether a Prometheus selects the namespace of an object, which has the labels `own`."""
    selector = table(prometheus, "spec").get(of_namespaces)
    # Without a selector of namespaces it selects its own.
    home = table(prometheus, "metadata").get("namespace") == metadata.get("namespace")
    return matches(selector, own) if isinstance(selector, dict) else home


def _steps(prometheus: Raw, names: tuple[str, str, str], metadata: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """What makes a Prometheus select an object: labels of its namespace, and of itself; empty where no labels do."""
    field, of_namespaces, value = names
    spec, steps = table(prometheus, "spec"), []
    if not _reaches(prometheus, of_namespaces, metadata, own):
        labels = _lacking(spec.get(of_namespaces), own)
        if not labels:
            return ""
        words = shlex.join(f"{key}={each}" for key, each in labels.items())
        steps.append(f"kubectl label --overwrite namespace {shlex.quote(str(metadata.get('namespace')))} {words}")
    labels = _lacking(spec.get(field), table(metadata, "labels"))
    if labels is None:
        return ""
    if labels:
        steps.append(set_values(_labelled(value, labels)))
    said = one_line(", and ".join(steps))
    return said if len(said) <= LONGEST_REMEDY else ""


def _labelled(value: str, labels: Mapping[str, str]) -> str:
    """The option of helm that gives objects of a value these labels."""
    return f"--set-json {shlex.quote(f'monitoring.{value}.labels={orjson.dumps(labels).decode()}')}"


def _lacking(selector: Any, labels: Mapping[str, Any]) -> dict[str, str] | None:
    """The labels with which a LabelSelector would select what has the others already; None where none would do."""
    if not isinstance(selector, dict):
        return None
    wanted = dict(table(selector, "matchLabels"))
    for each in tables(selector, "matchExpressions"):
        key, values = str(each.get("key")), each.get("values")
        if each.get("operator") == "Exists" and key not in labels:
            wanted[key] = "true"
        elif each.get("operator") == "In" and isinstance(values, list) and values and labels.get(key) not in values:
            wanted[key] = values[0]
    if not matches(selector, {**labels, **wanted}) or not all(isinstance(each, str) for each in wanted.values()):
        return None
    return {str(key): each for key, each in sorted(wanted.items()) if labels.get(key) != each}


def matches(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether a LabelSelector selects these labels; the empty one selects all."""
    if any(labels.get(key) != value for key, value in table(selector, "matchLabels").items()):
        return False
    for each in tables(selector, "matchExpressions"):
        key, values = str(each.get("key")), each.get("values") or ()
        held = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not held.get(str(each.get("operator")), False):
            return False
    return True


class Sidecar(NamedTuple):
    """What one of Grafana's sidecars selects: a label, its value (empty: any), and namespaces (none: all)."""

    label: str
    value: str
    namespaces: tuple[str, ...]

    @property
    def options(self) -> tuple[str, ...]:
        """What of the chart makes it find dashboards, as options of helm."""
        labels = _labelled("dashboards", {self.label: self.value or "1"})
        return (labels, self.namespace_option) if self.namespaces else (labels,)

    @property
    def namespace_option(self) -> str:
        """The namespace in which the chart must put the dashboards."""
        return f"--set {shlex.quote(f'monitoring.dashboards.namespace={self.namespaces[0]}')}"

    def knows(self, metadata: Mapping[str, Any]) -> bool:
        """Whether an object has the label."""
        labels = table(metadata, "labels")
        return self.label in labels and (not self.value or labels[self.label] == self.value)

    def reaches(self, metadata: Mapping[str, Any]) -> bool:
        """Whether an object is in a namespace that it selects."""
        return not self.namespaces or metadata.get("namespace") in self.namespaces


def dashboards(facts: Facts) -> Iterator[Found]:
    """Whether Grafana's sidecar, where there is one, finds the chart's dashboards: by their label, in their namespace."""
    check = "grafana"
    sidecars = sorted({found for pod in facts.pods if (found := _sidecar(pod)) is not None})
    if not sidecars or facts.live is None:
        return
    first = sidecars[0]
    if facts.live.dashboards is None:
        yield unknown(check, "ConfigMaps of dashboards may not be read", "ask an admin for the right to list them")
        return
    if not facts.live.dashboards:
        remedy = set_values("--set monitoring.dashboards.enabled=true", *first.options)
        yield warning(check, "Grafana's sidecar is there and the chart's dashboards are not installed", remedy)
        return
    made = [table(raw, "metadata") for raw in facts.live.dashboards]
    known = [metadata for metadata in made if any(each.knows(metadata) for each in sidecars)]
    lost = _names(metadata for metadata in made if metadata not in known)
    away = _names(
        metadata for metadata in known if not any(each.knows(metadata) and each.reaches(metadata) for each in sidecars)
    )
    if lost:
        label = f"{first.label}{'=' + first.value if first.value else ''}"
        said = f"Grafana's sidecar looks for the label {label}, which {several(lost)} lack"
        yield warning(check, said, set_values(*first.options))
    elif away:
        said = f"Grafana's sidecar looks in {several(first.namespaces)} alone, where {several(away)} are not"
        yield warning(check, said, set_values(first.namespace_option))
    else:
        yield fine(check, f"Grafana's sidecar finds {len(made)} dashboards by their label")


def _names(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    return [one_line(str(metadata.get("name"))[:253]) for metadata in objects]


def _sidecar(pod: Raw) -> Sidecar | None:
    """What a pod's sidecar for dashboards selects; those for data sources, alerts and others are none."""
    for container in tables(table(pod, "spec"), "containers"):
        name = str(container.get("name", ""))
        if SIDECAR not in str(container.get("image", "")) or any(word in name for word in OTHER_SIDECARS):
            continue
        env = {str(each.get("name")): str(each.get("value", "")) for each in tables(container, "env")}
        if env.get("LABEL"):
            own = str(table(pod, "metadata").get("namespace", ""))
            words = [one_line(word.strip()[:63]) for word in (env.get("NAMESPACE") or own).split(",") if word.strip()]
            everywhere = "ALL" in words
            value = one_line(env.get("LABEL_VALUE", "")[:63])
            return Sidecar(one_line(env["LABEL"][:253]), value, () if everywhere else tuple(words))
    return None
