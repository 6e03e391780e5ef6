"""The building blocks of the API: the base model and the field types that several kinds use.

Every type carries its own CRD schema (bounds and CEL rules with a remedy), so that the API server, the command line and
the operator refuse the same input with the same words. `gpujob.api.generate.crd` turns the models into crds/*.yaml.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gpujob.api.fields import patterns


class Shape(BaseModel):
    """A part of a manifest: camelCase names, unknown fields refused, docstrings become the CRD's descriptions."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=False,
        extra="forbid",
        frozen=True,
        defer_build=True,
    )


DnsLabel = Annotated[str, Field(min_length=1, max_length=63), patterns.DNS_LABEL]
"""A name of at most 63 characters: lower-case letters, digits and hyphens."""

DnsName = Annotated[str, Field(min_length=1, max_length=253)]
"""The name of a pool, node or runtime; an unknown name is reported when the job is placed."""

ObjectName = Annotated[str, Field(min_length=1, max_length=253), patterns.DNS_SUBDOMAIN]
"""The name of another object that the pods refer to."""

DataKey = Annotated[str, Field(min_length=1, max_length=253), patterns.DATA_KEY]
"""A key of a ConfigMap or Secret."""

Reference = Annotated[str, Field(min_length=1, max_length=512), patterns.IMAGE]
"""A container image."""

Path = Annotated[str, Field(min_length=1, max_length=1024)]
"""A path inside the container."""

Word = Annotated[str, Field(min_length=1, max_length=63)]
"""One word of a list, for example an accelerator's id."""

Text = Annotated[str, Field(max_length=32768)]
"""A longer text, for example an environment variable's value."""

Gid = Annotated[int, Field(ge=0, le=4294967294)]
"""A numeric group or user id."""


def list_map(*keys: str, items: int) -> Any:
    """The bound and the merge keys of a list of records: server-side apply merges by them, duplicates are refused."""
    return Field(
        max_length=items, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    )


def a_set(*, items: int) -> Any:
    """The bound of a list of distinct words: duplicates are rejected."""
    return Field(max_length=items, json_schema_extra={"x-kubernetes-list-type": "set"})


def a_list(*, items: int) -> Any:
    """The bound of an ordered list."""
    return Field(max_length=items, json_schema_extra={"x-kubernetes-list-type": "atomic"})


class ObjectMeta(BaseModel):
    """The members of an object's metadata that are read; the rest is unchanged."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    name: str = "unnamed"
    namespace: str | None = None
    uid: str | None = None
    generation: int = 1
    creation_timestamp: str | None = Field(default=None, alias="creationTimestamp")
    resource_version: str | None = Field(default=None, alias="resourceVersion")
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
