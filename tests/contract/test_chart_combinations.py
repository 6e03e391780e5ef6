"""Any combination of values that the schema admits renders objects that belong together, and the API server accepts them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import Phase, assume, event, given, settings
from hypothesis import strategies as st

from charts.values import leaves, read_values
from tests.contract.chart_in_cluster import ensure_namespace, run
from tests.contract.test_chart_rendering import CHART, DIGEST, NAMESPACE, documents, helm, of_kind, one
from tests.e2e.cluster import Cluster

Object = dict[str, Any]
GENERATE = [Phase.explicit, Phase.reuse, Phase.generate]
"""Without making a failure smaller, which takes minutes of helm: most values of a failure are defaults anyway."""

NAME = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
NAME_OR_NONE = st.just("") | NAME
# PyYAML gives `=` and `<<` a type of their own, as Helm and Kubernetes do not.
TEXT = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]) | st.sampled_from("\n\t"), max_size=20
).filter(lambda text: text not in ("=", "<<"))
LABEL = st.from_regex(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,20}[A-Za-z0-9])?)?", fullmatch=True) | st.sampled_from(
    ["1", "1e3", "0x1F", "true", "no", "null", "07", "1_000", "12.0"]
)
LABEL_KEY = st.from_regex(r"([a-z0-9]{1,8}\.example/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,10}[A-Za-z0-9])?", fullmatch=True)
LABELS = st.dictionaries(LABEL_KEY, LABEL, max_size=3)
TEXTS = st.dictionaries(LABEL_KEY, TEXT, max_size=3)
PULLS = st.lists(st.fixed_dictionaries({"name": NAME}), max_size=2, unique_by=lambda each: each["name"])
REGISTRY = st.sampled_from(["", "mirror.example", "mirror.example:5000", "mirror.example/proxy", "localhost"])
AUTO = st.sampled_from(["auto", True, False])
INTERVAL = st.sampled_from(["15s", "1m", "90s"])
PEERS = st.lists(
    st.sampled_from(
        [
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}},
            {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "prometheus"}}},
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
            {"ipBlock": {"cidr": "fd00::/8"}},
        ]
    ),
    max_size=2,
)
SPREAD = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 3),
        "topologyKey": st.sampled_from(["kubernetes.io/hostname", "topology.kubernetes.io/zone"]),
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    },
    optional={"labelSelector": st.just({"matchLabels": {"app": "x"}})},
)
VARIABLE = st.one_of(
    st.fixed_dictionaries({"name": st.from_regex(r"X_[A-Z0-9_]{1,8}", fullmatch=True)}, optional={"value": TEXT}),
    st.just({"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}),
)
DOLLARS = st.sampled_from([1, 2.1, 98.32, 0.0001, "2.10", "40", 6400000])
BY_CAPACITY = st.dictionaries(st.sampled_from(["OnDemand", "Reserved", "Spot"]), DOLLARS, min_size=1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "global.imageRegistry": REGISTRY,
    "global.imagePullSecrets": PULLS,
    "nameOverride": NAME_OR_NONE,
    "fullnameOverride": NAME_OR_NONE,
    "commonLabels": LABELS,
    "replicaCount": st.integers(0, 5),
    "image.registry": REGISTRY,
    "image.repository": st.sampled_from(
        ["operator", "gpu/operator", "images.example:5000/gpu/operator", "ghcr.io/x/y"]
    ),
    "image.tag": st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,12}", fullmatch=True)
    | st.sampled_from(["1", "1.10", ""]),
    "image.digest": st.sampled_from(["", DIGEST]),
    "image.pullPolicy": st.sampled_from(["Always", "IfNotPresent", "Never"]),
    "imagePullSecrets": PULLS,
    "logLevel": st.sampled_from(["debug", "info", "warning", "error"]),
    "logFormat": st.sampled_from(["json", "text"]),
    "provisionSeconds": st.integers(10, 65535),
    "holdSeconds": st.integers(0, 65535),
    "unboundSeconds": st.integers(30, 65535),
    "watchNamespaces": st.lists(st.sampled_from(["team-a", "team-b", "default", NAMESPACE]), max_size=3, unique=True),
    "prices": st.dictionaries(
        st.sampled_from(["H100-SXM", "MI300", "p5.48xlarge", "our-rack", "1e3", "null"]),
        DOLLARS | BY_CAPACITY,
        max_size=3,
    ),
    "catalog": st.sampled_from(
        [
            {},
            {"instanceTypes": [{"cloud": "ours", "accelerator": "MI300X", "devices": {"1e3": 8}}]},
            {"runtimes": [], "models": []},
        ]
    ),
    "imageMirrors": st.lists(
        st.fixed_dictionaries(
            dict.fromkeys(("from", "to"), st.sampled_from(["docker.io", "ghcr.io/a-b/c.d", "localhost:5000/x"]))
        ),
        max_size=2,
    ),
    "docsURL": st.sampled_from(["", "https://docs.example.com", "http://[fd00::1]:8080/a/b/"]),
    "metrics.port": st.integers(1024, 65535),
    "metrics.tlsSecret": NAME_OR_NONE,
    "metrics.authentication.enabled": st.booleans(),
    "health.port": st.integers(1024, 65535),
    "extraEnv": st.lists(VARIABLE, max_size=3, unique_by=lambda each: each["name"]),
    "resources": st.sampled_from([{}, {"requests": {"cpu": 1}}, {"limits": {"memory": 2147483648, "cpu": 0.5}}]),
    "terminationGracePeriodSeconds": st.integers(5, 300),
    "nodeSelector": LABELS,
    "tolerations": st.sampled_from([[], [{"operator": "Exists"}], [{"key": "a", "value": "b", "effect": "NoExecute"}]]),
    "affinity": st.sampled_from([{}, {"podAntiAffinity": {}}]),
    "topologySpreadConstraints": st.lists(
        SPREAD, max_size=2, unique_by=lambda each: (each["topologyKey"], each["whenUnsatisfiable"])
    ),
    "priorityClassName": NAME_OR_NONE,
    "podAnnotations": TEXTS,
    "podLabels": LABELS,
    "podDisruptionBudget.enabled": st.booleans(),
    "podDisruptionBudget.maxUnavailable": st.integers(0, 4) | st.integers(0, 100).map("{}%".format),
    "podDisruptionBudget.unhealthyPodEvictionPolicy": st.sampled_from(["AlwaysAllow", "IfHealthyBudget"]),
    "networkPolicy.enabled": st.booleans(),
    "networkPolicy.metricsFrom": PEERS,
    "networkPolicy.apiServerTo": PEERS,
    "networkPolicy.apiServerPorts": st.lists(st.integers(1, 65535), min_size=1, max_size=3, unique=True),
    "networkPolicy.nodeCIDRs": st.sampled_from([[], ["10.0.0.0/8"], ["fd00::/8"], ["10.0.0.0/8", "fd00::/8"]]),
    "networkPolicy.extraIngress": st.sampled_from([[], [{"from": [{"podSelector": {}}]}]]),
    "networkPolicy.extraEgress": st.sampled_from([[], [{"ports": [{"port": 53, "protocol": "UDP"}]}]]),
    "serviceAccount.create": st.booleans(),
    "serviceAccount.name": NAME_OR_NONE,
    "serviceAccount.annotations": TEXTS,
    "rbac.create": st.booleans(),
    "userRoles.create": st.booleans(),
    "userRoles.aggregate": st.booleans(),
    # Of the CRDs test_chart_rendering has a test; here they would be most of the time.
    "crds.enabled": st.just(False),
    "crds.keep": st.booleans(),
    "admission.requirePodsCreate": st.booleans(),
    "admission.protectChildren": st.booleans(),
    "admission.limitOperator": st.booleans(),
    "admission.hostDevices": st.booleans(),
    "admission.hostNetwork": st.booleans(),
    "admission.allowedImages": st.sampled_from([[], ["registry.example"], ["localhost:5000/a/b", "docker.io/rocm"]]),
    "admission.allowedServiceAccounts": st.lists(NAME, max_size=3, unique=True),
    "admission.limitServiceAccounts": st.booleans(),
    "monitoring.serviceMonitor.enabled": AUTO,
    "monitoring.serviceMonitor.interval": INTERVAL,
    "monitoring.serviceMonitor.labels": LABELS,
    "monitoring.podMonitor.enabled": AUTO,
    "monitoring.podMonitor.interval": INTERVAL,
    "monitoring.podMonitor.labels": LABELS,
    "monitoring.prometheusRule.enabled": AUTO,
    "monitoring.prometheusRule.labels": LABELS,
    "monitoring.prometheusRule.runbooks": st.sampled_from(
        ["", "https://wiki.example/gpus", "http://[fd00::1]:80/a?b=c#d"]
    ),
    "monitoring.dashboards.enabled": st.booleans(),
    "monitoring.dashboards.namespace": NAME_OR_NONE,
    "monitoring.dashboards.labels": LABELS,
    "monitoring.dashboards.annotations": TEXTS,
}


@st.composite
def combinations(draw: st.DrawFn) -> Object:
    """Values that an admin may set together: a few or many of them, the image and the CRDs always."""
    wanted = draw(st.sets(st.sampled_from(sorted(VALUES)))) | {"image.repository", "crds.enabled"}
    made: Object = {}
    for path in sorted(wanted):
        *groups, name = path.split(".")
        at = made
        for group in groups:
            at = at.setdefault(group, {})
        at[name] = draw(VALUES[path])
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    metrics = made.get("metrics", {})
    assume(metrics.get("tlsSecret") or not metrics.get("authentication", {}).get("enabled"))
    ports = {made.get(each, {}).get("port", defaults[each]["port"]) for each in ("metrics", "health")}
    assume(len(ports) == 2)
    return made


def render(values: Object, release: str, *arguments: str) -> str:
    """The manifests; it is a fault of the chart when there are none."""
    done = helm("template", release, str(CHART), f"--namespace={NAMESPACE}", "--skip-tests", *arguments, values=values)
    assert done.returncode == 0, done.stderr
    return done.stdout


def scalars(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of an object with its path."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if members is None:
        yield path, value
    else:
        for key, each in members:
            yield from scalars(each, f"{path}.{key}")


def test_every_value_of_the_chart_is_tried() -> None:
    assert VALUES.keys() == {value.path for value in leaves(read_values((CHART / "values.yaml").read_text()))}


@settings(max_examples=25, phases=GENERATE)
@given(combinations(), NAME, st.booleans())
def test_what_is_rendered_belongs_together(values: Object, release: str, monitored: bool) -> None:
    text = render(values, release, *(["--api-versions=monitoring.coreos.com/v1"] if monitored else []))
    objects = [each for each in documents(text) if each]
    identities = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(set(identities)) == len(identities)
    for each in objects:
        metadata = each["metadata"]
        for texts in (metadata["labels"], metadata.get("annotations", {})):
            assert all(isinstance(text, str) for text in texts.values()), metadata
        assert isinstance(metadata["name"], str)
        assert metadata["labels"].items() >= values.get("commonLabels", {}).items() - _own_labels(values, each).items()
        watched = values.get("watchNamespaces", [])
        dashboards = values.get("monitoring", {}).get("dashboards", {}).get("namespace")
        allowed = {NAMESPACE, dashboards, *watched, *(["default"] if watched else [])}
        assert metadata.get("namespace", NAMESPACE) in allowed
        assert [path for path, value in scalars(each) if value is None] == []
    assert monitored or not any(each["apiVersion"].startswith("monitoring") and _auto(values, each) for each in objects)
    together(objects, values)


def together(objects: list[Object], values: Object) -> None:
    """Selectors find the operator's pods, bindings its account, and the pod has what the values say."""
    deployment, service = one(objects, "Deployment")["spec"], one(objects, "Service")
    template = deployment["template"]
    labels, pod = template["metadata"]["labels"], template["spec"]
    assert all(isinstance(text, str) for text in labels.values())
    assert labels.items() >= values.get("podLabels", {}).items()
    selectors = [deployment["selector"]["matchLabels"], service["spec"]["selector"]]
    selectors += [each["spec"]["selector"]["matchLabels"] for each in of_kind(objects, "PodDisruptionBudget")]
    selectors += [each["spec"]["podSelector"]["matchLabels"] for each in of_kind(objects, "NetworkPolicy")]
    assert all(selector and selector.items() <= labels.items() for selector in selectors)
    for monitor in of_kind(objects, "ServiceMonitor"):
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    for each in (*of_kind(objects, "ClusterRoleBinding"), *of_kind(objects, "RoleBinding")):
        (subject,) = each["subjects"]
        assert subject == {"kind": "ServiceAccount", "name": pod["serviceAccountName"], "namespace": NAMESPACE}
    accounts = [each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")]
    assert accounts in ([], [pod["serviceAccountName"]])
    (container,) = pod["containers"]
    names = [each["name"] for each in container["env"]]
    assert len(set(names)) == len(names)
    assert container["env"][len(names) - len(values.get("extraEnv", [])) :] == values.get("extraEnv", [])
    reference = r"[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9._-]*|@sha256:[0-9a-f]{64})"
    assert re.fullmatch(reference, container["image"]), container["image"]
    for spread in pod["topologySpreadConstraints"]:
        assert spread["labelSelector"]["matchLabels"]
    event(f"{len(objects) // 5 * 5} objects and more")


def _monitoring(values: Object, made: Object) -> Object:
    kinds = {"ServiceMonitor": "serviceMonitor", "PodMonitor": "podMonitor", "PrometheusRule": "prometheusRule"}
    name = kinds.get(made["kind"], "dashboards" if made["kind"] == "ConfigMap" else "")
    found: Object = values.get("monitoring", {}).get(name, {})
    return found


def _own_labels(values: Object, made: Object) -> Object:
    """Labels of commonLabels in whose place an object has its own."""
    own = _monitoring(values, made).get("labels", {})
    common = values.get("commonLabels", {})
    defaults = {"grafana_dashboard": "1"} if made["kind"] == "ConfigMap" else {}
    return {key: common[key] for key in common if key in own or key in defaults}


def _auto(values: Object, made: Object) -> bool:
    return _monitoring(values, made).get("enabled", "auto") == "auto"


@pytest.mark.e2e
@settings(max_examples=12, phases=GENERATE)
@given(combinations())
def test_the_api_server_accepts_any_combination(cluster: Cluster, installed: None, values: Object) -> None:
    for namespace in values.get("watchNamespaces", []):
        ensure_namespace(cluster, namespace)
    # A name of its own: selectors of the installed release cannot be changed.
    text = render({**values, "fullnameOverride": "tried"}, "tried")
    objects = [each for each in documents(text) if each and not each["apiVersion"].startswith("monitoring.coreos.com/")]
    for each in objects:
        if each["kind"] == "ConfigMap":
            each["metadata"]["namespace"] = NAMESPACE
    stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    tried = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-")
    done = run(cluster, "kubectl", *tried, stdin=stdin)
    assert done.returncode == 0, done.stderr
