"""A gang: pods that run at once; the job runs as all of them or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # late import: the formulas are needed only for jobs with a model
    from gpujob.memory.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Gang:
    """The pods that run at once, one a node: how many, GPUs of each, and on which accelerator (None: any)."""

    nodes: int = 1
    gpus_per_node: int = 1
    accelerator: str | None = None
    entry: int | None = None
    """The index in spec.shapes; None if nodes and gpusPerNode define the gang."""

    pools: frozenset[str] | None = field(default=None, compare=False)
    """The pools that it is sized for; None: all of them."""
    memory: Estimate | None = field(default=None, compare=False)
    """What the job's model needs on each GPU of this gang; follows from the demand's model and the gang's GPUs."""
    sharded: bool = field(default=False, compare=False)
    """Whether training is taken as sharded over GPUs that the job names, because one of them does not hold the whole model."""

    @property
    def shape(self) -> str:
        """Nodes x GPUs per node."""
        return f"{self.nodes}x{self.gpus_per_node}"

    @property
    def gpus(self) -> int:
        """GPUs of the whole gang."""
        return self.nodes * self.gpus_per_node

    @property
    def has_rivals(self) -> bool:
        """Whether other gangs of the demand may be sizes of the same model on the same pool; the pool runs the nearest of them."""
        return self.pools is not None and self.entry is None

    def sized(self, memory: Estimate | None, pools: frozenset[str] | None = None, *, sharded: bool = False) -> Gang:
        """The gang with the memory of its model on each GPU, for these pools or for all."""
        return Gang(self.nodes, self.gpus_per_node, self.accelerator, self.entry, pools, memory, sharded)

    def is_for(self, pool: str) -> bool:
        """Whether it is tried on a pool."""
        return self.pools is None or pool in self.pools

    def field(self, name: str) -> str:
        """The path of the job's field (nodes or gpusPerNode) that sets `name` of this gang."""
        return f"spec.{name}" if self.entry is None else f"spec.shapes[{self.entry}].{name}"
