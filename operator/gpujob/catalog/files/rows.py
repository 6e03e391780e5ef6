"""Rows of a catalog file as records; a wrong one is one CatalogInvalid with row, field and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast, get_args

from gpujob.catalog.entities import Accelerator, Architecture, Feature, InstanceType, Level, Price, Support, Throughput
from gpujob.catalog.files.fields import SOURCE_FIELDS, Row, Sources, mapping
from gpujob.catalog.images.runtime import Stack
from gpujob.catalog.images.versions import release
from gpujob.catalog.models import naming
from gpujob.catalog.models.code_kinds import KINDS
from gpujob.catalog.models.shapes import ModelShape
from gpujob.values.errors import BadQuantity, CatalogInvalid
from gpujob.values.quantity import parse_dollars
from gpujob.values.vocabulary import Backend, CapacityType, Evidence, Reason, RunFormat, Vendor, WeightFormat, WorkKind

ARCHITECTURE_FIELDS: Final = ("features", "minDriver", "minBackend", *SOURCE_FIELDS)


def architectures(raw: Any) -> dict[str, Architecture]:
    """The facts that all devices of an architecture share, by its name."""
    found = {}
    for name, value in mapping("architectures", raw or {}).items():
        row = Row(f"architecture {name}", value)
        row.only(*ARCHITECTURE_FIELDS)
        features = frozenset(row.words("features"))
        found[name] = Architecture(name, features, row.release("minDriver"), row.release("minBackend"))
    return found


ACCELERATOR_FIELDS: Final = (
    "id", "name", "architecture", "memory", "driverMemory", "eccMemory", "torchMemory", "bandwidth", "bf16", "fp16", "fp8",
    "features", "minDriver", "minBackend", "hostArchitecture", "support",
    "integrated", "wholeMemory", "devicesPerCard", "partitions", "slices", "computeUnits", "deviceIds",
    "products", "gke", "cloudNames", "watts", *SOURCE_FIELDS, "note"
)  # fmt: skip


def accelerator(raw: Any, known: Mapping[str, Architecture], sources: Sources) -> Accelerator:
    """An accelerator's row; its architecture adds features and the oldest driver, which the row can extend."""
    row = Row(f"accelerator {_name_in(raw, 'id')}", raw)
    row.only(*ACCELERATOR_FIELDS)
    architecture = row.text("architecture")
    common = known.get(architecture) or Architecture(architecture)
    source, checked_on = sources.of(row)
    return Accelerator(
        id=row.text("id"),
        name=row.text("name"),
        vendor=Vendor.AMD if architecture.startswith("gfx") else Vendor.NVIDIA,
        architecture=architecture,
        nominal_bytes=row.memory("memory"),
        driver_bytes=row.memory("driverMemory"),
        ecc_bytes=row.memory("eccMemory"),
        torch_bytes=row.memory("torchMemory"),
        bandwidth_gb_s=row.number("bandwidth"),
        bf16_tflops=row.number("bf16"),
        fp16_tflops=row.number("fp16"),
        fp8_tflops=row.number("fp8"),
        features=common.features.union(row.words("features")),
        min_driver=row.release("minDriver") or common.min_driver,
        min_backend=row.release("minBackend") or common.min_backend,
        host_architecture=row.maybe("hostArchitecture"),
        support=cast(Support, row.one_of("support", get_args(Support), "production")),
        integrated=row.one_of("integrated", ("true", "false"), "false") == "true",
        whole_bytes=row.memory("wholeMemory"),
        devices_per_card=row.whole("devicesPerCard") or 1,
        partitions=row.whole("partitions"),
        slices=_slices(row),
        compute_units=row.whole("computeUnits"),
        device_ids=row.words("deviceIds"),
        products=row.words("products"),
        gke=row.words("gke"),
        cloud_names=row.words("cloudNames"),
        watts=row.whole("watts"),
        source=source,
        checked_on=checked_on,
        note=row.text("note", ""),
    )


def _slices(row: Row) -> tuple[tuple[str, int], ...]:
    """MIG profiles of a row with their memory."""
    sizes = Row(f"{row.label}: slices", row.table("slices"))
    return tuple((profile, sizes.memory(profile) or 0) for profile in row.table("slices"))


