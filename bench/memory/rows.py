"""Measured peaks of memory with the workload that each belongs to: the tables in `measured/`, typed."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from gpujob.catalog.load import load_catalog
from gpujob.memory.workload import LINEAR_TARGETS, Workload
from gpujob.vocabulary import Checkpointing, Method, Optimizer, Precision, Sharding

TABLES = ("h100", "h100_others", "published", "peft")
FOLDER = Path(__file__).parent / "measured"


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement, bytes for each GPU."""

    id: str
    workload: Workload
    fitted: bool
    """False: it ran out of memory."""
    peak: int
    """What the framework allocated, or reserved where the source says so."""
    device: int
    """What the driver showed as used; the peak where nobody read it."""
    source: str


def read(table: str) -> list[Measured]:
    """The rows of one table."""
    with (FOLDER / f"{table}.csv").open(newline="") as file:
        return [_measured(row) for row in csv.DictReader(file)]


def _measured(row: dict[str, str]) -> Measured:
    shape = load_catalog().model(row["model"])
    if shape is None:
        raise ValueError(f"{row['id']}: the catalog has no model {row['model']}")
    workload = Workload(
        shape=shape,
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
        four_bit=row["four_bit"] == "yes",
    )
    peak = int(row["peak"] or 0)
    return Measured(row["id"], workload, row["status"] == "ok", peak, int(row["device"] or peak), row["source"])
