"""The support matrix names every field that can be set, and tests that are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
MATRIX = (ROOT / "docs" / "support-matrix.md").read_text()
DOCS = "\n".join(path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")))
KINDS = {"GPUJob": "gpujobs", "GPUPool": "gpupools", "GPURuntime": "gpuruntimes"}
OF_KUBERNETES = {"env", "envFrom", "envByBackend", "volumes", "volumeMounts", "nodeSelector", "tolerations",
                 "namespaceSelector", "imagePullSecrets"}  # fmt: skip
"""Members whose inside is Kubernetes' own and described there."""


def spec_of(kind: str) -> dict[str, Any]:
    crd = yaml.safe_load((ROOT / "crds" / f"gpujob.dev_{KINDS[kind]}.yaml").read_text())
    spec: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return spec


def members(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Paths of all members that are ours."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}{name}"
        if name not in OF_KUBERNETES:
            yield from members(inner.get("items", inner), f"{path}{name}.")


def section(kind: str) -> str:
    return MATRIX.split(f"## {kind}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_spec_has_a_line(kind: str) -> None:
    words = set(re.findall(r"`([\w.]+)", section(kind)))
    assert not [name for name in spec_of(kind)["properties"] if name not in words]


@pytest.mark.parametrize("kind", KINDS)
def test_every_member_of_a_spec_is_told_of_in_the_documents(kind: str) -> None:
    told = set(re.findall(r"\w+", DOCS))
    assert not [path for path in members(spec_of(kind)) if path.rpartition(".")[2] not in told]


def test_what_it_names_is_there() -> None:
    named = re.findall(r"\b((?:tests|bench)/[\w/.-]+)", MATRIX)
    assert len(named) > 30
    assert not [path for path in named if not (ROOT / path.rstrip(".,;")).exists()]