def feature(raw: Any, sources: Sources) -> Feature:
    """A feature's row."""
    row = Row(f"feature {_name_in(raw, 'name')}", raw)
    row.only("name", "levels", "reason", "backends", "since", "description", *SOURCE_FIELDS)
    levels = row.words("levels")
    if not levels or not set(levels) <= set(get_args(Level)):
        raise CatalogInvalid(f"{row.label}: levels must be accelerator, runtime or both")
    reasons = (Reason.PRECISION_UNSUPPORTED.value, Reason.FRAMEWORK_UNSUPPORTED.value)
    since = Row(row.label, row.table("since"))
    source, checked_on = sources.of(row)
    return Feature(
        name=row.text("name"),
        levels=cast(tuple[Level, ...], levels),
        reason=Reason(row.one_of("reason", reasons, Reason.FRAMEWORK_UNSUPPORTED)),
        backends=_backends(row),
        since={architecture: since.release(architecture) or "" for architecture in row.table("since")},
        description=row.text("description", ""),
        source=source,
        checked_on=checked_on,
    )


MODEL_FIELDS: Final = (
    "name", "aliases", "kind", "parameters", "layers", "hidden", "heads", "kvHeads", "headDim", "ffn", "vocabulary", "positions",
    "tied", "experts", "activeExperts", "denseLayers", "denseFfn", "attentionParameters", "latent", "window",
    "windowedLayers", "published", *SOURCE_FIELDS
)  # fmt: skip


