"""GPUPools that cannot be read: whatever they say of nodes (prices, taints, devices) is lost, so their nodes are held.

It exists because a pool that is passed over gives its nodes back to discovery, without the restrictions that an admin
wrote. Its selector says which nodes these are; where that cannot be read either, every discovered pool has a doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpujob.fleet.gpupools.selection import AdminPool
from gpujob.values.finding import Finding
from gpujob.values.untrusted import one_line, table
from gpujob.values.vocabulary import Reason

LONGEST: Final = 300
"""Letters of what is wrong with a pool, at most."""


def held_pool(raw: Mapping[str, Any], problem: str) -> AdminPool:
    """What is left of a GPUPool that its schema refuses: its name, its age and, where it can be read, its selector."""
    # Imported on use: models cost a plan without any GPUPool a sixth of its start.
    from pydantic import ValidationError

    from gpujob.api.kinds.gpupool import NodeSelector

    metadata, spec = table(raw, "metadata"), table(raw, "spec")
    created = metadata.get("creationTimestamp")
    try:
        selector = NodeSelector.model_validate(spec.get("nodeSelector"))
    except ValidationError:
        selector = NodeSelector()
    said = one_line("; ".join(problem.splitlines()))[:LONGEST]
    name = one_line(str(metadata.get("name"))[:253])
    return AdminPool(name, created if isinstance(created, str) else "", selector, unreadable=said or "it is malformed")


def problem_of(pool: AdminPool) -> Finding:
    """Why nothing runs on the nodes of a GPUPool that cannot be read."""
    sentence = "GPUPool {} cannot be read, so its nodes are held: {}"
    return Finding(Reason.INVALID_SPEC, sentence, (pool.name, pool.unreadable))


def doubts_of_unclaimed(pools: Iterable[AdminPool]) -> tuple[Finding, ...]:
    """The doubts about every node that no GPUPool claims: one that cannot be read might."""
    sentence = "GPUPool {} cannot be read, nor which nodes it claims; they may be these: {}"
    lost = (pool for pool in pools if pool.unreadable and not pool.terms)
    return tuple(Finding(Reason.INVALID_SPEC, sentence, (pool.name, pool.unreadable)) for pool in lost)
