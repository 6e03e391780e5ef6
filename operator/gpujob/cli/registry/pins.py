"""GPURuntimes with digests: rows of the catalog, each at the image that its tag names in a registry today."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from gpujob.catalog.images.mirrors import Mirror, mirrored
from gpujob.catalog.images.runtime import Runtime
from gpujob.cli.registry import reference
from gpujob.cli.registry.client import NotSeen
from gpujob.cli.registry.manifests import Seen
from gpujob.values.errors import BadInput
from gpujob.values.finding import listed
from gpujob.values.vocabulary import API_VERSION


@dataclass(frozen=True, slots=True)
class Pins:
    """The GPURuntimes to apply, what is odd about them, and why rows have none, a sentence each."""

    runtimes: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    failures: tuple[str, ...]


def chosen(rows: Iterable[Runtime], names: Sequence[str]) -> list[Runtime]:
    """The rows of these names in their order, all where none is named; BadInput for a name that no row has."""
    known = {row.name: row for row in rows if not row.unreadable}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, cutoff=0.5)
            said = f"; did you mean {near[0]}?" if near else "; `gpujob catalog runtimes` lists them"
            raise BadInput(f"the catalog has no runtime {name}{said}")
    return [known[name] for name in dict.fromkeys(names)] if names else list(known.values())


def pin(rows: Iterable[Runtime], mirrors: Sequence[Mirror], see: Callable[[reference.Reference], Seen]) -> Pins:
    """Each row at the digest of its tag. The registry asked is the mirror's, and the name stays the row's.

    The operator replaces registries by the same mirrors when it makes pods, so that a name that was replaced here
    would lose its row's when the mirror changes.
    """
    made: list[dict[str, Any]] = []
    notes: list[str] = []
    failures: list[str] = []
    for row in rows:
        asked = mirrored(row.image, mirrors)
        try:
            found = see(reference.parse(asked))
        except NotSeen as error:
            failures.append(f"{row.name}: {error}")
            continue
        missing = sorted(set(row.cpu_architectures) - set(found.cpu_architectures))
        present = [each for each in row.cpu_architectures if each in found.cpu_architectures]
        if not present:
            failures.append(
                f"{row.name}: {asked} is for {listed(found.cpu_architectures) or 'an unknown CPU'}, "
                f"and the row for {listed(row.cpu_architectures)}: copy the image of {listed(row.cpu_architectures)}"
            )
            continue
        if missing:
            notes.append(f"{row.name}: {asked} has nothing for {listed(missing)}, so nodes of it do not get this image")
        made.append(_runtime(row, found.digest, present if missing else []))
    return Pins(tuple(made), tuple(notes), tuple(failures))


def _runtime(row: Runtime, digest: str, architectures: list[str]) -> dict[str, Any]:
    spec: dict[str, Any] = {"extends": row.name, "image": reference.pinned(row.image, digest)}
    if architectures:
        spec["cpuArchitectures"] = architectures
    return {"apiVersion": API_VERSION, "kind": "GPURuntime", "metadata": {"name": row.name}, "spec": spec}