def models(raw: Any, sources: Sources) -> Iterator[ModelShape]:
    """A model's row: its dimensions, and the same under each name of models derived from it."""
    row = Row(f"model {_name_in(raw, 'name')}", raw)
    row.only(*MODEL_FIELDS)
    source, checked_on = sources.of(row)
    hidden, heads = row.needed("hidden"), row.needed("heads")
    shape = ModelShape(
        name=naming.plain(row.text("name")),
        parameters=row.needed("parameters", most=10**13),
        layers=row.needed("layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=row.whole("kvHeads") or heads,
        head_dim=row.whole("headDim") or max(hidden // heads, 1),
        ffn=row.needed("ffn"),
        vocabulary=row.needed("vocabulary"),
        tied=row.truth("tied"),
        kind=KINDS[row.one_of("kind", tuple(KINDS), "llama")],
        positions=row.whole("positions") or 0,
        experts=row.whole("experts") or 1,
        active_experts=row.whole("activeExperts") or 1,
        dense_layers=row.whole("denseLayers") or 0,
        dense_ffn=row.whole("denseFfn") or 0,
        attention_parameters=row.whole("attentionParameters") or 0,
        latent=row.whole("latent") or 0,
        window=row.whole("window") or 0,
        windowed_layers=row.whole("windowedLayers") or 0,
        published=row.one_of("published", tuple(WeightFormat)) if row.maybe("published") else "",
        source=source,
        checked_on=checked_on,
    )
    yield shape
    for alias in row.words("aliases"):
        yield replace(shape, name=naming.plain(alias))


def _backends(row: Row) -> tuple[Backend, ...]:
    words = row.words("backends")
    wrong = [word for word in words if word not in tuple(Backend)]
    if wrong:
        raise CatalogInvalid(f"{row.label}: backends has {wrong[0]!r}; CUDA, ROCm or both are wanted")
    return tuple(Backend(word) for word in words) or tuple(Backend)


def stack(raw: Any, sources: Sources) -> Stack:
    """The row of a release of CUDA or ROCm."""
    row = Row(f"stack {_name_in(raw, 'backend')} {_name_in(raw, 'version')}", raw)
    row.only(
        "backend", "version", "minDriver", "testedFrom", "testedTo", "forwardDrivers", "toolkitDriver", *SOURCE_FIELDS
    )
    version = row.release("version") or row.text("version")
    source, checked_on = sources.of(row)
    return Stack(
        backend=Backend(row.one_of("backend", tuple(Backend))),
        version=version,
        release=release(version),
        min_driver=row.release("minDriver"),
        tested_from=row.release("testedFrom"),
        tested_to=row.release("testedTo"),
        forward_drivers=row.releases("forwardDrivers"),
        toolkit_driver=row.release("toolkitDriver"),
        source=source,
        checked_on=checked_on,
    )


_PART: Final = re.compile(r"1/([2-9])")


def instance_types(raw: Any, sources: Sources) -> Iterator[InstanceType]:
    """The rows of one group: instance types of a cloud with the same accelerator, each with its devices."""
    row = Row(f"instance types of {_name_in(raw, 'cloud')} {_name_in(raw, 'accelerator')}", raw)
    row.only("cloud", "accelerator", "devices", *SOURCE_FIELDS)
    source, checked_on = sources.of(row)
    cloud, accelerator_id = row.text("cloud"), row.text("accelerator")
    counts = Row(row.label, row.table("devices"))
    for name in row.table("devices"):
        # A sixth of a device is written 1/6.
        part = _PART.fullmatch(counts.text(name))
        count, parts = (1, int(part[1])) if part else (counts.whole(name) or 0, 1)
        yield InstanceType(name, cloud, accelerator_id, count, source, checked_on, parts)


def list_prices(raw: Any, known: Mapping[str, InstanceType], sources: Sources) -> Iterator[Price]:
    """The rows of one group: prices of a cloud, region and capacity type, for a node or for a GPU."""
    row = Row(f"prices of {_name_in(raw, 'cloud')} {_name_in(raw, 'region')}", raw)
    row.only("cloud", "region", "capacityType", "perNodeHour", "perGPUHour", *SOURCE_FIELDS)
    capacity = CapacityType(row.one_of("capacityType", tuple(CapacityType), CapacityType.ON_DEMAND))
    cloud, region = row.text("cloud"), row.text("region")
    source, checked_on = sources.of(row)
    for name, text in row.table("perNodeHour").items():
        machine = known.get(name)
        if machine is None or machine.devices < 1:
            raise CatalogInvalid(f"{row.label}: {name} is no known instance type; add it to instanceTypes")
        amount = _dollars(row, name, text) * machine.parts // machine.devices
        yield Price(cloud, name, machine.accelerator, region, capacity, amount, source, checked_on)
    for name, text in row.table("perGPUHour").items():
        yield Price(cloud, None, name, region, capacity, _dollars(row, name, text), source, checked_on)


def throughputs(raw: Any, sources: Sources) -> Iterator[Throughput]:
    """The rows of one group: the throughput of accelerators on one benchmark."""
    row = Row(f"throughputs of {_name_in(raw, 'benchmark')}", raw)
    row.only(
        "benchmark", "devices", "work", "format", "engine", "evidence", "unit", "perGPU", "sequences", *SOURCE_FIELDS
    )
    source, checked_on = sources.of(row)
    benchmark, unit = row.text("benchmark"), row.text("unit")
    work = WorkKind(row.one_of("work", tuple(WorkKind)))
    run_format = RunFormat(row.one_of("format", tuple(RunFormat)))
    engine, devices, sequences = row.text("engine"), row.whole("devices") or 1, row.whole("sequences")
    evidence = Evidence(row.one_of("evidence", tuple(Evidence)))
    figures = Row(row.label, row.table("perGPU"))
    for name in row.table("perGPU"):
        figure = figures.number(name) or 0.0
        if figure <= 0:
            raise CatalogInvalid(f"{row.label}: the figure of {name} is {figure:g}; a throughput is more than 0")
        yield Throughput(
            benchmark, work, run_format, evidence, name, figure, unit, engine, devices, source, checked_on, sequences
        )


def _dollars(row: Row, name: str, text: Any) -> int:
    try:
        price = parse_dollars(text)
    except BadQuantity as error:
        raise CatalogInvalid(f"{row.label}: the price of {name} is wrong: {error}") from error
    if price == 0:
        raise CatalogInvalid(f"{row.label}: the price of {name} is 0; leave out what is not known")
    return price


def _name_in(raw: Any, field: str) -> str:
    return str(raw.get(field) or "without a name") if isinstance(raw, dict) else "without a name"
