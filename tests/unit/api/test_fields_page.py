"""The page of fields has each one, in the form that people write."""

from __future__ import annotations

import pytest

from gpujob.api.generate.crd import KINDS, definition
from gpujob.api.generate.fields_page import page, rows

SPECS = {
    found["spec"]["names"]["kind"]: found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for found in map(definition, KINDS)
    if "spec" in found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
}


@pytest.mark.parametrize("kind", SPECS)
def test_each_field_has_a_type_and_a_meaning(kind: str) -> None:
    told = list(rows(SPECS[kind]))
    assert len({path for path, _, _ in told}) == len(told)
    assert [path for path, type_, meaning in told if not type_ or not meaning.strip()] == []


def test_types_are_told_in_plain_words() -> None:
    told = {path: (type_, meaning) for path, type_, meaning in rows(SPECS["GPUJob"])}
    assert told["nodes"][0] == "1 to 1024"
    assert told["placement.capacityTypes"][0] == "list of `OnDemand` or `Reserved` or `Spot`"
    assert told["volumes[].name"][0] == "text, required"
    assert told["podMetadata.labels"][0] == "map of text"
    assert told["gpuMemory"][0] == "text or number"
    assert told["framework.name"][0] == "text, default `pytorch`"


def test_the_same_fields_are_told_once() -> None:
    told = {path: meaning for path, _, meaning in rows(SPECS["GPUJob"])}
    assert told["envByBackend.cuda"].endswith("Its fields are those of `env[]`.")
    assert "env[].name" in told
    assert "envByBackend.cuda[].name" not in told


def test_a_cell_stays_one_cell() -> None:
    lines = [line for line in page().splitlines() if line.startswith("| `")]
    assert lines
    assert {line.replace("\\|", "").count("|") for line in lines} == {4}
