"""The volumes of a cluster description, with the claims of a manifest that is not applied yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.storage.claim_volumes import HIDDEN, NO_VOLUMES, Volumes
from gpujob.fleet.storage.volume_records import Key, VolumeClaim, read_storage_class, read_volume, read_volume_claim


def volumes_of(
    claims: Mapping[Key, Any],
    volumes: Mapping[Key, Any],
    nodes: Iterable[Node],
    classes: Mapping[Key, Any],
    *,
    complete: bool,
    all_volumes: bool = True,
    written: Mapping[Key, Any] = MappingProxyType({}),
) -> Volumes:
    """The claims, PersistentVolumes and StorageClasses of a cluster description, with its nodes, after the `written` claims of a
    manifest are applied: one that exists stays as it is.
    """
    if not claims and not classes and not complete and not written:
        return NO_VOLUMES
    unknown = not classes and not volumes
    read = (((namespace or "default", name), read_volume_claim(raw)) for (namespace, name), raw in claims.items())
    found = {key: claim if claim.phase or not claim.unbound else _applied(claim, unknown) for key, claim in read}
    more = {
        key: _applied(read_volume_claim({**raw, "status": {}}), unknown)
        for key, raw in written.items()
        if key not in found
    }
    return Volumes(
        {**found, **more},
        {key: read_volume(raw) for key, raw in volumes.items()},
        {node.name: node for node in nodes},
        complete,
        {key: read_storage_class(raw) for key, raw in classes.items()},
        all_volumes,
        written=frozenset(more),
    )


def _applied(claim: VolumeClaim, unknown: bool) -> VolumeClaim:
    """A claim as it is when it has just been applied. `unknown`: nothing is known of the storage, so that a volume may be made for it
    anywhere.
    """
    storage_class = HIDDEN if unknown and not claim.storage_class else claim.storage_class
    return replace(claim, phase="Pending", storage_class=storage_class)
