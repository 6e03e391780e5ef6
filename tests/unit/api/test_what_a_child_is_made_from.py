"""The digest of a spec changes with each field that the API server keeps while a child Job exists, and with no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gpujob.api.frozen_spec import UNORDERED, frozen_digest
from gpujob.api.kinds.gpujob import GPUJobSpec, Placement

FREE: Final = {"suspend", "stall", "activeDeadlineSeconds", "ttlSecondsAfterFinished"}
SPEC: Final[dict[str, Any]] = {"command": ["train"], "gpusPerNode": 8}
FIELDS: Final = [info.alias or name for name, info in GPUJobSpec.model_fields.items()]
OF_PLACEMENT: Final = [info.alias or name for name, info in Placement.model_fields.items()]


@pytest.mark.parametrize("field", [field for field in FIELDS if field != "placement"])
def test_a_field_of_a_spec(field: str) -> None:
    assert (frozen_digest(SPEC | {field: "another"}) == frozen_digest(SPEC)) is (field in FREE)


@pytest.mark.parametrize("field", OF_PLACEMENT)
def test_a_field_of_its_placement(field: str) -> None:
    assert (frozen_digest(SPEC | {"placement": {field: "another"}}) == frozen_digest(SPEC)) is (field == "budget")


def test_the_order_of_fields_is_none_of_it() -> None:
    assert frozen_digest(dict(reversed(SPEC.items()))) == frozen_digest(SPEC) != frozen_digest({})
    assert frozen_digest(SPEC | {"placement": {}}) == frozen_digest(SPEC)


CRD: Final = Path(__file__).parents[3] / "charts/gpujob-operator/files/crds/gpujob.dev_gpujobs.yaml"


def lists_of(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Each list of a schema: its path and its x-kubernetes-list-type."""
    if schema.get("type") == "array":
        yield ".".join(path), schema["x-kubernetes-list-type"]
        yield from lists_of(schema["items"], path)
    for name, part in schema.get("properties", {}).items():
        yield from lists_of(part, (*path, name))


def of_spec() -> dict[str, str]:
    (version,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    return dict(lists_of(version["schema"]["openAPIV3Schema"]["properties"]["spec"]))


def test_the_lists_whose_order_the_api_server_ignores_are_those_of_the_crd() -> None:
    assert {path for path, kind in of_spec().items() if kind in ("map", "set")} == UNORDERED


def within(path: list[str], entries: list[Any]) -> Any:
    """A spec with a list at `path`; what contains it may be a list too."""
    inner = entries if len(path) == 1 else within(path[1:], entries)
    return {path[0]: [inner] if path[0] in ("shapes", "volumes") and len(path) > 1 else inner}


@pytest.mark.parametrize(("path", "kind"), of_spec().items())
def test_another_order_is_another_program_where_the_api_server_keeps_the_order(path: str, kind: str) -> None:
    entries = [{"name": "a", "mountPath": "/a", "value": "1"}, {"name": "b", "mountPath": "/b", "value": "0"}]
    both, turned = (within(path.split("."), each) for each in (entries, entries[::-1]))
    assert (frozen_digest(both) == frozen_digest(turned)) is (kind != "atomic")
    assert frozen_digest(both) != frozen_digest(within(path.split("."), entries[:1]))
