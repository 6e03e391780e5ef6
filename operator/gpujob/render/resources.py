"""What a container asks of its node: requests equal limits, in every container, as quotas and policies demand."""

from __future__ import annotations

from gpujob.fleet.objects import Resources
from gpujob.quantity import format_millicores, quantity_of_bytes
from gpujob.render.attempt import Manifest


def limited(needs: Resources, device: str | None = None, count: int = 0) -> Manifest:
    """The container's resources; `device` is the pool's real resource name."""
    amounts = {"cpu": format_millicores(needs.millicores), "memory": quantity_of_bytes(needs.memory)}
    if needs.storage:
        amounts["ephemeral-storage"] = quantity_of_bytes(needs.storage)
    if device:
        amounts[device] = str(count)
    return {"requests": amounts, "limits": dict(amounts)}
