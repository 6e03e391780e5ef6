"""A cluster description is hostile input: what is malformed is left out and said, and stops nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from cli_room import CATALOG, MIXED

from gpujob.catalog.files.load import read_catalog
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
from gpujob.values.errors import BadClusterFile

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


def node(name: str, **parts: Any) -> dict[str, Any]:
    return {**NODE, "metadata": {"name": name}, **parts}


def test_yaml_json_lists_of_lists_and_json_lines_say_the_same() -> None:
    documents = list(yaml.safe_load_all(MIXED.read_text()))
    nested = {"kind": "List", "apiVersion": "v1", "items": [{"kind": "List", "apiVersion": "v1", "items": documents}]}
    forms = [MIXED.read_text(), json.dumps(nested), json.dumps(documents), "\n".join(map(json.dumps, documents))]
    read = [read_cluster(form) for form in forms]
    assert len(read[0].nodes) == 9
    assert all(other == read[0] for other in read)


def test_a_typed_list_gives_its_members_their_kind() -> None:
    answer = {"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n"}}]}
    assert [found.name for found in read_cluster(json.dumps(answer)).nodes] == ["n"]


def test_of_duplicates_the_last_wins() -> None:
    found = read_cluster([node("n"), node("m"), node("n", spec={"unschedulable": True})])
    assert [(one.name, one.cordoned) for one in found.nodes] == [("n", True), ("m", False)]


def test_pods_of_one_name_in_two_namespaces_are_two() -> None:
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": space}} for space in ("a", "b")]
    assert len(read_cluster(pods).pods) == 2


def test_other_kinds_and_kinds_of_other_groups_are_passed_over() -> None:
    others = [{"apiVersion": "metal.example/v1", "kind": "Node", "metadata": {"name": "x"}}, {"kind": "Secret"}]
    found = read_cluster([NODE, *others])
    assert (len(found.nodes), found.unread) == (1, ())


def test_namespaces_quotas_and_resource_slices_are_kept() -> None:
    slices = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    read = read_cluster([slices, space])
    assert [one["kind"] for one in read.others] == ["ResourceSlice"]
    assert read.namespaces.keys() == {"team"}


HOSTILE = [
    "kind: Node\nmetadata: 5",
    "kind: Node\nmetadata: {name: [a]}",
    "kind: Node\nmetadata: {name: ''}",
    "kind: [Node]\nmetadata: {name: n}",
    "apiVersion: v1\nmetadata: {name: n}",
    "kind: Node\nmetadata: {name: odd}\nstatus: {allocatable: {nvidia.com/gpu: eight}}",
    "apiVersion: gpujob.dev/v1alpha1\nkind: GPUPool\nmetadata: {name: p}\nspec: 7",
    "apiVersion: gpujob.dev/v1alpha1\nkind: GPUPool\nmetadata: {name: p, labels: [x]}\nspec: {nodeSelector: {}}",
    "apiVersion: gpujob.dev/v1alpha1\nkind: GPURuntime\nmetadata: {name: r}\nspec: {image: x}",
    "just a text",
]


@pytest.mark.parametrize("document", HOSTILE)
def test_a_malformed_object_is_told_and_stops_nothing(document: str) -> None:
    found = read_cluster(f"{yaml.safe_dump(NODE)}---\n{document}\n")
    assert found.nodes[0].name == "n"
    assert len(found.unread) >= 1
    assert all(len(line.splitlines()) == 1 for line in found.unread)
    fleet_of(found, read_catalog(CATALOG.read_text()))


BROKEN = {
    "": "has no Kubernetes objects; `kubectl gpujob capture -o FILE` writes such a file",
    "hello": "has no Kubernetes objects; `kubectl gpujob capture -o FILE` writes such a file",
    "a:\n\tb: 1": "is no YAML or JSON: line 2, column 1: found character that cannot start any token; it is a tab, indent with spaces",
    "a: @b": "is no YAML or JSON: line 1, column 4: found character that cannot start any token; put the text that begins with it in "
    "quotes",
    f"a: -{'7' * 6000}": "is no YAML or JSON: line 1, column 4: 77777777777777777777… is a number of 6000 digits; no field takes "
    "more than 19, put a text in quotes",
    '{"kind": "Node"': "is no YAML or JSON: line 2, column 1: did not find expected ',' or '}'",
    "a: \x00": "is no YAML or JSON: unacceptable character #x0000: control characters are not allowed",
    "a: 0x_": "is no YAML or JSON that can be read: invalid literal for int() with base 16: ''",
    "kind: GPUJob": "describes no cluster: it has GPUJob, no Node; `kubectl gpujob capture` writes one",
}


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_no_cluster_is_refused_with_the_place(text: str) -> None:
    with pytest.raises(BadClusterFile) as refused:
        read_cluster(text)
    assert str(refused.value) == BROKEN[text]


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 50_000, '{"a": "' + "x" * 2_000_000])
def test_depth_and_size_do_not_hang_or_crash_the_reader(text: str) -> None:
    with pytest.raises(BadClusterFile):
        read_cluster(text)


def test_lists_that_hold_themselves_or_each_other_many_times_end() -> None:
    endless: dict[str, Any] = {"kind": "List", "items": []}
    endless["items"].append(endless)
    assert read_cluster([endless]).nodes == ()
    layer: dict[str, Any] = {"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "n"}}]}
    for _ in range(11):
        layer = {"kind": "List", "items": [layer] * 9}
    assert len(read_cluster([layer]).nodes) == 1


def test_an_empty_list_is_an_empty_cluster() -> None:
    assert read_cluster("{kind: List, apiVersion: v1, items: []}").nodes == ()


def test_a_timestamp_without_quotes_stays_text() -> None:
    pool = (
        "apiVersion: gpujob.dev/v1alpha1\nkind: GPUPool\n"
        "metadata: {name: p, creationTimestamp: 2026-01-01T00:00:00Z}\nspec: {nodeSelector: {matchLabels: {a: b}}}"
    )
    assert read_cluster(pool).admin_pools[0].metadata.creation_timestamp == "2026-01-01T00:00:00Z"


def test_a_gpuruntime_of_the_cluster_is_a_row_of_the_catalog() -> None:
    runtime = {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPURuntime",
        "metadata": {"name": "ours"},
        "spec": {
            "image": "registry.example/ours:1",
            "backend": "CUDA",
            "backendVersion": "13.0",
            "framework": {"name": "pytorch", "version": "2.10.0"},
            "architectures": ["9.0"],
        },
    }
    _, catalog = fleet_of(read_cluster([NODE, runtime]), read_catalog(CATALOG.read_text()))
    assert {row.name for row in catalog.runtimes} == {"ours", "torch-cuda", "torch-rocm"}


def test_a_node_is_told_what_of_it_is_ignored() -> None:
    odd = [
        {"metadata": {"name": "a", "labels": ["x"], "annotations": 7}, "status": {"allocatable": {"cpu": "abc"}}},
        {"metadata": {"name": "b"}, "spec": "x", "status": [1]},
        {
            "metadata": {"name": "c", "labels": None},
            "status": {"allocatable": [1], "capacity": {"nvidia.com/gpu": "x"}},
        },
        {"metadata": {"name": "well", "labels": {}}, "spec": {}, "status": {"capacity": {}}},
    ]
    objects = read_cluster([{"apiVersion": "v1", "kind": "Node", **each} for each in odd])
    end = "is no table of keys and values; it is ignored"
    quantity = "is not a quantity; write a number with a unit, for example 80G or 64Gi"
    assert [node.name for node in objects.nodes] == ["a", "b", "c", "well"]
    assert objects.unread == (
        f"Node a: a value is ignored: cpu: 'abc' {quantity}",
        f"Node c: a value is ignored: nvidia.com/gpu: 'x' {quantity}",
        f"Node a: metadata.labels {end}",
        f"Node a: metadata.annotations {end}",
        f"Node b: spec {end}",
        f"Node b: status {end}",
        f"Node c: status.allocatable {end}",
    )
