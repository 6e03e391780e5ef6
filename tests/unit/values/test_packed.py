"""A packed object says what its members say, whatever they are."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.values import packed as module
from gpujob.values.packed import Packed

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=5), st.lists(st.text(max_size=4), max_size=2))
def test_a_packed_object_equals_its_members(members: dict[str, Any], kept: list[str]) -> None:
    packed = Packed(members, kept)
    assert packed == members
    assert members == packed
    assert packed == Packed(members)
    assert Packed(members) == packed
    assert dict(packed) == members
    assert len(packed) == len(members)
    assert {key: packed.get(key, "absent") for key in (*members, "never there")} == {**members, "never there": "absent"}
    assert json.dumps(dict(packed)) == json.dumps(members)


def test_other_members_make_another_object() -> None:
    packed = Packed({"a": 1, "b": [1]}, ("a",))
    assert packed != Packed({"a": 1, "b": [2]}, ("a",))
    assert packed != Packed({"a": 2, "b": [1]}, ("a",))
    assert packed == Packed({"b": [1], "a": 1})
    assert packed != "a"
    assert "c" not in packed
    with pytest.raises(KeyError):
        packed["c"]


def test_what_is_kept_costs_nothing_to_read_there_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Packed({"a": 1, "b": 2}, ("a", "c"))

    def none(_: bytes) -> dict[str, Any]:
        raise AssertionError("it is unpacked")

    monkeypatch.setattr(module, "_tables", none)
    assert (held.get("a"), held.get("c"), held.get("c", 7), held["a"]) == (1, None, 7, 1)
    with pytest.raises(KeyError):
        held["c"]
    with pytest.raises(AssertionError):
        held.get("b")


def test_text_that_is_no_unicode_stays_as_it_is() -> None:
    members = {"a": "\ud800", "b": {"c": "x"}}
    assert Packed(members, ("b",)) == members


def test_a_status_takes_less_than_half() -> None:
    status = {
        "state": "Succeeded",
        "conditions": [
            {
                "type": f"T{number}",
                "status": "True",
                "reason": "Placed",
                "message": f"said {number}",
                "observedGeneration": 1,
            }
            for number in range(5)
        ],
    }
    packed = Packed(json.loads(json.dumps(status)), ("state",))
    assert size(packed._values) + size(packed._text) < 0.5 * size(status)


def size(value: Any) -> int:
    """Bytes of a value with all that it holds."""
    held: Any = ()
    if isinstance(value, dict):
        held = [*value, *value.values()]
    elif isinstance(value, list):
        held = value
    return sys.getsizeof(value) + sum(map(size, held))
