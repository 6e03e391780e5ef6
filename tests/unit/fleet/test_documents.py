"""Texts read as kubectl reads them: what unquoted words mean, and keys that are given twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpujob.api.manifest import read_gpujob
from gpujob.fleet.sources import kubectl_yaml
from gpujob.fleet.sources.cluster_file import read_cluster
from gpujob.fleet.sources.kubectl_yaml import read_documents
from gpujob.values.errors import BadClusterFile, BadManifest

# As kubectl 1.37 prints them with `kubectl label --local -f FILE x=y -o json`.
WORDS = {
    "y": True, "N": False, "Yes": True, "off": False, "ON": True, "oN": "oN", "tRUE": "tRUE",
    "1:30": "1:30", "190:20:30.15": "190:20:30.15", "12:30:45": "12:30:45",
    "1e3": 1000, "12e03": 12000, "1.5e3": 1500, "12e": "12e", "1e400": "1e400",
    "010": 8, "0o17": 15, "-0o17": -15, "0o8": "0o8", "09": 9, "0777": 511,
    "1_000": 1000, "_1": "_1", "685_230.15e3": 685230150, "0x_1F": 31, "0X1F": 31, "0b11": 3, "-0b11": -3, "0b2": "0b2",
    ".5": 0.5, "-.5": -0.5, "1.": 1, ".": ".", "0.1.2": "0.1.2", "=": "=",
    "2024-01-02": "2024-01-02", "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00",
    "null": None, "~": None, "nULL": "nULL",
}  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_an_unquoted_word_means_what_it_means_to_kubectl(word: str) -> None:
    found, wanted = read_documents(f"a: {word}")[0]["a"], WORDS[word]
    assert found == wanted
    assert isinstance(found, bool) == isinstance(wanted, bool)


def test_quoted_it_is_text() -> None:
    assert read_documents('a: "y"\nb: !!str 1:30\nc: "010"') == [{"a": "y", "b": "1:30", "c": "010"}]


def test_in_a_cluster_description_y_and_n_are_names() -> None:
    assert read_documents("name: n", []) == [{"name": "n"}]
    assert read_documents("name: no", []) == [{"name": False}]


def refusal(text: str) -> str:
    """What is said about a manifest's text."""
    with pytest.raises(BadClusterFile) as refused:
        read_documents(text)
    return str(refused.value)


REPEATED = {
    "a: 1\nb: 2\na: 3": "line 3: a is given twice, first in line 1; remove one",
    "x: {a: 1,\n  a: 2}": "line 2: a is given twice, first in line 1; remove one",
    "- a: 1\n---\n- b:\n    - c: 1\n      c: 1": "line 5: c is given twice, first in line 4; remove one",
    '1: a\n"1": b': "line 2: 1 is given twice, first in line 1; remove one",
    '{"a": {"b": 1, "b": 2}}': "b is given twice in one table; remove one",
    '{"a": 1}\n{"a": 1, "a": 1}': "a is given twice in one table; remove one",
}


@pytest.mark.parametrize("text", REPEATED)
def test_a_key_that_is_given_twice_is_refused_with_its_line(text: str) -> None:
    assert refusal(text) == REPEATED[text]


@pytest.mark.parametrize(
    "text",
    [
        "base: &b {a: 1}\nx: {<<: *b, a: 2}\ny: {z: {<<: *b, a: 3}, <<: *b}",
        "a: &one {k: 1}\nb: *one\nc: *one",
        "- {a: 1}\n- {a: 1}",
        '{"a": {"k": 1}, "b": {"k": 1}}',
    ],
)
def test_one_key_in_several_tables_is_given_once(text: str) -> None:
    assert read_documents(text)


def test_in_a_cluster_description_it_is_told() -> None:
    node = "kind: Node\nmetadata: {name: a}\nspec: {unschedulable: false, unschedulable: true}"
    found = read_cluster(node)
    assert found.nodes[0].cordoned
    assert found.unread == ("line 3: unschedulable is given twice, first in line 3; the last one counts",)


def test_an_object_that_is_described_twice_is_told() -> None:
    nodes = [{"kind": "Node", "metadata": {"name": "a"}}] * 2
    assert read_cluster(nodes).unread == ("Node a is described twice; the last one counts",)


