"""The accelerator that a label means: indexes over the rows, and how to distinguish rows that share an id."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from typing import Final

from gpujob.catalog.devices.machine_names import MACHINE
from gpujob.catalog.entities import Accelerator
from gpujob.values.quantity import GI, KI

LEAST_SHARE: Final = 0.85
"""The smallest fraction of the nominal memory that a driver or a cloud reports (L4: 22888 MiB of 24 GiB)."""
MOST_SHARE: Final = 1.005
"""The rounding of labels to whole GiB, and of 141 GB to 144384 MiB, may exceed it slightly."""

NAMED_WITHIN: Final = 0.05
"""The tolerance between a size in a user's name and a card's nominal one: 192GB is not 188, 80GB not 94."""

_TRADE_WORDS: Final = frozenset((
    "nvidia", "amd", "tesla", "instinct", "radeon", "gpu", "nvlink", "pcie", "sxm", "sxm2", "sxm3", "sxm4",
    "sxm5", "sxm6", "oam", "vf",
))  # fmt: skip
"""Words around a model's name that clouds add or leave out."""
_GIGABYTES: Final = re.compile(r"([0-9]{1,3})gb?")
_UNIT_APART: Final = re.compile(r"(?<=[0-9])-(?=gb?(?:-|$))")
"""The separator in H100 80 GB: a size is one word."""
_VARIANT: Final = re.compile(r"sxm[2-6]?|pcie|nvl|[0-9]{1,3}gb?|hbm[0-9]e?")
"""Last words of ids and of labels' names that distinguish a model's boards, sizes and kinds of memory."""
_BRANDS: Final = frozenset({"nvidia", "amd", "tesla", "instinct", "geforce", "gpu"})
_LINES: Final = frozenset({"rtx", "rx", "quadro", "radeon", "pro", "jetson", "ryzen"})
"""Words before a model's name that a user may leave out; a number alone says nothing without PRO (RTX PRO 6000, RTX 6000 Ada)."""
_GENERATIONS: Final = frozenset({"blackwell", "edition", "generation"})
"""Words of labels and data sheets that distinguish no model from another one."""
_BOARD: Final = re.compile(r"sxm[2-6]")
_VARIANTS: Final = ("pcie", "nvl")
"""Words that distinguish a model's other boards from the one that its bare name means."""
_INSTINCT: Final = re.compile(r"mi[0-9]{3}[apx]?")
"""Names of AMD's models. No cloud sells fractions of them, so they identify the device in any name."""
_MODEL: Final = re.compile(r"(?!rtx|gtx)[a-z]{1,3}[0-9]+[a-z]*")
"""Words that are a whole model's name."""
_TIMES: Final = (
    *(re.compile(form) for form in (r"^[0-9]+x", r"(?<=x)[0-9]+$", r"x[0-9]+$")),
    re.compile(r"^(?:[0-9]+x)+[0-9]+"),
)
_SHARED: Final = re.compile(r"-SHARED$|-MIG-.*$", re.IGNORECASE)
_SEPARATORS: Final = re.compile(r"[\s_-]+")


