"""The catalog row to add for unknown devices, as far as the node's labels describe them.

Labels contain the model, its PCI id and its memory, but never an AMD architecture, which a person must fill in.
"""

from __future__ import annotations

import re
from typing import Final

from gpujob.values.quantity import GI

_ODD: Final = re.compile(r"[^A-Za-z0-9_. -]+")
_MAKERS: Final = re.compile(r"^(amd|nvidia)[-_ ]+((instinct|radeon|geforce)[-_ ]+)?|[-_ ]oam$|-shared$", re.IGNORECASE)


def missing_row(architecture: str, memory: int | None, **names: str | None) -> str:
    """A row of the catalog's section accelerators, in YAML on one line; empty if no label names the model.

    `memory` is bytes; `names` are the labels' names of the device, by the field of the row: products, deviceIds, gke.
    """
    known = {field: _plain(text) for field, text in names.items()}
    known = {field: text for field, text in known.items() if text}
    if not known:
        return ""
    name = next(iter(known.values()))
    fields = {
        "id": _MAKERS.sub("", name).replace(" ", "-") or name,
        "name": name.replace("_", " "),
        "architecture": architecture,
        "memory": f"{memory // GI}Gi" if memory else "...Gi",
        **{field: f"[{text}]" for field, text in known.items()},
    }
    return "{" + ", ".join(f"{field}: {text}" for field, text in fields.items()) + "}"


def _plain(text: str | None) -> str:
    """A label's value in characters that are safe in YAML; labels in files are untrusted."""
    return _ODD.sub("", text or "")[:63].strip(" .-")