@pytest.mark.parametrize(
    ("kind", "version"), [("GPUPool", "gpujob.dev/v1alpha1"), ("Node", "v1"), ("RuntimeClass", "node.k8s.io/v1")]
)
def test_a_namespace_makes_no_second_object_of_a_kind_without_namespaces(kind: str, version: str) -> None:
    one = {"kind": kind, "apiVersion": version, "metadata": {"name": "a"}}
    other = {**one, "metadata": {"name": "a", "namespace": "x"}}
    assert f"{kind} a is described twice; the last one counts" in read_cluster([one, other]).unread


@pytest.mark.parametrize(
    "text",
    [
        '[{"a": ' * 400 + "1" + "}]" * 400,
        '{"kind": "Node", "metadata": ' + '{"a":' * 400 + "1" + "}" * 401,
        "[" * 5000 + "]" * 5000,
    ],
)
def test_what_is_nested_too_deep_is_refused(text: str) -> None:
    with pytest.raises(BadClusterFile, match=r"nested|no YAML or JSON|recursion"):
        read_cluster(text)


@pytest.mark.parametrize(
    ("amounts", "left"),
    [
        ({"memory": "9e99"}, "memory"), ({"cpu": "9e90"}, "cpu"), ({"ephemeral-storage": "9e99"}, "ephemeral-storage"),
        ({"memory": "2Ei"}, "memory"), ({"pods": "9e20"}, "pods"),
        ({"memory": "1e18"}, "memory"), ({"memory": "1025Ti"}, "memory"), ({"cpu": "10001"}, "cpu"), ({"cpu": "1e5"}, "cpu"),
        ({"ephemeral-storage": "1e18"}, "ephemeral-storage"), ({"pods": "100k"}, "pods"),
        # Numbers of YAML without quotes.
        ({"memory": 9e99}, "memory"), ({"memory": 1e18}, "memory"), ({"cpu": 1e30}, "cpu"), ({"pods": 9_000_000}, "pods"),
    ],
)  # fmt: skip
def test_what_no_machine_has_counts_as_none(amounts: dict[str, Any], left: str) -> None:
    node = read_cluster([{"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": amounts}}])
    assert node.unread == (
        f"Node a: a value is ignored: {left}: {WRITTEN.get(amounts[left], amounts[left])} is more than any node has; "
        "it counts as none",
    )
    assert max(node.nodes[0].allocatable.memory, node.nodes[0].allocatable.millicores) == 0


WRITTEN = {9e99: "9e99", 1e18: "1e18", 1e30: "1e30"}


@pytest.mark.parametrize(
    ("amounts", "attribute", "number"),
    [
        ({"memory": "1Pi"}, "memory", 2**50),
        ({"memory": "32Ti"}, "memory", 2**45),
        ({"memory": 1e12}, "memory", 10**12),
        ({"cpu": "10000"}, "millicores", 10_000_000),
        ({"cpu": 1e3}, "millicores", 1_000_000),
        ({"ephemeral-storage": "8Pi"}, "storage", 2**53),
        ({"pods": "2500"}, "pods", 2500),
    ],
)
def test_what_a_large_machine_has_is_believed(amounts: dict[str, Any], attribute: str, number: int) -> None:
    read = read_cluster([{"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": amounts}}])
    assert (read.unread, getattr(read.nodes[0].allocatable, attribute)) == ((), number)


