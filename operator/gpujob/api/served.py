"""Whether a cluster serves our kinds as this version writes them: the API server drops every field that its CRDs lack.

A CRD of an earlier version lacks fields of a later one. What a person writes there is gone before the operator sees it, and what
the operator writes there is gone when it reads it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import isclass
from typing import Any, Final, TypeAlias, get_args, get_origin

from pydantic import BaseModel

from gpujob.api.kinds.gpujob import GPUJob
from gpujob.api.kinds.gpujobprofile import GPUJobProfile
from gpujob.api.kinds.gpupool import GPUPool
from gpujob.api.kinds.gpuruntime import GPURuntime
from gpujob.values.finding import several
from gpujob.values.untrusted import table, tables
from gpujob.values.vocabulary import GROUP, VERSION

OPENAPI: Final = f"/openapi/v3/apis/{GROUP}/{VERSION}"
"""Where the API server publishes the schemas that it serves; every account may read it by the role system:discovery."""

MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "gpujobprofiles": GPUJobProfile,
    "gpujobs": GPUJob,
    "gpupools": GPUPool,
    "gpuruntimes": GPURuntime,
}

REMEDY: Final = "upgrade the chart with crds.enabled=true, or apply this version's crds/ with kubectl"
Tree: TypeAlias = "dict[str, Tree]"
"""Fields by name, each with those below it."""
EACH: Final = "[]"
"""Stands for every member of a list or a map."""
SHOWN: Final = 3
"""Fields that a sentence names."""


@dataclass(frozen=True, slots=True)
class Missing:
    """What the served CRD of a kind lacks: dotted fields of spec and of status, in order; or the kind itself."""

    kind: str
    spec: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    served: bool = True

    @property
    def forbids(self) -> bool:
        """Whether the operator must not act: what it writes of a job would be lost."""
        return not self.served or bool(self.status)

    def sentence(self) -> str:
        """What is missing and the remedy."""
        crd = f"{self.kind}.{GROUP}"
        if not self.served:
            return f"the cluster does not serve {crd} in version {VERSION}: {REMEDY}"
        if self.status:
            what = f"the CRD {crd} lacks {several(self.status, SHOWN)}, which this version writes, so it does not act"
        else:
            what = f"the CRD {crd} lacks {several(self.spec, SHOWN)}, so what people write there is lost"
        return f"{what}: {REMEDY}"


def missing_in(document: Mapping[str, Any]) -> tuple[Missing, ...]:
    """What an OpenAPI document of the group lacks of each kind, in the order of their names; nothing of those that are whole."""
    schemas = {
        str(kind.get("kind")): schema
        for schema in table(table(document, "components"), "schemas").values()
        if isinstance(schema, dict)
        for kind in tables(schema, "x-kubernetes-group-version-kind")
        if (kind.get("group"), kind.get("version")) == (GROUP, VERSION)
    }
    found = (_missing(plural, model, schemas.get(model.__name__)) for plural, model in MODELS.items())
    return tuple(each for each in found if each is not None)


def _missing(plural: str, model: type[BaseModel], schema: Mapping[str, Any] | None) -> Missing | None:
    if schema is None:
        return Missing(plural, served=False)
    served, own = table(schema, "properties"), _fields(model)
    spec, status = (
        tuple(_differences(own[part], served.get(part), part)) if part in own else () for part in ("spec", "status")
    )
    return Missing(plural, spec, status) if spec or status else None


def _differences(own: Tree, served: Any, path: str) -> Iterator[str]:
    """The shortest paths at which the served schema has nothing; what is below one that keeps unknown fields is kept."""
    if not isinstance(served, dict):
        yield path
        return
    if served.get("x-kubernetes-preserve-unknown-fields") is True:
        return
    for name, below in own.items():
        if name == EACH:
            yield from _differences(below, served.get("items", served.get("additionalProperties")), path + EACH)
        else:
            yield from _differences(below, table(served, "properties").get(name), f"{path}.{name}")


@cache  # 0.7 ms for a GPUJob's fields, once for each model; doctor compares two versions of each CRD
def _fields(model: type[BaseModel]) -> Tree:
    """The fields of a model by their names in manifests, and below them those of their own models. Its JSON schema says the same and
    takes a second to make."""
    return {field.alias or name: _below(field.annotation) for name, field in model.model_fields.items()}


def _below(annotation: Any) -> Tree:
    """What is below a field of this type: of a list or a map, below EACH of its members."""
    if isclass(annotation) and issubclass(annotation, BaseModel):
        return _fields(annotation)
    found: Tree = {}
    for argument in get_args(annotation):
        found.update(_below(argument))
    origin = get_origin(annotation)
    return {EACH: found} if found and isclass(origin) and issubclass(origin, (Sequence, Mapping)) else found
