"""The rendezvous: variables from which torchrun, and programs started without it, learn where their peers are.

torchrun reads a default for each of its options from PET_<OPTION> (torch/distributed/argparse_util.py), so a command
stays as its author wrote it, and an option on the command line wins.

The rendezvous is static, not c10d: a gang starts and ends as a whole, so no pod joins later, and
- ranks follow the pods' completion index on every attempt, where c10d gives them as pods join;
- pod 0 hosts the store because its index says so, where with c10d a pod must recognise itself in the endpoint, by the
  names and addresses that DNS gives at that moment;
- the workers get the master's DNS name as it is written here, where c10d gives them what pod 0 thinks it is called.
"""

from __future__ import annotations

from typing import Final

from gpujob.render.attempt import Attempt, Manifest

_INDEX: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
"""The field with a pod's index from the Job controller. Not $(JOB_COMPLETION_INDEX): that variable comes after the container's
own, and Kubernetes expands only earlier ones.
"""


def master_address(attempt: Attempt) -> str:
    """The address of pod 0: its full name without the cluster's domain (`cluster.local` may differ)."""
    if not attempt.gang:
        return "127.0.0.1"
    return f"{attempt.name}-0.{attempt.name}.{attempt.namespace}.svc"


def for_torchrun(attempt: Attempt) -> list[Manifest]:
    """The variables of torchrun, which are reserved for the operator.

    A single pod gets none that repeats torchrun's own default (rank 0, static, 127.0.0.1). Without a port torchrun would take c10d
    for a single node (since 2.15), which does not matter to a single process.
    """
    of_any: list[Manifest] = [
        {"name": "PET_NNODES", "value": str(attempt.nodes)},
        {"name": "PET_NPROC_PER_NODE", "value": str(attempt.gpus)},
        {"name": "PET_MASTER_PORT", "value": str(attempt.port)},
    ]
    if not attempt.gang:
        return of_any
    return [
        *of_any,
        _index("PET_NODE_RANK"),
        {"name": "PET_RDZV_BACKEND", "value": "static"},
        {"name": "PET_MASTER_ADDR", "value": master_address(attempt)},
    ]


def for_other_programs(attempt: Attempt) -> list[Manifest]:
    """The variables of a program without torchrun; torchrun sets its own for its workers.

    RANK and its like only for one process a pod: several pods of one GPU. With more GPUs they would make a program that starts its
    own workers (Lightning, mp.spawn) believe that they run already, and a single GPU needs no process group, whose gradient
    buckets cost memory.
    """
    variables: list[Manifest] = [
        {"name": "MASTER_ADDR", "value": master_address(attempt)},
        {"name": "MASTER_PORT", "value": str(attempt.port)},
        _index("NODE_RANK") if attempt.gang else {"name": "NODE_RANK", "value": "0"},
    ]
    if attempt.gang and attempt.gpus == 1:
        variables += [
            _index("RANK"),
            {"name": "WORLD_SIZE", "value": str(attempt.nodes)},
            {"name": "LOCAL_RANK", "value": "0"},
            {"name": "LOCAL_WORLD_SIZE", "value": "1"},
        ]
    return variables


def _index(name: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}}
