"""The glossary explains every column of the command line and of `kubectl get`, and the pages that people read first link it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpujob.api.generate.crd import KINDS
from gpujob.cli.output import page
from gpujob.cli.verbs.catalog import SECTIONS

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
CLI = ROOT / "operator" / "gpujob" / "cli"
HEADER = re.compile(r"[A-Z$][A-Z/$ -]+")


def headers_in(source: str) -> Iterator[str]:
    """The texts in capitals that a module assigns to `headers` or `HEADERS`, or returns in a list with them."""
    for node in ast.walk(ast.parse(source)):
        targets = {ast.unparse(each) for each in getattr(node, "targets", [getattr(node, "target", None)]) if each}
        names = (
            {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            if isinstance(node, ast.Return)
            else set()
        )
        if targets & {"headers", "HEADERS"} or "headers" in names:
            for part in ast.walk(node):
                if (
                    isinstance(part, ast.Constant)
                    and isinstance(part.value, str)
                    and HEADER.fullmatch(part.value.strip())
                ):
                    yield part.value.strip()


def columns() -> set[str]:
    """The header of each column: of the command line's own tables, its page, the catalog's sections and `kubectl get`."""
    own = {header for path in CLI.rglob("*.py") for header in headers_in(path.read_text())}
    shown = {column.name.upper() for kind in KINDS for column in kind.columns}
    return (
        own
        | shown
        | {header.upper() for header in page.HEADERS}
        | {each for one in SECTIONS.values() for each in one.columns}
    )


def explained() -> set[str]:
    """What stands in code in the glossary's tables, in capitals."""
    return {
        word.upper()
        for line in GLOSSARY.splitlines()
        if line.startswith("|")
        for word in re.findall(r"`([^`]+)`", line)
    }


def test_every_column_is_explained() -> None:
    assert len(columns()) > 80
    assert columns() - explained() - {"SOURCE", "DATE"} == set()
    assert "`SOURCE` and `DATE`" in GLOSSARY


def test_headers_are_found_wherever_a_table_has_them() -> None:
    assert columns() >= {
        "$/WORK",
        "TREND",
        "CHECK",
        "GPU-HOURS",
        "MEMORY OF EACH GPU",
        "EXPECTED",
        "ENDED",
        "WHAT TO DO",
        "AS-OF",
    }
    assert {*headers_in('HEADERS: Final = ("A ONE", "no")\nheaders += ["TWO"]\nother = ["NOT"]')} == {"A ONE", "TWO"}


def test_each_word_is_explained_once_in_alphabetical_order() -> None:
    table = GLOSSARY.partition("## Words")[2].partition("\n## ")[0]
    words = re.findall(r"^\| ([^|`]+?) \|", table, re.MULTILINE)[1:]
    assert len(words) > 40
    assert words == sorted(set(words), key=str.lower)


WORDS_OF_THE_PAGES = (
    "gang",
    "DRA",
    "GCD",
    "CUDA",
    "ROCm",
    "shard",
    "preflight",
    "attempt",
    "pool",
    "probe",
    "profile",
    "heads",
)


@pytest.mark.parametrize("word", WORDS_OF_THE_PAGES)
def test_a_word_that_the_pages_use_is_explained(word: str) -> None:
    assert f"\n| {word} | " in GLOSSARY


@pytest.mark.parametrize("name", ["README.md", "docs/quickstart.md", "docs/life.md", "docs/pools.md"])
def test_the_pages_that_people_read_first_link_the_glossary(name: str) -> None:
    assert "glossary.md)" in (ROOT / name).read_text()
