"""Memory, CPU and money as exact integers: bytes, millicores and micro-dollars; parsed and formatted here only.

Kubernetes quantities (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/) are read
without floating point, so that equal inputs give equal plans on every machine.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal
from fractions import Fraction
from math import ceil
from typing import Final

from gpujob.values.errors import BadQuantity

KI: Final = 1024
MI: Final = 1024**2
GI: Final = 1024**3
TI: Final = 1024**4
MEGA: Final = 10**6

MICRO: Final = 10**6
"""Micro-dollars in a dollar."""

CENT: Final = MICRO // 100
"""Micro-dollars in a cent."""

LEAST_MEMORY: Final = MEGA
"""The least memory that a job may ask; below it the unit was forgotten."""

MOST_MEMORY: Final = 1024 * TI
MOST_CORES: Final = 10_000
"""The most memory and CPU of one machine that are believed; above them the unit was wrong."""

MAX_PRICE: Final = 100_000 * MICRO
"""The highest credible price, in micro-dollars an hour; above it the unit was wrong."""

MAX_BUDGET: Final = 10**9 * MICRO
"""The highest sum that is believed, in micro-dollars."""

_SUFFIXES: Final[dict[str, Decimal]] = {
    **{
        unit: Decimal(1000) ** power for power, unit in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
    },
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}
_QUANTITY: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,2})|([numkKMGTPE]i?|))")

_MONEY: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?")


def _exact(text: str | int) -> Decimal:
    """The value of a Kubernetes quantity; raises BadQuantity."""
    string = str(text).strip()
    match = _QUANTITY.fullmatch(string) if len(string) <= 64 else None
    if isinstance(text, bool) or match is None or (match[3] or "") not in _SUFFIXES:
        raise BadQuantity(f"{text!r} is not a quantity; write a number with a unit, for example 80G or 64Gi")
    exponent = Decimal(10) ** int(match[2][1:]) if match[2] else Decimal(1)
    return Decimal(match[1]) * exponent * _SUFFIXES[match[3] or ""]


def parse_bytes(text: str | int) -> int:
    """Bytes of a memory or storage quantity, rounded down; raises BadQuantity if it is invalid or negative."""
    value = _exact(text)
    if value < 0:
        raise BadQuantity(f"{text!r} is below zero")
    return int(value)


def parse_millicores(text: str | int) -> int:
    """Thousandths of a CPU core, rounded up as kube-scheduler does; raises BadQuantity."""
    value = _exact(text) * 1000
    if value < 0:
        raise BadQuantity(f"{text!r} is below zero")
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def parse_count(text: str | int) -> int:
    """A whole number of devices or pods; raises BadQuantity for fractions and negative numbers."""
    value = _exact(text)
    if value < 0 or value != value.to_integral_value():
        raise BadQuantity(f"{text!r} is not a whole number of at least 0")
    return int(value)


def parse_dollars(text: str | int, most: int = MAX_PRICE) -> int:
    """Micro-dollars of a decimal amount in US dollars ("2.10"); raises BadQuantity (negative, not a number, above `most`)."""
    micro = _micro_dollars(str(text)) if not isinstance(text, bool) and len(str(text)) <= 32 else None
    if micro is None or micro > most:
        raise BadQuantity(
            f'{text!r} is not a price in US dollars between 0 and {most // MICRO}; write a decimal in quotes, such as "2.10"'
        )
    return int(micro.to_integral_value(rounding=ROUND_HALF_UP))


def _micro_dollars(text: str) -> Decimal | None:
    """The exact amount; None if it is no decimal of at least 0."""
    # Decimal alone would accept 1_0, NaN and the digits of other scripts.
    amount = _MONEY.fullmatch(text.strip())
    return Decimal(amount[0]) * MICRO if amount else None


def parse_parameters(text: str) -> int:
    """Parameters of a model's size ("8B", "350M"); raises BadQuantity."""
    unit = {"M": 10**6, "B": 10**9, "T": 10**12}.get(text[-1:])
    if unit is None:
        raise BadQuantity(f"{text!r} is not a number of parameters; write for example 350M, 8B or 1.1T")
    return int(_exact(text[:-1]) * unit)


