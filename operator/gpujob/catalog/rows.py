"""Rows of a catalog file as records: each field typed, each mistake one CatalogInvalid with row, field and remedy.

Values arrive as text, as their author wrote them (2.10 stays 2.10), and are typed here by what the field is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar, cast, get_args

from gpujob.catalog import identity
from gpujob.catalog.records import Accelerator, Feature, InstanceType, Level, ModelShape, Price, Support
from gpujob.catalog.throughput import Throughput
from gpujob.errors import BadQuantity, CatalogInvalid
from gpujob.quantity import parse_bytes, parse_dollars
from gpujob.vocabulary import CapacityType, Evidence, Precision, Reason, Vendor, WorkKind

T = TypeVar("T")

SOURCE_FIELDS: Final = ("source", "checkedOn")


class Sources:
    """The sources of a file by the short key that its rows give, with the day that each was read."""

    def __init__(self, raw: Any) -> None:
        self._known: dict[str, tuple[str, str]] = {}
        for key, value in _mapping("sources", raw or {}).items():
            row = Row(f"source {key}", value)
            row.only("text", "checkedOn")
            self._known[key] = (row.text("text"), row.text("checkedOn", ""))

    def of(self, row: Row) -> tuple[str, str]:
        """Source and day of a row: the texts of its keys, or its own words; its own day wins."""
        found = [self._known.get(key, (key, "")) for key in row.words("source")]
        day = next((day for _, day in found if day), "")
        return "; ".join(text for text, _ in found), row.text("checkedOn", day)


class Row:
    """One row's fields."""

    __slots__ = ("_fields", "label")

    def __init__(self, label: str, fields: Any) -> None:
        self.label = label
        self._fields = _mapping(label, fields)

    def only(self, *known: str) -> None:
        """Refuses fields that do not exist."""
        for name in self._fields:
            if name not in known:
                meant = identity.nearest(name, known)
                hint = f"; did you mean {meant}?" if meant else f"; the fields are {', '.join(known)}"
                raise CatalogInvalid(f"{self.label}: there is no field {name}{hint}")

    def text(self, name: str, default: str | None = None) -> str:
        """A field's text; without a default it must be there."""
        value = self._fields.get(name)
        if value is None:
            if default is None:
                raise CatalogInvalid(f"{self.label}: {name} is missing")
            return default
        if not isinstance(value, str):
            raise CatalogInvalid(f"{self.label}: {name} is a {_kind(value)}; one word or number is wanted")
        return value

    def maybe(self, name: str) -> str | None:
        """A field's text, None when it is absent."""
        return None if self._fields.get(name) is None else self.text(name)

    def words(self, name: str) -> tuple[str, ...]:
        """A field's list of words; a single word is a list of one."""
        value = self._fields.get(name)
        if value is None:
            return ()
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(word, str) for word in values):
            raise CatalogInvalid(f"{self.label}: {name} is no list of words")
        return tuple(values)

    def number(self, name: str) -> float | None:
        """A positive number."""
        return self._typed(name, _positive, "a positive number")

    def whole(self, name: str) -> int | None:
        """A positive whole number."""
        return self._typed(name, _positive_whole, "a positive whole number")

    def needed(self, name: str, most: int = 10**9) -> int:
        """A positive whole number that must be there."""
        text = self.text(name)
        if not text.isascii() or not text.isdecimal() or len(text) > 16 or not 0 < int(text) <= most:
            raise CatalogInvalid(f"{self.label}: {name} is {text!r}; a positive whole number is wanted")
        return int(text)

    def truth(self, name: str) -> bool:
        """true or false; false when absent."""
        return self.one_of(name, ("true", "false"), "false") == "true"

    def memory(self, name: str) -> int | None:
        """Bytes of a quantity such as 81559Mi."""
        return self._typed(name, parse_bytes, "a memory size such as 192Gi")

    def one_of(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """A word of a closed set."""
        word = self.text(name, default)
        if word not in choices:
            raise CatalogInvalid(f"{self.label}: {name} is {word!r}; one of {', '.join(choices)} is wanted")
        return word

    def table(self, name: str) -> Mapping[str, Any]:
        """A field that is itself a table, empty when it is absent."""
        return _mapping(f"{self.label}: {name}", self._fields.get(name) or {})

    def _typed(self, name: str, read: Callable[[str], T], wanted: str) -> T | None:
        text = self.maybe(name)
        if text is None:
            return None
        try:
            return read(text)
        except (ValueError, BadQuantity) as error:
            raise CatalogInvalid(f"{self.label}: {name} is {text!r}; {wanted} is wanted") from error


class Architectures:
    """What all devices of an architecture have in common: features and the oldest driver."""

    FIELDS: Final = ("features", "minDriver", *SOURCE_FIELDS)

    def __init__(self, raw: Any) -> None:
        self._known: dict[str, tuple[frozenset[str], str | None]] = {}
        for name, value in _mapping("architectures", raw or {}).items():
            row = Row(f"architecture {name}", value)
            row.only(*self.FIELDS)
            self._known[name] = (frozenset(row.words("features")), row.maybe("minDriver"))

    def __getitem__(self, name: str) -> tuple[frozenset[str], str | None]:
        return self._known.get(name, (frozenset(), None))


ACCELERATOR_FIELDS: Final = (
    "id", "name", "architecture", "memory", "driverMemory", "torchMemory", "bandwidth", "bf16", "fp16", "fp8",
    "features", "minDriver", "support", "integrated", "devicesPerCard", "partitions", "slices", "computeUnits", "deviceIds",
    "products", "gke", "cloudNames", "watts", *SOURCE_FIELDS, "note",
)  # fmt: skip


def accelerator(raw: Any, architectures: Architectures, sources: Sources) -> Accelerator:
    """An accelerator's row; its architecture brings features and the oldest driver, which the row can add to."""
    row = Row(f"accelerator {_name_in(raw, 'id')}", raw)
    row.only(*ACCELERATOR_FIELDS)
    architecture = row.text("architecture")
    features, min_driver = architectures[architecture]
    source, checked_on = sources.of(row)
    return Accelerator(
        id=row.text("id"),
        name=row.text("name"),
        vendor=Vendor.AMD if architecture.startswith("gfx") else Vendor.NVIDIA,
        architecture=architecture,
        nominal_bytes=row.memory("memory"),
        driver_bytes=row.memory("driverMemory"),
        torch_bytes=row.memory("torchMemory"),
        bandwidth_gb_s=row.number("bandwidth"),
        bf16_tflops=row.number("bf16"),
        fp16_tflops=row.number("fp16"),
        fp8_tflops=row.number("fp8"),
        features=features.union(row.words("features")),
        min_driver=row.maybe("minDriver") or min_driver,
        support=cast(Support, row.one_of("support", get_args(Support), "production")),
        integrated=row.one_of("integrated", ("true", "false"), "false") == "true",
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
    row.only("name", "levels", "reason", "description", *SOURCE_FIELDS)
    levels = row.words("levels")
    if not levels or not set(levels) <= set(get_args(Level)):
        raise CatalogInvalid(f"{row.label}: levels must be accelerator, runtime or both")
    reasons = (Reason.PRECISION_UNSUPPORTED.value, Reason.FRAMEWORK_UNSUPPORTED.value)
    source, checked_on = sources.of(row)
    return Feature(
        name=row.text("name"),
        levels=cast(tuple[Level, ...], levels),
        reason=Reason(row.one_of("reason", reasons, Reason.FRAMEWORK_UNSUPPORTED)),
        description=row.text("description", ""),
        source=source,
        checked_on=checked_on,
    )


MODEL_FIELDS: Final = (
    "name", "parameters", "layers", "hidden", "heads", "kvHeads", "headDim", "ffn", "vocabulary", "tied", "plain",
    "stepwise", "experts", "activeExperts", *SOURCE_FIELDS,
)  # fmt: skip


def model(raw: Any, sources: Sources) -> ModelShape:
    """A model's row."""
    row = Row(f"model {_name_in(raw, 'name')}", raw)
    row.only(*MODEL_FIELDS)
    source, checked_on = sources.of(row)
    hidden, heads = row.needed("hidden"), row.needed("heads")
    return ModelShape(
        name=identity.plain_model(row.text("name")),
        parameters=row.needed("parameters", most=10**13),
        layers=row.needed("layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=row.whole("kvHeads") or heads,
        head_dim=row.whole("headDim") or max(hidden // heads, 1),
        ffn=row.needed("ffn"),
        vocabulary=row.needed("vocabulary"),
        tied=row.truth("tied"),
        gated=not row.truth("plain"),
        stepwise=row.truth("stepwise"),
        experts=row.whole("experts") or 1,
        active_experts=row.whole("activeExperts") or 1,
        source=source,
        checked_on=checked_on,
    )


def instance_types(raw: Any, sources: Sources) -> Iterator[InstanceType]:
    """The rows of one group: instance types of a cloud with the same accelerator, each with its devices."""
    row = Row(f"instance types of {_name_in(raw, 'cloud')} {_name_in(raw, 'accelerator')}", raw)
    row.only("cloud", "accelerator", "devices", *SOURCE_FIELDS)
    source, checked_on = sources.of(row)
    cloud, accelerator_id = row.text("cloud"), row.text("accelerator")
    counts = Row(row.label, row.table("devices"))
    for name in row.table("devices"):
        yield InstanceType(name, cloud, accelerator_id, counts.whole(name) or 0, source, checked_on)


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
        amount = _dollars(row, name, text) // machine.devices
        yield Price(cloud, name, machine.accelerator, region, capacity, amount, source, checked_on)
    for name, text in row.table("perGPUHour").items():
        yield Price(cloud, None, name, region, capacity, _dollars(row, name, text), source, checked_on)


def throughputs(raw: Any, sources: Sources) -> Iterator[Throughput]:
    """The rows of one group: what accelerators did on one benchmark."""
    row = Row(f"throughputs of {_name_in(raw, 'benchmark')}", raw)
    row.only("benchmark", "work", "precision", "evidence", "unit", "perGPU", *SOURCE_FIELDS)
    source, checked_on = sources.of(row)
    benchmark, unit = row.text("benchmark"), row.text("unit")
    work = WorkKind(row.one_of("work", tuple(WorkKind)))
    precision = Precision(row.one_of("precision", tuple(Precision)))
    evidence = Evidence(row.one_of("evidence", tuple(Evidence)))
    figures = Row(row.label, row.table("perGPU"))
    for name in row.table("perGPU"):
        figure = figures.number(name) or 0.0
        yield Throughput(benchmark, work, precision, evidence, name, figure, unit, source, checked_on)


def _dollars(row: Row, name: str, text: Any) -> int:
    try:
        price = parse_dollars(text)
    except BadQuantity as error:
        raise CatalogInvalid(f"{row.label}: the price of {name} is wrong: {error}") from error
    if price == 0:
        raise CatalogInvalid(f"{row.label}: the price of {name} is 0; leave out what is not known")
    return price


def _mapping(label: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise CatalogInvalid(f"{label} is a {_kind(value)}; a table of fields is wanted")
    return value


def _name_in(raw: Any, field: str) -> str:
    return str(raw.get(field) or "without a name") if isinstance(raw, dict) else "without a name"


def _kind(value: Any) -> str:
    kinds: tuple[tuple[type, str], ...] = ((dict, "table"), (list, "list"), (str, "word"))
    return next((word for kind, word in kinds if isinstance(value, kind)), "void")


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise ValueError(text)
    return value


def _positive_whole(text: str) -> int:
    value = int(text)
    if not 0 < value < 10**9:
        raise ValueError(text)
    return value
