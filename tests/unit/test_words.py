"""Names and prose use the standard words of the field; folders stay small, and each says what it holds and how to read it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "operator" / "gpujob"
RUNNER = ROOT.parent / "gpujob_runner"
REPOSITORY = ROOT.parents[1]

RETIRED = {
    "desk": "controller_state",
    "shelf": "kind_store",
    "asking": "selection",
    "looking": "job_reconciler",
    "retelling": "status_refresh",
    "untold": "stale_statuses",
    "wish": "parsed_spec",
    "wishes": "constraints",
    "mendable": "fixable",
    "mending": "fixable",
    "trying": "probe_target",
    "refusals": "selection",
    "tally": "counters",
    "somebody": "a job, a user or an admin",
    "nobody": "none or unknown",
    "kin": "pool_class",
    "mend": "fix",
    "tell": "report, explain or record",
    "tells": "reports",
    "dearest": "most expensive",
    "promise": "reservation",
    "promised": "reserved",
    "book": "index",
    "standing": "pool_score",
    "standings": "order_pools",
    "told": "sentence",
    "look": "reconcile, read or inspect",
    "looks": "reconcile, read or inspect",
    "looked": "reconciled, read or inspected",
    "asked": "requested",
    "asks": "requests",
    "said": "message, given or reported",
    "says": "shows",
    "charges": "quota_ledger",
    "placing": "placement or decision",
}
"""A word that names of modules, classes and functions had, and the standard one."""

DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

RETIRED_IN_PROSE = {
    r"(no|some)body('s)?": "the user, the admin, another object, or unknown",
    r"mend(s|ed|ing)?": "fix",
    r"dear(er|est)": "more or most expensive",
    r"doubts?": "warning",
    r"anew": "again",
    r"for ever": "without end, never, no limit",
    r"(that|if it|when it) (is|are) none(?! of)": "invalid, unknown, or not a …",
    r"worked out": "computed",
    r"told|tells?": "reported, shown, says",
    r"be it|be they": "or",
    r"whoever|whosoever": "a user who",
    r"see to": "check",
    r"tak(e|en) off the": "remove from the",
    r"given out|hands? out|gives out": "assign",
}
"""Patterns that docstrings, comments, messages, documents and chart values had, and the standard words."""

MOST_ENTRIES = 12


def modules() -> list[Path]:
    """The operator's modules."""
    return [path for path in sorted(ROOT.rglob("*.py")) if "data" not in path.parts]


