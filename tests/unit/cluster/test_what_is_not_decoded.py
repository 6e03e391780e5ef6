"""The images of a node and managed fields are cut out of the server's JSON before it is decoded, and nothing else is."""

from __future__ import annotations

from typing import Any

import orjson
from builders import H100, node
from hypothesis import given
from hypothesis import strategies as st

from gpujob.cluster.cache.watched_kinds import mirrored, without_images
from gpujob.cluster.client.transport import without_managed_fields
from gpujob.fleet.kubernetes.parse import read_node

IMAGES = [
    {"names": ["registry.example/a@sha256:0", "registry.example/a:1"], "sizeBytes": 5},
    {"names": [], "sizeBytes": 7},
]

words = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["images", "names", '"images":[{"names":[],"sizeBytes":1}]', '\\"images\\":[]', "]}", '],"sizeBytes":1}']
    ),
)
documents = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 99), words),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(words, inner, max_size=4),
        st.builds(
            lambda names, size: {"images": [{"names": names, "sizeBytes": size}]}, st.lists(words, max_size=2), inner
        ),
    ),
)


def without(document: Any) -> Any:
    """The document without any member called images."""
    if isinstance(document, dict):
        return {key: without(value) for key, value in document.items() if key != "images"}
    return [without(each) for each in document] if isinstance(document, list) else document


def test_a_node_is_read_as_before_from_less_than_half_of_the_bytes() -> None:
    whole = node("a", H100, 8)
    whole["status"]["images"] = IMAGES * 25
    nodes = next(kind for kind in mirrored("gpujob-runner-x") if kind.key == "nodes")
    trimmed = nodes.trim(orjson.dumps(whole))
    assert nodes.slim(orjson.loads(trimmed)) == read_node(whole)
    assert len(trimmed) < len(orjson.dumps(whole)) / 2


def test_images_of_another_shape_are_left() -> None:
    for images in ([], None, "x", [{"names": None, "sizeBytes": 1}], [{"names": [], "sizeBytes": -1}], [1]):
        body = orjson.dumps({"status": {"images": images}})
        assert without_images(body) == body


@given(document=documents)
def test_nothing_but_images_is_lost(document: Any) -> None:
    assert without(orjson.loads(without_images(orjson.dumps(document)))) == without(document)


hostile = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            '}]},"spec":{',
            '}],"name":"',
            ',"managedFields":[',
            '"managedFields":[{}]},"spec":{',
            "}]",
            "\\",
            '\\"',
            "v:[{}]",
        ]
    ),
)
fields = st.recursive(st.just({}), lambda inner: st.dictionaries(hostile, inner, max_size=3), max_leaves=6)
entries = st.lists(
    st.builds(lambda name, own: {"apiVersion": "v1", "fieldsV1": own, "manager": name, "operation": "Update"}, hostile, fields),
    min_size=1,
    max_size=3,
)  # fmt: skip
tables = st.dictionaries(hostile, hostile, max_size=3)


@given(managed=entries, annotations=tables, name=hostile, inner=entries, typed=st.booleans())
def test_managed_fields_of_an_event_are_left_out_and_nothing_else(
    managed: Any, annotations: Any, name: str, inner: Any, typed: bool
) -> None:
    rest = {"name": name, "annotations": annotations}
    metadata = (
        {**rest, "managedFields": managed}
        if typed
        else {"annotations": annotations, "managedFields": managed, "name": name}
    )
    template = {"metadata": {"name": name, "managedFields": inner}, "spec": {"a": annotations}}
    spec = {"template": template, "names": [{"name": name}], "args": [name]}
    event = {"type": "MODIFIED", "object": {"kind": name, "metadata": metadata, "spec": spec, "status": annotations}}
    cut = orjson.loads(without_managed_fields(orjson.dumps(event)))
    assert cut["object"]["metadata"]["managedFields"] == []
    cut["object"]["metadata"]["managedFields"] = managed
    assert cut == event


@given(inner=entries, annotations=tables, deep=st.booleans())
def test_members_of_that_name_below_the_spec_stay(inner: Any, annotations: Any, deep: bool) -> None:
    """A ResourceClaim whose user cleared its managed fields, with parameters of a driver's own."""
    last = {"z": [{"spec": {"b": inner}}], "name": "n"} if deep else {}
    parameters = {"a": 1, "managedFields": [*inner, last], "name": "x", "spec": {"managedFields": inner}}
    metadata = {"annotations": {**annotations, "spec": "{"}, "name": "claim"}
    body = orjson.dumps({"type": "ADDED", "object": {"metadata": metadata, "spec": {"parameters": parameters}}})
    assert without_managed_fields(body) == body


@given(document=documents)
def test_what_has_no_managed_fields_is_decoded_as_it_is(document: Any) -> None:
    body = orjson.dumps({"metadata": {"name": "a"}, "spec": document, "data": {"managedFields": "x"}})
    assert without_managed_fields(body) == body
