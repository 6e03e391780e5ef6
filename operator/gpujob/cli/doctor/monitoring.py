"""Checks of monitoring: whether a Prometheus selects the chart's objects, and Grafana's sidecar its dashboards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpujob.cli.doctor.facts import Facts, Raw
from gpujob.cli.doctor.finding import Found, fine, unknown, warning
from gpujob.values.finding import several
from gpujob.values.untrusted import one_line, table, tables

SELECTORS: Final = {
    "ServiceMonitor": ("serviceMonitorSelector", "serviceMonitorNamespaceSelector", "serviceMonitor"),
    "PodMonitor": ("podMonitorSelector", "podMonitorNamespaceSelector", "podMonitor"),
    "PrometheusRule": ("ruleSelector", "ruleNamespaceSelector", "prometheusRule"),
}
"""For each kind: the fields of a Prometheus that select it, and the chart's value."""

SIDECAR: Final = "k8s-sidecar"
"""What the image of Grafana's sidecar is called."""


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
            yield warning(check, f"there is no {kind} of the chart", f"set monitoring.{value}.enabled=true")
            continue
        for monitor in made:
            metadata = table(monitor, "metadata")
            name = one_line(f"{metadata.get('namespace')}/{metadata.get('name')}"[:520])
            own = namespaces.get(str(metadata.get("namespace")), {})
            if any(_selects(each, field, of_namespaces, metadata, own) for each in facts.live.prometheuses):
                yield fine(check, f"a Prometheus selects {kind} {name}")
                continue
            wanted = _labels_wanted(facts.live.prometheuses, field)
            remedy = (
                f"set monitoring.{value}.labels to {wanted}"
                if wanted
                else f"let a Prometheus select it by {field} and {of_namespaces}"
            )
            yield warning(check, f"no Prometheus selects {kind} {name}", remedy)


def _selects(
    prometheus: Raw, field: str, of_namespaces: str, metadata: Mapping[str, Any], own: Mapping[str, Any]
) -> bool:
    spec = table(prometheus, "spec")
    home = table(prometheus, "metadata").get("namespace") == metadata.get("namespace")
    # Without a selector of namespaces only its own is looked at.
    reaches = matches(spec[of_namespaces], own) if isinstance(spec.get(of_namespaces), dict) else home
    return reaches and isinstance(spec.get(field), dict) and matches(spec[field], table(metadata, "labels"))


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


def _labels_wanted(prometheuses: object, field: str) -> str:
    """The labels that the first Prometheus asks for, as YAML in one line."""
    for prometheus in prometheuses if isinstance(prometheuses, (list, tuple)) else ():
        wanted = table(table(table(prometheus, "spec"), field), "matchLabels")
        if wanted:
            return "{" + ", ".join(f"{key}: {value}" for key, value in sorted(wanted.items())) + "}"
    return ""


def dashboards(facts: Facts) -> Iterator[Found]:
    """Whether Grafana's sidecar, where there is one, looks for the label that the chart's dashboards have."""
    check = "grafana"
    wanted = sorted({found for pod in facts.pods if (found := _sidecar(pod)) is not None})
    if not wanted or facts.live is None:
        return
    if facts.live.dashboards is None:
        yield unknown(check, "ConfigMaps of dashboards may not be read", "ask an admin for the right to list them")
    elif not facts.live.dashboards:
        key, value = wanted[0]
        yield warning(
            check,
            "Grafana's sidecar is there and the chart's dashboards are not installed",
            f'set monitoring.dashboards.enabled=true and monitoring.dashboards.labels to {{{key}: "{value or 1}"}}',
        )
    else:
        lost = [
            one_line(str(table(raw, "metadata").get("name"))[:253])
            for raw in facts.live.dashboards
            if not any(_carries(table(table(raw, "metadata"), "labels"), key, value) for key, value in wanted)
        ]
        if lost:
            key, value = wanted[0]
            said = (
                f"Grafana's sidecar looks for the label {key}{'=' + value if value else ''}, which {several(lost)} lack"
            )
            yield warning(check, said, f'set monitoring.dashboards.labels to {{{key}: "{value or 1}"}}')
        else:
            yield fine(check, f"Grafana's sidecar finds {len(facts.live.dashboards)} dashboards by their label")


def _sidecar(pod: Raw) -> tuple[str, str] | None:
    """Label and value that a pod's sidecar for dashboards looks for; one for data sources is another."""
    for container in tables(table(pod, "spec"), "containers"):
        if SIDECAR not in str(container.get("image", "")) or "datasource" in str(container.get("name", "")):
            continue
        env = {str(each.get("name")): str(each.get("value", "")) for each in tables(container, "env")}
        if env.get("LABEL"):
            return one_line(env["LABEL"][:253]), one_line(env.get("LABEL_VALUE", "")[:63])
    return None


def _carries(labels: Mapping[str, Any], key: str, value: str) -> bool:
    return key in labels and (not value or labels[key] == value)
