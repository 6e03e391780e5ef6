"""The catalog, section by section: each row with its source and the day that it was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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


def _accelerators(catalog: Catalog) -> Rows:
    return [
        {
            "id": row.id,
            "name": row.name,
            "vendor": row.vendor.value,
            "architecture": row.architecture,
            "memoryPerGPU": None if row.usable_bytes is None else str(Size(row.usable_bytes)),
            "bandwidthGBs": row.bandwidth_gb_s,
            "bf16TFLOPS": row.bf16_tflops,
            "fp16TFLOPS": row.fp16_tflops,
            "fp8TFLOPS": row.fp8_tflops,
            "watts": row.watts,
            "support": row.support,
            "integrated": row.integrated,
            "devicesPerCard": row.devices_per_card,
            "features": sorted(row.features),
            "minDriver": row.min_driver,
            "minBackend": row.min_backend,
            "hostArchitecture": row.host_architecture,
            "note": row.note or None,
            **_source(row),
        }
        for row in catalog.accelerators
    ]


def _runtimes(catalog: Catalog) -> Rows:
    return [
        {
            "name": row.name,
            "image": row.image,
            "backend": row.backend.value,
            "backendVersion": row.backend_version,
            "framework": row.framework,
            "frameworkVersion": row.framework_version,
            "python": row.python,
            "architectures": list(row.architectures),
            "minDriver": row.min_driver,
            "driverWindow": {"min": row.driver_window[0], "max": row.driver_window[1]},
            "cpuArchitectures": list(row.cpu_architectures),
            "features": sorted(row.features),
            "runsAsNonRoot": row.runs_as_non_root,
            "preference": row.preference,
            **_source(row),
        }
        for row in catalog.runtimes
    ]


def _stacks(catalog: Catalog) -> Rows:
    return [
        {
            "backend": row.backend.value,
            "version": row.version,
            "minDriver": row.min_driver,
            "testedFrom": row.tested_from,
            "testedTo": row.tested_to,
            "forwardDrivers": list(row.forward_drivers),
            **_source(row),
        }
        for row in catalog.stacks
    ]


def _prices(catalog: Catalog) -> Rows:
    return [
        {
            "cloud": row.cloud,
            "instanceType": row.instance_type,
            "accelerator": row.accelerator,
            "region": row.region,
            "capacityType": row.capacity_type.value,
            "pricePerGPUHour": exact_dollars(row.per_gpu_hour),
            **_source(row),
        }
        for row in catalog.prices
    ]


def _features(catalog: Catalog) -> Rows:
    return [
        {
            "name": row.name,
            "levels": list(row.levels),
            "backends": [backend.value for backend in row.backends],
            "since": dict(row.since),
            "description": row.description,
            "accelerators": [one.id for one in catalog.accelerators if row.name in one.features],
            "runtimes": [one.name for one in catalog.runtimes if row.name in one.features],
            **_source(row),
        }
        for row in catalog.features.values()
    ]


def _throughputs(catalog: Catalog) -> Rows:
    return [
        {
            "benchmark": row.benchmark,
            "work": row.work.value,
            "devices": row.devices,
            "engine": row.engine,
            "format": row.format.value,
            "accelerator": row.accelerator,
            "perGPU": row.per_gpu,
            "unit": row.unit,
            "evidence": row.evidence.value,
            **_source(row),
        }
        for row in catalog.throughputs
    ]


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
    return [
        {
            "name": row.name,
            "parameters": row.parameters,
            "layers": row.layers,
            "hidden": row.hidden,
            "heads": row.heads,
            "kvHeads": row.kv_heads,
            "headDim": row.head_dim,
            "ffn": row.ffn,
            "vocabulary": row.vocabulary,
            "tied": row.tied,
            "experts": row.experts,
            "activeExperts": row.active_experts,
            **_source(row),
        }
        for row in catalog.models.values()
    ]


def _source(row: Any) -> dict[str, str]:
    return {"source": row.source, "checkedOn": row.checked_on}


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
         "ESTIMATE": "estimate",
         "ROOFLINE": "roofline",
         **_SOURCE},
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
