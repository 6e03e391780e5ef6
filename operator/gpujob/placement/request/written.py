"""The text of a job's amounts, for messages that repeat them: 10Ti stays 10Ti, and "60" dollars do not become 60.00."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpujob.api.kinds.gpujob import GPUJobSpec


def amounts_written(spec: GPUJobSpec) -> tuple[tuple[str, str], ...]:
    """The texts of a spec's sizes and of its price limit and budget, by the names of a demand's fields."""
    limit, resources = spec.placement and spec.placement.max_price_per_hour, spec.resources
    budget = spec.placement and spec.placement.budget
    amounts = {"gpu_memory": spec.gpu_memory, "max_price": limit, "budget": budget}
    if resources is not None:
        amounts |= {
            "millicores": resources.cpu,
            "memory": resources.memory,
            "storage": resources.ephemeral_storage,
            "shared_memory": resources.shared_memory,
        }
    for index, volume in enumerate(spec.volumes):
        if volume.ephemeral:
            requests = volume.ephemeral.volume_claim_template.spec.resources.requests
            amounts[claim_size(index)] = requests.get("storage")
    return tuple((name, str(amount)) for name, amount in amounts.items() if amount)


def claim_size(volume: int) -> str:
    """The name here of the size of the volume claim at an index of spec.volumes."""
    return f"volumes[{volume}]"