class Identities:
    """The rows, indexed by every name that labels use."""

    __slots__ = (
        "_cloud_names", "_device_ids", "_families", "_gke", "_joined", "_members", "_products", "_short", "_words", "ids"
    )  # fmt: skip

    def __init__(self, accelerators: Sequence[Accelerator]) -> None:
        self.ids = {row.id: row for row in accelerators}
        self._device_ids = _index((key, row) for row in accelerators for key in row.device_ids)
        self._products = _index((_plain(key), row) for row in accelerators for key in row.products)
        self._gke = _index((key, row) for row in accelerators for key in row.gke)
        self._cloud_names = _index((key, row) for row in accelerators for key in row.cloud_names)
        self._joined = _index((joined(row.id), row) for row in self.ids.values())
        self._families = _index((name, row) for row in self.ids.values() for name in {*_families(row.id)})
        self._short = _index((key, row) for row in accelerators for key in _short_names(row))
        exact = {_plain(row.id): (row,) for row in accelerators}
        self._members = lru_cache(maxsize=1024)(self._of_rows)
        self._words = {**_index((_base(row.id)[0], row) for row in accelerators), **exact}

    def named(self, word: str) -> tuple[str, ...]:
        """The ids that a user's name for an accelerator means, sorted by name; none for an unknown name.

        An id in any case and with any separators is itself. A model's bare name means each of its boards and sizes (H100, A100,
        MI300), with a size only those of that size (A100 80GB); brands and the digit of SXM5 change nothing. A label's name means
        the device that it identifies, also without its brand (H100-80GB-HBM3); so does GKE's name for it, and a short name of one
        row alone (4090, A6000, 7900XTX, RTX PRO 6000 Blackwell).
        """
        if word in self.ids:
            return (word,)
        plain = _plain(word)
        found = list(self._gke.get(plain, ())) or self._spelled(_UNIT_APART.sub("", plain).split("-"))
        if not found:
            labels = (plain, *(f"{brand}-{plain}" for brand in sorted(_BRANDS)))
            rows = next(filter(None, map(self._products.get, labels)), ())
            found = [row for row in rows if row.support != "unsupported"] or list(rows)
        if not found:
            short = self._short.get(_without_generations(_words(plain)), ())
            found = list(short) if len(short) == 1 else []
        return tuple(sorted({row.id for row in found}))

    def members(self, word: str, unlisted: Iterable[str] = ()) -> frozenset[str]:
        """The ids that a job's name for accelerators means: those of `named`, each board of a model whose bare name is an id (H200
        with H200-NVL), the rows that are sold as a board without an id of its own (A100-PCIe), and the names of devices without a
        row that are of the family (H100: H100-96GB-HBM3, H100-CNX), or that are the word itself.
        """
        known, whole = self._members(word)
        further = [name for name in unlisted if whole in _begun_by(name)]
        return known.union(further) if further else known

    def _of_rows(self, word: str) -> tuple[frozenset[str], str]:
        """The ids, and the word without brands and separators; cached, because each decision asks about the words of its job."""
        words = _words(word)
        boards = (row.id for row in self._families.get("".join(words), ()) if _words(row.id)[: len(words)] == words)
        found = {*self.named(word), *boards}
        if not found and len(words) > 1 and _VARIANT.fullmatch(words[-1]):
            of_model = map(self.ids.__getitem__, self.named("-".join(words[:-1])))
            found = {row.id for row in of_model if words[-1] in _boards(row)}
        return frozenset(found), "".join(words)

    def _spelled(self, words: Sequence[str]) -> list[Accelerator]:
        """The rows that words name: an id, else a family, else the rows without brands and sizes."""
        word = "".join(words)
        rows = list(self._joined.get(word) or self._families.get(joined(word), ()))
        plain = _without_brands(words)
        sizes = [int(match[1]) for each in plain if (match := _GIGABYTES.fullmatch(each))]
        plain = [each for each in plain if not _GIGABYTES.fullmatch(each)]
        if rows or not plain or plain == list(words):
            return rows
        return [row for row in self._spelled(plain) if all(_is_sold_with(row, size) for size in sizes)]

    def is_sold_with(self, identity: str, gigabytes: int) -> bool:
        """Whether the usual name of the card of an id has that many GB."""
        return _is_sold_with(self.ids[identity], gigabytes)

    def is_labelled(self, identity: str, words: Iterable[str]) -> bool:
        """Whether labels of the id have all these words: H100-SXM has hbm3 in NVIDIA-H100-80GB-HBM3."""
        labels = [_plain(product).split("-") for product in self.ids[identity].products]
        return all(any(word in label for label in labels) for word in words)

    def by_device_id(
        self, device_id: str, memory_gib: float | None, units: int | None, product: str = ""
    ) -> Accelerator | None:
        """The row of an AMD PCI device id; of several, that of this product, unless its name is of several (MI250X / MI250)."""
        rows = self._device_ids.get(device_id.lower().removeprefix("0x"), ())
        of_product = () if "/" in product else self._products.get(_plain(product), ())
        return _only([row for row in rows if row in of_product] or rows, memory_gib, units)

    def by_product(self, product: str, memory_gib: float | None) -> Accelerator | None:
        """The row of a product label or name; an unknown one is matched by its words: A100-PCIE-80GB, MI325."""
        name = _SHARED.sub("", product)
        rows = self._products.get(_plain(product)) or self._products.get(_plain(name))
        return _only(rows, memory_gib) if rows else self._by_words(name, memory_gib)

    def by_gke(self, value: str) -> Accelerator | None:
        """The row of a GKE accelerator."""
        return _only(self._gke.get(value, ()))

    def by_cloud_name(self, name: str, memory_mib: int | None) -> Accelerator | None:
        """The row of a cloud's name for a device, with the cloud's own memory figure."""
        base, gigabytes = _base(name)
        rows = self._cloud_names.get(_plain(name)) or self._cloud_names.get(base) or self._by_id(base)
        return _only(rows, memory_mib / KI if memory_mib else gigabytes)

    def may_be(self, name: str) -> frozenset[str]:
        """The ids of all rows that a cloud's name may mean, whatever the memory: h100 is SXM, PCIe or NVL."""
        base, _ = _base(name)
        variants = (row for row in self.ids.values() if base and _plain(row.id).startswith(f"{base}-"))
        return frozenset(row.id for row in (*self._cloud_names.get(base, ()), *self._by_id(base), *variants))

    def by_machine_name(self, name: str) -> Accelerator | None:
        """The row of the one model in a machine's name; None if it contains none, or several."""
        tokens = re.split(r"[-.]", _plain(name))
        words = {form.sub("", token) for token in tokens for form in _TIMES} | set(tokens)
        if not MACHINE.fullmatch(name):
            words = {word for word in words if _INSTINCT.fullmatch(word)}
        sizes = [int(match[1]) * KI for token in tokens if (match := _GIGABYTES.fullmatch(token))]
        for size in (None, *sizes):
            named = (self.by_cloud_name(word, size) for word in words - _TRADE_WORDS)
            found = {row.id: row for row in named if row is not None}
            if found:
                return self._board(next(iter(found.values())), tokens) if len(found) == 1 else None
        return None

    def _board(self, row: Accelerator, tokens: Sequence[str]) -> Accelerator:
        """The board of a model in a machine's name: H100-PCIe for h100 and pcie."""
        model = row.id.partition("-")[0]
        others = (self._words.get(f"{model}-{word}".lower(), ()) for word in _VARIANTS if word in tokens)
        return next((found[0] for found in others if len(found) == 1), row)

    def _by_words(self, name: str, memory_gib: float | None) -> Accelerator | None:
        """The one row with the same words in its name, with or without the X of AMD's models, and with this memory."""
        base, gigabytes = _base(name)
        if base.startswith("mi") and base not in self._words:
            rows = [row for row in self.ids.values() if _plain(row.id)[:-1] == base]
        else:
            rows = list(self._words.get(base, ()))
        left = [row for row in rows if _may_have(row, memory_gib or gigabytes)]
        return left[0] if len(left) == 1 else None

    def _by_id(self, base: str) -> tuple[Accelerator, ...]:
        """The row of that id, else those of its variants: A100-40GB and A100-80GB of a100."""
        return self._words.get(base, ())


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that `word` most likely means: one that begins with it, one that contains it, else a similar one."""
    # late import: needed only for unknown names
    from difflib import get_close_matches

    # A set has no order, so sort: among equally close names the first wins.
    plain = {joined(name): name for name in (sorted(known) if isinstance(known, Set) else known)}
    wanted = joined(word)
    if not wanted:
        return None
    begins = [name for key, name in plain.items() if key.startswith(wanted)]
    similar = get_close_matches(wanted, plain, cutoff=0.6)
    contains = [name for key, name in plain.items() if len(wanted) > 2 and wanted in key]
    return next(iter([*begins, *(plain[key] for key in similar), *contains]), None)


def begun(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known names that begin with `word`, sorted; none for fewer than three letters."""
    wanted = joined(word)
    return tuple(sorted(n for n in known if len(wanted) > 2 and joined(n).startswith(wanted)))


