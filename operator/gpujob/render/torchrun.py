"""How the ranks find each other: environment for torchrun, accelerate and plain programs.

`PET_*` are torchrun's own options (torch.distributed.run reads each option's default from them). The rendezvous is
static: the completion index is the node rank, so rank 0 is always pod 0 and a late pod is waited for, which c10d's
election does not promise. MASTER_*, RANK and WORLD_SIZE serve programs that start one process for each node; torchrun
overwrites them for its workers.
"""

from __future__ import annotations

from typing import Any, Final

from gpujob.placement.demand import Demand

PORT: Final = 29500
INDEX_FIELD: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def environment(name: str, namespace: str, demand: Demand) -> list[dict[str, Any]]:
    """The rendezvous variables. The host name is full up to `.svc`: the cluster's domain is not assumed."""
    master = f"{name}-0.{name}.{namespace}.svc" if demand.nodes > 1 else "127.0.0.1"
    rank = {"valueFrom": {"fieldRef": {"fieldPath": INDEX_FIELD}}}
    values: dict[str, str | dict[str, Any]] = {
        "PET_NNODES": str(demand.nodes),
        "PET_NPROC_PER_NODE": str(demand.gpus_per_node),
        "PET_NODE_RANK": rank,
        "PET_MASTER_ADDR": master,
        "PET_MASTER_PORT": str(PORT),
        "PET_RDZV_BACKEND": "static",
        "MASTER_ADDR": master,
        "MASTER_PORT": str(PORT),
        "WORLD_SIZE": str(demand.nodes),
        "RANK": rank,
    }
    return [
        {"name": key, "value": value} if isinstance(value, str) else {"name": key, **value}
        for key, value in values.items()
    ]
