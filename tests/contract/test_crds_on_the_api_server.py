"""The CRDs on a real API server: accepted, readable by kubectl explain, and refusing what the command line refuses."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpujob.api.generate.crd import KINDS, definition
from gpujob.api.manifest import read_gpujob, read_gpupool, read_gpuruntime
from gpujob.values.errors import BadManifest
from tests.e2e.api_server import GPUJOBS, ApiServer, Refused
from tests.e2e.cluster import Cluster, eventually

pytestmark = pytest.mark.e2e

HERE = Path(__file__).parent
CRDS = HERE.parent.parent / "crds"
EXAMPLES = HERE.parent.parent / "examples"
PATHS = {
    kind.model.__name__: GPUJOBS.format("default") if kind.namespaced else f"/apis/gpujob.dev/v1alpha1/{kind.plural}"
    for kind in KINDS
}
READERS = {"GPUJob": read_gpujob, "GPUPool": read_gpupool, "GPURuntime": read_gpuruntime}


def table(name: str) -> list[dict[str, Any]]:
    """The rows of a file of manifests."""
    return yaml.safe_load((HERE / name).read_text())


def manifest(row: dict[str, Any], name: str = "probe") -> dict[str, Any]:
    """A row as a whole manifest."""
    kind = row.get("kind", "GPUJob")
    return {"apiVersion": "gpujob.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": row["spec"]}


def sent(document: dict[str, Any]) -> dict[str, Any]:
    """A manifest as kubectl sends it: a whole number has no fraction."""

    def number(text: str) -> float | int:
        return int(float(text)) if float(text).is_integer() else float(text)

    body: dict[str, Any] = json.loads(json.dumps(document), parse_float=number)
    return body


def kubectl(cluster: Cluster, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """What kubectl answers."""
    command = [str(cluster.tool("kubectl")), *arguments]
    return subprocess.run(command, env=cluster.environment(), input=stdin, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", autouse=True)
def crds(cluster: Cluster) -> None:
    """The CRDs, established."""
    done = kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    assert done.returncode == 0, done.stderr
    names = [f"crd/{kind.plural}.gpujob.dev" for kind in KINDS]
    waited = kubectl(cluster, "wait", "--for=condition=Established", "--timeout=30s", *names)
    assert waited.returncode == 0, waited.stderr
    eventually(lambda: kubectl(cluster, "get", "gpuruntimes").returncode == 0, what="the new kinds to be served")


@pytest.mark.parametrize("row", table("refused_manifests.yaml"), ids=lambda row: f"{json.dumps(row['spec'])[:60]}")
def test_the_api_server_and_the_command_line_refuse_with_the_same_sentence(api: ApiServer, row: dict[str, Any]) -> None:
    document = manifest(row)
    with pytest.raises(BadManifest) as refusal:
        READERS[document["kind"]](document)
    assert row["says"] in str(refusal.value)
    with pytest.raises(Refused) as answer:
        api.try_out(PATHS[document["kind"]], sent(document))
    assert answer.value.code in (400, 422), "the manifest is refused, not the caller"
    assert row.get("server", row["says"]) in answer.value.message


@pytest.mark.parametrize("row", table("accepted_manifests.yaml"), ids=lambda row: f"{json.dumps(row['spec'])[:60]}")
def test_the_api_server_and_the_command_line_accept(api: ApiServer, row: dict[str, Any]) -> None:
    document = manifest(row)
    READERS[document["kind"]](document)
    assert api.try_out(PATHS[document["kind"]], sent(document))["kind"] == document["kind"]


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_accepted_strictly(cluster: Cluster, example: Path) -> None:
    answer = kubectl(cluster, "apply", "--dry-run=server", "--validate=strict", "-f", str(example))
    assert answer.returncode == 0, answer.stderr


def test_applying_twice_changes_nothing(cluster: Cluster) -> None:
    row = table("accepted_manifests.yaml")[6]
    document = json.dumps(manifest(row, "twice"))
    assert "created" in kubectl(cluster, "apply", "-f", "-", stdin=document).stdout
    assert "unchanged" in kubectl(cluster, "apply", "-f", "-", stdin=document).stdout
    stored = json.loads(kubectl(cluster, "get", "gpujob", "twice", "-o", "json").stdout)
    assert stored["spec"] == row["spec"], "defaults are the operator's, so that absence stays absence"


def test_explain_reads_well(cluster: Cluster) -> None:
    text = kubectl(cluster, "explain", "gpujob.spec.placement").stdout
    for field in ("accelerators", "capacityTypes", "maxPricePerHour", "objective", "pools", "vendors"):
        assert field in text
    assert "Vendors that may be chosen, for example [AMD]; both when empty." in text
    assert "<none>" not in text.lower()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_no_field_is_blank_or_unbounded(kind: Any) -> None:
    schema = definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in ("spec", "status"):
        if name in schema["properties"]:
            walk(schema["properties"][name], name)


def walk(node: dict[str, Any], path: str) -> None:
    """Asserts that every field below is described, typed and bounded."""
    assert "anyOf" not in node, f"{path}: a union with null is not structural"
    assert "title" not in node, path
    assert node.get("description"), f"{path} is blank in kubectl explain"
    kind = node.get("type")
    assert kind or node.get("x-kubernetes-int-or-string"), f"{path} has no type"
    if kind == "string":
        assert "maxLength" in node or "enum" in node, f"{path} has no bound"
    for name, field in node.get("properties", {}).items():
        walk(field, f"{path}.{name}")
    if kind == "array":
        assert "maxItems" in node, f"{path} has no bound"
        if "properties" in node["items"]:
            walk(node["items"] | {"description": "an item"}, f"{path}[]")
    if "additionalProperties" in node:
        assert "maxProperties" in node, f"{path} has no bound"


def test_lists_merge_by_their_key(cluster: Cluster) -> None:
    for manager, value in (("one", "A"), ("two", "B")):
        document = manifest({"spec": {"env": [{"name": value, "value": value}]}}, "merged")
        done = kubectl(
            cluster, "apply", "--server-side", "--field-manager", manager, "-f", "-", stdin=json.dumps(document)
        )
        assert done.returncode == 0, done.stderr
    stored = json.loads(kubectl(cluster, "get", "gpujob", "merged", "-o", "json").stdout)
    assert {entry["name"] for entry in stored["spec"]["env"]} == {"A", "B"}


def test_a_placed_job_is_immutable_but_for_suspend_and_its_limits(cluster: Cluster) -> None:
    document = json.dumps(manifest({"spec": {"nodes": 2, "placement": {"waitSeconds": 5}}}, "fixed"))
    kubectl(cluster, "apply", "-f", "-", stdin=document)
    free = kubectl(cluster, "patch", "gpujob", "fixed", "--type=merge", "-p", '{"spec": {"nodes": 3}}')
    assert free.returncode == 0, free.stderr
    status = '{"status": {"state": "Running", "jobName": "fixed-1"}}'
    written = kubectl(cluster, "patch", "gpujob", "fixed", "--subresource=status", "--type=merge", "-p", status)
    assert written.returncode == 0, written.stderr
    for change in ('{"spec": {"nodes": 4}}', '{"spec": {"nodes": null}}', '{"spec": {"gpuMemory": "80G"}}'):
        refused = kubectl(cluster, "patch", "gpujob", "fixed", "--type=merge", "-p", change)
        assert "cannot change while the child Job fixed-1 exists; create a new GPUJob, or set suspend" in refused.stderr
    for change in ('{"vendors": ["AMD"]}', '{"waitSeconds": null}', '{"waitSeconds": 6, "budget": "5"}'):
        refused = kubectl(
            cluster, "patch", "gpujob", "fixed", "--type=merge", "-p", f'{{"spec": {{"placement": {change}}}}}'
        )
        assert "spec cannot change while the child Job fixed-1 exists" in refused.stderr, change
    for change in (
        '{"placement": {"budget": "5.00"}}', '{"placement": {"budget": 7}}', '{"placement": {"budget": null}}',
        '{"activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 0}', '{"activeDeadlineSeconds": null}',
    ):  # fmt: skip
        limited = kubectl(cluster, "patch", "gpujob", "fixed", "--type=merge", "-p", f'{{"spec": {change}}}')
        assert limited.returncode == 0, limited.stderr
    suspended = kubectl(cluster, "patch", "gpujob", "fixed", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    assert suspended.returncode == 0, suspended.stderr


def test_a_runtime_states_its_facts_or_the_row_that_has_them(api: ApiServer, crds: None) -> None:
    path = PATHS["GPURuntime"]
    for spec in ({"extends": "row"}, {"extends": "row", "image": "a/b:1", "preference": 3}):
        api.try_out(path, manifest({"kind": "GPURuntime", "spec": spec}))
    for spec in ({}, {"image": "a/b:1", "backend": "CUDA", "backendVersion": "13.0", "architectures": ["9.0"]}):
        with pytest.raises(
            Refused, match="without extends needs image, backend, backendVersion, framework and architectures"
        ):
            api.try_out(path, manifest({"kind": "GPURuntime", "spec": spec}))
    body = manifest({"kind": "GPURuntime", "spec": {"extends": "row"}})
    stored = api.try_out(path, body)
    # A default would stand in the place of the row's fact.
    assert stored["spec"] == {"extends": "row"}
