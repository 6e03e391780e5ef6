"""values.schema.json: what Helm refuses before it renders a template."""

from __future__ import annotations

import json
from typing import Any, Final

from charts.values import Value
from gpujob.catalog.files.load import SECTIONS

_TYPES: Final = {bool: "boolean", int: "integer", str: "string", list: "array"}

TEXT: Final = ["string", "number", "boolean"]
"""Numbers and booleans pass here and are refused by templates/_checks.tpl, whose sentence says the remedy: --set-string."""

_NAME: Final = {"type": TEXT, "maxLength": 63, "pattern": "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$"}

_DOLLARS: Final[dict[str, Any]] = {
    "type": ["number", "string"],
    "exclusiveMinimum": 0,
    "maximum": 6400000,
    "pattern": "^[0-9]{1,7}([.][0-9]+)?$",
}
"""Each rule counts for values of its own type alone. Without anyOf, whose error names no rule, Helm says which one does not hold."""

_REGISTRY_AND_PATH: Final = (
    "^(localhost|[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9-]+)+)(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$"
)

DEFINITIONS: Final[dict[str, Any]] = {
    "auto": {"enum": ["auto", True, False]},
    "interval": {"type": "string", "pattern": "^[1-9][0-9]*(s|m)$"},
    "name": _NAME,
    "objectName": {"type": "string", "maxLength": 253, "pattern": "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$"},
    "namespaceName": {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
    # https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names
    "accountName": {
        "type": "string",
        "maxLength": 253,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    },
    "port": {"type": "integer", "minimum": 1024, "maximum": 65535},
    "pods": {"oneOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^(100|[1-9]?[0-9])%$"}]},
    "text": {"type": TEXT},
    "texts": {"type": "object", "additionalProperties": {"type": TEXT}},
    # https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
    "labels": {
        "type": "object",
        "propertyNames": {
            "pattern": "^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"
        },
        "additionalProperties": {
            "type": TEXT,
            "pattern": "^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$",
        },
    },
    "registry": {"type": TEXT, "pattern": "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9._-]+)*)?$"},
    "pullSecrets": {
        "type": "array",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name"],
            "properties": {"name": {**_NAME, "minLength": 1, "maxLength": 253}},
        },
    },
    "environment": {
        "type": "array",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
                "value": {"type": TEXT},
                "valueFrom": {"type": "object", "minProperties": 1, "maxProperties": 1},
            },
            "not": {"required": ["value", "valueFrom"]},
        },
    },
    "prices": {
        "type": "object",
        "propertyNames": {"minLength": 1, "maxLength": 100},
        "additionalProperties": {
            **_DOLLARS,
            "type": ["number", "string", "object"],
            "additionalProperties": False,
            "minProperties": 1,
            "properties": dict.fromkeys(("OnDemand", "Reserved", "Spot"), _DOLLARS),
        },
    },
    "catalog": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **{name: {"type": "array", "items": {"type": "object"}} for name in SECTIONS},
            **{name: {"type": ["object", "array"]} for name in ("sources", "architectures")},
        },
    },
    "mirror": {
        "type": "object",
        "additionalProperties": False,
        "required": ["from", "to"],
        "properties": {name: {"$ref": "#/definitions/registryAndPath"} for name in ("from", "to")},
    },
    "registryAndPath": {"type": "string", "pattern": _REGISTRY_AND_PATH},
    "quantities": {"type": "object", "additionalProperties": {"type": ["string", "number"]}},
    "resources": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "requests": {"$ref": "#/definitions/quantities"},
            "limits": {"$ref": "#/definitions/quantities"},
        },
    },
    "peer": {
        "type": "object",
        "additionalProperties": False,
        "minProperties": 1,
        "properties": {
            "ipBlock": {"type": "object"},
            "namespaceSelector": {"type": "object"},
            "podSelector": {"type": "object"},
        },
    },
}
"""Forms that several values have, or that are too long for a comment."""

OPEN: Final = frozenset({"global"})
"""Groups that hold values of other charts too."""

MAY_BE_NULL: Final = frozenset({"image"})
"""Groups whose members Helm may remove (`--set image.repository=null`), because a template refuses it in a sentence."""


def values_schema(values: tuple[Value, ...]) -> str:
    """The file's text."""
    root = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of gpujob-operator",
        **_group(values),
        "definitions": DEFINITIONS,
    }
    return json.dumps(root, indent=2, ensure_ascii=False) + "\n"


def _group(values: tuple[Value, ...], path: str = "") -> dict[str, Any]:
    """An object with these properties."""
    required = [] if path in OPEN | MAY_BE_NULL else [value.name for value in values]
    return {
        "type": "object",
        "additionalProperties": path in OPEN,
        **({"required": required} if required else {}),
        "properties": {value.name: _property(value) for value in values},
    }


def _property(value: Value) -> dict[str, Any]:
    described = {"description": value.description}
    if value.children:
        return {**described, **_group(value.children, value.path)}
    if "$ref" in value.schema:
        # Draft 7 ignores what stands beside a $ref.
        more = {key: each for key, each in value.schema.items() if key != "$ref"}
        reference = {"$ref": value.schema["$ref"]}
        return {**described, "allOf": [reference, *([more] if more else [])]}
    typed = {} if {"enum", "type"} & value.schema.keys() else {"type": _TYPES[type(value.default)]}
    return {**described, **typed, **value.schema}
