"""Where an object belongs and how new it is.

resourceVersions of one kind are compared as integers (the API server promises that they can be).
"""

from __future__ import annotations

from typing import NamedTuple

from gpujob.cluster.client.api_errors import JsonObject

Key = tuple[str, str]  # (namespace, or "" for a cluster's own objects; name)


class MalformedObject(ValueError):
    """What was given is no Kubernetes object: no metadata, no name, or an event type that does not exist."""


class Identity(NamedTuple):
    """Which object it is, and how new."""

    key: Key
    uid: str
    version: int | None  # None: not a number, so nothing can be said about its age


def identify(obj: JsonObject) -> Identity:
    """Where an object belongs and how new it is; MalformedObject when it has no name."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
        raise MalformedObject("an object without metadata.name")
    key = (metadata.get("namespace") or "", name)
    return Identity(key, metadata.get("uid") or "", version_number(metadata.get("resourceVersion")))


def version_number(text: object) -> int | None:
    """A resourceVersion as a number, None when it is none."""
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else None


def is_not_newer(version: int | None, than: int | None) -> bool:
    """Whether a version is known to be as old as another one, or older."""
    return version is not None and than is not None and version <= than


def is_newer(version: int | None, than: int | None) -> bool:
    """Whether a version is known to be newer than another one."""
    return version is not None and than is not None and version > than
