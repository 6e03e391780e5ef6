"""The program's output: answers to stdout, notes and errors to stderr, and no terminal controls."""

from __future__ import annotations

import re
import sys
from typing import Any, Final

_STEERING: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Text on one line without control and direction characters: names from a file are untrusted."""
    return _STEERING.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


def say(sentence: str) -> None:
    """One line on stderr."""
    print(plain(sentence), file=sys.stderr)


def print_json(document: Any) -> None:
    """Indented JSON on stdout."""
    import orjson

    print(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())


def print_yaml(*documents: Any) -> None:
    """YAML on stdout, one document after the other."""
    sys.stdout.write(as_yaml(*documents))


def as_yaml(*documents: Any) -> str:
    """Documents as YAML, in the order of their keys, without folded lines and aliases."""
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    several = len(documents) > 1
    text: str = yaml.dump_all(
        documents, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1_000_000, explicit_start=several
    )
    return text
