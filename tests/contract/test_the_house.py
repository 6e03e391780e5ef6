"""What keeps the house in order: names, folders, and documents that say what the code does."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()


def test_the_source_root_is_no_package() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists(), "it would hide Python's own operator module"


def test_no_room_is_called_by_an_empty_name() -> None:
    empty = {"utils", "helpers", "common", "misc"}
    assert not [path for path in (ROOT / "operator").rglob("*.py") if path.stem in empty]


def test_every_module_says_why_it_exists() -> None:
    for path in (ROOT / "operator").rglob("*.py"):
        assert path.read_text().lstrip().startswith('"""'), f"{path} has no docstring"


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a module of tests: its file or folder there. The programs of a control plane are a room of their own."""
    return "e2e.cluster" if parts[:2] == ("e2e", "cluster") else parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The rooms of tests that a module imports, wherever it does so."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [f"{node.module}.{each.name}" for node in nodes if isinstance(node, ast.ImportFrom) for each in node.names]
    return {room_of(tuple(name.split(".")[1:])) for name in names if name.startswith("tests.")}


def test_imports_between_the_rooms_of_tests_have_no_circle() -> None:
    graph: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("*.py"):
        room = room_of(path.relative_to(ROOT / "tests").parts)
        graph.setdefault(room, set()).update(imported(path) - {room})
    assert graph["contract"] >= {"e2e", "e2e.cluster"}
    order = list(TopologicalSorter(graph).static_order())
    assert order.index("e2e.cluster") < order.index("torch_tree") < order.index("e2e") < order.index("contract")


def test_the_readme_shows_the_real_plan() -> None:
    command = [str(Path(sys.executable).parent / "kubectl-gpujob"), "plan", "-f", "examples/01-hello-gpu.yaml"]
    done = subprocess.run(
        [*command, "--cluster", "examples/clusters/mixed.yaml"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() in README


def test_the_readme_shows_the_example_that_is_there() -> None:
    lines = (ROOT / "examples" / "01-hello-gpu.yaml").read_text().splitlines()
    assert "\n".join(line for line in lines if not line.startswith("#")) in README


def test_the_image_is_built_with_the_backend_that_is_locked_for_development() -> None:
    def blocks(name: str) -> set[str]:
        lines = (ROOT / "requirements" / name).read_text().splitlines()
        text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
        return set(re.findall(r"^[a-z0-9-]+==.*(?:\n    --hash.*)+", text, re.M))

    build = blocks("build.txt")
    assert {"hatchling"} <= {block.split("==")[0] for block in build}
    assert build <= blocks("dev.txt"), "run `make lock`"


def test_every_target_of_the_makefile_has_a_sentence() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^\.PHONY: (.+)$", makefile, re.M))
    described = set(re.findall(r"^([a-z0-9-]+):.*## .+\.$", makefile, re.M))
    assert targets == described


@pytest.mark.parametrize("document", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=lambda p: p.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"