def joined(name: str) -> str:
    """A name in lower case without separators: h100sxm."""
    return _plain(name).replace("-", "")


def bare_words(name: str) -> list[str]:
    """The words of a name without brands and sizes; the digit of SXM5 is left out."""
    words = _without_brands(_UNIT_APART.sub("", _plain(name)).split("-"))
    return [word for word in words if not _GIGABYTES.fullmatch(word)]


def sizes_of(name: str) -> list[int]:
    """The sizes in a name, GB."""
    words = _UNIT_APART.sub("", _plain(name)).split("-")
    return [int(match[1]) for word in words if (match := _GIGABYTES.fullmatch(word))]


def _without_brands(words: Iterable[str]) -> list[str]:
    return [_BOARD.sub("sxm", word) for word in words if word not in _BRANDS]


def _words(name: str) -> list[str]:
    return _without_brands(_plain(name).split("-"))


def _families(identity: str) -> Iterator[str]:
    """The bare names of the model of a board or size: h100 for H100-SXM, mi300 for MI300X."""
    words = _words(identity)
    while len(words) > 1 and _VARIANT.fullmatch(words[-1]):
        words.pop()
        yield "".join(words)
    if len(words) == 1 and _INSTINCT.fullmatch(words[0]) and words[0][-1] in "apx":
        yield words[0][:-1]


