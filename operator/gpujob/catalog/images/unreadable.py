"""GPURuntimes that cannot be read: their names stay reserved, so that no other image takes them, and jobs report why.

If such an object were skipped, its name would fall back to the catalog's own row, which its admin wants to replace. Only the stack
of the image is read from it; if that cannot be read either, it may be for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpujob.catalog.images.runtime import Runtime
from gpujob.values.untrusted import one_line, table
from gpujob.values.vocabulary import Backend

LONGEST: Final = 300
"""The most characters of a GPURuntime's error."""


def held_runtimes(raw: Mapping[str, Any], problem: str) -> tuple[Runtime, ...]:
    """The rest of a GPURuntime object that its schema rejects: a row for each stack that it may be for."""
    spec = table(raw, "spec")
    name, image = table(raw, "metadata").get("name"), spec.get("image")
    said = one_line("; ".join(problem.splitlines()))[:LONGEST] or "it is malformed"
    named = [backend for backend in Backend if backend.value == spec.get("backend")]
    return tuple(
        Runtime(
            name=one_line(str(name)[:253]),
            image=one_line(image[:512]) if isinstance(image, str) else "",
            backend=backend,
            backend_version="",
            framework="",
            framework_version="",
            framework_release=(),
            backend_release=(),
            source="GPURuntime",
            unreadable=said,
        )
        for backend in named or Backend
    )


def sentences(rows: Iterable[Runtime]) -> list[str]:
    """A sentence for each GPURuntime of some rows that cannot be read, however many stacks its name is held for."""
    found = (
        f"GPURuntime {row.name} cannot be read, so it is not used: {row.unreadable}" for row in rows if row.unreadable
    )
    return list(dict.fromkeys(found))
