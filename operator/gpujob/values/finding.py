"""A reason with its numbers, formatted on demand: fleet and placement create thousands, users read few."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from gpujob.values.quantity import (
    exact_dollars,
    format_bytes,
    format_dollars,
    format_lack,
    format_millicores,
    format_need,
)
from gpujob.values.untrusted import one_line
from gpujob.values.vocabulary import Reason


class _Amount(int):
    """An amount that prints in a unit, in an f-string too."""

    def __format__(self, spec: str) -> str:
        return str(self)


class Size(_Amount):
    """Bytes that print as a memory size."""

    def __str__(self) -> str:
        return format_bytes(self)


class Need(_Amount):
    """Requested bytes; they print as a memory size that is never below the request, nor above available bytes that hold it."""

    has: int | None

    def __new__(cls, amount: int, has: int | None = None) -> Self:
        """`has` are the available bytes that the same sentence shows as a Size."""
        need = super().__new__(cls, amount)
        need.has = has
        return need

    def __str__(self) -> str:
        return format_need(self, self.has)


@dataclass(frozen=True, slots=True)
class Lack:
    """Requested bytes and fewer available ones; it prints as the difference of the two printed sizes."""

    need: int
    has: int

    def __str__(self) -> str:
        return format_lack(self.need, self.has)


class Dollars(_Amount):
    """Micro-dollars that print as dollars."""

    def __str__(self) -> str:
        return f"${format_dollars(self)}"


class ExactDollars(_Amount):
    """Micro-dollars that print with every digit."""

    def __str__(self) -> str:
        return f"${exact_dollars(self)}"


class Cores(_Amount):
    """Millicores that print as cores, 8 or 8.25; as millicores below one core."""

    def __str__(self) -> str:
        return f"{self / 1000:.3f}".rstrip("0") if self > 1000 and self % 1000 else format_millicores(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason: the word, a sentence with placeholders, and the numbers that fill them."""

    reason: Reason
    sentence: str
    numbers: tuple[object, ...] = ()

    @property
    def message(self) -> str:
        """The sentence with its numbers; line ends in users' texts are escaped."""
        return one_line(self.sentence.format(*self.numbers))

    @property
    def document(self) -> dict[str, str]:
        """The finding in JSON."""
        return {"reason": self.reason.value, "message": self.message}


def distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings of several nodes, the first of equal sentences."""
    first: dict[tuple[Reason, str], Finding] = {}
    for finding in findings:
        first.setdefault((finding.reason, finding.sentence), finding)
    return tuple(first.values())


def counted(number: int, word: str) -> str:
    """A count with its word: "1 GPU", "8 GPUs"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def first_lines(lines: Sequence[str], most: int, rest: str) -> list[str]:
    """The first lines, and a line about the number of the others; `rest` names these. The line about a single one would be as long as
    that one, so that it stands.
    """
    more = len(lines) - most
    return [*lines[:most], f"{more} more {rest}"] if more > 1 else [*lines]


def nearest(*words: str | None) -> str:
    """The end of a sentence about an unknown name: the most likely one, empty if there is none."""
    known = [word for word in words if word]
    return f"; the nearest {'is' if len(known) == 1 else 'are'} {listed(known)}" if known else ""


def several(names: Sequence[str], most: int = 3, joint: str = ", ") -> str:
    """The first names of many, and the number of the rest: "a, b, c and 4 more"."""
    rest = len(names) - most
    return joint.join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def listed(words: object, most: int = 8) -> str:
    """A list of names: "A", "A and B", "A, B and C"; of more than `most` all but one of so many, and the number of the rest."""
    items = [str(word) for word in words]  # type: ignore[attr-defined]
    if len(items) > most:
        items = [*items[: most - 1], f"{len(items) - most + 1} more"]
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + f" and {items[-1]}" if items else "none"
