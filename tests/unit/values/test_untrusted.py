"""Members of JSON from outside: what is not of the wanted type reads as absent."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.values.untrusted import whole_number


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0, 0), (7, 7), ("7", 7), ("007", 7), (-1, None), (-(2**63), None), ("-1", None), ("1234567890", None),
        (True, None), (1.0, None), ("", None), ("\u0663", None), (None, None), ([3], None),
    ],
)  # fmt: skip
def test_a_count_is_a_whole_number_of_at_least_nothing(value: Any, number: int | None) -> None:
    assert whole_number(value) == number
