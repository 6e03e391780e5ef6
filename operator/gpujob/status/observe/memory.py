"""Whether a pod ran out of memory: main memory or GPU memory, each with its remedy."""

from __future__ import annotations

from typing import Final

from gpujob.status.records.gpu_memory import RanOut
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.values.quantity import format_bytes
from gpujob.values.vocabulary import Reason

OUT_OF_MEMORY: Final = "OOMKilled"

GIGABYTE: Final = 10**9


def ran_out_of_memory(pod: PodState, child: ChildRecord) -> tuple[Reason, str] | None:
    """The reason and the sentence of a pod that failed for want of memory; None for any other."""
    where = f"pod {pod.name} on node {pod.node}"
    if pod.reason == OUT_OF_MEMORY:
        limit = f", of which it had {format_bytes(child.needs.memory)}" if child.needs.memory else ""
        message = (
            f"{where} ran out of main memory{limit} (OOMKilled, exit code {pod.exit_code}); set resources.memory higher"
        )
        return Reason.OUT_OF_MEMORY, message
    if pod.ran_out is not None:
        return Reason.GPU_OUT_OF_MEMORY, f"{where} ran out of GPU memory{_numbers(pod.ran_out)}"
    return None


def _numbers(ran_out: RanOut) -> str:
    tried = f"{format_bytes(ran_out.tried)} more" if ran_out.tried is not None else "more"
    parts = [f": it asked for {tried}"] if ran_out.tried is not None or ran_out.used is not None else []
    if parts and ran_out.used is not None:
        of = f" of {format_bytes(ran_out.total)}" if ran_out.total is not None else ""
        parts.append(f" with {format_bytes(ran_out.used)}{of} in use")
    if ran_out.fits is None:
        return "".join(parts) + "; ask for more with gpuMemory, or lower the batch size"
    asked = f"{-(-ran_out.fits // GIGABYTE)}G"
    return (
        "".join(parts)
        + f"; {asked} would have held this much: set gpuMemory to more than that, or lower the batch size"
    )
