"""Catalogs from files: the shipped one (data/*.yaml through data/catalog.json), and one given by `--catalog`.

Only a wrong row is rejected and listed in `Catalog.refused`; the others stay. Only a file that cannot be read at all raises
BadInput.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, Final

import orjson
import yaml

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.devices import efficiency, efficiency_fit, identity
from gpujob.catalog.devices.roofline import has_roofline
from gpujob.catalog.entities import Accelerator, Architecture, InstanceType, Price, Throughput
from gpujob.catalog.files import rows, runtime_rows
from gpujob.catalog.files.fields import Sources
from gpujob.catalog.images.runtime import Stack
from gpujob.values.errors import BadInput, CatalogInvalid

SECTIONS: Final = ("accelerators", "features", "instanceTypes", "runtimes", "stacks", "prices", "throughputs", "models")
SUPPORTING: Final = ("sources", "architectures", "shared")
"""Sections that other sections' rows refer to; `shared` holds YAML anchors."""
GENERATED: Final = "catalog.json"
EFFICIENCIES: Final = "efficiencies"
"""The document of the generated file that is computed from the throughputs."""
"""What `catalog.shipped` makes of the shipped files, and what is read of them."""
SHIPPED: Final = ("accelerators", "features", "instance_types", "runtimes", "stacks", "prices", "throughputs", "models")

_SafeLoader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KEPT_TAGS: Final = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")


def _text_resolvers(loader: Any) -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """What a plain YAML scalar can be besides text: null and the merge key."""
    known: dict[str, list[tuple[str, re.Pattern[str]]]] = loader.yaml_implicit_resolvers
    return {first: [pair for pair in pairs if pair[0] in _KEPT_TAGS] for first, pairs in known.items()}


class _TextLoader(_SafeLoader):  # type: ignore[misc]
    """YAML whose numbers stay text: 2.10 is a version, no float, and the fields say what is a number."""

    yaml_implicit_resolvers: ClassVar = _text_resolvers(_SafeLoader)


@cache  # reading the shipped tables takes 36 ms, and many functions begin with them
def load_catalog() -> Catalog:
    """The shipped catalog, read once."""
    found = dict(_shipped())
    known = found.pop(EFFICIENCIES, [])
    return replace(read_shipped(found), efficiencies=efficiency.loaded(known))


def read_shipped(documents: Mapping[str, Any]) -> Catalog:
    """The catalog of the shipped documents, without the computed efficiencies."""
    draft = _Draft()
    for document in documents.values():
        draft.take(document, runtime_rows.shipped)
    return draft.catalog(Catalog())


def read_catalog(text: str) -> Catalog:
    """The shipped catalog with a file's sections in place of its own; raises BadInput if the file cannot be read at all.

    The file has sections (accelerators, features, instanceTypes, runtimes, stacks, prices, throughputs), each of which replaces
    the shipped one; or GPURuntime objects, several documents or a List; or a plain list of runtime rows. The latter two replace
    the shipped runtimes.
    """
    documents = [document for document in read_documents(text) if document is not None]
    if not documents:
        raise BadInput(f"the catalog is empty; write one of the sections {', '.join(SECTIONS)}, or GPURuntime objects")
    draft, shipped = _Draft(), load_catalog()
    for document in documents:
        draft.take(_as_sections(document), runtime_rows.reader_of(shipped.runtimes))
    return _measured(draft, draft.catalog(shipped), shipped)


def extended(base: Catalog, sections: Mapping[str, Any]) -> Catalog:
    """A catalog with more rows, read as by `read_documents`: each replaces the one of its name, the others stay.

    Raises BadInput for a section that does not exist; rows that are wrong go to `Catalog.refused`.
    """
    draft = _Draft(base)
    draft.take(sections, runtime_rows.reader_of(base.runtimes))
    return _measured(draft, draft.catalog(base), base)


def _measured(draft: _Draft, made: Catalog, shipped: Catalog) -> Catalog:
    """The catalog of a draft with the efficiencies of its throughputs, where it has some."""
    found = replace(made, data_sheets=(*shipped.data_sheets, *shipped.accelerators))
    if not draft.measures:
        return found
    known = tuple({row.id: row for row in (*shipped.accelerators, *found.accelerators) if has_roofline(row)}.values())
    refused = (
        (
            row.benchmark,
            f"throughputs of {row.benchmark}: TFLOPS and bandwidth are unknown for {row.accelerator}, of which an "
            "efficiency is a part; add them to its row in accelerators",
        )
        for row in found.throughputs
        if row.accelerator not in {each.id for each in known}
    )
    measured = efficiency_fit.efficiencies(found.throughputs, known)
    return replace(found, efficiencies=measured, refused=(*found.refused, *refused))


