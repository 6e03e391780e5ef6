"""What tests of `doctor` share: a look at a file, an API server that tests change, and its objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import H100, MI300X, node
from cli_room import Command, served

from gpujob import __version__
from tests.unit.api.test_served_crds import document

Object = dict[str, Any]
Doctor = Callable[..., list[tuple[str, str, str | None, str, str | None]]]


@pytest.fixture
def doctor(gpujob: Command, tmp_path: Path) -> Doctor:
    """What doctor finds of some objects, but for what is in order: level, check, about, message, remedy."""

    def look(*objects: Object, options: Sequence[str] = (), every: bool = False) -> list[tuple[Any, ...]]:
        path = tmp_path / "cluster.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        found = json.loads(gpujob("doctor", "--cluster", path, "-o", "json", *options).out)
        keys = ("level", "check", "about", "message", "remedy")
        return [tuple(each[key] for key in keys) for each in found["findings"] if every or each["level"] != "OK"]

    return look


def of_check(found: list[tuple[Any, ...]], check: str) -> list[tuple[Any, ...]]:
    return [(level, message) for level, name, _, message, _ in found if name == check]


def with_status(raw: Object, **status: Any) -> Object:
    """A node with more in its status."""
    return {**raw, "status": {**raw["status"], **status}}


def pod_with(image: str, on: str = "a", **container: Any) -> Object:
    spec = {"nodeName": on, "containers": [{"name": "c", "image": image, **container}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "gpu-operator"}, "spec": spec,
            "status": {"phase": "Running"}}  # fmt: skip


def namespace(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


class Cluster:
    """An API server in order, with two vendors' nodes; tests change it."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Object]] = {
            "/api/v1/nodes": [node("a", H100), node("b", MI300X)],
            "/api/v1/namespaces": [namespace("team"), namespace("monitoring"), namespace("gpujob-system")],
            "/apis/apps/v1/namespaces/gpujob-system/deployments": [deployment()],
            "/apis/monitoring.coreos.com/v1/prometheuses": [prometheus()],
            **{f"/apis/monitoring.coreos.com/v1/{kind.lower()}s": [monitor(kind)]
               for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule")},
        }  # fmt: skip
        self.objects: dict[str, Object] = {
            "/version": {"gitVersion": "v1.36.2"},
            "/openapi/v3/apis/gpujob.dev/v1alpha1": document(),
            "/apis/coordination.k8s.io/v1/namespaces/gpujob-system/leases/gpujob-operator": {
                "spec": {"holderIdentity": "operator-0", "renewTime": "2999-01-01T00:00:00.000000Z"}
            },
        }
        self.statuses: dict[str, int] = {}
        self.denied: set[str] = set()
        self.user = "ada@example.com"

    def answer(self, url: str, token: str, body: bytes = b"") -> tuple[int, Any]:
        path = url.partition("?")[0]
        if status := self.statuses.get(path):
            return status, {"kind": "Status", "message": "no"}
        if path.endswith("selfsubjectaccessreviews"):
            asked = json.loads(body)["spec"]["resourceAttributes"]
            word = "/".join(filter(None, (asked["resource"], asked["subresource"])))
            return 201, {"status": {"allowed": f"{asked['verb']} {word}" not in self.denied}}
        if path.endswith("selfsubjectreviews"):
            return 201, {"status": {"userInfo": {"username": self.user}}}
        if path in self.objects:
            return 200, self.objects[path]
        kind = path.rpartition("/")[2]
        kind = {"servicemonitors": "ServiceMonitor", "podmonitors": "PodMonitor", "prometheusrules": "PrometheusRule",
                "nodes": "Node", "namespaces": "Namespace", "pods": "Pod"}.get(kind, kind)  # fmt: skip
        return (200, {"kind": f"{kind}List", "items": self.lists[path]}) if path in self.lists else (404, {})


def deployment(ready: int = 2, replicas: int = 2, version: str = __version__) -> Object:
    metadata = {"name": "gpujob-operator", "labels": {"app.kubernetes.io/version": version}}
    return {"metadata": metadata, "spec": {"replicas": replicas}, "status": {"readyReplicas": ready}}


def prometheus(**spec: Any) -> Object:
    labels = {"matchLabels": {"release": "stack"}}
    fields = ("serviceMonitor", "podMonitor", "rule")
    asked = {**{f"{each}Selector": labels for each in fields}, **{f"{each}NamespaceSelector": {} for each in fields}}
    return {"metadata": {"name": "p", "namespace": "monitoring"}, "spec": {**asked, **spec}}


def monitor(kind: str, **labels: str) -> Object:
    metadata = {"name": "gpujob-operator", "namespace": "gpujob-system", "labels": labels or {"release": "stack"}}
    return {"metadata": metadata, "spec": {}, "kind": kind}


@pytest.fixture
def live(gpujob: Command, tmp_path: Path) -> Callable[..., Any]:
    def look(cluster: Cluster, *options: str) -> tuple[int, list[tuple[str, str, str, str]]]:
        with served(cluster.answer, tmp_path) as kubeconfig:
            answer = gpujob("doctor", "--kubeconfig", kubeconfig, "-n", "team", "-o", "json", *options)
        found = json.loads(answer.out)["findings"]
        return answer.code, [(each["level"], each["check"], each["message"], each["remedy"]) for each in found]

    return look


def bad(found: list[tuple[str, str, str, str]], *checks: str) -> list[tuple[str, str, str, str]]:
    return [each for each in found if each[1] in checks and each[0] != "OK"]


def changed(**what: Any) -> Cluster:
    cluster = Cluster()
    for path, value in what.pop("lists", {}).items():
        cluster.lists[path] = value
    for path, value in what.pop("objects", {}).items():
        cluster.objects[path] = value
    for name, value in what.items():
        setattr(cluster, name, value)
    return cluster
