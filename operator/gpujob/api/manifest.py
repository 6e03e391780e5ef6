"""Manifests become models: one readable sentence for each problem, the same that the API server says."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from gpujob.api.gpujob import GPUJob
from gpujob.api.gpupool import GPUPool
from gpujob.api.gpuruntime import GPURuntime
from gpujob.api.rules import broken
from gpujob.errors import BadManifest
from gpujob.vocabulary import API_VERSION

Kind = TypeVar("Kind", bound=BaseModel)

PROBLEMS: Final = 10
"""Problems that are told at once, at most."""

SPEC_BYTES: Final = 200 * 1024
"""The largest spec: etcd and annotations bound what can be stored beside it."""

_SENTENCES: Final = {
    "missing": "is required",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a text",
    "tuple_type": "must be a list",
    "dict_type": "must be a table of keys and values",
    "model_type": "must be a table of keys and values",
}


def read_gpujob(document: Mapping[str, Any]) -> GPUJob:
    """A GPUJob's metadata and spec; raises BadManifest. The status is the operator's and is left out."""
    return _read(GPUJob, document)


def read_gpupool(document: Mapping[str, Any]) -> GPUPool:
    """A GPUPool's metadata and spec; raises BadManifest."""
    return _read(GPUPool, document)


def read_gpuruntime(document: Mapping[str, Any]) -> GPURuntime:
    """A GPURuntime's metadata and spec; raises BadManifest."""
    return _read(GPURuntime, document)


def _read(kind: type[Kind], document: Mapping[str, Any]) -> Kind:
    if not isinstance(document, Mapping):
        raise BadManifest(f"not a {kind.__name__}: the document is no table of keys and values")
    _check_header(kind, document)
    wanted = {key: value for key, value in document.items() if key not in ("status", "spec")}
    wanted["spec"] = _without_nulls(document.get("spec", {}))
    try:
        model = kind.model_validate(wanted)
    except (ValidationError, RecursionError) as error:
        raise BadManifest(_sentences(error, kind)) from error
    problems = [f"{path}: {message}" for path, message in broken(model)]
    if problems:
        raise BadManifest("\n".join(problems[:PROBLEMS]))
    return model


def _check_header(kind: type[BaseModel], document: Mapping[str, Any]) -> None:
    name = kind.__name__
    if document.get("kind", name) != name or document.get("apiVersion", API_VERSION) != API_VERSION:
        found = f"{document.get('apiVersion')} {document.get('kind')}"[:100]
        raise BadManifest(f"kind: expected {API_VERSION} {name}, found {found}")
    try:
        size = len(json.dumps(document.get("spec", {}), default=str))
    except (RecursionError, ValueError, TypeError) as error:
        raise BadManifest("spec: is nested too deeply or has keys that are no texts") from error
    if size > SPEC_BYTES:
        raise BadManifest(
            f"spec: has {size} bytes, at most {SPEC_BYTES} are taken; put files into a ConfigMap (spec.code)"
        )


def _without_nulls(value: Any) -> Any:
    """A value without null members: kubectl drops them too."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _sentences(error: ValidationError | RecursionError, kind: type[BaseModel]) -> str:
    if isinstance(error, RecursionError):
        return "spec: is nested too deeply"
    found = error.errors(include_url=False, include_context=False)
    return "\n".join(_sentence(problem, kind) for problem in found[:PROBLEMS])


def _sentence(problem: Mapping[str, Any], kind: type[BaseModel]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).lstrip(".")[:200]
    if problem["type"] == "extra_forbidden":
        return f"{path}: unknown field{_hint(kind, problem['loc'])}"
    if problem["type"] in _SENTENCES:
        given = "" if problem["type"] == "missing" else f", got {str(problem.get('input'))[:60]!r}"
        return f"{path}: {_SENTENCES[problem['type']]}{given}"
    return f"{path}: {str(problem['msg']).removeprefix('Value error, ')}"


def _hint(kind: type[BaseModel], path: tuple[Any, ...]) -> str:
    """The nearest field that exists where the unknown one stands."""
    model: Any = kind
    for part in path[:-1]:
        if isinstance(part, str) and model is not None:
            model = _model_of(model, part)
    if model is None:
        return ""
    names = [info.alias or name for name, info in model.model_fields.items()]
    near = difflib.get_close_matches(str(path[-1]), names, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else f"; known here are {', '.join(sorted(names)[:40])}"


def _model_of(model: type[BaseModel], alias: str) -> type[BaseModel] | None:
    for name, info in model.model_fields.items():
        if (info.alias or name) == alias:
            return _first_model(info.annotation)
    return None


def _first_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for part in getattr(annotation, "__args__", ()) if (m := _first_model(part)) is not None), None)
