"""Rows of runtimes: a GPURuntime object, or its spec's fields beside a name.

Tests validate the shipped rows as GPURuntimes, so reading them needs no pydantic, which costs more than everything else here; rows
of users are validated in full.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from gpujob.catalog.devices import identity
from gpujob.catalog.files.extending import extended
from gpujob.catalog.files.fields import SOURCE_FIELDS, Row, Sources
from gpujob.catalog.images.consistency import checked
from gpujob.catalog.images.from_spec import runtime_of
from gpujob.catalog.images.runtime import Runtime
from gpujob.catalog.images.versions import release
from gpujob.values.errors import CatalogInvalid
from gpujob.values.quantity import parse_bytes
from gpujob.values.vocabulary import Backend

Reader = Callable[[Any, Sources], Runtime]

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def shipped(raw: Any, sources: Sources) -> Runtime:
    """A shipped row: the fields as they are."""
    row = Row(f"runtime {raw['name']}", raw)
    framework, window = Row(row.label, row.table("framework")), Row(row.label, row.table("driverWindow"))
    source, checked_on = sources.of(row)
    backend_version, version = row.text("backendVersion"), framework.text("version")
    return checked(
        Runtime(
            name=row.text("name"),
            image=row.text("image"),
            backend=Backend(row.text("backend")),
            backend_version=backend_version,
            framework=framework.text("name").lower(),
            framework_version=version,
            framework_release=release(version),
            backend_release=release(backend_version),
            python=row.maybe("python"),
            architectures=row.words("architectures"),
            min_driver=row.maybe("minDriver"),
            driver_window=(window.maybe("min"), window.maybe("max")),
            cpu_architectures=row.words("cpuArchitectures") or ("amd64",),
            features=frozenset(row.words("features")),
            size_bytes=None if row.maybe("size") is None else parse_bytes(row.text("size")),
            preference=int(row.text("preference", "0")),
            source=source,
            checked_on=checked_on,
        )
    )


def reader_of(known: tuple[Runtime, ...]) -> Reader:
    """The reader of a user's rows, which may extend one of `known`."""
    return partial(given, known=known)


def given(raw: Any, sources: Sources, known: tuple[Runtime, ...] = ()) -> Runtime:
    """A user's row; raises CatalogInvalid with one sentence."""
    if isinstance(raw, dict) and "kind" in raw:
        return _of_object(raw, known)
    if not isinstance(raw, dict):
        raise CatalogInvalid("runtime without a name: it is no table of fields")
    name = str(raw.get("name") or _name_of_image(raw.get("image")))
    source, checked_on = sources.of(Row(f"runtime {name}", raw))
    fields = {key: value for key, value in raw.items() if key not in ("name", *SOURCE_FIELDS)}
    return _of_spec(name, fields, source or "catalog file", checked_on, known)


def _of_object(raw: dict[str, Any], known: tuple[Runtime, ...]) -> Runtime:
    metadata = raw.get("metadata")
    name = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
    if raw["kind"] != "GPURuntime":
        raise CatalogInvalid(f"runtime {name or 'without a name'}: kind is {raw['kind']}; GPURuntime is wanted")
    return _of_spec(name, raw.get("spec"), "GPURuntime", "", known)


def _of_spec(name: str, fields: Any, source: str, checked_on: str, known: tuple[Runtime, ...]) -> Runtime:
    # late import: see the module's docstring
    from pydantic import ValidationError

    from gpujob.api.kinds.gpuruntime import GPURuntimeSpec

    if not _NAME.fullmatch(name) or len(name) > 253:
        raise CatalogInvalid(f"runtime {name or 'without a name'}: name must be lower-case letters, digits, - and .")
    if isinstance(fields, dict) and fields.get("extends") is not None:
        try:
            fields = extended(fields, known)
        except CatalogInvalid as error:
            raise CatalogInvalid(f"runtime {name}: {error}") from error
    try:
        spec = GPURuntimeSpec.model_validate(fields)
    except ValidationError as error:
        raise CatalogInvalid(f"runtime {name}: {_sentence(error.errors()[0])}") from error
    return runtime_of(name, spec, source=source, checked_on=checked_on)


def _sentence(error: Any) -> str:
    """The first validation error, with field, found and wanted."""
    where = ".".join(str(part) for part in error["loc"]) or "spec"
    if error["type"] == "extra_forbidden":
        from gpujob.api.kinds.gpuruntime import GPURuntimeSpec

        meant = identity.nearest(where, [field.alias or name for name, field in GPURuntimeSpec.model_fields.items()])
        return f"there is no field {where}" + (f"; did you mean {meant}?" if meant else "")
    if error["type"] == "missing":
        return f"{where} is missing"
    found = error.get("input")
    shown = f" is {str(found)[:64]!r}" if isinstance(found, str) else ""
    return f"{where}{shown}: {error['msg'].removeprefix('Value error, ')}"


def _name_of_image(image: Any) -> str:
    """A name for a row without one: its image's, in the letters of a name."""
    return re.sub(r"[^a-z0-9.]+", "-", str(image or "").lower()).strip("-.")
