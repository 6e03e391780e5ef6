"""REST resources and their paths: the only source of URLs, so that no name can escape its path segment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBRESOURCE = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Resource:
    """One REST resource; `path` is the only source of URLs, so that no name can escape its path segment."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of a collection (no name), an object or its subresource; ValueError for an invalid name."""
        self._check_scope(namespace, name)
        parts = ["api" if not self.group else f"apis/{self.group}", self.version]
        if namespace is not None:
            parts += ["namespaces", _checked_namespace(namespace)]
        parts.append(self.plural)
        if name is not None:
            parts.append(_checked_name(name))
        if subresource is not None:
            if name is None or not _SUBRESOURCE.fullmatch(subresource):
                raise ValueError(f"no subresource {subresource!r} of {self.plural} {name!r}")
            parts.append(subresource)
        return "/" + "/".join(parts)

    def _check_scope(self, namespace: str | None, name: str | None) -> None:
        if namespace is not None and not self.namespaced:
            raise ValueError(f"{self.plural} have no namespace, got {namespace!r}")
        if namespace is None and name is not None and self.namespaced:
            raise ValueError(f"{self.plural} {name!r} needs a namespace")


def _checked_namespace(namespace: str) -> str:
    if not _DNS_LABEL.fullmatch(namespace):
        raise ValueError(f"not a namespace: {namespace!r}")
    return namespace


def _checked_name(name: str) -> str:
    # The API server's own rule for a path segment; quoting alone would let "." and ".." be resolved on the way.
    if name in {"", ".", ".."} or "/" in name or "%" in name or len(name) > 253:
        raise ValueError(f"not an object's name: {name!r}")
    return quote(name, safe="")


def namespace_of(path: str) -> str:
    """The namespace of a path; empty for what has none."""
    _, found, rest = path.partition("/namespaces/")
    return rest.partition("/")[0] if found else ""


def resource_of(path: str) -> str:
    """The plural (and subresource) of a path, for counting: `pods`, `gpujobs/status`."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else parts[:1]
    if parts[:1] == ["namespaces"] and len(parts) > 2 and parts[2] not in {"status", "finalize"}:
        parts = parts[2:]
    return "/".join(parts[0::2][:2]) if parts else ""
