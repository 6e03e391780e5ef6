"""Versions compare by release numbers, compiled code by capability: the edge cases of both."""

from __future__ import annotations

import pytest

from gpujob.catalog.devices.architecture import may_pass_for, pretended, runs_on
from gpujob.catalog.images.versions import at_least, release, satisfies
from gpujob.values.errors import BadInput

CUDA126 = ["5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0"]
CUDA13 = ["7.5", "8.0", "8.6", "9.0", "10.0", "12.0+PTX"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.14.0a0+4fdf77b940", (2, 14, 0)),
        ("2.10.0+git94c6e04", (2, 10, 0)),
        ("2.12.0+cu130", (2, 12, 0)),
        ("2.14", (2, 14)),
        ("10.0", (10, 0)),
        ("v26.3", (26, 3)),
        ("580.95.05", (580, 95, 5)),
        ("12.0+PTX", (12, 0)),
        ("latest", ()),
        ("", ()),
        (None, ()),
        ("99999999999", ()),
        ("٢.٣", ()),
    ],
)
def test_release(text: str | None, expected: tuple[int, ...]) -> None:
    assert release(text) == expected


def test_versions_are_no_decimal_fractions() -> None:
    assert release("7.2.4") < release("7.14") < release("10.0")


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("2.14.0a0+4fdf77b940", ">=2.14", True),
        ("2.14.0", ">=2.10,<2.15", True),
        ("2.15.0", ">=2.10,<2.15", False),
        ("2.14", "==2.14.0", True),
        ("2.14.1", "==2.14.*", True),
        ("2.14.1", "~=2.13", True),
        ("2.14.1", "!=2.14.1", False),
        ("2.9.1", ">=2.10", False),
        ("2.14.1", "", True),
        ("latest", ">=2", False),
        ("latest", "", True),
    ],
)
def test_satisfies(version: str, wanted: str, expected: bool) -> None:
    assert satisfies(version, wanted) is expected


def test_what_is_no_range_is_bad_input_with_a_remedy() -> None:
    with pytest.raises(BadInput) as error:
        satisfies("2.14.1", "2.14")
    assert str(error.value) == "'2.14' is not a version range; write one such as >=2.10,<2.15"


@pytest.mark.parametrize(
    ("have", "need", "expected"),
    [
        ("580.95.05", "580.65.06", True),
        ("580.65.06", "580.65.06", True),
        ("580", "580.65.06", None),
        ("580.65", "580.65.06", None),
        ("579", "580.65.06", False),
        ("581", "580.65.06", True),
        ("580", "580.0.0", True),
        ("580.65.06", "580", True),
        ("570.26", "570.26.0", True),
        ("550.54", "525.60.13", True),
        ("535.104.05", "580", False),
        ("6.16.13", "6.19", False),
        ("6.19.14", "6.19", True),
        ("", "580", None),
        ("unknown", "0", None),
    ],
)
def test_at_least(have: str, need: str, expected: bool | None) -> None:
    assert at_least(have, need) is expected


@pytest.mark.parametrize(
    ("version", "named"),
    [
        ("10.3.0", "gfx1030"),
        ("11.0.0", "gfx1100"),
        ("9.4.2", "gfx942"),
        ("9.0.10", "gfx90a"),
        ("12.0.1", "gfx1201"),
        ("11.0", None),
        ("gfx1100", None),
        ("11.0.16", None),
        ("", None),
    ],
)
def test_what_an_override_names(version: str, named: str | None) -> None:
    assert pretended(version) == named


@pytest.mark.parametrize(
    ("device", "other", "expected"),
    [
        ("gfx1102", "gfx1100", True),
        ("gfx1151", "gfx1100", True),
        ("gfx1034", "gfx1030", True),
        ("gfx1200", "gfx1201", True),
        ("gfx1100", "gfx1100", False),
        ("gfx1102", "gfx1030", False),
        ("gfx1011", "gfx1030", False),
        ("gfx942", "gfx950", False),
        ("gfx906", "gfx900", False),
        ("9.0", "gfx1100", False),
    ],
)
def test_only_radeon_parts_of_one_family_pass_for_each_other(device: str, other: str, expected: bool) -> None:
    assert may_pass_for(device, other) is expected


@pytest.mark.parametrize(
    ("device", "compiled", "expected"),
    [
        ("8.9", CUDA126, True),  # 8.6 code
        ("8.9", ["9.0"], False),
        ("8.6", ["8.9"], False),
        ("8.0", ["8.6"], False),
        ("9.0", CUDA126, True),
        ("10.0", CUDA126, False),
        ("12.0", CUDA126, False),
        ("7.0", CUDA126, True),
        ("7.0", CUDA13, False),
        ("10.3", CUDA13, True),  # 10.0 code
        ("12.0", CUDA13, True),
        ("12.1", CUDA13, True),
        ("13.0", CUDA13, True),  # from PTX
        ("11.0", CUDA13, False),
        ("9.0", ["8.0+PTX"], True),
        ("8.0", ["9.0+PTX"], False),
        ("gfx942", ["gfx90a", "gfx942"], True),
        ("gfx1102", ["gfx90a", "gfx942", "gfx1030", "gfx1100"], False),
        ("gfx90a:sramecc+:xnack-", ["gfx90a"], True),
        ("gfx942", CUDA13, False),
        ("9.0", ["gfx942"], False),
        ("9.0", [], False),
        ("", CUDA13, False),
        # Code with instructions of one architecture, or of a family.
        ("9.0", ["9.0a"], True),
        ("10.0", ["9.0a+PTX"], False),
        ("10.3", ["10.0a"], False),
        ("10.3", ["10.0f"], True),
        ("10.0", ["10.3f"], False),
        ("12.1", ["12.0f+PTX"], True),
        ("12.0", ["10.0f+PTX"], False),
        # Tegra parts run their own machine code, and PTX.
        ("8.7", ["8.6"], False),
        ("8.9", ["8.7"], False),
        ("8.7", ["8.7"], True),
        ("8.7", ["8.0+PTX"], True),
        # Generic processors of LLVM.
        ("gfx942", ["gfx9-4-generic"], True),
        ("gfx950", ["gfx9-4-generic"], True),
        ("gfx90a", ["gfx9-4-generic"], False),
        ("gfx1102", ["gfx11-generic"], True),
        ("gfx1151", ["gfx11-generic"], True),
        ("gfx1201", ["gfx11-generic"], False),
        ("gfx1030", ["gfx10-3-generic"], True),
        ("gfx1011", ["gfx10-3-generic"], False),
    ],
)
def test_runs_on(device: str, compiled: list[str], expected: bool) -> None:
    assert runs_on(device, compiled) is expected
