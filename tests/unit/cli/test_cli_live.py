"""A live cluster over real HTTP: paged lists, refusals and broken answers, one sentence for each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
import yaml
from cli_room import CATALOG, MIXED, Command, kubeconfig_of, manifest, served
from test_published_pools import published

from gpujob.cli.input import connection

REMEDY = "or plan with --cluster FILE from an admin's `kubectl gpujob capture -o FILE`"
KINDS = {
    "/api/v1/nodes": "Node",
    "/api/v1/pods": "Pod",
    "/apis/gpujob.dev/v1alpha1/gpupools": "GPUPool",
    "/apis/gpujob.dev/v1alpha1/gpuruntimes": "GPURuntime",
    "/apis/gpujob.dev/v1alpha1/gpujobprofiles": "GPUJobProfile",
    "/apis/node.k8s.io/v1/runtimeclasses": "RuntimeClass",
    "/apis/scheduling.k8s.io/v1/priorityclasses": "PriorityClass",
    "/api/v1/persistentvolumeclaims": "PersistentVolumeClaim",
    "/api/v1/persistentvolumes": "PersistentVolume",
    "/apis/storage.k8s.io/v1/storageclasses": "StorageClass",
    "/api/v1/resourcequotas": "ResourceQuota",
    "/api/v1/limitranges": "LimitRange",
    "/api/v1/namespaces": "Namespace",
    "/apis/resource.k8s.io/v1/resourceslices": "ResourceSlice",
    "/apis/resource.k8s.io/v1/resourceclaims": "ResourceClaim",
    "/apis/resource.k8s.io/v1/deviceclasses": "DeviceClass",
    "/apis/resource.k8s.io/v1/devicetaintrules": "DeviceTaintRule",
    "/apis/gpujob.dev/v1alpha1/gpujobs": "GPUJob",
    "/apis/batch/v1/jobs": "Job",
}


class Server:
    """An API server of lists: objects by kind, statuses by path, and what was asked."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.objects = objects
        self.statuses: dict[str, int] = {}
        self.expire_once = False
        self.page = 4
        self.asked: list[tuple[str, dict[str, list[str]], str]] = []

    def answer(self, url: str, token: str) -> tuple[int, Any]:
        parsed = urlparse(url)
        query = parse_qs(parsed.query)
        self.asked.append((parsed.path, query, token))
        status = self.statuses.get(parsed.path)
        if status:
            return status, {"kind": "Status", "message": "no such luck"}
        if parsed.path == "/apis/resource.k8s.io":
            return 200, {"kind": "APIGroup", "versions": [{"version": "v1"}, {"version": "v1beta2"}]}
        if parsed.path == "/api/v1/namespaces/gpujob-system/configmaps/gpujob-site":
            found = [item for item in self.objects if item["kind"] == "ConfigMap"]
            return (200, found[0]) if found else (404, {"kind": "Status", "reason": "NotFound"})
        kind = KINDS[parsed.path]
        start = int(query.get("continue", ["0"])[0])
        if start and self.expire_once:
            self.expire_once = False
            return 410, {"kind": "Status", "reason": "Expired"}
        found = [
            {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
            for item in self.objects
            if item["kind"] == kind
        ]
        stop = start + self.page if "limit" in query else len(found)
        version = "v1" if parsed.path.startswith("/api/") else "/".join(parsed.path.split("/")[2:4])
        more = {"continue": str(stop)} if stop < len(found) else {}
        return 200, {"kind": f"{kind}List", "apiVersion": version, "metadata": more, "items": found[start:stop]}


@pytest.fixture
def server() -> Server:
    return Server(list(yaml.safe_load_all(MIXED.read_text())))


@pytest.fixture
def kubeconfig(server: Server, tmp_path: Path) -> Iterator[Path]:
    with served(lambda url, token: server.answer(url, token), tmp_path) as path:
        yield path


@pytest.fixture
def live(gpujob: Command, kubeconfig: Path) -> Callable[..., Any]:
    def run(*options: str, verb: str = "plan", **spec: Any) -> Any:
        job = ["-f", "-"] if verb == "plan" else []
        catalog = ["--catalog", CATALOG] if verb != "capture" else []
        return gpujob(verb, *job, *catalog, "--kubeconfig", kubeconfig, *options, stdin=manifest(**spec))

    return run


def test_a_live_plan_is_the_plan_of_the_captured_file(
    live: Callable[..., Any], gpujob: Command, server: Server
) -> None:
    answer = live("-o", "json", gpusPerNode=2)
    file = gpujob(
        "plan", "-f", "-", "--cluster", MIXED, "--catalog", CATALOG, "-o", "json", stdin=manifest(gpusPerNode=2)
    )
    assert (answer.code, answer.out, answer.err) == (file.code, file.out, "")
    assert {token for _, _, token in server.asked} == {"Bearer secret-token"}
    assert [path for path, *_ in server.asked].count("/api/v1/nodes") == 3  # 9 nodes in pages of 4
    pods = next(query for path, query, _ in server.asked if path == "/api/v1/pods")
    assert pods["fieldSelector"] == ["status.phase!=Succeeded,status.phase!=Failed"]


def test_a_capture_of_a_live_cluster_is_the_file(live: Callable[..., Any]) -> None:
    assert live(verb="capture").out == MIXED.read_text()


def test_a_page_that_expired_is_no_error(live: Callable[..., Any], server: Server) -> None:
    server.expire_once = True
    assert live().code == 0


def test_a_cluster_without_our_kinds_is_planned(live: Callable[..., Any], server: Server) -> None:
    server.statuses = {path: 404 for path in KINDS if "gpujob.dev" in path}
    assert live().code == 0


@pytest.mark.parametrize("refused", ["/api/v1/nodes", "/api/v1/pods"])
def test_without_rights_published_pools_are_used(live: Callable[..., Any], server: Server, refused: str) -> None:
    server.objects = [*server.objects, *published()]
    server.statuses = {refused: 403}
    answer = live()
    assert answer.code == 0
    assert answer.err == "nodes cannot be read; published GPUPools are used: free as of 2026-01-31T10:00:00Z\n"


def test_without_rights_and_without_published_figures_the_remedy_is_a_file(
    live: Callable[..., Any], server: Server
) -> None:
    unpublished = [{key: value for key, value in pool.items() if key != "status"} for pool in published()]
    server.objects = [*server.objects, *unpublished]
    server.statuses = {"/api/v1/nodes": 403}
    answer = live()
    assert answer.code == 2
    assert answer.err == f"error: this account may not list nodes (403): request that right, {REMEDY}\n"


def test_a_capture_is_whole_or_refused(live: Callable[..., Any], server: Server) -> None:
    server.objects = [*server.objects, *published()]
    server.statuses = {"/api/v1/pods": 403}
    answer = live(verb="capture")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: this account may not list pods (403)")


def test_what_may_not_be_read_besides_is_said(live: Callable[..., Any], server: Server) -> None:
    server.statuses = {"/apis/node.k8s.io/v1/runtimeclasses": 403}
    answer = live()
    assert answer.code == 0
    assert answer.err.startswith("not read: this account may not list runtimeclasses (403)")


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (401, "the cluster refuses these credentials (401); log in again, or name another --context"),
        (500, f"the cluster did not list nodes (500): no such luck; try again, {REMEDY}"),
    ],
)
def test_other_answers_are_one_sentence(live: Callable[..., Any], server: Server, status: int, sentence: str) -> None:
    server.statuses = {"/api/v1/nodes": status}
    answer = live()
    assert (answer.code, answer.err) == (2, f"error: {sentence}\n")


