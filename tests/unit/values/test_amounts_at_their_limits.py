"""Every unit, and each function of amounts at the size where its answer changes."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.values import quantity
from gpujob.values.errors import BadQuantity
from gpujob.values.quantity import (
    GI,
    KI,
    MI,
    TI,
    format_bytes,
    format_dollars,
    format_lack,
    format_need,
    format_parameters,
    most_bytes,
    most_millicores,
    parse_bytes,
    parse_count,
    parse_dollars,
    parse_millicores,
    parse_parameters,
    quantity_of_bytes,
    shortest_quantity,
)


def test_the_units_are_those_of_kubernetes() -> None:
    decimal = {"k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
    binary = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
    assert {unit: parse_bytes(f"1{unit}") for unit in decimal} == {unit: 10**power for unit, power in decimal.items()}
    assert {unit: parse_bytes(f"1{unit}") for unit in binary} == {unit: 1 << power for unit, power in binary.items()}
    assert [parse_count(text) for text in ("1000m", "1000000u", "1000000000n", "7")] == [1, 1, 1, 7]
    assert (KI, MI, GI, TI, quantity.MEGA) == (1 << 10, 1 << 20, 1 << 30, 1 << 40, 1_000_000)


def test_the_most_that_is_believed() -> None:
    assert (quantity.MICRO, quantity.CENT) == (1_000_000, 10_000)
    assert (quantity.MOST_MEMORY, quantity.MOST_CORES) == (1 << 50, 10_000)
    assert (quantity.MAX_PRICE, quantity.MAX_BUDGET) == (100_000_000_000, 10**15)


@pytest.mark.parametrize(("text", "amount"), [("0", 0), ("-0", 0), (f"{'0' * 63}7", 7), ("1e-3", 0), ("1e+3", 1000)])
def test_amounts_from_nothing_on_and_of_64_characters_are_read(text: str, amount: int) -> None:
    assert (parse_bytes(text), parse_count(text) if amount else 0) == (amount, amount)


@pytest.mark.parametrize("parse", [parse_bytes, parse_millicores, parse_count])
def test_amounts_below_zero_or_of_65_characters_are_refused(parse: Any) -> None:
    assert parse("0") == 0
    for text in ("-1", "-1n", f"{'0' * 64}7"):
        with pytest.raises(BadQuantity):
            parse(text)


@pytest.mark.parametrize(
    ("text", "most", "micro"),
    [
        (f"{'0' * 31}7", 7_000_000, 7_000_000),
        (f"{'0' * 32}7", 7_000_000, None),
        ("7", 6_999_999, None),
        ("7.0000001", 7_000_000, None),
        (True, 7_000_000, None),
        (False, 7_000_000, None),
    ],
)
def test_dollars_up_to_a_most_and_of_32_characters(text: Any, most: int, micro: int | None) -> None:
    if micro is not None:
        assert parse_dollars(text, most) == micro
        return
    with pytest.raises(BadQuantity, match=f"between 0 and {most // 1_000_000};"):
        parse_dollars(text, most)


@pytest.mark.parametrize(
    ("text", "number"),
    [("350M", 350_000_000), ("8B", 8_000_000_000), ("1.1T", 1_100_000_000_000), ("0.5B", 500_000_000), ("8", None), ("8G", None),
     ("", None), ("B", None)],
)  # fmt: skip
def test_sizes_of_models(text: str, number: int | None) -> None:
    if number is not None:
        assert parse_parameters(text) == number
        return
    with pytest.raises(BadQuantity):
        parse_parameters(text)


@pytest.mark.parametrize(
    ("number", "text"),
    [(10**9, "1.00B"), (10**12, "1.00T"), (10**9 - 1, "1000M"), (10 * 10**9, "10.0B"), (100 * 10**9, "100B"),
     (1000 * 10**9 - 1, "1000B")],
)  # fmt: skip
def test_a_size_of_a_model_changes_its_unit(number: int, text: str) -> None:
    assert format_parameters(number) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(GI, "1Gi"), (10 * TI, "10Ti"), (10 * TI - 1, "10239.99Gi"), (10 * TI - GI // 100, "10239.99Gi"), (MI // 100 + 1, "0.01Mi"),
     (MI // 100, "10485 bytes"), (64, "64 bytes"), (0, "0Mi"), (MI, "1Mi")],
)  # fmt: skip
def test_a_size_changes_its_unit(amount: int, text: str) -> None:
    assert format_bytes(amount) == text


@pytest.mark.parametrize(
    ("amount", "has", "text"),
    [
        (GI, None, "1Gi"),
        (GI, GI, "1Gi"),
        (GI + 1, GI + 1, "1Gi"),
        (GI + 1, GI, "1.01Gi"),
        (GI + 1, 2 * GI, "1.01Gi"),
        # What holds it shows exactly as much.
        (100 * GI + 1, (10001 * GI) // 100 + 1, "100.01Gi"),
        (10 * TI, 10 * TI, "10Ti"),
    ],
)
def test_a_need_beside_what_there_is(amount: int, has: int | None, text: str) -> None:
    assert format_need(amount, has) == text


@pytest.mark.parametrize(
    ("need", "has", "text"),
    [
        (2 * GI, GI, "1Gi"),
        (2 * GI, GI - 1, "1024.01Mi"),
        (10 * TI, GI, "10Ti"),
        (10 * TI - 1, GI, "10239Gi"),
        (GI, 0, "1024Mi"),
    ],
)
def test_a_lack_has_the_unit_of_what_it_is_compared_with(need: int, has: int, text: str) -> None:
    assert format_lack(need, has) == text


@pytest.mark.parametrize(
    ("amount", "binary", "shortest"),
    [
        (0, "0", "0"),
        (1, "1", "1"),
        (KI, "1Ki", "1Ki"),
        (MI, "1Mi", "1Mi"),
        (GI, "1Gi", "1Gi"),
        (3 * MI, "3Mi", "3Mi"),
        (1000, "1000", "1000"),
        (10**6, "1000000", "1M"),
        (10**9, "1000000000", "1G"),
        (1500 * 10**6, "1500000000", "1500M"),
        (parse_bytes("79.65Gi"), str(parse_bytes("79.65Gi")), "79.65Gi"),
        (parse_bytes("1.5Gi"), "1536Mi", "1.5Gi"),
        (parse_bytes("0.99Gi"), str(parse_bytes("0.99Gi")), str(parse_bytes("0.99Gi"))),
    ],
)
def test_an_amount_as_a_quantity(amount: int, binary: str, shortest: str) -> None:
    assert (quantity_of_bytes(amount), shortest_quantity(amount)) == (binary, shortest)


@pytest.mark.parametrize(
    ("asked", "most", "found"),
    [
        (80 * GI, 79 * GI + 5, 79 * GI),
        (80 * GI, GI, GI),
        (80 * GI, GI - 1, GI - MI),
        (80 * GI, MI - 1, MI - 1),
        (80 * GI, 10**6, 10**6),
        (80 * GI, 10**6 - 1, 0),
        (80 * GI, 0, 0),
        (500 * 10**9, 499 * 10**9 + 7, 499 * 10**9),
        (500 * 10**9, 10**9 - 1, 953 * MI),
        (64 * MI, 63 * MI + 1, 63 * MI),
        (parse_bytes("79.65Gi"), 20 * GI + GI // 3, parse_bytes("20.33Gi")),
        (parse_bytes("79.65Gi"), GI // 2, GI // 2),
    ],
)
def test_the_largest_size_in_the_unit_of_what_was_asked_for(asked: int, most: int, found: int) -> None:
    assert most_bytes(asked, most) == found


@pytest.mark.parametrize(
    ("asked", "most", "found"),
    [
        (8000, 7999, 7000),
        (8000, 1000, 1000),
        (8000, 999, 999),
        (8500, 7999, 7999),
        (8001, 7999, 7999),
        (8000, 0, 0),
        (8000, -5, 0),
        (8500, -5, 0),
    ],
)
def test_the_most_cores_in_the_unit_of_what_was_asked_for(asked: int, most: int, found: int) -> None:
    assert most_millicores(asked, most) == found


def test_dollars_from_a_cent_on_are_rounded() -> None:
    assert [format_dollars(micro) for micro in (9_999, 10_000, 14_999, 15_000, 994_999)] == [
        "0.009999",
        "0.01",
        "0.01",
        "0.02",
        "0.99",
    ]
