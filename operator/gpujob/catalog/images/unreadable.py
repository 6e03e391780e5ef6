"""GPURuntimes that cannot be read: their names are held, so that no other image is taken under them, and jobs say why.

It exists because an object that is passed over would give its name back to the catalog's own row, which its admin meant to
replace. Only the stack that the image is for is taken from it; where that cannot be read either, it may be for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpujob.catalog.images.runtime import Runtime
from gpujob.values.untrusted import one_line, table
from gpujob.values.vocabulary import Backend

LONGEST: Final = 300
"""Letters of what is wrong with a GPURuntime, at most."""


def held_runtimes(raw: Mapping[str, Any], problem: str) -> tuple[Runtime, ...]:
    """What is left of a GPURuntime object that its schema refuses: a row for each stack that it may be for."""
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