@lru_cache(maxsize=1024)  # 25 µs against 0.1, for each name in a job and each device without a row
def _begun_by(name: str) -> Set[str]:
    """What the name of a device without a row may be called: itself, its families, and where its first word is a whole model's name
    (h100, not rtx) all that it begins with, because boards, sizes and slices follow.
    """
    words = _words(name)
    least = 1 if words and _MODEL.fullmatch(words[0]) else max(1, len(words))
    begun = ("".join(words[:end]) for end in range(least, len(words) + 1))
    return {*_families(name), *begun, *_tails(name)}


def _short_names(row: Accelerator) -> set[str]:
    """What users call a row beside its id: its name, what stands in parentheses after it (DGX Spark), and its labels' names."""
    name, _, alias = row.name.removesuffix(")").partition("(")
    return {tail for each in (row.id, name, alias, *row.products) for tail in _tails(each)}


def _tails(name: str) -> Iterator[str]:
    """A name without generations and without the line's words before it, joined: rtxpro6000, pro6000; rtxa6000, a6000."""
    words = _words(name)
    while words:
        tail = _without_generations(words)
        yield from filter(None, {tail, tail.removesuffix("workstation"), tail.removesuffix("server")})
        is_number = len(words) > 1 and words[1].isdigit()
        if words[0] not in _LINES or len(words) == 1 or (words[0] == "pro" and is_number):
            return
        words = words[1:]


def _without_generations(words: Iterable[str]) -> str:
    return "".join(word for word in words if word not in _GENERATIONS)


def _boards(row: Accelerator) -> set[str]:
    """The words of a row's name and labels."""
    return {word for name in (row.name, *row.products) for word in _words(name)}


def _index(pairs: Iterable[tuple[str, Accelerator]]) -> dict[str, tuple[Accelerator, ...]]:
    index: dict[str, tuple[Accelerator, ...]] = {}
    for key, row in pairs:
        index[key] = (*index.get(key, ()), row)
    return index


def _plain(product: str) -> str:
    """A name without the parts that labellers change: "NVIDIA A100-PCIE-40GB" equals NVIDIA-A100-PCIE-40GB."""
    return _SEPARATORS.sub("-", product.replace("(", "").replace(")", "").strip()).lower()


def _base(name: str) -> tuple[str, float | None]:
    """A model's name without brands and memory, and this memory in GB: A100_NVLINK_80GB is a100 with 80."""
    words = [word for word in _plain(name).split("-") if word not in _TRADE_WORDS]
    sizes = [int(match[1]) for word in words if (match := _GIGABYTES.fullmatch(word))]
    return "-".join(word for word in words if not _GIGABYTES.fullmatch(word)), float(sizes[0]) if sizes else None


def _only(rows: Sequence[Accelerator], memory_gib: float | None = None, units: int | None = None) -> Accelerator | None:
    """The one row that no known fact contradicts; None if rows with relevant differences remain.

    A single row matches whatever the memory: partitions and fractions report less than a whole device.
    """
    if len(rows) < 2:
        return rows[0] if rows else None
    left = [row for row in rows if not units or row.compute_units in (None, units)]
    left = [row for row in left if _may_have(row, memory_gib)]
    if not left:
        return None
    alike = len({(row.architecture, row.nominal_bytes) for row in left}) == 1
    refused_anyway = all(row.support == "unsupported" for row in left)
    # If rows differ only in speed, the slowest, so that no speed is overestimated.
    return min(left, key=lambda row: row.bf16_tflops or 0.0) if alike or refused_anyway else None


def _is_sold_with(row: Accelerator, gigabytes: int) -> bool:
    """Whether a card's usual name has that many GB: the nominal size, rounded as vendors do."""
    return row.nominal_bytes is None or abs(row.nominal_bytes / GI - gigabytes) <= NAMED_WITHIN * gigabytes


def _may_have(row: Accelerator, memory_gib: float | None) -> bool:
    if not memory_gib or row.nominal_bytes is None:
        return True
    nominal = row.nominal_bytes / GI
    return LEAST_SHARE * nominal <= memory_gib <= MOST_SHARE * nominal
