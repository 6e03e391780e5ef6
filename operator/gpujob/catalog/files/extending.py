"""GPURuntimes that extend a row of the catalog: only what differs is written, the other facts are the row's.

A copy of an image in another registry has the facts of the original; a copy that restates them stays behind when the row changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpujob.catalog.devices import identity
from gpujob.catalog.images.from_spec import runtime_of, unreadable_runtimes
from gpujob.catalog.images.runtime import Runtime
from gpujob.values.errors import BadInput, CatalogInvalid
from gpujob.values.untrusted import table
from gpujob.values.vocabulary import Backend


@dataclass(frozen=True, slots=True)
class Extending:
    """An admin's GPURuntime with `spec.extends`, as it came: the catalog that has its row is known later."""

    raw: Mapping[str, Any]

    def runtimes(self, known: Iterable[Runtime]) -> tuple[Runtime, ...]:
        """The row that it makes of one of `known`, or the rest of an unreadable object."""
        # late import: models take longer to import than everything else here
        from gpujob.api.manifest import read_gpuruntime

        try:
            spec = extended(table(self.raw, "spec"), known)
            runtime = read_gpuruntime({**self.raw, "spec": spec})
            return (runtime_of(runtime.metadata.name, runtime.spec, source="GPURuntime", checked_on=""),)
        except BadInput as error:
            return unreadable_runtimes(self.raw, str(error))


def extends(raw: Mapping[str, Any]) -> bool:
    """Whether a GPURuntime names a row."""
    return table(raw, "spec").get("extends") is not None


def extended(spec: Mapping[str, Any], known: Iterable[Runtime]) -> dict[str, Any]:
    """A spec with the facts of the row that its `extends` names; CatalogInvalid for a row that none of `known` is, or of another stack.

    A fact that is written replaces the row's as a whole: `features` are all features, `framework` is name and version.
    """
    rows = {row.name: row for row in known if not row.unreadable}
    name = spec.get("extends")
    if not isinstance(name, str) or name not in rows:
        near = identity.nearest(name, rows) if isinstance(name, str) else None
        raise CatalogInvalid(
            f"extends: there is no row {str(name)[:100]} in the catalog"
            + (f"; the nearest is {near}" if near else "")
            + "; kubectl gpujob catalog runtimes lists them"
        )
    own, stack = spec.get("backend"), rows[name].backend.value
    if own is not None and own != stack and any(own == each.value for each in Backend):
        raise CatalogInvalid(f"spec.backend: {own}, but row {name} is {stack}; extend a {own} row")
    return {**_facts(rows[name]), **spec}


def _facts(row: Runtime) -> dict[str, Any]:
    """A row as the spec of a GPURuntime; what is not known of it is left out."""
    least, most = row.driver_window
    window = {key: value for key, value in (("min", least), ("max", most)) if value is not None}
    written = {
        "image": row.image,
        "backend": row.backend.value,
        "backendVersion": row.backend_version,
        "framework": {"name": row.framework, "version": row.framework_version},
        "python": row.python,
        "architectures": list(row.architectures),
        "minDriver": row.min_driver,
        "driverWindow": window or None,
        "cpuArchitectures": list(row.cpu_architectures),
        "features": sorted(row.features),
        "runsAsNonRoot": row.runs_as_non_root,
        "size": row.size_bytes,
        "preference": row.preference,
    }
    return {key: value for key, value in written.items() if value is not None}
