"""What a job's model needs on each GPU: its dimensions from the catalog, its workload in a gang, and the estimate."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.models.shapes import ModelShape
from gpujob.memory.workload import ATTENTION_TARGETS, Workload
from gpujob.values.quantity import parse_parameters
from gpujob.values.vocabulary import Checkpointing, Method, Optimizer, Precision, Sharding

if TYPE_CHECKING:
    from gpujob.api.kinds.model import Model
    from gpujob.memory.estimate import Estimates

SIZES: Final = frozenset({"layers", "hidden", "heads", "ffn", "vocabulary"})
"""The dimensions of a job's model if none of them must be looked up or guessed."""

USUAL_PRECISION: Final = {
    Method.FULL: Precision.MIXED,
    Method.LORA: Precision.BF16,
    Method.QLORA: Precision.BF16,
    Method.INFERENCE: Precision.BF16,
}
"""The number format of a job that names none. Trainers keep 32-bit weights of what they train (torch.autocast, mixed precision in
DeepSpeed and FSDP), and load frozen or served weights in 16 bits.
"""


def precision_of(model: Model) -> Precision:
    """The number format of a job's `model`: its own, else the usual one of the method."""
    return Precision(model.precision) if model.precision else USUAL_PRECISION[Method(model.method or Method.FULL)]


@dataclass(frozen=True, slots=True)
class ModelDemand:
    """A job's `model` with every default explicit; sizes are for each GPU."""

    name: str | None = None
    parameters: int | None = None
    method: Method = Method.FULL
    precision: Precision = Precision.MIXED
    precision_given: bool = True
    optimizer: Optimizer = Optimizer.ADAMW
    batch: int | None = None
    accumulates: bool = False
    sequence: int = 2048
    checkpointing: Checkpointing = Checkpointing.NONE
    sharding: Sharding = Sharding.NONE
    sharding_given: bool = False
    tensor_parallel: bool = False
    """Whether Inference divides every layer over the GPUs; assumed for several GPUs if the job does not say."""
    rank: int = 16
    targets: tuple[str, ...] = ATTENTION_TARGETS
    max_tokens: int | None = None
    concurrency: int | None = None
    overrides: tuple[tuple[str, int | bool], ...] = field(default=())
    """Fields of ModelShape that the job sets itself."""


def model_demand(model: Model) -> ModelDemand:
    """The demand of a job's `model`."""
    lora, load = model.lora, model.inference
    return ModelDemand(
        name=model.name,
        parameters=parse_parameters(model.parameters) if model.parameters else None,
        method=Method(model.method or Method.FULL),
        precision=precision_of(model),
        precision_given=model.precision is not None,
        optimizer=Optimizer(model.optimizer or Optimizer.ADAMW),
        batch=model.batch_per_gpu,
        accumulates=(model.gradient_accumulation or 1) > 1,
        sequence=model.sequence_length or 2048,
        checkpointing=Checkpointing(model.gradient_checkpointing or Checkpointing.NONE),
        sharding=Sharding(model.sharding or Sharding.NONE),
        sharding_given=model.sharding is not None,
        rank=(lora and lora.rank) or 16,
        targets=tuple(sorted(lora.targets)) if lora and lora.targets else ATTENTION_TARGETS,
        max_tokens=load.max_tokens if load else None,
        concurrency=load.concurrency if load else None,
        overrides=_overrides(model),
    )


def _overrides(model: Model) -> tuple[tuple[str, int | bool], ...]:
    if model.shape is None:
        return ()
    said = model.shape.model_dump(exclude_none=True)
    if "tied_embeddings" in said:
        said["tied"] = said.pop("tied_embeddings")
    return tuple(sorted(said.items()))


def shape_of(model: ModelDemand, catalog: Catalog) -> ModelShape | None:
    """The model's dimensions; None for a name that the catalog does not have."""
    from gpujob.memory.model_shape import (  # late import, as below: jobs without a model need no formulas
        known_shape,
        usual_shape,
    )

    said = dict(model.overrides)
    if model.parameters:
        return usual_shape(model.parameters, **said)
    known = catalog.model(model.name or "")
    return known_shape(known, **said) if known is not None and said else known


def workload_of(model: ModelDemand, catalog: Catalog) -> Workload | None:
    """The workload of one GPU; None for a name that the catalog does not have."""
    shape = shape_of(model, catalog)
    if shape is None:
        return None
    return Workload(
        shape=shape,
        method=model.method,
        precision=model.precision,
        optimizer=model.optimizer,
        batch=model.batch or 1,
        accumulates=model.accumulates,
        sequence=model.sequence,
        checkpointing=model.checkpointing,
        # The formulas know it as a way to serve, not as one to keep states.
        sharding=Sharding.NONE if model.sharding is Sharding.TENSOR_PARALLEL else model.sharding,
        tensor_parallel=model.tensor_parallel or model.sharding is Sharding.TENSOR_PARALLEL,
        rank=model.rank,
        targets=model.targets,
        cached_tokens=model.max_tokens,
        concurrency=model.concurrency,
        stored=stored_format(model, catalog),
        inferred=model.parameters is not None and bool(SIZES - dict(model.overrides).keys()),
    )


def stored_format(model: ModelDemand, catalog: Catalog) -> str:
    """The format of served weights if the job names none: the published one of the model's name."""
    if model.method is not Method.INFERENCE or model.precision_given or model.name is None or model.parameters:
        return ""
    return catalog.stored(model.name)


@lru_cache(maxsize=1024)  # every pool needs the same few: 200 choices take 112 ms with it, 138 without
def estimates_of(work: Workload) -> Estimates:
    """The estimates of a workload, cached: every pool and every pass of the queue needs the same few."""
    from gpujob.memory.estimate import Estimates

    return Estimates(work)
