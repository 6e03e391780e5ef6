"""The accelerators that an unknown name may mean: those of the same model, never another model of similar letters."""

from __future__ import annotations

import re
from itertools import takewhile
from string import ascii_lowercase
from typing import Final

from gpujob.catalog.devices.identity import Identities, bare_words, joined, sizes_of

_STEM: Final = re.compile(r"[a-z]*[0-9]+")
_ALIKE: Final = 0.85
"""Above h100nvlink and h100nvl (0.82), which are two boards, below h100smx and h100sxm (0.86)."""
_MEMORY: Final = re.compile(r"hbm[0-9]e?|gddr[0-9]x?")
"""A kind of memory, which labels add to the names of some boards."""
_LETTERS: Final = 4
"""The fewest letters of a name without a number: MI and RTX begin many models."""


def near_names(word: str, identities: Identities) -> tuple[str, ...]:
    """The known names that an unknown one may mean, sorted: an id, a family (A100), or several ids; none for another model.

    A model's number is its identity: H800 is not H200, A800 not W7800. Words around it (boards, machines, sizes) are what clouds
    and labels add, so the model in a longer name is found; a name that ends within a number means each model that it begins.
    """
    words, sizes = bare_words(word), sizes_of(word)
    found = _contained(words, identities) or _begun("".join(words), identities)
    of_size = {each for each in found if all(identities.is_sold_with(each, size) for size in sizes)} or found
    of_label = {each for each in of_size if identities.is_labelled(each, filter(_MEMORY.fullmatch, words))}
    left = sorted(of_label or of_size)
    alike = [each for each in left if _likeness("".join(words), joined(each)) >= _ALIKE]
    if len(left) < 2 or len(alike) == 1:
        return tuple(alike if len(alike) == 1 else left)
    shared = takewhile(lambda letters: len(set(letters)) == 1, zip(*left, strict=False))
    family = "".join(letters[0] for letters in shared).rstrip("-")
    names = (family, *(f"{family} {size}GB" for size in sizes))
    return next(((name,) for name in names if identities.named(name) == tuple(left)), tuple(left))


def _contained(words: list[str], identities: Identities) -> set[str]:
    """The ids of the longest run of words that names some."""
    for length in range(len(words), 0, -1):
        runs = ("-".join(words[start : start + length]) for start in range(len(words) - length + 1))
        if found := {each for run in runs for each in identities.named(run)}:
            return found
    return set()


def _begun(name: str, identities: Identities) -> set[str]:
    """The ids of the model of this number, else those that the name begins, else those of the same number and similar letters."""
    known = {each: _endings(each) for each in identities.ids}
    number = _STEM.match(name)
    if number is None:
        close = len(name) >= _LETTERS
        return {each for each, ends in known.items() if close and any(end.startswith(name) for end in ends)}
    stem = number[0]
    same = {each for each, ends in known.items() if stem in map(_stem, ends)}
    begun = {each for each, ends in known.items() if len(stem) > 1 and any(end.startswith(stem) for end in ends)}
    return same or begun or {each for each, ends in known.items() if _is_misspelt(stem, _stem(ends[0]))}


def _is_misspelt(stem: str, other: str) -> bool:
    return _digits(stem) == _digits(other) and _likeness(stem, other) >= _ALIKE


def _digits(stem: str) -> str:
    return stem.lstrip(ascii_lowercase)


def _endings(identity: str) -> list[str]:
    """An id without separators and sizes, then without its first words: rtxa6000 and a6000."""
    words = bare_words(identity)
    return ["".join(words[start:]) for start in range(len(words))]


def _stem(name: str) -> str:
    found = _STEM.match(name)
    return found[0] if found else name


def _likeness(one: str, other: str) -> float:
    # late import: needed only for unknown names
    from difflib import SequenceMatcher

    return SequenceMatcher(None, one, other).ratio()
