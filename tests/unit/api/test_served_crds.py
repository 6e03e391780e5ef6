"""Which fields of this version a served CRD lacks, and what is said of them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.api.generate.crd import KINDS, definition
from gpujob.api.served import MODELS, Missing, missing_in

Schema = dict[str, Any]


def document() -> Schema:
    """The OpenAPI document of an API server with this version's CRDs; the schemas of fields are shared: copy before a change."""
    schemas = {}
    for kind in KINDS:
        name = kind.model.__name__
        schema = SCHEMAS[kind.plural]
        # The API server puts its own in the place of ours.
        metadata = {"metadata": {"allOf": [{"$ref": "#/components/schemas/ObjectMeta"}]}}
        named = {"group": "gpujob.dev", "kind": name, "version": "v1alpha1"}
        schemas[f"dev.gpujob.v1alpha1.{name}"] = {
            **schema, "properties": schema["properties"] | metadata, "x-kubernetes-group-version-kind": [named]
        }  # fmt: skip
        listed = {**named, "kind": f"{name}List"}
        schemas[f"dev.gpujob.v1alpha1.{name}List"] = {"x-kubernetes-group-version-kind": [listed]}
    return {"openapi": "3.0.0", "components": {"schemas": schemas}}


SCHEMAS = {kind.plural: definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for kind in KINDS}


def fields(node: Schema, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The way to every field of a schema, through properties, items and additionalProperties."""
    found = []
    for name, below in node.get("properties", {}).items():
        found += [(*path, "properties", name), *fields(below, (*path, "properties", name))]
    for each in ("items", "additionalProperties"):
        if isinstance(node.get(each), dict):
            found += fields(node[each], (*path, each))
    return found


WAYS = [(plural, way) for plural, schema in SCHEMAS.items() for way in fields(schema) if way[1] in ("spec", "status")]


def without(plural: str, way: tuple[str, ...]) -> Schema:
    """The document without one field."""
    made, name = document(), f"dev.gpujob.v1alpha1.{MODELS[plural].__name__}"
    schemas = made["components"]["schemas"]
    node = schemas[name] = deepcopy(schemas[name])
    for step in way[:-1]:
        node = node[step]
    del node[way[-1]]
    return made


def dotted(way: tuple[str, ...]) -> str:
    steps, text = iter(way), ""
    for step in steps:
        text += f".{next(steps)}" if step == "properties" else "[]"
    return text.removeprefix(".")


def test_this_version_s_crds_lack_nothing() -> None:
    assert missing_in(document()) == ()
    assert set(MODELS) == {kind.plural for kind in KINDS}
    assert len(WAYS) > 400


@given(st.sampled_from(WAYS))
def test_every_field_that_is_gone_is_found(gone: tuple[str, tuple[str, ...]]) -> None:
    plural, way = gone
    (found,) = missing_in(without(plural, way))
    path = dotted(way)
    assert (found.kind, found.spec + found.status, found.served) == (plural, (path,), True)
    assert found.forbids is path.startswith("status")


def test_a_field_of_spec_is_told_and_one_of_status_forbids_to_act() -> None:
    (spec,) = missing_in(without("gpujobs", ("properties", "spec", "properties", "retries")))
    assert spec.sentence() == (
        "the CRD gpujobs.gpujob.dev lacks spec.retries, so what people write there is lost: "
        "upgrade the chart with crds.enabled=true, or apply this version's crds/ with kubectl"
    )
    (status,) = missing_in(without("gpupools", ("properties", "status", "properties", "gpus")))
    assert status.sentence() == (
        "the CRD gpupools.gpujob.dev lacks status.gpus, which this version writes, so it does not act: "
        "upgrade the chart with crds.enabled=true, or apply this version's crds/ with kubectl"
    )
    many = Missing("gpujobs", status=tuple(f"status.{letter}" for letter in "abcde"))
    assert "lacks status.a, status.b, status.c and 2 more, which" in many.sentence()


@pytest.mark.parametrize("answer", [{}, {"components": []}, {"components": {"schemas": {"a": 1, "b": {}}}}])
def test_kinds_that_are_not_served_forbid_to_act(answer: Schema) -> None:
    found = missing_in(answer)
    assert [each.kind for each in found] == sorted(MODELS)
    assert all(each.forbids for each in found)
    assert found[1].sentence() == (
        "the cluster does not serve gpujobs.gpujob.dev in version v1alpha1: "
        "upgrade the chart with crds.enabled=true, or apply this version's crds/ with kubectl"
    )


def test_a_newer_crd_lacks_nothing() -> None:
    made = deepcopy(document())
    schema = made["components"]["schemas"]["dev.gpujob.v1alpha1.GPUJob"]
    schema["properties"]["spec"]["properties"]["ofTomorrow"] = {"type": "string"}
    assert missing_in(made) == ()


def test_what_keeps_unknown_fields_drops_none() -> None:
    made = deepcopy(document())
    schema = made["components"]["schemas"]["dev.gpujob.v1alpha1.GPUJob"]
    schema["properties"]["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert missing_in(made) == ()