def test_an_answer_that_is_no_json_is_one_sentence(
    live: Callable[..., Any], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "answer", lambda *_: (200, b"<html>log in</html>"))
    answer = live()
    assert (answer.code, answer.err) == (
        2,
        f"error: the cluster did not list nodes (200): no reason given; try again, {REMEDY}\n",
    )


BROKEN = {
    "refused": (kubeconfig_of("http://127.0.0.1:1"), "error: no answer from http://127.0.0.1:1 ("),
    "plugin": (
        kubeconfig_of(
            "http://127.0.0.1:1", exec={"apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere"}
        ),
        "error: the kubeconfig {path} cannot be used (",
    ),
    "no context": ({"apiVersion": "v1", "kind": "Config"}, "error: the kubeconfig {path} cannot be used ("),
    "no kubeconfig": ("[1", "error: the kubeconfig {path} cannot be used ("),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_kubeconfig_that_leads_nowhere_is_one_sentence(gpujob: Command, tmp_path: Path, case: str) -> None:
    content, beginning = BROKEN[case]
    path = tmp_path / "kubeconfig"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    answer = gpujob("pools", "--kubeconfig", path)
    assert answer.code == 2
    assert answer.err.startswith(beginning.format(path=path))
    assert answer.err.endswith(f"{REMEDY}\n")
    assert len(answer.err.splitlines()) == 1


def test_a_context_that_is_not_there_is_one_sentence(live: Callable[..., Any]) -> None:
    answer = live("--context", "elsewhere")
    assert answer.code == 2
    assert "elsewhere" in answer.err
    assert len(answer.err.splitlines()) == 1


def test_a_namespace_that_is_not_there_yet_is_said(live: Callable[..., Any], server: Server) -> None:
    server.objects.append({"kind": "Namespace", "metadata": {"name": "default"}})
    assert "namespace" not in live().err
    told = live("-n", "nosuch").err
    assert told == ("there is no namespace nosuch yet: `kubectl create namespace nosuch`, or name another with -n\n")


@pytest.mark.parametrize(
    ("installed", "namespace", "sentence"),
    [
        (404, 200, "error: the cluster has no kind GPUJob: its CRDs are not installed; helm install gpujob-operator "),
        (200, 404, "error: there is no namespace team; `kubectl get namespaces` lists them all"),
        (200, 200, "error: there is no GPUJob train in namespace team; `kubectl get gpujobs -A` lists them all"),
    ],
)
def test_why_a_job_is_not_found(
    live: Callable[..., Any], server: Server, installed: int, namespace: int, sentence: str
) -> None:
    server.statuses |= {
        "/apis/gpujob.dev/v1alpha1/namespaces/team/gpujobs/train": 404,
        "/apis/gpujob.dev/v1alpha1": installed,
        "/api/v1/namespaces/team": namespace,
    }
    answer = live("train", "-n", "team", verb="explain")
    assert answer.code == 2
    assert answer.err.splitlines()[-1].startswith(sentence)


SITE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "gpujob-site", "namespace": "gpujob-system"},
    "data": {"site.yaml": "prices: {H100: 0.11}\nimageMirrors: [{from: docker.io, to: registry.example}]\n"},
}
OF_SITE = "/api/v1/namespaces/gpujob-system/configmaps/gpujob-site"


