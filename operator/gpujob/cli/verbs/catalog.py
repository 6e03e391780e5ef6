"""The catalog, section by section: each row with its source and the day that it was read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from gpujob.catalog.devices.roofline import REFERENCE
from gpujob.catalog.devices.throughput import Work
from gpujob.placement.scoring.candidate import speed_text
from gpujob.values.errors import BadInput
from gpujob.values.finding import Size, listed
from gpujob.values.quantity import exact_dollars, format_parameters
from gpujob.values.vocabulary import WorkKind

if TYPE_CHECKING:
    from gpujob.catalog.catalog import Catalog

Rows = list[dict[str, Any]]

SOURCE: Final = "SOURCE"


@dataclass(frozen=True, slots=True)
class Section:
    """One kind of row: its members, and the columns of its table; the last of them are in the wide table only."""

    rows: Callable[[Catalog], Rows]
    columns: Mapping[str, str]
    """The table's headers with the members that they show."""
    wide: frozenset[str] = frozenset()
    """Without the sources, which are longer than everything else."""

    def table(self, catalog: Catalog, *, wide: bool) -> tuple[list[str], list[list[str]]]:
        """Headers and rows."""
        headers = [header for header in self.columns if wide or header not in self.wide | {SOURCE}]
        rows = self.rows(catalog)
        return headers, [[_cell(row[self.columns[header]], self.columns[header]) for header in headers] for row in rows]


_ORIGIN: Final = ("source", "checkedOn")


def _document(row: Any, *members: str, **computed: Any) -> dict[str, Any]:
    """A row as JSON, with its source: each member is the row's field of that name, unless its value is `computed`."""
    names = (*members, *_ORIGIN)
    return {name: computed[name] if name in computed else _plain(getattr(row, _field(name))) for name in names}


