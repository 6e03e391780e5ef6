"""The rules: what the table's patterns admit, their readers can read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from gpujob.api.crd import RULES
from gpujob.api.manifest import read_gpujob
from gpujob.api.pods import KeyToPath
from gpujob.errors import BadManifest

pieces = st.sampled_from(["==", "!=", ">=", "<=", "~=", ">", "<", ",", ".", "*", " ", "0", "2", "10", "a", "\n"])


@given(text=st.lists(pieces, min_size=1, max_size=10).map("".join))
def test_every_range_that_is_admitted_is_a_pep_440_range(text: str) -> None:
    try:
        read_gpujob({"spec": {"framework": {"version": text}}})
    except BadManifest:
        return
    SpecifierSet(text)


def test_only_what_costs_too_much_is_left_to_python() -> None:
    assert [rule.model for rule in RULES if not rule.expression] == [KeyToPath]


def test_a_file_of_a_volume_stays_below_its_mount() -> None:
    volume = {"name": "a", "configMap": {"name": "c", "items": [{"key": "k", "path": "../x"}]}}
    with pytest.raises(BadManifest, match=r"items\[0\]\.path: path must be a relative path without \.\."):
        read_gpujob({"spec": {"volumes": [volume]}})


def test_every_sentence_is_one_line_that_the_api_server_can_show() -> None:
    for rule in RULES:
        assert rule.message
        assert "\n" not in rule.message
        assert len(rule.message) <= 2048