def test_a_live_plan_has_the_operator_s_prices_and_mirrors(live: Callable[..., Any], server: Server) -> None:
    server.objects = [*server.objects, SITE]
    chosen = json.loads(live("-o", "json", gpusPerNode=2).out)["chosen"]
    assert (chosen["pricePerHour"], chosen["priceSource"]) == ("0.22", "prices.H100")
    assert chosen["image"].startswith("registry.example/")
    captured = live(verb="capture").out
    assert "H100: 0.11" in captured.replace("'", "")
    assert "registry.example" not in captured


def test_who_may_not_read_the_operator_s_prices_is_told(live: Callable[..., Any], server: Server) -> None:
    server.statuses = {OF_SITE: 403}
    answer = live()
    assert (answer.code, answer.err) == (
        0,
        "not read: this account may not get ConfigMap gpujob-system/gpujob-site (403), so the operator's own prices, "
        "rows and mirrors are unknown\n",
    )
    server.statuses = {OF_SITE: 500}
    answer = live()
    assert answer.code == 2
    assert "gpujob-site" in answer.err


@pytest.mark.parametrize(
    ("said", "pauses"),
    [
        ({}, [1.0, 1.0]),
        ({"retry-after": "2"}, [2.0, 2.0]),
        ({"retry-after": "99999"}, [5.0, 5.0]),
        ({"retry-after": "soon"}, [1.0, 1.0]),
    ],
    ids=str,
)
def test_a_busy_server_is_asked_again(
    gpujob: Command,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: dict[str, str],
    pauses: list[float],
) -> None:
    """An API server answers so too for a moment after a CRD was made."""
    slept: list[float] = []
    monkeypatch.setattr(connection.time, "sleep", slept.append)
    busy = iter((True, True, False))

    def answer(url: str, token: str) -> tuple[Any, ...]:
        if urlparse(url).path == "/api/v1/nodes" and next(busy, False):
            return (
                429,
                {"message": "storage is (re)initializing"},
                {name: value.encode().decode("latin-1") for name, value in said.items()},
            )
        return server.answer(url, token)

    with served(answer, tmp_path) as kubeconfig:
        done = gpujob("pools", "--kubeconfig", kubeconfig, "--catalog", CATALOG)
    assert (done.code, slept) == (0, pauses)


def test_a_server_that_stays_busy_is_named(
    gpujob: Command, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(connection.time, "sleep", slept.append)
    server.statuses["/api/v1/nodes"] = 429
    with served(server.answer, tmp_path) as kubeconfig:
        done = gpujob("pools", "--kubeconfig", kubeconfig)
    assert done.code == 2
    assert "the cluster did not list nodes (429): no such luck; try again" in done.err
    assert slept == [1.0] * (connection.MOST_TRIES - 1)
