"""The key and the version of an object.

resourceVersions of one kind compare as integers (an API server guarantee).
"""

from __future__ import annotations

from typing import NamedTuple

from gpujob.cluster.client.api_errors import JsonObject

Key = tuple[str, str]  # (namespace, or "" for a cluster's own objects; name)


class MalformedObject(ValueError):
    """The value is no Kubernetes object: no metadata, no name, or an unknown event type."""


class Identity(NamedTuple):
    """The key of an object, and its version."""

    key: Key
    uid: str
    version: int | None  # None: not a number, so its age is unknown


def identify(obj: JsonObject) -> Identity:
    """The key of an object, and its version; MalformedObject if it has no name."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
        raise MalformedObject("an object without metadata.name")
    key = (metadata.get("namespace") or "", name)
    return Identity(key, metadata.get("uid") or "", version_number(metadata.get("resourceVersion")))


def version_number(text: object) -> int | None:
    """A resourceVersion as a number, None if it is not a number."""
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else None


def is_not_newer(version: int | None, than: int | None) -> bool:
    """Whether a version is known to be as old as another one, or older."""
    return version is not None and than is not None and version <= than


def is_newer(version: int | None, than: int | None) -> bool:
    """Whether a version is known to be newer than another one."""
    return version is not None and than is not None and version > than
