"""The rules: what the table's patterns admit, their readers can read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from gpujob.api.generate.crd import RULES
from gpujob.api.kinds.gpujob import Framework, GPUJobSpec
from gpujob.api.kinds.pods import EnvironmentVariable, KeyToPath
from gpujob.api.manifest import read_gpujob
from gpujob.api.validation.jobs import is_satisfiable
from gpujob.values.errors import BadManifest

pieces = st.sampled_from(["==", "!=", ">=", "<=", "~=", ">", "<", ",", ".", "*", " ", "0", "2", "10", "a", "\n"])


@given(text=st.lists(pieces, min_size=1, max_size=10).map("".join))
def test_every_range_that_is_admitted_is_a_pep_440_range(text: str) -> None:
    try:
        read_gpujob({"spec": {"framework": {"version": text}}})
    except BadManifest:
        return
    SpecifierSet(text)


def test_only_what_costs_too_much_is_left_to_python() -> None:
    python_alone = [(rule.model, rule.field) for rule in RULES if not rule.expression]
    assert python_alone == [
        (EnvironmentVariable, "value"),
        (KeyToPath, "path"),
        (GPUJobSpec, "command"),
        (GPUJobSpec, "command"),
        (GPUJobSpec, "command"),
        (GPUJobSpec, "args"),
        (GPUJobSpec, "workingDir"),
        (Framework, "version"),
        (Framework, "python"),
    ]


def test_a_rule_over_one_field_of_the_spec_is_at_the_field() -> None:
    """For each field that a rule reads of the whole spec the API server copies the schema of all its fields."""
    of_spec = [rule.expression for rule in RULES if rule.model is GPUJobSpec and rule.expression and not rule.by_itself]
    read = [set(re.findall(r"\bself[.](\w+)", expression)) for expression in of_spec]
    assert of_spec
    assert all(len(fields) > 1 for fields in read)


def test_a_job_that_sets_few_fields_costs_few_reads_of_its_spec() -> None:
    """A rule ends at its first absent field, and that of the commonest jobs comes first."""
    of_spec = [rule.expression for rule in RULES if rule.model is GPUJobSpec and rule.expression and not rule.by_itself]
    first = [re.match(r"!has\(self[.](\w+)\)", expression) for expression in of_spec]
    assert {found and found[1] for found in first} == {
        "volumeMounts",
        "checkpoint",
        "shapes",
        "gpuMemory",
        "placement",
        "stall",
    }


@pytest.mark.parametrize("text", [">=2.10,<2.5", ">2.10,<=2.10", "==2.9,!=2.9.0", "~=2.10,>=3", "==2.*,!=2.*", "<0"])
def test_a_range_that_no_version_is_in_is_refused(text: str) -> None:
    with pytest.raises(BadManifest) as refusal:
        read_gpujob({"spec": {"framework": {"version": text}}})
    sentence = "spec.framework.version: no version is in framework.version: its parts exclude one another; take one out"
    assert str(refusal.value).endswith(sentence)


@given(text=st.lists(pieces, min_size=1, max_size=10).map("".join))
def test_a_range_without_versions_admits_none(text: str) -> None:
    try:
        wanted = SpecifierSet(text)
    except InvalidSpecifier:
        return
    if not is_satisfiable(text):
        tried = [f"{one}.{two}.{three}" for one in range(13) for two in range(13) for three in (0, 1)]
        assert not list(wanted.filter(tried))


@pytest.mark.parametrize(
    "text", [">=2.5,<2.10", "!=2.*", ">2.9,<2.9.1", "==2.10.*,>2.10", "~=2.10,<2.11", "<=0", "!=0", ">1"]
)
def test_a_range_with_versions_is_none_of_them(text: str) -> None:
    assert is_satisfiable(text)


def test_a_file_of_a_volume_stays_below_its_mount() -> None:
    volume = {"name": "a", "configMap": {"name": "c", "items": [{"key": "k", "path": "../x"}]}}
    with pytest.raises(BadManifest, match=r"items\[0\]\.path: path must be a relative path that does not begin with"):
        read_gpujob({"spec": {"volumes": [volume]}})


def test_every_sentence_is_one_line_that_the_api_server_can_show() -> None:
    for rule in RULES:
        assert rule.message
        assert "\n" not in rule.message
        assert len(rule.message) <= 2048