def programs() -> list[Path]:
    """The modules of the operator and of the runner, of which names are read."""
    return modules() + sorted(RUNNER.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a module, which several tests read."""
    return ast.parse(path.read_text())


def words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


@pytest.mark.parametrize("path", programs(), ids=lambda path: path.relative_to(ROOT.parent).as_posix())
def test_modules_classes_and_functions_have_standard_names(path: Path) -> None:
    named = [path.stem, *(node.name for node in ast.walk(parsed(path)) if isinstance(node, DEFINITIONS))]
    found = {f"{name}: write {RETIRED[word]} for {word}" for name in named for word in words(name) & RETIRED.keys()}
    assert not found


RETIRED_OF_VALUES = {
    "told",
    "untold",
    "tally",
    "doubt",
    "doubts",
    "doubtful",
    "shelf",
    "shelves",
    "mend",
    "wish",
    "kin",
    "anew",
    "dearest",
    "nobody",
    "somebody",
}
"""Words that name no parameter, variable or attribute: write what the value is, as for `RETIRED`."""


def names_of_values(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


@pytest.mark.parametrize("path", programs(), ids=lambda path: path.relative_to(ROOT.parent).as_posix())
def test_parameters_variables_and_attributes_have_no_retired_words(path: Path) -> None:
    assert not {name for name in names_of_values(parsed(path)) if words(name) & RETIRED_OF_VALUES}


def test_values_are_found_wherever_they_are_named() -> None:
    text = "def f(told, *, kin=1):\n    for untold in told: self.retold_at, x.tally = (wish := 1), 2\n    mend: int = 3\nTOLD = 5"
    assert {*names_of_values(ast.parse(text))} == {
        "told",
        "kin",
        "untold",
        "retold_at",
        "tally",
        "wish",
        "mend",
        "TOLD",
    }


def test_the_list_of_retired_words_is_read() -> None:
    assert words("PoolDesk") & RETIRED.keys() == {"desk"}
    assert words("kind_store") & RETIRED.keys() == set()


def folders() -> list[Path]:
    """Packages of the operator and of the runner."""
    return sorted({path.parent for path in modules()} | {path.parent for path in RUNNER.rglob("__init__.py")})


def _entries(folder: Path) -> set[str]:
    """Names of the modules and folders of a folder."""
    return {
        path.name
        for path in folder.iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").is_file()
    }


@pytest.mark.parametrize("folder", folders(), ids=lambda path: path.relative_to(ROOT.parent).as_posix())
def test_a_folder_has_at_most_a_dozen_entries_and_says_what_it_holds(folder: Path) -> None:
    entries = _entries(folder)
    assert len(entries) <= MOST_ENTRIES, sorted(entries)
    assert ast.get_docstring(parsed(folder / "__init__.py"))


def test_each_folder_of_several_modules_has_a_contract_about_its_imports() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    found = {name: each for each in contracts if each["type"] == "layers" for name in each["containers"]}
    wanted = {
        ".".join(folder.relative_to(ROOT.parent).parts)
        for folder in {path.parent for path in programs()}
        if (folder / "__init__.py").is_file() and len(_entries(folder)) > 1
    }
    assert found.keys() == wanted
    assert all(each["exhaustive"] for each in found.values()), "each module has a layer"


CACHED = re.compile(r"^ *@(?:functools\.)?(?:lru_)?cache\b[^#\n]*(#.*)?$", re.MULTILINE)


@pytest.mark.parametrize("path", programs(), ids=lambda path: path.relative_to(ROOT.parent).as_posix())
def test_a_cache_says_what_it_saves(path: Path) -> None:
    comments = [found[1] or "" for found in CACHED.finditer(path.read_text())]
    assert all(re.search(r"\d|identity", comment) for comment in comments), "write a figure behind the decorator"


MOST_LINES = 350
TABLES = {"gpujob/values/reasons.py"}
"""Modules that are one table of data, which may be longer."""


def test_a_module_of_one_idea_has_at_most_350_lines() -> None:
    lengths = {path.relative_to(ROOT.parent).as_posix(): len(path.read_text().splitlines()) for path in programs()}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES and name not in TABLES} == {}
    assert lengths.keys() >= TABLES


MODULES_WITH_AN_ORDER = 4
"""The number of modules and folders from which a folder says in which order to read them."""


@pytest.mark.parametrize("folder", folders(), ids=lambda path: path.relative_to(ROOT.parent).as_posix())
def test_a_folder_of_several_modules_says_in_which_order_to_read_all_of_them(folder: Path) -> None:
    names = {name.removesuffix(".py") for name in _entries(folder)} - {"__main__", "data"}
    if len(names) < MODULES_WITH_AN_ORDER:
        return
    text = ast.get_docstring(parsed(folder / "__init__.py")) or ""
    _, found, order = text.partition("Reading order: ")
    assert found, f"write a paragraph `Reading order:` in {folder.name}/__init__.py"
    said = set(re.findall(r"`(\w+)`", order.split("\n\n")[0]))
    there = {path.parent.name if path.stem == "__init__" else path.stem for path in folder.rglob("*.py")}
    assert names - said == set(), "these modules are missing"
    assert said - there == set(), "these are not there"


def _files(*patterns: str) -> list[Path]:
    return sorted({path for pattern in patterns for path in REPOSITORY.glob(pattern) if path.is_file()})


PAGES = _files(
    "*.md",
    "docs/*.md",
    "docs/decisions/*.md",
    "docs/guides/*.md",
    "docs/runbooks/*.md",
    "bench/*.md",
    "charts/*/values.yaml",
    "charts/*/*.md",
    "charts/*/templates/*",
    "crds/*.yaml",
    "examples/*.yaml",
    "Makefile",
)
"""Files of which each line is read."""

PROGRAMS = _files(
    "bench/**/*.py", "charts/*.py", "demo/**/*.py", "monitoring/**/*.py", "operator/gpujob_runner/**/*.py"
)
"""Modules outside operator/gpujob of which docstrings, messages and comments are read."""

WITH_FOREIGN_TEXT = _files("tests/**/*.py", "tests/cases/*/*.yaml", "operator/gpujob/catalog/data/*.yaml")
"""Files whose strings and values are input or quotations: docstrings and comments alone are read."""


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Texts that stand alone as a statement."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def strings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Texts of more than one word."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node


def paragraphs(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Number and text of each paragraph: of adjacent numbers, without a blank line or a fence of code between them."""
    found: list[str] = []
    first = last = 0
    for number, line in lines:
        ends = not line.strip() or line.lstrip().startswith("```")
        if found and (ends or number != last + 1):
            yield first, "\n".join(found)
            found = []
        if not ends:
            first = first if found else number
            found.append(line)
        last = number
    if found:
        yield first, "\n".join(found)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring, message and block of comments of a module, or of each paragraph of another file."""
    source, quotes = path.read_text(), path in WITH_FOREIGN_TEXT
    if path.suffix != ".py":
        lines = enumerate(source.splitlines(), 1)
        yield from paragraphs((number, _comment_of(text) if quotes else _without_sign(text)) for number, text in lines)
        return
    for node in (docstrings if quotes else strings)(ast.parse(source)):
        yield node.lineno, str(node.value)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    yield from paragraphs((each.start[0], each.string.lstrip("#")) for each in tokens if each.type == tokenize.COMMENT)


def _comment_of(line: str) -> str:
    return line.partition("#")[2]


def _without_sign(line: str) -> str:
    """A line without the sign of a comment before it."""
    return re.sub(r"^\s*#+ ?", "", line)


ANY_RETIRED = re.compile(rf"(?<![\w-])({'|'.join(RETIRED_IN_PROSE)})(?![\w-])", re.IGNORECASE)


def retired(text: str) -> list[str]:
    """The retired words of a text in their order, also over its line breaks, without code in backticks and values of an enum."""
    prose = re.sub(r"`[^`]*`|^ +- Tell$", "", text, flags=re.MULTILINE)
    return [found[0] for found in ANY_RETIRED.finditer(re.sub(r"\s+", " ", prose))]


@pytest.mark.parametrize(
    "path",
    [*modules(), *PAGES, *PROGRAMS, *WITH_FOREIGN_TEXT],
    ids=lambda path: path.relative_to(REPOSITORY).as_posix(),
)
def test_prose_has_standard_words(path: Path) -> None:
    joined = re.sub(r"\s+(#+\s*)?", " ", path.read_text())
    if not ANY_RETIRED.search(joined):  # Most files; the rest is parsed.
        return
    found = [f"{line}: {word!r}" for line, text in texts(path) for word in retired(text)]
    assert not found, f"write instead: {RETIRED_IN_PROSE}"


INVERTED = re.compile(r"(?<![\w-])((says?|said) of|(is|are) asked|(?<!each )(?<!some )(?<!all )of which)(?![\w-])")
"""Relatives before their noun, and pools, labels or servers that speak: write `reports about`, `sets`, `requests`, or two sentences."""


@pytest.mark.parametrize("path", programs(), ids=lambda path: path.relative_to(ROOT.parent).as_posix())
def test_docstrings_of_the_code_have_no_inverted_relatives(path: Path) -> None:
    found = [(node.lineno, INVERTED.search(" ".join(str(node.value).split()))) for node in docstrings(parsed(path))]
    assert [f"{line}: {phrase[0]!r}" for line, phrase in found if phrase] == []


def test_the_list_of_retired_prose_is_read() -> None:
    assert retired("Nobody mends what somebody's pool doubts.") == ["Nobody", "mends", "somebody's", "doubts"]
    assert retired("the field `told` and untold") == []
    assert (retired("              - Tell"), retired("Tell it")) == ([], ["Tell"])
    assert retired("it stays for\n    ever, `see\n to` it that is\nnone") == ["for ever", "that is none"]


def test_a_phrase_is_found_over_a_line_break(tmp_path: Path) -> None:
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    page.write_text(
        "A job stays for\never.\n\nIt is not for\n\never here.\n```\nfor\n```\never\n# as if it\n# is none\n"
    )
    assert [(line, retired(text)) for line, text in texts(page) if retired(text)] == [
        (1, ["for ever"]),
        (10, ["if it is none"]),
    ]
    module.write_text('"""Runs for\never."""\n# It is worked\n# out.\nX = "be " "it"\n# worked\n\n# out\n')
    assert [(line, retired(text)) for line, text in texts(module) if retired(text)] == [
        (1, ["for ever"]), (5, ["be it"]), (3, ["worked out"]),
    ]  # fmt: skip
