"""What a registry's answer reports about an image: its digest, and the CPU architectures that it is for.

https://github.com/opencontainers/image-spec: an index lists a manifest for each platform; a single manifest names a
configuration, which has the platform.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gpujob.values.untrusted import Table, object_in, table, tables

ACCEPTED: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_UNKNOWN: Final = "unknown"
"""The architecture of attestations that stand in an index beside the images."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An image as a registry has it: the digest of what the tag names, and the CPU architectures of it, sorted."""

    digest: str
    cpu_architectures: tuple[str, ...]


def digest_of(body: bytes) -> str:
    """The digest of a manifest."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def read(body: bytes) -> Table:
    """A manifest, an index or a configuration; empty where it is none."""
    return object_in(body) or {}


def is_index(manifest: Table) -> bool:
    """Whether it lists manifests."""
    return isinstance(manifest.get("manifests"), list)


def configuration_of(manifest: Table) -> str:
    """The digest of a single manifest's configuration; empty where it has none."""
    digest = table(manifest, "config").get("digest")
    return digest if isinstance(digest, str) else ""


def architectures_of(index: Table) -> tuple[str, ...]:
    """The Linux architectures of an index."""
    platforms = (table(each, "platform") for each in tables(index, "manifests"))
    return _sorted(str(each.get("architecture")) for each in platforms if each.get("os") == "linux")


def architecture_of(configuration: Table) -> tuple[str, ...]:
    """The architecture of a configuration."""
    found = configuration.get("architecture")
    return _sorted([found]) if isinstance(found, str) else ()


def _sorted(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(found) - {_UNKNOWN, ""}))
