"""The parts of an image reference: registry, repository, tag and digest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpujob.catalog.images.mirrors import DEFAULT_REGISTRY, with_registry

_HOST_OF_DEFAULT: Final = "registry-1.docker.io"
"""Docker Hub's names say docker.io, and its API is here."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An image in a registry. `tag` and `digest` are empty where the name has none; a digest has precedence."""

    registry: str
    repository: str
    tag: str
    digest: str

    @property
    def host(self) -> str:
        """Where its registry answers."""
        return _HOST_OF_DEFAULT if self.registry == DEFAULT_REGISTRY else self.registry

    @property
    def version(self) -> str:
        """The requested version: the digest, the tag, or `latest`, the default of container runtimes."""
        return self.digest or self.tag or "latest"


def parse(image: str) -> Reference:
    """The parts of an image name, which has been checked against the grammar of references."""
    registry, _, rest = with_registry(image).partition("/")
    name, _, digest = rest.partition("@")
    repository, _, tag = name.partition(":")
    return Reference(registry, repository, tag, digest)


def pinned(image: str, digest: str) -> str:
    """The same image with this digest, as its name is written; the tag stays for readers."""
    return f"{image.partition('@')[0]}@{digest}"
