"""Which accelerator a label means: indexes over the rows, and how rows that share an id are told apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from gpujob.quantity import GI, KI

if TYPE_CHECKING:
    from gpujob.catalog.records import Accelerator

LEAST_SHARE: Final = 0.85
"""A driver, and a cloud's own figures, report at least this share of the nominal memory (L4: 22888 MiB of 24 GiB)."""
MOST_SHARE: Final = 1.005
"""The rounding of labels to whole GiB, and of 141 GB to 144384 MiB, may exceed it a little."""

_SHARED: Final = re.compile(r"-SHARED$|-MIG-.*$", re.IGNORECASE)
_VARIANT: Final = re.compile(r"(-hf|-instruct|-chat|-it|-cased|-uncased|-v[0-9][0-9.]*)+$")
_SEPARATORS: Final = re.compile(r"[\s_-]+")


class Identities:
    """The rows by every name that labels use."""

    __slots__ = ("_cloud_names", "_device_ids", "_gke", "_products", "ids")

    def __init__(self, accelerators: Sequence[Accelerator]) -> None:
        self.ids = {row.id: row for row in accelerators}
        self._device_ids = _index((key, row) for row in accelerators for key in row.device_ids)
        self._products = _index((_plain(key), row) for row in accelerators for key in row.products)
        self._gke = _index((key, row) for row in accelerators for key in row.gke)
        self._cloud_names = _index((key, row) for row in accelerators for key in row.cloud_names)

    def by_device_id(self, device_id: str, memory_gib: float | None, units: int | None) -> Accelerator | None:
        """The row of an AMD PCI device id."""
        rows = self._device_ids.get(device_id.lower().removeprefix("0x"), ())
        return _only(rows, memory_gib, units)

    def by_product(self, product: str, memory_gib: float | None) -> Accelerator | None:
        """The row of a product label or name."""
        rows = self._products.get(_plain(product)) or self._products.get(_plain(_SHARED.sub("", product)), ())
        return _only(rows, memory_gib)

    def by_gke(self, value: str) -> Accelerator | None:
        """The row of a GKE accelerator."""
        return _only(self._gke.get(value, ()))

    def by_cloud_name(self, name: str, memory_mib: int | None) -> Accelerator | None:
        """The row of a cloud's name for a device, with the cloud's own memory figure."""
        return _only(self._cloud_names.get(name, ()), memory_mib / KI if memory_mib else None)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` most likely means: one it begins, one it is part of, else one of similar letters."""
    # Imported on use: only mistakes need it.
    from difflib import get_close_matches

    plain = {_plain(name).replace("-", ""): name for name in known}
    wanted = _plain(word).replace("-", "")
    if not wanted:
        return None
    begins = [name for key, name in plain.items() if key.startswith(wanted)]
    similar = get_close_matches(wanted, plain, n=1, cutoff=0.6)
    contains = [name for key, name in plain.items() if len(wanted) > 2 and wanted in key]
    return next(iter([*begins, *(plain[key] for key in similar), *contains]), None)


def plain_model(name: str) -> str:
    """A model's name without its owner, case and the endings that do not change its shape."""
    return _VARIANT.sub("", _plain(name.rpartition("/")[2]))


def nearest_models(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Up to three known models of similar letters, the likeliest first."""
    from difflib import get_close_matches

    return tuple(get_close_matches(plain_model(name)[:256], list(known), n=3, cutoff=0.5))


def _index(pairs: Iterable[tuple[str, Accelerator]]) -> dict[str, tuple[Accelerator, ...]]:
    index: dict[str, tuple[Accelerator, ...]] = {}
    for key, row in pairs:
        index[key] = (*index.get(key, ()), row)
    return index


def _plain(product: str) -> str:
    """A name without what labellers change: "NVIDIA A100-PCIE-40GB" and NVIDIA-A100-PCIE-40GB are the same."""
    return _SEPARATORS.sub("-", product.replace("(", "").replace(")", "").strip()).lower()


def _only(rows: Sequence[Accelerator], memory_gib: float | None = None, units: int | None = None) -> Accelerator | None:
    """The one row that nothing known contradicts; None when rows remain whose difference matters.

    A single row is taken as it is, whatever the memory: partitions and fractions report less than a whole device.
    """
    if len(rows) < 2:
        return rows[0] if rows else None
    left = [row for row in rows if not units or row.compute_units in (None, units)]
    left = [row for row in left if _may_have(row, memory_gib)]
    if not left:
        return None
    alike = len({(row.architecture, row.nominal_bytes) for row in left}) == 1
    refused_anyway = all(row.support == "unsupported" for row in left)
    # Rows that differ in speed alone: the slowest, so that nobody is promised too much.
    return min(left, key=lambda row: row.bf16_tflops or 0.0) if alike or refused_anyway else None


def _may_have(row: Accelerator, memory_gib: float | None) -> bool:
    if not memory_gib or row.nominal_bytes is None:
        return True
    nominal = row.nominal_bytes / GI
    return LEAST_SHARE * nominal <= memory_gib <= MOST_SHARE * nominal
