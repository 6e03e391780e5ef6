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
        ("fp8|int8|8bit|w8a8|w8a16|q8", WeightFormat.FP8),
        ("mxfp4", WeightFormat.MXFP4),
        ("nvfp4|fp4|nf4|bnb", WeightFormat.FP4),
        ("awq|gptq|int4|4bit|w4a16|q4", WeightFormat.INT4),
    )
)
"""Words of names that say how the weights are stored, the most telling first: GPTQ-Int8 has 8 bits."""
_ENDING: Final = re.compile(
    r"-(hf|base|instruct|chat|it|pt|sft|dpo|beta|thinking|cased|uncased|deduped|python|cnn|[0-9]+k|1m|v[0-9]+(\.[0-9.]+)?"
    r"|bnb|awq|gptq|gguf|unsloth|dynamic|quantized(\.w[48]a(8|16))?|w[48]a(8|16)|qat|(nv|mx)?fp4|nf4|[48]bit|(q|int)[48]|fp8|fp16|bf16)$"
)
"""An ending that changes no size of a model: what it was taught, how long its sequences are, and how its numbers are stored."""
_BILLIONS: Final = re.compile(r"(?<![0-9.])([0-9]+(?:[.][0-9]+)?)b(?![a-z0-9])")


def plain(name: str) -> str:
    """A name without owner, case and month."""
    bare = _SEPARATORS.sub("-", name.rpartition("/")[2].strip()).lower()
    return _JOINED.sub("llama-", _MONTH.sub("", bare))


def stored(name: str, published: str) -> str:
    """How the weights behind a name are stored: by the words of the name, else as the model is published."""
    said = plain(name)
    return next((form for words, form in _STORED if words.search(said)), published)


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
    """Up to three known models of similar letters, the likeliest first: of one family those of the nearest size."""
    from difflib import SequenceMatcher, get_close_matches

    *_, wanted = meant(name[:256])
    family, size = _family(wanted)

    def unlike(other: str) -> tuple[float, float]:
        its_family, its_size = _family(other)
        apart = abs(log(its_size / size)) if size and its_size else 0.0
        return -SequenceMatcher(None, family, its_family).ratio(), apart

    similar = get_close_matches(wanted, list(known), n=12, cutoff=0.7)
    return tuple(sorted(similar, key=unlike)[:3] if size else similar[:3])


def _family(name: str) -> tuple[str, float]:
    """A name without its size, and the size in billions of parameters, 0 where the name says none."""
    found = _BILLIONS.search(name)
    return (name, 0.0) if found is None else (name[: found.start()] + name[found.end() :], float(found[1]))
