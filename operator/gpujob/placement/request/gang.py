"""A gang: pods that run at once, and the job runs as all of them or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the formulas are imported with the first model
    from gpujob.memory.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Gang:
    """The pods that run at once, one a node: how many, GPUs of each, and on which accelerator (None: any)."""

    nodes: int = 1
    gpus_per_node: int = 1
    accelerator: str | None = None
    entry: int | None = None
    """The index in spec.shapes; None when nodes and gpusPerNode say it."""

    pools: frozenset[str] | None = field(default=None, compare=False)
    """The pools that it was sized for; None: all of them."""
    memory: Estimate | None = field(default=None, compare=False)
    """What the job's model needs of each GPU in this gang; follows from the demand's model and the gang's GPUs."""

    @property
    def shape(self) -> str:
        """Nodes x GPUs per node."""
        return f"{self.nodes}x{self.gpus_per_node}"

    @property
    def gpus(self) -> int:
        """GPUs of the whole gang."""
        return self.nodes * self.gpus_per_node

    def sized(self, memory: Estimate | None, pools: frozenset[str] | None = None) -> Gang:
        """The gang with what its model needs of each GPU, for these pools or for all."""
        return Gang(self.nodes, self.gpus_per_node, self.accelerator, self.entry, pools, memory)

    def is_for(self, pool: str) -> bool:
        """Whether it is tried on a pool."""
        return self.pools is None or pool in self.pools

    def field(self, name: str) -> str:
        """The path of the job's field that says `name` (nodes or gpusPerNode) of this gang."""
        return f"spec.{name}" if self.entry is None else f"spec.shapes[{self.entry}].{name}"