def _field(member: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", member)


def _plain(value: Any) -> Any:
    """A record's value in JSON's types."""
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value.value if isinstance(value, Enum) else value


def _accelerators(catalog: Catalog) -> Rows:
    return [
        _document(
            row, "id", "name", "vendor", "architecture", "memoryPerGPU", "bandwidthGBs", "bf16TFLOPS", "fp16TFLOPS", "fp8TFLOPS",
            "watts", "support", "integrated", "devicesPerCard", "features", "minDriver", "minBackend", "hostArchitecture", "note",
            memoryPerGPU=None if row.usable_bytes is None else str(Size(row.usable_bytes)), bandwidthGBs=row.bandwidth_gb_s,
            bf16TFLOPS=row.bf16_tflops, fp16TFLOPS=row.fp16_tflops, fp8TFLOPS=row.fp8_tflops, note=row.note or None,
        )
        for row in catalog.accelerators
    ]  # fmt: skip


def _runtimes(catalog: Catalog) -> Rows:
    return [
        _document(
            row, "name", "image", "backend", "backendVersion", "framework", "frameworkVersion", "python", "architectures",
            "minDriver", "driverWindow", "cpuArchitectures", "features", "runsAsNonRoot", "preference",
            driverWindow={"min": row.driver_window[0], "max": row.driver_window[1]},
        )
        for row in catalog.runtimes
    ]  # fmt: skip


def _stacks(catalog: Catalog) -> Rows:
    members = ("backend", "version", "minDriver", "testedFrom", "testedTo", "forwardDrivers")
    return [_document(row, *members) for row in catalog.stacks]


def _prices(catalog: Catalog) -> Rows:
    members = ("cloud", "instanceType", "accelerator", "region", "capacityType", "pricePerGPUHour")
    return [_document(row, *members, pricePerGPUHour=exact_dollars(row.per_gpu_hour)) for row in catalog.prices]


def _features(catalog: Catalog) -> Rows:
    members = ("name", "levels", "backends", "since", "description", "accelerators", "runtimes")
    return [
        _document(
            row,
            *members,
            backends=[backend.value for backend in row.backends],
            since=dict(row.since),
            accelerators=[one.id for one in catalog.accelerators if row.name in one.features],
            runtimes=[one.name for one in catalog.runtimes if row.name in one.features],
        )
        for row in catalog.features.values()
    ]


def _throughputs(catalog: Catalog) -> Rows:
    members = ("benchmark", "work", "devices", "engine", "format", "accelerator", "perGPU", "unit", "evidence")
    return [_document(row, *members, perGPU=row.per_gpu) for row in catalog.throughputs]


def _speeds(catalog: Catalog) -> Rows:
    """The prior of every accelerator that has one, the fastest first."""
    found = []
    for kind in WorkKind:
        known = [(row.id, catalog.speed(row.id, Work(kind))) for row in catalog.accelerators]
        speeds = [(name, speed) for name, speed in known if speed is not None]
        for name, speed in sorted(speeds, key=lambda pair: (-pair[1].millionths, pair[0])):
            found.append({
                "accelerator": name,
                "work": kind.value,
                "speed": speed_text(speed.millionths),
                "comparedWith": REFERENCE,
                "estimate": speed.estimate,
                "errorPercent": speed.error,
                "roofline": speed.roofline,
                "source": speed.source,
                "checkedOn": speed.checked_on,
            })  # fmt: skip
    return found


def _models(catalog: Catalog) -> Rows:
    members = (
        "name", "parameters", "layers", "hidden", "heads", "kvHeads", "headDim", "ffn", "vocabulary", "tied",
        "experts",
    )  # fmt: skip
    return [_document(row, *members, "activeExperts") for row in catalog.models.values()]


_SOURCE: Final = {SOURCE: "source", "DATE": "checkedOn"}

SECTIONS: Final[Mapping[str, Section]] = {
    "accelerators": Section(
        _accelerators,
        {"ACCELERATOR": "id", "VENDOR": "vendor", "ARCHITECTURE": "architecture", "MEMORY": "memoryPerGPU",
         "GB/S": "bandwidthGBs", "BF16": "bf16TFLOPS", "FP16": "fp16TFLOPS", "FP8": "fp8TFLOPS", "WATTS": "watts",
         "SUPPORT": "support", "FEATURES": "features", "NOTE": "note", **_SOURCE},
        frozenset({"FP16", "FEATURES", "NOTE"}),
    ),
    "runtimes": Section(
        _runtimes,
        {"RUNTIME": "name", "BACKEND": "backend", "VERSION": "backendVersion", "FRAMEWORK": "framework",
         "RELEASE": "frameworkVersion", "PYTHON": "python", "MIN DRIVER": "minDriver", "PREFERENCE": "preference",
         "IMAGE": "image", "ARCHITECTURES": "architectures", "CPU": "cpuArchitectures", "FEATURES": "features", **_SOURCE},
        frozenset({"IMAGE", "ARCHITECTURES", "CPU", "FEATURES"}),
    ),
    "stacks": Section(
        _stacks,
        {"BACKEND": "backend", "VERSION": "version", "MIN DRIVER": "minDriver", "TRIED FROM": "testedFrom",
         "TRIED TO": "testedTo", "FORWARD FROM": "forwardDrivers", **_SOURCE},
    ),
    "prices": Section(
        _prices,
        {"CLOUD": "cloud", "INSTANCE TYPE": "instanceType", "ACCELERATOR": "accelerator", "REGION": "region",
         "CAPACITY": "capacityType", "$/GPU-H": "pricePerGPUHour", **_SOURCE},
    ),
    "features": Section(
        _features,
        {"FEATURE": "name", "NEEDED OF": "levels", "DESCRIPTION": "description", "ACCELERATORS": "accelerators",
         "RUNTIMES": "runtimes", **_SOURCE},
        frozenset({"ACCELERATORS", "RUNTIMES"}),
    ),
    "throughputs": Section(
        _throughputs,
        {"BENCHMARK": "benchmark", "DEVICES": "devices", "WORK": "work", "ENGINE": "engine", "FORMAT": "format",
         "ACCELERATOR": "accelerator", "PER GPU": "perGPU", "UNIT": "unit", "EVIDENCE": "evidence", **_SOURCE},
    ),
    "models": Section(
        _models,
        {"MODEL": "name", "PARAMETERS": "parameters", "LAYERS": "layers", "HIDDEN": "hidden", "HEADS": "heads",
         "KV HEADS": "kvHeads", "FFN": "ffn", "VOCABULARY": "vocabulary", "EXPERTS": "experts", **_SOURCE},
    ),
    "speeds": Section(
        _speeds,
        {"ACCELERATOR": "accelerator", "WORK": "work", "SPEED": "speed", "OF A": "comparedWith", "± %": "errorPercent",
         "ESTIMATE": "estimate", "ROOFLINE": "roofline", **_SOURCE},
    ),
}  # fmt: skip


def sections(wanted: Iterable[str]) -> dict[str, Section]:
    """The sections of these names, all if none is named; raises BadInput for an unknown name."""
    names = list(wanted) or list(SECTIONS)
    for name in names:
        if name not in SECTIONS:
            raise BadInput(f"the catalog has no section {name}; the sections are {listed(SECTIONS)}")
    return {name: SECTIONS[name] for name in names}


def documents(catalog: Catalog, wanted: Iterable[str]) -> dict[str, Rows]:
    """The rows of these sections as the JSON of `catalog -o json`."""
    return {name: section.rows(catalog) for name, section in sections(wanted).items()}


def _cell(value: Any, member: str) -> str:
    if value is None or value == "" or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if member == "parameters" and isinstance(value, int):
        return format_parameters(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
