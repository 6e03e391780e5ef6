"""Words of findings, names of objects, members of JSON from outside, and values that are computed once."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.values import finding
from gpujob.values.derived import derived
from gpujob.values.finding import Cores, ExactDollars, Finding, Lack, Need, Size, distinct, listed, nearest
from gpujob.values.generated import settle
from gpujob.values.names import attempt_in, child_name, is_namespace, label_value
from gpujob.values.quantity import GI
from gpujob.values.untrusted import one_line, table, tables, whole_number
from gpujob.values.vocabulary import Backend, Reason, Vendor


class Counted:
    def __init__(self) -> None:
        self.times = 0

    @derived
    def value(self) -> int:
        """What it is."""
        self.times += 1
        return 7


def test_a_derived_value_is_computed_once_and_is_itself_on_the_class() -> None:
    one, other = Counted(), Counted()
    assert (one.value, one.value, other.value, one.times, other.times) == (7, 7, 7, 1, 1)
    assert isinstance(Counted.value, derived)
    assert Counted.value.__doc__ == "What it is."


def test_amounts_in_a_finding() -> None:
    told = Finding(
        Reason.MEM_TOO_SMALL,
        "{} {} {} {} {}",
        (
            Size(GI),
            Need(GI + 1),
            Lack(2 * GI, GI),
            ExactDollars(13),
            listed(map(str, map(Cores, (1500, 500, 2000, 191_750)))),
        ),
    )
    assert told.message == "1Gi 1.01Gi 1Gi $0.000013 1.5, 500m, 2 and 191.75"
    assert f"{ExactDollars(13)} {Size(GI)} {Need(GI)} {Cores(2000)}" == "$0.000013 1Gi 1Gi 2"


def test_equal_sentences_are_one_finding() -> None:
    a, again, b = (Finding(Reason.CORDONED, text, (number,)) for text, number in (("x", 1), ("x", 2), ("y", 3)))
    assert distinct([a, again, b, Finding(Reason.NOT_READY, "x")]) == (a, b, Finding(Reason.NOT_READY, "x"))


def test_lists_and_the_nearest() -> None:
    assert listed([str(number) for number in range(8)]) == "0, 1, 2, 3, 4, 5, 6 and 7"
    assert listed([str(number) for number in range(10)]) == "0, 1, 2, 3, 4, 5, 6 and 3 more"
    assert [nearest(), nearest(None, ""), nearest("a"), nearest("a", None, "b"), nearest("a", "b", "c")] == [
        "", "", "; the nearest is a", "; the nearest are a and b", "; the nearest are a, b and c",
    ]  # fmt: skip
    assert [finding.counted(number, "GPU") for number in (0, 1, 2)] == ["0 GPUs", "1 GPU", "2 GPUs"]


@pytest.mark.parametrize(
    ("text", "line"), [("plain é", "plain é"), ("a\nb\tc\x1b", "a\\nb\\tc\\x1b"), ("\u2028", "\\u2028"), ("", "")]
)
def test_a_text_on_one_line(text: str, line: str) -> None:
    assert one_line(text) == line


@pytest.mark.parametrize("value", [None, 7, "x", [{"a": 1}], {"a": 1}, [], {}, [7, {"a": 1}, "x"]])
def test_members_that_are_not_of_their_type_read_as_absent(value: Any) -> None:
    holder = {"key": value}
    assert table(holder, "key") == (value if isinstance(value, dict) else {})
    assert tables(holder, "key") == (
        [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    )
    assert (table({}, "key"), tables({}, "key")) == ({}, [])


def test_a_number_has_nine_digits_at_most_where_it_is_text() -> None:
    assert [whole_number(text) for text in ("999999999", "1000000000")] == [999_999_999, None]
    assert whole_number(10**12) == 10**12


@pytest.mark.parametrize(
    ("name", "attempt"),
    [("j-848554a7-3", 3), ("a-b-12", 12), ("7", 7), ("j-x", None), ("j-", None), ("", None), ("j-1x", None)],
)
def test_the_attempt_in_the_name_of_a_child(name: str, attempt: int | None) -> None:
    assert attempt_in(name) == attempt


@pytest.mark.parametrize(
    ("job", "stem"),
    [("7b", "j-7b"), ("b7", "b7"), ("-x", "x"), ("..", "j"), ("a" * 39 + "-b", "a" * 39), ("a" * 41, "a" * 40)],
)
def test_the_stem_of_a_child(job: str, stem: str) -> None:
    name = child_name(job, "u", 2)
    kept, digest, attempt = name.rsplit("-", 2)
    assert (kept, len(digest), attempt) == (stem, 8, "2")


@pytest.mark.parametrize(
    ("text", "value"), [("a b", "a-b"), ("_a_", "a"), ("a" * 64, "a" * 63), ("a" * 62 + "_b", "a" * 62), ("", "")]
)
def test_a_text_as_the_value_of_a_label(text: str, value: str) -> None:
    assert label_value(text) == value


@pytest.mark.parametrize(
    ("name", "good"), [("a", True), ("a-1", True), ("a" * 63, True), ("a" * 64, False), ("", False), ("-a", False), ("a-", False),
                       ("A", False), (None, False), (7, False)]
)  # fmt: skip
def test_the_name_of_a_namespace(name: Any, good: bool) -> None:
    assert is_namespace(name) is good


def test_a_vendor_its_resource_and_its_framework() -> None:
    assert [vendor.resource for vendor in (Vendor.AMD, Vendor.NVIDIA)] == ["amd.com/gpu", "nvidia.com/gpu"]
    assert [backend.vendor for backend in (Backend.CUDA, Backend.ROCM)] == [Vendor.NVIDIA, Vendor.AMD]


def test_a_folder_that_is_there_is_no_fault(tmp_path: Any) -> None:
    wanted = {tmp_path / "deep" / "er" / name: b"x" for name in "ab"}
    assert settle(wanted, "its source", check=False) == 0
    (tmp_path / "deep" / "er" / "c").write_bytes(b"stray")
    more = {**wanted, tmp_path / "deep" / "er" / "d": b"y"}
    assert settle(more, "its source", check=False, strays=[tmp_path / "deep" / "er" / "c"]) == 0
    assert sorted(path.name for path in (tmp_path / "deep" / "er").iterdir()) == ["a", "b", "d"]
