"""Memory, CPU and money: exact integers, read as Kubernetes reads them and written as people do."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.values.errors import BadQuantity
from gpujob.values.finding import Cores, Dollars, Finding, Need, Size, counted, listed, nearest
from gpujob.values.quantity import (
    CENT,
    GI,
    MAX_PRICE,
    MI,
    TI,
    exact_dollars,
    format_bytes,
    format_dollars,
    format_lack,
    format_millicores,
    format_parameters,
    most_within,
    parse_bytes,
    parse_count,
    parse_dollars,
    parse_millicores,
    quantity_of_bytes,
    shortest_quantity,
    shown_dollars,
)
from gpujob.values.untrusted import one_line
from gpujob.values.vocabulary import Reason


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("80G", 80 * 10**9),
        ("80Gi", 80 * GI),
        ("0.5Gi", GI // 2),
        (".5Gi", GI // 2),
        ("1.", 1),
        ("1e3", 1000),
        ("1E3", 1000),
        ("2e-1", 0),
        ("1500m", 1),
        ("1k", 1000),
        ("4Ki", 4096),
        ("1Ei", 2**60),
        ("+7", 7),
        (1024, 1024),
        (" 80G ", 80 * 10**9),
    ],
)
def test_bytes(text: str | int, amount: int) -> None:
    assert parse_bytes(text) == amount


@pytest.mark.parametrize(
    "text",
    ["", "80GB", "80 G", "G", "-1G", "1_0", "٣G", "1e999", "0x10", "Infinity", "1ki", "1gi", "1K", True, "9" * 65],
)
def test_what_is_no_memory_size(text: Any) -> None:
    with pytest.raises(BadQuantity):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "amount"),
    [("1", 1000), ("500m", 500), ("0.1", 100), ("1.0001", 1001), ("0.0001", 1), (8, 8000), ("1k", 10**6)],
)
def test_millicores_are_rounded_up_as_the_scheduler_does(text: str | int, amount: int) -> None:
    assert parse_millicores(text) == amount


def test_counts_are_whole() -> None:
    assert (parse_count("8"), parse_count("1k"), parse_count(0), parse_count("2000m")) == (8, 1000, 0, 2)
    for text in ("1.5", "-1", "8 GPUs"):
        with pytest.raises(BadQuantity):
            parse_count(text)


@pytest.mark.parametrize(
    ("text", "micro"),
    [
        ("2.10", 2_100_000),
        ("0", 0),
        (3, 3_000_000),
        (".5", 500_000),
        ("0.0000004", 0),
        ("0.0000005", 1),
        ("1e-2", 10_000),
        ("100000", 10**11),
    ],
)
def test_dollars(text: str | int, micro: int) -> None:
    assert parse_dollars(text) == micro


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "nan", "inf", "1_0", "２", "$2", "2,10", "100000.01", "2.10 USD", True]
)
def test_what_is_no_price(text: Any) -> None:
    with pytest.raises(
        BadQuantity,
        match=r'is not a price in US dollars between 0 and 100000; write a decimal in quotes, such as "2\.10"',
    ):
        parse_dollars(text)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (80 * GI, "80Gi"),
        (GI * 79650 // 1000 + 1, "79.65Gi"),
        (512 * MI, "512Mi"),
        (GI - 1, "1023.99Mi"),
        (0, "0Mi"),
        (80 * GI - 1, "79.99Gi"),
        (3156949 * GI // 100, "30.82Ti"),
        (2003 * GI, "2003Gi"),
    ],
)
def test_sizes_are_never_rounded_up(amount: int, text: str) -> None:
    assert format_bytes(amount) == text
    assert str(Size(amount)) == f"{Size(amount)}" == text


@pytest.mark.parametrize(
    ("micro", "text"),
    [
        (2_100_000, "2.10"),
        (0, "0.00"),
        (62_500, "0.06"),
        (9_999, "0.009999"),
        (2_500, "0.0025"),
        (10_000, "0.01"),
        (1, "0.000001"),
        (99_999, "0.10"),
        (50_000, "0.05"),
        (995_000, "1.00"),
        (100_000, "0.10"),
        (12_345_678, "12.35"),
    ],
)
def test_prices_in_cents_and_what_is_below_one_exactly(micro: int, text: str) -> None:
    assert format_dollars(micro) == text
    assert f"{Dollars(micro)}" == str(Dollars(micro)) == f"${text}"


@given(micro=st.integers(0, MAX_PRICE))
def test_prices_are_read_as_they_were_written(micro: int) -> None:
    assert parse_dollars(exact_dollars(micro)) == micro
    shown = parse_dollars(format_dollars(micro))
    assert abs(shown - micro) <= 5_000
    assert format_dollars(shown) == format_dollars(micro)
    assert (shown == 0) == (micro == 0)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (494_032_768, "494M"),
        (8_030_261_248, "8.03B"),
        (70_553_706_496, "70.6B"),
        (1_043_000_000_000, "1.04T"),
        (22_000_000, "22.0M"),
    ],
)
def test_parameters_are_written_with_three_digits(number: int, text: str) -> None:
    assert format_parameters(number) == text


@given(amount=st.integers(0, MAX_PRICE))
def test_a_limit_of_what_is_shown_is_enough_and_a_cent_less_is_not(amount: int) -> None:
    shown = parse_dollars(format_dollars(amount))
    assert shown == shown_dollars(amount)
    assert amount <= most_within(shown)
    assert shown < 2 * CENT or most_within(shown - CENT) < amount


@given(limit=st.integers(0, 2**40), more=st.integers(1, 2**20))
def test_a_limit_allows_itself_and_what_is_beyond_it_is_shown_as_more(limit: int, more: int) -> None:
    assert most_within(limit) >= limit
    assert shown_dollars(most_within(limit)) <= max(limit, shown_dollars(limit))
    assert shown_dollars(most_within(limit) + more) > limit


def test_cores() -> None:
    assert (format_millicores(28_000), format_millicores(3_600), f"{Cores(500)}") == ("28", "3600m", "500m")


@given(amount=st.integers(1, 2**60))
def test_written_quantities_are_exact(amount: int) -> None:
    assert parse_bytes(quantity_of_bytes(amount)) == amount
    assert parse_bytes(shortest_quantity(amount)) == amount


@pytest.mark.parametrize(("amount", "text"), [(80 * 10**9, "80G"), (80 * GI, "80Gi"), (10**6, "1M"), (12345, "12345")])
def test_a_quantity_as_a_person_would_write_it(amount: int, text: str) -> None:
    assert shortest_quantity(amount) == text


@given(text=st.text(max_size=70) | st.integers() | st.booleans())
@pytest.mark.parametrize("parse", [parse_bytes, parse_millicores, parse_count, parse_dollars])
def test_hostile_figures_are_read_or_refused(parse: Any, text: Any) -> None:
    with suppress(BadQuantity):
        assert parse(text) >= 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "none"),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (list("abcdefgh"), "a, b, c, d, e, f, g and h"),
        (list("abcdefghi"), "a, b, c, d, e, f, g and 2 more"),
    ],
)
def test_lists_as_people_write_them(words: list[str], text: str) -> None:
    assert listed(words) == text


def test_counts_and_hints_in_sentences() -> None:
    assert (counted(1, "GPU"), counted(8, "GPU"), nearest("BF16"), nearest(None)) == (
        "1 GPU", "8 GPUs", "; the nearest is BF16", ""
    )  # fmt: skip


@given(value=st.text(max_size=20))
def test_a_finding_words_whatever_it_was_given_in_one_line(value: str) -> None:
    assert Finding(Reason.DEVICE_UNKNOWN, "it is {}", (value,)).message == one_line(f"it is {value}")


@pytest.mark.parametrize(
    ("need", "has", "shown"),
    [
        (20 * GI, 5 * GI + 1, "15Gi"),
        (GI + 1, GI // 2, "522.24Mi"),
        (3 * MI + 1, 2 * MI, "1.01Mi"),
        (GI, GI // 2, "512Mi"),
        (111 * TI, 191 * GI, "110.82Ti"),
        (10 * TI, 9 * TI, "1Ti"),
    ],
)
def test_what_lacks_is_the_difference_of_what_is_shown(need: int, has: int, shown: str) -> None:
    assert format_lack(need, has) == shown


@pytest.mark.parametrize(
    ("amount", "has", "shown"),
    [
        (22 * GI + 1, None, "22.01Gi"),
        (22 * GI + 1, 22 * GI, "22.01Gi"),
        (22 * GI + 1, 22 * GI + 1, "22Gi"),
        (22 * GI + 1, 23 * GI, "22.01Gi"),
        (GI - 1, GI - 1, "1023.99Mi"),
        (GI - 1, GI, "1024Mi"),
        (10 * TI + 1, 10 * TI + 2, "10Ti"),
    ],
)
def test_a_need_is_rounded_up_but_not_above_what_holds_it(amount: int, has: int | None, shown: str) -> None:
    assert str(Need(amount, has)) == f"{Need(amount, has)}" == shown