class _Draft:
    """A catalog under construction: the rows of each section that some file had, by their keys."""

    def __init__(self, extending: Catalog | None = None) -> None:
        """`extending` is the catalog that the rows come on top of; without it they stand in the place of its sections."""
        self._extending = extending
        self._sections: dict[str, dict[Any, Any]] = {}
        self._architectures: Mapping[str, Architecture] | None = None
        self._refused: list[tuple[str, str]] = []

    @property
    def measures(self) -> bool:
        """Whether some file has throughputs of its own."""
        return "throughputs" in self._sections

    def take(self, document: Mapping[str, Any], read_runtime: runtime_rows.Reader) -> None:
        """Adds the sections of one document."""
        unknown = [str(name) for name in document if name not in (*SECTIONS, *SUPPORTING)]
        if unknown:
            meant = identity.nearest(unknown[0], SECTIONS)
            hint = f"did you mean {meant}?" if meant else f"the sections are {', '.join(SECTIONS)}"
            raise BadInput(f"the catalog has no section {unknown[0]}; {hint}")
        sources = Sources(document.get("sources"))
        readers: dict[str, Callable[[Any], Iterable[Any]]] = {
            "accelerators": lambda raw: [rows.accelerator(raw, self._architectures or {}, sources)],
            "features": lambda raw: [rows.feature(raw, sources)],
            "instanceTypes": lambda raw: rows.instance_types(raw, sources),
            "prices": lambda raw: rows.list_prices(raw, self._machines(), sources),
            "runtimes": lambda raw: [read_runtime(raw, sources)],
            "models": lambda raw: rows.models(raw, sources),
            "stacks": lambda raw: [rows.stack(raw, sources)],
            "throughputs": lambda raw: rows.throughputs(raw, sources),
        }
        if "accelerators" in document:
            # Devices of an architecture share facts, also those of a file that has accelerators without architectures.
            shared = document.get("architectures") or _shipped()["accelerators"]["architectures"]
            self._architectures = rows.architectures(shared)
        for section, read in readers.items():
            if section in document:
                self._extend(section, document[section] or [], read)

    def catalog(self, base: Catalog) -> Catalog:
        """The catalog: `base` where no section replaced it."""
        return replace(
            base,
            accelerators=self._rows("accelerators", base.accelerators),
            features=self._table("features", base.features),
            instance_types=self._table("instanceTypes", base.instance_types),
            prices=self._rows("prices", base.prices),
            runtimes=self._rows("runtimes", base.runtimes),
            models=self._table("models", base.models),
            throughputs=self._rows("throughputs", base.throughputs),
            stacks=self._rows("stacks", base.stacks),
            architectures=base.architectures if self._architectures is None else self._architectures,
            refused=(*base.refused, *self._refused),
        )

    def _rows(self, section: str, base: tuple[Any, ...]) -> tuple[Any, ...]:
        """A section's rows: those of the draft, on top of those of `base` where it is extended."""
        own = self._sections.get(section)
        if own is None:
            return base
        return tuple({**({_key(row): row for row in base} if self._extending else {}), **own}.values())

    def _table(self, section: str, base: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same of a section that is kept by its rows' names."""
        own = self._sections.get(section)
        return base if own is None else {**(base if self._extending else {}), **own}

    def _machines(self) -> Mapping[str, InstanceType]:
        """The instance types that prices refer to."""
        own: Mapping[str, InstanceType] | None = self._sections.get("instanceTypes")
        if self._extending:
            return {**self._extending.instance_types, **(own or {})}
        return load_catalog().instance_types if own is None else own

    def _extend(self, section: str, raws: Any, read: Callable[[Any], Iterable[Any]]) -> None:
        """Adds a section's rows; a wrong row goes to the refused ones."""
        if not isinstance(raws, list):
            raise BadInput(f"section {section} of the catalog is no list of rows")
        known = self._sections.setdefault(section, {})
        for number, raw in enumerate(raws, start=1):
            try:
                for row in read(raw):
                    if _key(row) in known:
                        raise CatalogInvalid(f"{_key(row)} is given twice in {section}; the first row is used")
                    known[_key(row)] = row
            except CatalogInvalid as error:
                self._refused.append((_name_of(raw) or f"{section} row {number}", str(error)))


def _key(row: Any) -> Any:
    """The key of a row in its section."""
    if isinstance(row, Price):
        return (row.cloud, row.instance_type, row.accelerator, row.region, row.capacity_type)
    if isinstance(row, Throughput):
        return (row.work, row.benchmark, row.devices, row.engine, row.format, row.accelerator)
    if isinstance(row, Stack):
        return (row.backend, row.release)
    return row.id if isinstance(row, Accelerator) else row.name


def _name_of(raw: Any) -> str:
    """The name of a refused row in messages."""
    if not isinstance(raw, dict):
        return ""
    metadata = raw.get("metadata")
    return str(raw.get("name") or raw.get("id") or (metadata.get("name") if isinstance(metadata, dict) else "") or "")


def _shipped() -> Mapping[str, Any]:
    """The documents of the shipped catalog by file."""
    # importlib.resources would cost half as much as all the reading.
    try:
        data = pkgutil.get_data("gpujob.catalog", f"data/{GENERATED}")
    except OSError:
        data = None
    if data is None:
        raise BadInput(f"the catalog's own file data/{GENERATED} is missing; install gpujob-operator again")
    found: Mapping[str, Any] = orjson.loads(data)
    return found


def read_documents(text: str) -> list[Any]:
    """The documents of a YAML or JSON text, every number as text; raises BadInput."""
    try:
        if re.match(r"\s*[\[{]", text):
            try:
                return [json.loads(text, parse_int=str, parse_float=str)]
            except json.JSONDecodeError:
                pass  # YAML in flow style begins alike.
        return list(yaml.load_all(text, Loader=_TextLoader))
    except (yaml.YAMLError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        place = f" at line {where.line + 1}" if where else ""
        raise BadInput(f"the catalog is neither YAML nor JSON{place}: {getattr(error, 'problem', error)}") from error


def _as_sections(document: Any) -> Mapping[str, Any]:
    """A document of any accepted form as sections."""
    if isinstance(document, list):
        return {"runtimes": document}
    if not isinstance(document, dict):
        raise BadInput("the catalog is no table of sections, no list of runtimes and no GPURuntime object")
    if "kind" not in document:
        return document
    if str(document["kind"]).endswith("List") and "items" in document:
        return {"runtimes": document["items"]}
    return {"runtimes": [document]}
