"""Names of children and values of labels hold for every name that the API server accepts for a job."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.values.names import child_name, label_value

DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
UID = "6f1c1f0e-52a4-4f6c-9d3b-0a8d2f3f7a11"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama", "llama-848554a7-1"),
        ("llama-3.1-finetune", "llama-3-1-finetune-848554a7-1"),
        ("7b", "j-7b-848554a7-1"),
        ("a" * 39 + ".b" + "c" * 100, "a" * 39 + "-848554a7-1"),
    ],
)
def test_a_child_is_named_after_job_uid_and_attempt(name: str, expected: str) -> None:
    assert child_name(name, UID, 1) == expected


@given(st.text(max_size=300), st.text(max_size=50), st.integers(1, 10**10))
def test_every_child_name_is_a_dns_label_that_leaves_room_for_an_index(name: str, uid: str, attempt: int) -> None:
    child = child_name(name, uid, attempt)
    assert DNS_LABEL.fullmatch(child)
    assert len(child) <= 61
    assert child.endswith(f"-{attempt}")


def test_jobs_with_the_same_beginning_have_different_children() -> None:
    assert child_name("a" * 60, "one", 1) != child_name("a" * 60, "two", 1)
    assert child_name("a" * 60, "one", 1) != child_name("a" * 60, "one", 2)


@given(st.text(max_size=300))
def test_every_text_becomes_a_label_value(text: str) -> None:
    value = label_value(text)
    assert len(value) <= 63
    assert LABEL_VALUE.fullmatch(value)


def test_a_job_name_that_fits_is_its_label() -> None:
    assert label_value("llama-3.1") == "llama-3.1"
    assert label_value("x" * 62 + "-y") == "x" * 62
