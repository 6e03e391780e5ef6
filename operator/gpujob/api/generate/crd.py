"""CustomResourceDefinitions from the models: structural, bounded, a description on every field, CEL rules with remedies.

`python -m gpujob.api.generate.crd FOLDER` writes them, `--check FOLDER` fails when a file differs.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import yaml
from pydantic import BaseModel

from gpujob.api.kinds.gpujob import GPUJob
from gpujob.api.kinds.gpujobprofile import GPUJobProfile
from gpujob.api.kinds.gpupool import GPUPool
from gpujob.api.kinds.gpuruntime import GPURuntime
from gpujob.api.validation import jobs, pools, runtimes
from gpujob.api.validation.jobs import immutability
from gpujob.api.validation.rule import Rule
from gpujob.values.generated import generate
from gpujob.values.vocabulary import GROUP, VERSION

Schema = dict[str, Any]

RULES: Final = tuple(dict.fromkeys((*jobs.RULES, *pools.RULES, *runtimes.RULES)))
"""The rules of all kinds, shared ones once."""

HEADER: Final = "# Generated from operator/gpujob/api by `make generate`. Do not edit.\n"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; wide ones are shown with -o wide only."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its model, names, scope and columns."""

    model: type[BaseModel]
    plural: str
    short_names: tuple[str, ...]
    namespaced: bool
    status: bool
    columns: tuple[Column, ...]


AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")

KINDS: Final = (
    Kind(
        GPUJob, "gpujobs", ("gj",), True, True,
        (
            Column("State", ".status.state"),
            Column("Pool", ".status.placement.pool"),
            Column("Accel", ".status.display.accelerator"),
            Column("Progress", ".status.display.progress"),
            Column("Tok/s", ".status.display.throughput"),
            Column("Cost", ".status.display.cost"),
            Column("As-Of", ".status.updated", "date"),
            AGE,
            Column("Image", ".status.placement.image", wide=True),
            Column("Reason", ".status.display.reason", wide=True),
            Column("$/H", ".status.placement.pricePerHour", wide=True),
        ),
    ),
    Kind(
        GPUPool, "gpupools", ("gpool",), False, True,
        (
            Column("Accelerator", ".status.accelerator"),
            Column("Vendor", ".status.vendor"),
            Column("Nodes", ".status.nodes", "integer"),
            Column("GPUs", ".status.gpus.total", "integer"),
            Column("Free", ".status.gpus.free", "integer"),
            Column("Memory", ".status.memory"),
            Column("$/GPU-H", ".status.display.price"),
            Column("Problem", ".status.problem"),
            AGE,
            Column("Driver", ".status.driver", wide=True),
            Column("Capacity", ".status.capacityType", wide=True),
            Column("Price-Source", ".status.priceSource", wide=True),
        ),
    ),
    Kind(
        GPUJobProfile, "gpujobprofiles", ("gjp",), True, False,
        (
            Column("Runs", ".status.runs", "integer"),
            Column("Fastest", ".status.summary"),
            AGE,
        ),
    ),
    Kind(
        GPURuntime, "gpuruntimes", ("gruntime",), False, False,
        (
            Column("Backend", ".spec.backend"),
            Column("Version", ".spec.backendVersion"),
            Column("Framework", ".spec.framework.version"),
            Column("Python", ".spec.python"),
            AGE,
            Column("Image", ".spec.image", wide=True),
        ),
    ),
)  # fmt: skip


def definition(kind: Kind) -> Schema:
    """The CustomResourceDefinition of a kind."""
    name = kind.model.__name__
    schema = object_schema(kind.model)
    version: Schema = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": schema},
    }
    if kind.status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}", "annotations": {f"{GROUP}/schema-hash": _hash(schema)}},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": name,
                "listKind": f"{name}List",
                "plural": kind.plural,
                "singular": name.lower(),
                "shortNames": list(kind.short_names),
                # Not "gpujob": a category hides the singular of that name from `kubectl get gpujob NAME`.
                "categories": ["gpu"],
            },
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }


def object_schema(model: type[BaseModel]) -> Schema:
    """The openAPIV3Schema of a kind: metadata left to Kubernetes, rules attached, everything inlined."""
    properties: Schema = {
        "apiVersion": {"type": "string", "description": "The version of this schema, gpujob.dev/v1alpha1."},
        "kind": {"type": "string", "description": f"The kind, {model.__name__}."},
        "metadata": {"type": "object"},
        **{name: _field(model, name) for name in ("spec", "status") if name in model.model_fields},
    }
    schema: Schema = {"type": "object", "description": _first_paragraph(model), "properties": properties}
    schema["required"] = [name for name in ("spec", "status") if name in properties][:1]
    rules = [rule.cel() for rule in RULES if rule.model is model] + list(immutability(model))
    if rules:
        schema["x-kubernetes-validations"] = rules
    return schema


