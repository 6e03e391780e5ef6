"""The buffers of DeepSpeed's ZeRO besides the states, in bytes on one GPU; also on a single GPU, where nothing is sharded.

The sizes are the defaults of its configuration (deepspeed.readthedocs.io, "ZeRO": reduce_bucket_size, sub_group_size,
stage3_max_live_parameters), in elements.
"""

from __future__ import annotations

from typing import Final

from gpujob.memory.workload import Workload
from gpujob.values.vocabulary import Method, Sharding

REDUCE_BUCKET: Final = 5 * 10**8
"""Elements of the buffer in which 16-bit gradients wait for their reduction; stages 1 and 2 have two, to overlap."""
SUB_GROUP: Final = 10**9
"""Parameters that ZeRO-3 updates at once; ZeRO-1 and ZeRO-2 update all of a GPU's at once."""
LIVE: Final = 10**9
"""Parameters that ZeRO-3 keeps gathered."""
NORM_BYTES: Final = 8
"""The norm of a gradient is computed in 64 bits, one tensor at a time."""


def buckets(work: Workload) -> int:
    """The buffers of gradients in flight, from a step's first gradient to its last."""
    if not work.deepspeed:
        return 0
    return 2 * REDUCE_BUCKET * (1 if work.sharding is Sharding.ZERO3 else 2)


def stepped(work: Workload) -> int:
    """At the step: the gradients of one sub-group, or of a GPU's whole part, first flattened in 16 bits, then cast to 32.

    So a whole model takes 22 bytes for each parameter under ZeRO-1 and ZeRO-2 on one GPU (measured: 40.5 GB of 1.84B).
    """
    if not work.deepspeed:
        return 0
    trained = work.adapter_parameters if work.adapts else work.shape.parameters
    part = trained // work.gpus
    return (2 + 4) * (min(SUB_GROUP, part) if work.sharding is Sharding.ZERO3 else part)


def held(work: Workload) -> int:
    """Temporary blocks outside the optimizer's step: live weights, the buckets, the largest gradient while it waits for the
    reducing stream, and its norm.
    """
    if not work.deepspeed or work.method is not Method.FULL:
        return 0
    live = work.compute_bytes * min(LIVE, work.shape.parameters) if work.gathers else 0
    largest = work.shape.embedding_parameters
    return live + buckets(work) + work.compute_bytes * largest + NORM_BYTES * largest // work.gpus
