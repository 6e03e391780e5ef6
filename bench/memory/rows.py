"""Measured peaks of memory with the workload that each belongs to: the tables in `measured/`, typed."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.models.code_kinds import Kind
from gpujob.catalog.models.shapes import ModelShape
from gpujob.memory.workload import LINEAR_TARGETS, Workload
from gpujob.values.vocabulary import Checkpointing, Method, Optimizer, Precision, Sharding

TABLES = (
    "h100",
    "h100_others",
    "h100_kinds",
    "h100_families",
    "h200_families",
    "h200_held_out",
    "counted",
    "played",
    "published",
    "published_others",
    "peft",
)
FOLDER = Path(__file__).parent / "measured"
H100 = 85_017_493_504
"""Bytes that PyTorch reported on the H100 of the measurements."""


class Metric(StrEnum):
    """What a source read as its peak."""

    ALLOCATED = "allocated"
    """What tensors took (max_memory_allocated, peak active, weights after loading)."""
    RESERVED = "reserved"
    """What the caching allocator held (max_memory_reserved)."""
    PERCENTILE = "percentile"
    """The 99th of what the allocator held, over batches of which most are shorter than the longest."""
    UNSTATED = "unstated"
    """The source says memory and no more."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement, bytes for each GPU."""

    id: str
    workload: Workload
    fitted: bool
    """False: it ran out of memory."""
    peak: int
    metric: Metric
    """What `peak` is."""
    device: int
    """What the driver showed as used; the peak where the driver was not read; the size of the device where it ran out."""
    source: str


def read(table: str) -> list[Measured]:
    """The rows of one table."""
    with (FOLDER / f"{table}.csv").open(newline="") as file:
        return [_measured(row) for row in csv.DictReader(file)]


def _measured(row: dict[str, str]) -> Measured:
    workload = Workload(
        shape=_shape(row),
        method=Method(row["method"]),
        precision=Precision(row["precision"]),
        optimizer=Optimizer(row["optimizer"]),
        batch=int(row["batch"]),
        sequence=int(row["sequence"]),
        checkpointing=Checkpointing(row["checkpointing"]),
        sharding=Sharding(row["sharding"]),
        gpus=int(row["gpus"]),
        rank=int(row["rank"]),
        targets=LINEAR_TARGETS if row["targets"] == "all" else tuple(row["targets"].split()),
        chunked_loss=row["chunked"] == "yes",
        four_bit=row["four_bit"] != "" and row["method"] == Method.INFERENCE,
        double_quantised=row["four_bit"] == "double",
    )
    peak = int(row["peak"] or 0)
    return Measured(
        id=row["id"],
        workload=workload,
        fitted=row["status"] == "ok",
        peak=peak,
        metric=Metric(row["metric"] or Metric.ALLOCATED),
        device=int(row["device"] or peak or H100),
        source=row["source"],
    )


def _shape(row: dict[str, str]) -> ModelShape:
    """The catalog's shape, with what the measured code builds otherwise: `tied=no parameters=7217189760`."""
    shape = load_catalog().model(row["model"])
    if shape is None:
        raise ValueError(f"{row['id']}: the catalog has no model {row['model']}")
    said = dict(item.split("=") for item in row["shape"].split())
    changed: dict[str, Any] = {
        field: text == "yes" if text in ("yes", "no") else int(text) for field, text in said.items()
    }
    kind = {field: changed.pop(field) for field in tuple(changed) if field in Kind.__slots__}
    return replace(shape, kind=replace(shape.kind, **kind), **changed)
