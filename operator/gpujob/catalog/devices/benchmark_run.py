"""A measured run of a benchmark: work units a second of one Kubernetes device."""

from __future__ import annotations

from dataclasses import dataclass

from gpujob.values.vocabulary import Evidence, RunFormat, WorkKind


@dataclass(frozen=True, slots=True)
class Throughput:
    """The throughput of one Kubernetes device of a model on a benchmark, with its number of devices, engine and number format."""

    benchmark: str
    work: WorkKind
    format: RunFormat
    evidence: Evidence
    accelerator: str
    per_gpu: float
    unit: str
    engine: str = ""
    devices: int = 1
    source: str = ""
    checked_on: str = ""
    sequences: int | None = None
    """Sequences that were served at once, where the source says so."""
