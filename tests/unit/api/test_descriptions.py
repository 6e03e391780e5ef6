"""`kubectl explain` shows the type of an int-or-string field as Object: its description says what to write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpujob.api.generate.crd import KINDS, definition


def fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, field in (schema.get("properties") or {}).items():
        yield f"{path}.{name}", field
        yield from fields(field, f"{path}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from fields(schema["items"], f"{path}[]")


def test_each_field_of_amounts_and_money_carries_an_example() -> None:
    found = []
    for kind in KINDS:
        (version,) = definition(kind)["spec"]["versions"]
        schema = version["schema"]["openAPIV3Schema"]["properties"].get("spec", {})
        found += [each for each in fields(schema, kind.plural) if each[1].get("x-kubernetes-int-or-string")]
    assert "gpujobs.gpuMemory" in dict(found)
    assert "gpujobs.placement.maxPricePerHour" in dict(found)
    assert [path for path, field in found if "for example" not in field.get("description", "")] == []
