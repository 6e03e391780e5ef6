"""One manifest for PyTorch on AMD and NVIDIA: decide, render, observe.

    gpujob.yaml ──api──▶ GPUJob ────────────────┐
    catalog/data/*.yaml ──catalog──▶ Catalog ───┤
    GPUPool, GPURuntime ──api──▶ overrides ─────┼─▶ placement.engine ─▶ Decision ─┬─▶ placement.report ─▶ text, JSON
    nodes, pods ──fleet──▶ Fleet ───────────────┘   (filters, scoring)            └─▶ render ─▶ child objects
                                                                                               │ create
    status, events, metrics ◀── status.job ◀── status.observe ◀── children in the cluster ◀───┘
                                   ▲
    lifecycle.next_action ─────────┘ what each job needs next: a pure function of the job, its child, its pods and the time

Reading order: `api`, `catalog`, `fleet`, `memory` (the bytes of a job's model), `placement`, `schedule` (all waiting jobs on one
Fleet, each by placement), `render`, `status`, `lifecycle`, `cluster`, `cli`; `values` are words and quantities of every room.

The edges gather and apply (`gpujob.cluster` in the cluster, `gpujob.cli` on a laptop); everything between them is
values and functions, without I/O, so the laptop decides exactly as the cluster does.
"""

__version__ = "0.1.0"
