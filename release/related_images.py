"""The images that a cluster pulls: the operator's, and those of the catalog for jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpujob.catalog.images.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Image:
    """An image under a name; `cpu_architectures` as Kubernetes writes them."""

    name: str
    reference: str
    cpu_architectures: tuple[str, ...]


def jobs_images(rows: Iterable[Runtime]) -> tuple[Image, ...]:
    """The catalog's images, each once, under the name of its first row."""
    first: dict[str, Image] = {}
    for row in rows:
        first.setdefault(row.image, Image(row.name, row.image, row.cpu_architectures))
    return tuple(first.values())
