"""The context of the operator's image is what its Dockerfile copies, and nothing else: no history, no secrets of a checkout."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "images" / "operator" / "Dockerfile"


def copied() -> list[str]:
    """The paths of the context that COPY names."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE.read_text(), re.MULTILINE)
    return [path for line in lines for path in line.split()[:-1]]


def patterns() -> list[str]:
    lines = (line.strip() for line in (ROOT / ".dockerignore").read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def is_sent(path: str) -> bool:
    """Whether Docker sends a path: the last pattern that it, or a folder above it, matches decides."""
    parts = path.split("/")
    paths = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    sent = True
    for pattern in patterns():
        bare = pattern.lstrip("!")
        tail = bare.removeprefix("**/")
        if any(fnmatch.fnmatchcase(each, bare) or (bare != tail and each.split("/")[-1] == tail) for each in paths):
            sent = pattern.startswith("!")
    return sent


def test_what_is_copied_is_sent() -> None:
    assert len(copied()) > 5
    for path in copied():
        assert (ROOT / path).exists(), path
        assert is_sent(path), path
    assert is_sent("operator/gpujob/cluster/app/app.py")
    assert is_sent("operator/gpujob/catalog/data/catalog.json")


@pytest.mark.parametrize(
    "path",
    [
        ".git", ".git/config", ".venv/bin/python", "tests/conftest.py", "shared/README.md", ".env", "kubeconfig", "charts/x.yaml",
        "requirements/dev.txt", "operator/gpujob/__pycache__/__init__.cpython-311.pyc", "operator/__pycache__", "docs/architecture.md",
    ],
)  # fmt: skip
def test_nothing_else_is_sent(path: str) -> None:
    assert not is_sent(path)


def test_each_exception_is_copied() -> None:
    for pattern in patterns():
        path = pattern.removeprefix("!")
        if pattern.startswith("!"):
            assert any(each == path or each.startswith(f"{path}/") for each in copied()), path


BASE = re.compile(r"(?P<name>[a-z0-9.]+(?::[0-9]+)?/[a-z0-9/-]+:trixie-slim)@sha256:[0-9a-f]{64}")


def test_the_base_is_named_by_registry_release_and_digest() -> None:
    """A name without its registry is another one's where a container engine searches several."""
    (said,) = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    match = BASE.fullmatch(said)
    assert match, said
    stages = re.findall(r"^FROM (\S+)", DOCKERFILE.read_text(), re.MULTILINE)
    assert stages == ["${BASE}", "python", "libraries", "scratch"]
    page = (ROOT / "images" / "README.md").read_text()
    assert f"`docker buildx imagetools inspect {match['name']}`" in page
    assert f"`--build-arg BASE={match['name']}`" in page


def test_the_page_names_the_python_of_the_packages() -> None:
    (python,) = set(
        re.findall(r"\bpython(3[.][0-9]+)-minimal", (ROOT / "images" / "operator" / "python.sh").read_text())
    )
    assert f"packages of Python {python}" in (ROOT / "images" / "README.md").read_text()
    assert set(re.findall(r"python(3[.][0-9]+)/dist-packages", DOCKERFILE.read_text())) == {python}
