"""GPUJob objects among a cluster's documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpujob.values.errors import BadInput
from gpujob.values.finding import listed
from gpujob.values.untrusted import table
from gpujob.values.vocabulary import State


def waits(raw: Mapping[str, Any]) -> bool:
    """Whether a GPUJob is in the operator's queue."""
    return table(raw, "status").get("state") == State.QUEUED and table(raw, "spec").get("suspend") is not True


def in_documents(documents: Iterable[Any], name: str, namespace: str | None) -> Mapping[str, Any]:
    """The GPUJob of that name in a cluster description; BadInput when it has none, or several and no namespace."""
    from gpujob.catalog.devices.identity import nearest
    from gpujob.fleet.sources.cluster_file import objects_in

    jobs = {
        (str(table(each, "metadata").get("namespace") or "default"), str(table(each, "metadata").get("name"))): each
        for each in objects_in(documents, [])
        if each.get("kind") == "GPUJob"
    }
    found = {where: each for (where, called), each in jobs.items() if called == name}
    matching = [each for where, each in found.items() if namespace in (None, where)]
    if not matching:
        where = f" in namespace {namespace}" if namespace else ""
        near = nearest(name, {called for _, called in jobs})
        hint = f"there is one in {listed(sorted(found))}" if found else f"the nearest is {near}" if near else "add it"
        raise BadInput(f"the cluster description has no GPUJob {name}{where}; {hint}, or ask about a file with -f")
    if len(matching) > 1:
        spaces = ", ".join(sorted(found))
        raise BadInput(f"there is a GPUJob {name} in the namespaces {spaces}; name one with -n")
    return matching[0]
