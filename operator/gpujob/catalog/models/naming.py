"""Names of models as people and Hugging Face write them: what they mean, and which are near."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import log
from typing import Final

from gpujob.values.vocabulary import WeightFormat

_SEPARATORS: Final = re.compile(r"[\s_-]+")
_MONTH: Final = re.compile(r"-[0-9]{4}(?=-|$)")
"""When a model was published: OLMo-2-1124-7B, Qwen3-4B-Instruct-2507."""
_JOINED: Final = re.compile(r"^(meta-)?llama-?(?=[0-9])")
"""meta-llama-3-8b, llama3-8b."""
_STORED: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(rf"[-.](?:{words})(?=[-.]|$)"), stored)
    for words, stored in (
        ("bf16|fp16|fp32|f16", ""),
        ("fp8", WeightFormat.FP8),
        ("int8|8bit|w8a8|w8a16|q8", WeightFormat.INT8),
        ("mxfp4", WeightFormat.MXFP4),
        ("nvfp4|fp4", WeightFormat.FP4),
        ("nf4|bnb", WeightFormat.NF4),
        ("awq|gptq|int4|4bit|w4a16|q4", WeightFormat.INT4),
    )
)
"""Words of names that say how the weights are stored, the most specific first: GPTQ-Int8 has 8 bits."""
_AWQ: Final = re.compile(r"[-.]awq(?=[-.]|$)")
_ENDING: Final = re.compile(
    r"-(hf|base|instruct|chat|it|pt|sft|dpo|beta|thinking|cased|uncased|deduped|python|cnn|[0-9]+k|1m|v[0-9]+(\.[0-9.]+)?"
    r"|bnb|awq|gptq|gguf|unsloth|dynamic|quantized(\.w[48]a(8|16))?|w[48]a(8|16)|qat|(nv|mx)?fp4|nf4|[48]bit|int[48]|fp8|fp16|bf16"
    r"|q[48](-[01]|-k(-[sml])?)?|kv|preview|autoround|marlin|gs?(32|64|128))$"
)
"""An ending that changes no size of a model: what it was taught, how long its sequences are, and how its numbers are stored."""
_BILLIONS: Final = re.compile(r"(?<![0-9.])([0-9]+(?:[.][0-9]+)?)b(?![a-z0-9])")

_NUMBERS: Final = re.compile(r"[0-9]+")


def plain(name: str) -> str:
    """A name without owner, case and month."""
    bare = _SEPARATORS.sub("-", name.rpartition("/")[2].strip()).lower()
    return _JOINED.sub("llama-", _MONTH.sub("", bare))


def stored(name: str, published: str) -> str:
    """How the weights behind a name are stored: by the words of the name, else as the model is published."""
    said = plain(name)
    return next((form for words, form in _STORED if words.search(said)), published)


def is_awq(name: str) -> bool:
    """Whether the weights behind a name are in AWQ's 4 bits, which fewer devices read than GPTQ's."""
    return _AWQ.search(plain(name)) is not None


def key(name: str) -> str:
    """A plain name by which a model is found: as names of Kubernetes are, it may be written with hyphens for dots."""
    return name.replace(".", "-")


def meant(name: str) -> Iterator[str]:
    """What a name may mean, itself first: each time without one more ending that changes no size."""
    said = plain(name)
    yield said
    while (shorter := _ENDING.sub("", said)) != said:
        said = shorter
        yield said


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Up to three known models that a name may mean, the likeliest first: those that it begins, else the one that
    begins it, else those of similar letters.

    Only of the same version (Llama 5 is not Llama 65B); of one family first those of the nearest size.
    """
    names = list(known)
    found = (_begun(wanted, names) or _longer(wanted, names) or _similar(wanted, names) for wanted in meant(name[:256]))
    return tuple(next(filter(None, found), [])[:3])


def _begun(wanted: str, known: list[str]) -> list[str]:
    """The models whose names go on where this one ends: llama-3-8b, then llama-3.1-8b for llama-3."""
    found = [(name[len(wanted) :], name) for name in known if key(name).startswith(key(wanted)) and len(wanted) > 1]
    whole = [(rest, name) for rest, name in found if not (wanted[-1].isdigit() and rest[:1].isdigit())]
    return [name for _, name in sorted(whole, key=lambda each: _addition(each[0]))]


def _longer(wanted: str, known: list[str]) -> list[str]:
    """The longest model whose name begins this one: llama-3.1-8b for llama-3.1-8b-aqlm-2bit."""
    found = [name for name in known if _BILLIONS.search(name) and key(wanted).startswith(f"{key(name)}-")]
    return [max(found, key=len)] if found else []


def _addition(rest: str) -> tuple[bool, bool, int]:
    """How much the rest of a name adds: a size alone is least, then one word, then another version."""
    return rest[:1] != "-", _family(rest)[0] != "-", rest.count("-")


def _similar(wanted: str, known: list[str]) -> list[str]:
    """The models of similar letters and of the same version, each with letters as similar as the others'."""
    # late import: needed only for unknown names
    from difflib import SequenceMatcher, get_close_matches

    family, size = _family(wanted)
    spelled = {name: name if size else _family(name)[0].rstrip("-") for name in known}
    close = set(get_close_matches(wanted, spelled.values(), n=len(known), cutoff=0.7)) if known else set()
    similar = [name for name in known if spelled[name] in close and _version(name) == _version(wanted)]

    def likeness(other: str) -> float:
        return SequenceMatcher(None, _letters(wanted), _letters(other)).ratio()

    def unlike(other: str) -> tuple[float, float]:
        its_family, its_size = _family(other)
        apart = abs(log(its_size / size)) if size and its_size else 0.0
        return -SequenceMatcher(None, family, its_family).ratio(), apart

    most = max(map(likeness, similar), default=0.0)
    return sorted((name for name in similar if likeness(name) == most), key=unlike)


def _version(name: str) -> list[str]:
    """The numbers of a name without its size: 3 and 1 of llama-3.1-8b."""
    return _NUMBERS.findall(_family(name)[0])


def _letters(name: str) -> str:
    return "".join(filter(str.isalpha, _family(name)[0]))


def _family(name: str) -> tuple[str, float]:
    """A name without its size, and the size in billions of parameters, 0 where the name says none."""
    found = _BILLIONS.search(name)
    return (name, 0.0) if found is None else (name[: found.start()] + name[found.end() :], float(found[1]))