def format_parameters(number: int) -> str:
    """Parameters of a model in three digits: 494M, 8.03B, 1.04T."""
    unit, name = next(((u, n) for u, n in ((10**12, "T"), (10**9, "B")) if number >= u), (10**6, "M"))
    digits = max(0, 3 - len(str(number // unit)))
    return f"{number / unit:.{digits}f}{name}"


def format_bytes(amount: int) -> str:
    """A memory size with two decimals of Ti, Gi or Mi ("79.65Gi", "512Mi"), in bytes where these are 0; never rounded up."""
    unit, name = _unit(amount)
    hundredths = amount * 100 // unit
    return _trimmed(hundredths) + name


def _unit(amount: int) -> tuple[int, str]:
    """The unit in which a size is shown; Ti from 10 Ti on, because devices and hosts are compared in Gi. What is less than a hundredth
    of a Mi has mostly lost its unit, and shows that.
    """
    if 0 < amount * 100 < MI:
        return 1, " bytes"
    return (TI, "Ti") if amount >= 10 * TI else (GI, "Gi") if amount >= GI else (MI, "Mi")


def format_need(amount: int, has: int | None = None) -> str:
    """A requested memory size, as `format_bytes` but never rounded down; where `has` holds it, never more than `has` shows."""
    unit, name = _unit(amount)
    hundredths = -(-amount * 100 // unit)
    holds = has is not None and amount <= has and has * 100 < hundredths * unit
    return format_bytes(amount) if holds else _trimmed(hundredths) + name


def format_lack(need: int, has: int) -> str:
    """The difference of `format_need(need)` and `format_bytes(has)`, so that the three add up."""
    of_need, _ = _unit(need)
    unit, name = (GI, "Gi") if has >= GI else (MI, "Mi")
    # A shortage of thousands of Gi is shown in Ti, as the size that it is compared with.
    unit, name = (TI, "Ti") if of_need == TI else (unit, name)
    asked = Fraction(-(-need * 100 // of_need) * of_need, unit)
    return _trimmed(ceil(asked) - has * 100 // unit) + name


def format_millicores(amount: int) -> str:
    """Millicores as a Kubernetes quantity: "28" or "3600m"."""
    return str(amount // 1000) if amount % 1000 == 0 else f"{int(amount)}m"


def quantity_of_bytes(amount: int) -> str:
    """Bytes as an exact Kubernetes quantity with the largest binary unit that divides them."""
    for unit, name in ((GI, "Gi"), (MI, "Mi"), (KI, "Ki")):
        if amount and amount % unit == 0:
            return f"{amount // unit}{name}"
    return str(amount)


def shortest_quantity(amount: int) -> str:
    """Bytes as the shortest exact Kubernetes quantity: 500G, 64Gi."""
    decimal = ((10**9, "G"), (10**6, "M"))
    written = [f"{amount // unit}{name}" for unit, name in decimal if amount and amount % unit == 0]
    # 79.65Gi is no whole number of bytes; its two decimals restore the original text.
    rounded = _trimmed(-(-amount * 100 // GI)) + "Gi"
    if amount >= GI and parse_bytes(rounded) == amount:
        written.append(rounded)
    return min((quantity_of_bytes(amount), *written), key=len)


def most_bytes(asked: int, most: int) -> int:
    """The largest size up to `most` in the unit of `asked`, in smaller units if not one is left; 0 if less is left than a job may ask.

    79.65Gi is written in hundredths of a Gi, 500G in G.
    """
    if most < LEAST_MEMORY:
        return 0
    written = shortest_quantity(asked)
    if "." in written:
        return parse_bytes(f"{_trimmed(most * 100 // GI)}Gi")
    unit = int(_SUFFIXES[written.lstrip("0123456789")])
    return next((most // unit * unit for unit in (unit, GI, MI, 1) if most >= unit), 0)


def most_millicores(asked: int, most: int) -> int:
    """The most millicores up to `most`: whole cores if whole cores are requested and one is left."""
    unit = 1000 if asked % 1000 == 0 and most >= 1000 else 1
    return max(most, 0) // unit * unit


def format_dollars(micro: int) -> str:
    """Micro-dollars as dollars: in cents, or below one cent exactly ("2.10", "0.0025"), so that only 0 shows as 0.00."""
    return exact_dollars(shown_dollars(micro))


def shown_dollars(micro: int) -> int:
    """The amount that `format_dollars` shows of micro-dollars: the nearest whole cent, below one cent the amount itself."""
    return micro if micro < CENT else (micro + CENT // 2) // CENT * CENT


def most_within(limit: int) -> int:
    """The most micro-dollars that a limit allows: all that is shown as no more, since users write a limit as it is shown."""
    return limit if limit < CENT else max(limit, limit // CENT * CENT + CENT // 2 - 1)


def exact_dollars(micro: int) -> str:
    """Micro-dollars as dollars with two to six decimals, nothing rounded: parse_dollars gives the same amount."""
    whole, part = divmod(micro, MICRO)
    digits = f"{part:06d}"
    return f"{whole}.{digits[:2]}{digits[2:].rstrip('0')}"


def _trimmed(hundredths: int) -> str:
    whole, part = divmod(hundredths, 100)
    return f"{whole}.{part:02d}".rstrip("0").rstrip(".")