def _field(model: type[BaseModel], name: str) -> Schema:
    """The schema of spec or status with its own model inlined."""
    raw = model.model_json_schema(by_alias=True, mode="validation")
    docs = dict(_described(model))
    inlined = _inline(raw["properties"][name], raw.get("$defs", {}), docs)
    return inlined | {"description": field_docs(model)[name]}


def _described(model: type[BaseModel]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """For each model by name, the docstrings of its fields."""
    for part in _models(model, set()):
        yield part.__name__, field_docs(part)


def _models(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    if model in seen:
        return
    seen.add(model)
    yield model
    for field in model.model_fields.values():
        yield from (m for part in _types(field.annotation) for m in _models(part, seen))


def _types(annotation: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _types(argument)


@cache  # Each field of a model asks for all of them: 0.5 s of CPU for the four CRDs in place of 0.8.
def field_docs(model: type[BaseModel]) -> Mapping[str, str]:
    """The docstring under each field of a model by its name in manifests; a field without one is an error."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(model)))
    body = tree.body[0].body  # type: ignore[attr-defined]
    docs: dict[str, str] = {}
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            alias = model.model_fields[name].alias or name if name in model.model_fields else name
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                docs[alias] = " ".join(str(following.value.value).split())
            elif name not in ("api_version", "kind", "metadata") and model.__name__ != "ObjectMeta":
                raise TypeError(f"{model.__name__}.{name} has no docstring: kubectl explain would be blank")
    return docs


def _inline(node: Any, definitions: Mapping[str, Schema], docs: Mapping[str, Mapping[str, str]]) -> Schema:
    """A schema node with references resolved, nulls and titles dropped, rules and descriptions attached."""
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[1]
        target = dict(definitions[name])
        # A default of a whole object would fill members that readers must see as absent.
        inner = _inline(target, definitions, docs) | {k: v for k, v in node.items() if k == "description"}
        return _with_rules(inner, name)
    if "allOf" in node and len(node["allOf"]) == 1:
        return _inline(node["allOf"][0] | {k: v for k, v in node.items() if k != "allOf"}, definitions, docs)
    if "anyOf" in node:
        options = [option for option in node["anyOf"] if option.get("type") != "null"]
        rest = {k: v for k, v in node.items() if k != "anyOf"}
        return _inline(options[0] | rest, definitions, docs)
    return _plain(node, definitions, docs)


def _plain(node: Any, definitions: Mapping[str, Schema], docs: Mapping[str, Mapping[str, str]]) -> Schema:
    out: Schema = {}
    for key, value in node.items():
        if key in ("title", "$defs") or (key == "default" and value in (None, [], {})):
            continue
        if key == "properties":
            words = docs.get(node.get("title", ""), {})
            out[key] = {n: _described_field(_inline(v, definitions, docs), words.get(n)) for n, v in value.items()}
        elif key == "items":
            out[key] = _inline(value, definitions, docs)
        elif key == "additionalProperties":
            if isinstance(value, dict):
                out[key] = _inline(value, definitions, docs)
        elif key == "const":
            out["enum"] = [value]
        elif key in ("exclusiveMinimum", "exclusiveMaximum", "prefixItems", "propertyNames"):
            raise TypeError(f"{key} does not exist in a structural schema")
        else:
            out[key] = value
    if out.get("type") == "integer":
        out.setdefault("format", "int64" if out.get("maximum", 0) > 2**31 else "int32")
    return out


def _described_field(schema: Schema, words: str | None) -> Schema:
    return schema | {"description": words} if words else schema


def _with_rules(schema: Schema, model_name: str) -> Schema:
    rules = [rule for rule in RULES if rule.model.__name__ == model_name and rule.expression]
    schema = _and_rules(schema, [rule for rule in rules if not rule.by_itself])
    fields = schema.get("properties", {})
    for rule in (rule for rule in rules if rule.by_itself):
        fields = fields | {rule.field: _and_rules(fields[rule.field], [rule])}
    return schema | {"properties": fields} if fields else schema


def _and_rules(schema: Schema, rules: Sequence[Rule]) -> Schema:
    """A schema with rules after those that it has."""
    entries = [*schema.get("x-kubernetes-validations", []), *(rule.cel() for rule in rules)]
    return schema | {"x-kubernetes-validations": entries} if entries else schema


def _column(column: Column) -> Schema:
    out: Schema = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return out | {"priority": 1} if column.wide else out


def _first_paragraph(model: type[BaseModel]) -> str:
    return " ".join((inspect.getdoc(model) or "").split("\n\n")[0].split())


def _hash(schema: Schema) -> str:
    return hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()[:16]


def files() -> dict[str, str]:
    """File name -> YAML of every definition."""
    return {
        f"{GROUP}_{kind.plural}.yaml": HEADER + yaml.safe_dump(definition(kind), sort_keys=False, width=120)
        for kind in KINDS
    }


def main(arguments: list[str]) -> int:
    """Writes or checks the files of folders; the exit code."""
    return generate(
        arguments, "the models", lambda folder: {folder / name: text.encode() for name, text in files().items()}
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
