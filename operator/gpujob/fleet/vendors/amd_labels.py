"""The labels of AMD's node labeller on a node, by kind: in the plain form, the beta form, and the form with counts.

Label forms: ROCm/k8s-device-plugin cmd/k8s-node-labeller (2026-08). A node of one model has `amd.com/gpu.vram=192G` and beta
twins; one of several has only `amd.com/gpu.vram.192G=4`, once for each value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gpujob.catalog.entities import Accelerator
from gpujob.fleet.kubernetes.objects import Labels
from gpujob.fleet.labels.facts import GIB
from gpujob.values.untrusted import whole_number

PLAIN: Final = "amd.com/gpu"
"""The resource of whole devices."""
PREFIXES: Final = ("amd.com/gpu.", "beta.amd.com/gpu.")
DOCUMENTED_MODE: Final = "amd.com/compute-memory-partition"
"""The partition's label by the labeller's documentation; its code writes amd.com/gpu.compute-memory-partition."""

_VRAM: Final = re.compile(r"([0-9]{1,5})G", re.ASCII)


class AmdLabels:
    """A node's labels of AMD devices, parsed once."""

    __slots__ = ("_counted", "_plain", "labels")

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self._plain: dict[str, list[str]] = {}
        self._counted: dict[str, dict[str, int]] = {}
        for prefix in PREFIXES:
            for key, text in labels.items():
                if text and key.startswith(prefix):
                    self._take(key[len(prefix) :], text)

    def _take(self, rest: str, text: str) -> None:
        kind, dot, counted = rest.partition(".")
        if not dot:
            self._plain.setdefault(kind, []).append(text)
            return
        number = whole_number(text)
        if number:
            of_kind = self._counted.setdefault(kind, {})
            of_kind[counted] = max(number, of_kind.get(counted, 0))

    def value(self, kind: str) -> str | None:
        """The plain value, else the beta one, else that of the counting form if there is only one."""
        plain = self._plain.get(kind)
        if plain:
            return plain[0]
        counted = tuple(self._counted.get(kind, ()))
        return counted[0] if len(counted) == 1 else None

    def values(self, kind: str) -> tuple[str, ...]:
        """All values of a kind in any form, sorted: a node of several models or partition styles has several."""
        found: dict[str, str] = {}
        for text in (*self._counted.get(kind, ()), *self._plain.get(kind, ())):
            found[text.lower()] = min(text, found.get(text.lower(), text))
        return tuple(sorted(found.values()))

    def sizes(self) -> tuple[int, ...]:
        """Bytes of the node's devices by the vram label, each once."""
        return tuple(filter(None, map(vram_bytes, self.values("vram"))))

    def mode(self) -> str | None:
        """Compute and memory partition in lower case (cpx_nps4), None if absent."""
        plain = self._plain.get("compute-memory-partition", (None,))[0]
        found = plain or self.labels.get(DOCUMENTED_MODE) or self.value("compute-memory-partition")
        return found.lower() if found else None

    def count(self) -> int | None:
        """Devices by label, None if absent."""
        return max(sum(self._counted.get(kind, {}).values()) for kind in ("device-id", "vram", "family")) or None

    def cards(self, accelerator: Accelerator | None) -> int | None:
        """Whole devices: the total labelled memory divided by that of a whole one; None if absent."""
        whole = accelerator and accelerator.card_bytes
        memory = list(self._counted_sizes())
        if not whole or not memory or None in memory:
            return None
        return (2 * sum(filter(None, memory)) + whole) // (2 * whole)

    def _counted_sizes(self) -> Iterator[int | None]:
        for text, number in self._counted.get("vram", {}).items():
            size = vram_bytes(text)
            yield None if size is None else size * number


def vram_bytes(text: str) -> int | None:
    """Bytes of a vram label, whose G is GiB; None for anything else and for 0."""
    match = _VRAM.fullmatch(text)
    return int(match[1]) * GIB if match and int(match[1]) else None