@pytest.mark.parametrize(
    ("value", "said"),
    [(float("inf"), "'inf'"), (float("nan"), "'nan'"), (-9e99, "'-9e99'"), (1e-30, "'1e-30'"), ("9e999", "'9e999'")],
)
def test_a_quantity_that_is_none_is_told_as_it_was_written(value: Any, said: str) -> None:
    read = read_cluster([{"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"pods": value}}}])
    assert read.unread[0].startswith(f"Node a: a value is ignored: pods: {said} is not a")


@pytest.mark.parametrize("text", ["[1, 2, 3]", "[]", "{}", "- a\n- b", "5", "a: b"])
def test_what_holds_no_object_is_no_cluster(text: str) -> None:
    with pytest.raises(BadClusterFile, match="has no Kubernetes objects"):
        read_cluster(text)


def test_an_empty_list_is_an_empty_cluster() -> None:
    assert read_cluster(json.dumps({"kind": "List", "apiVersion": "v1", "items": []})).nodes == ()


BOOLEANS: dict[str, tuple[str, Any]] = {
    "spec.images.cuda.image": ("images: {cuda: {image: y}}", "true"),
    "spec.args[0]": ("args: [no]", "false"),
    "spec.env[0].value": ("env: [{name: A, value: on}]", "true"),
    "spec.podMetadata.labels.a": ("podMetadata: {labels: {a: N}}", "false"),
}


@pytest.mark.parametrize("path", BOOLEANS)
def test_a_word_that_yaml_takes_for_true_or_false_is_no_text(path: str) -> None:
    spec, seen = BOOLEANS[path]
    with pytest.raises(BadManifest) as refused:
        read_gpujob(read_documents(f"spec: {{{spec}}}")[0])
    assert str(refused.value) == (
        f"{path}: must be a text, got {seen} (YAML takes an unquoted y, n, yes, no, on or off for that); put it in quotes"
    )


def test_a_job_called_n_needs_quotes() -> None:
    with pytest.raises(BadManifest, match=r"metadata.name: must be a text, got false \(YAML takes .* put it in quotes"):
        read_gpujob(read_documents("metadata: {name: n}\nspec: {}")[0])


def layers(depth: int, wide: int, first: str = "x") -> str:
    """A document whose aliases hold `first` wide**depth times."""
    lines = [f"l0: &l0 {first}"]
    lines += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * wide)}]" for i in range(1, depth + 1)]
    return "\n".join(lines)


EXPANDING = {
    "lists": layers(8, 10),
    "tables": "a: &a {x: 1, y: 2}\n"
    + "\n".join(
        f"a{i}: &a{i} {{{', '.join(f'k{n}: *a{i - 1 or chr(0)}' for n in range(10))}}}" for i in range(1, 9)
    ).replace("*a\0", "*a"),
    "merges": "m0: &m0 {k: 1}\n"
    + "\n".join(f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 10)}]}}" for i in range(1, 9)),
    "keys": f"{layers(7, 10)}\n? *l7\n: 1",
    "a long text": f"l0: &l0 {'x' * 100_000}\nargs: [{', '.join(['*l0'] * 1_000)}]",
}


@pytest.mark.parametrize("text", EXPANDING.values(), ids=EXPANDING)
def test_aliases_that_make_a_document_endless_are_refused(text: str) -> None:
    said = "aliases make more than 1,000,000 values of this document; write them out"
    assert refusal(text) == said
    with pytest.raises(BadClusterFile, match=f"^{said}$"):
        read_documents(text, [])


def test_aliases_that_add_a_million_values_are_read_and_one_more_is_not() -> None:
    # Each alias of the list adds itself and its 9,999 members.
    inner = f"a: &a [{', '.join(['1'] * 9_999)}]\n"
    assert len(read_documents(f"{inner}b: [{', '.join(['*a'] * 100)}]")[0]["b"]) == 100
    assert "aliases make" in refusal(f"{inner}t: &t x\nb: [{', '.join(['*a'] * 100)}, *t]")


def test_a_large_document_may_hold_a_few_aliases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubectl_yaml, "ALIASED", 20)
    rows = "\n".join("- [1, 2, 3, *a]" for _ in range(20))
    assert len(read_documents(f"- &a x\n{rows}", [])[0]) == 21
    assert "aliases make more than 20 values" in refusal(f"- &a x\n{rows}\n- *a")


@pytest.mark.parametrize(
    ("text", "where", "line"),
    [
        ("a: &x\n  b: *x", "a.b", 2),
        ("spec: {args: &a [1, *a]}", "spec.args[1]", 1),
        ("a: 1\nb: &b\n  - c: {d: *b}", "b[0].c.d", 3),
        ("&r [*r]", "[0]", 1),
    ],
)
def test_a_value_that_holds_itself_is_named(text: str, where: str, line: int) -> None:
    said = refusal(text)
    assert said.startswith(f"{where}: holds itself, by an alias (*) of the anchor (&) in line ")
    assert said.endswith("; write the value out")
    assert int(said.split("line ")[1].split(";")[0]) in (line, line - 1)
