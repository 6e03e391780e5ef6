"""GPUPools that cannot be read: their prices, taints and devices are unknown, so nothing runs on their nodes.

If such a pool were skipped, its nodes would return to discovery without the admin's restrictions. Its selector names the nodes; if
that cannot be read either, every discovered pool gets a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpujob.fleet.gpupools.selection import AdminPool
from gpujob.values.finding import Finding
from gpujob.values.untrusted import one_line, table
from gpujob.values.vocabulary import Reason

LONGEST: Final = 300
"""The most characters of a pool's error."""


def held_pool(raw: Mapping[str, Any], problem: str) -> AdminPool:
    """The rest of a GPUPool that its schema rejects: its name, its age and, if it can be read, its selector."""
    # late import: models cost a plan without any GPUPool a sixth of its start time
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
    sentence = "GPUPool {} cannot be read, so nothing runs on its nodes: {}"
    return Finding(Reason.INVALID_SPEC, sentence, (pool.name, pool.unreadable))


def doubts_of_unclaimed(pools: Iterable[AdminPool]) -> tuple[Finding, ...]:
    """The warnings about every node without a GPUPool: an unreadable one might select it."""
    sentence = "GPUPool {} cannot be read, nor which nodes it claims; they may be these: {}"
    lost = (pool for pool in pools if pool.unreadable and not pool.terms)
    return tuple(Finding(Reason.INVALID_SPEC, sentence, (pool.name, pool.unreadable)) for pool in lost)
