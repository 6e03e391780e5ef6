"""Memory, CPU, parameters and money as fields: kept as written, bounded, rejected with the remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from gpujob.api.fields import patterns
from gpujob.values import quantity
from gpujob.values.errors import BadQuantity

MEMORY_REMEDY: Final = "write a number with a unit, for example 80G or 64Gi"
CPU_REMEDY: Final = "write cores (8) or millicores (500m)"
PARAMETERS_REMEDY: Final = "write millions, billions or trillions, for example 350M, 8B or 1.1T"
MONEY_REMEDY: Final = 'write US dollars as a decimal in quotes, for example "2.10"'
NO_PRICE: Final = f"is not a price in US dollars between 0 and 100000; {MONEY_REMEDY}"
NO_BUDGET: Final = f"is not a sum of US dollars above 0, up to 1000000000; {MONEY_REMEDY}"

MOST_TRILLIONS: Final = 100
"""Above it the unit was wrong; messages stay readable."""

NO_MEMORY: Final = f"is not a memory size of at least 1M; {MEMORY_REMEDY}"
TOO_MUCH_MEMORY: Final = (
    f"is more memory than any machine has; write at most 1Pi: {MEMORY_REMEDY.removeprefix('write ')}"
)
NO_STORAGE: Final = f"is not a size of at least 1M; {MEMORY_REMEDY}"
TOO_MUCH_STORAGE: Final = (
    f"is larger than any disk or volume that is taken; write at most 1Pi: {MEMORY_REMEDY.removeprefix('write ')}"
)
NO_CPU: Final = f"is not a CPU quantity; {CPU_REMEDY}"
TOO_MANY_CORES: Final = (
    f"is more CPU than any machine has; write at most {quantity.MOST_CORES} cores: 8, or 500m for half a core"
)
NO_PARAMETERS: Final = f"is not a number of parameters; {PARAMETERS_REMEDY}"
TOO_MANY_PARAMETERS: Final = (
    f"is more than any model has; write at most {MOST_TRILLIONS}T, for example 350M, 8B or 1.1T"
)

SHORT_POWER: Final = r"{0}.matches('^[+-]?[0-9.]+([eE][+-]?[0-9]{{1,2}}|[A-Za-z]{{0,2}})$')"
"""CEL: whether a text is no number with a power of ten that would take the API server seconds to expand (1e5000000)."""

QUANTITY_LENGTH: Final = 24
"""The most characters of a quantity or an amount."""

_WITH_B: Final = re.compile(r"[0-9.]+[KMGTP]i?B", re.ASCII)
_PARAMETERS: Final = re.compile(r"([1-9][0-9]{0,3}([.][0-9]{1,3})?|0[.][0-9]{0,2}[1-9])[MBT]")
_DOLLARS: Final = re.compile(r"[0-9]{1,6}([.][0-9]{1,6})?")
_SUM: Final = re.compile(r"[0-9]{1,10}([.][0-9]{1,6})?")
_DECIMAL: Final = re.compile(r"[0-9]{1,8}([.][0-9]{1,6})?")


def _memory(value: Any) -> str:
    """A memory quantity as text; rejects what is no quantity, less than 1M (a forgotten unit), or more than any machine has."""
    return _size(value, NO_MEMORY, TOO_MUCH_MEMORY)


def _storage(value: Any) -> str:
    """The same of a disk or a volume."""
    return _size(value, NO_STORAGE, TOO_MUCH_STORAGE)


def _size(value: Any, none: str, too_much: str) -> str:
    """A size as text; rejected with one of the two sentences. 80GB and 80GiB are read as 80G and 80Gi."""
    meant = value[:-1] if isinstance(value, str) and _WITH_B.fullmatch(value) else value
    try:
        amount = quantity.parse_bytes(meant) if _is_written_out(value) else 0
    except BadQuantity:
        amount = 0
    if amount < quantity.LEAST_MEMORY:
        raise ValueError(f"{_shown(value)} {none}")
    if amount > quantity.MOST_MEMORY:
        raise ValueError(f"{_shown(value)} {too_much}")
    return str(meant)


def _millicores(value: Any) -> str:
    """A CPU quantity as text."""
    try:
        amount = quantity.parse_millicores(value) if _is_written_out(value) else 0
    except BadQuantity:
        amount = 0
    if amount < 1:
        raise ValueError(f"{_shown(value)} {NO_CPU}")
    if amount > quantity.MOST_CORES * 1000:
        raise ValueError(f"{_shown(value)} {TOO_MANY_CORES}")
    return str(value)


def _money(value: Any) -> str:
    """A price in US dollars as text."""
    if not _is_money(value, _DOLLARS, quantity.MAX_PRICE):
        raise ValueError(f"{_shown(value)} {NO_PRICE}")
    return str(value)


def _budget(value: Any) -> str:
    """A sum of US dollars as text."""
    if not _is_money(value, _SUM, quantity.MAX_BUDGET) or not quantity.parse_dollars(value, quantity.MAX_BUDGET):
        raise ValueError(f"{_shown(value)} {NO_BUDGET}")
    return str(value)


def _is_money(value: Any, form: re.Pattern[str], most: int) -> bool:
    try:
        return bool(_is_written_out(value) and form.fullmatch(str(value)) and quantity.parse_dollars(value, most) >= 0)
    except BadQuantity:
        return False


def _parameters(value: Any) -> str:
    """A number of parameters as text."""
    if not isinstance(value, str) or not _PARAMETERS.fullmatch(value):
        raise ValueError(f"{_shown(value)} {NO_PARAMETERS}")
    if quantity.parse_parameters(value) > MOST_TRILLIONS * 10**12:
        raise ValueError(f"{_shown(value)} {TOO_MANY_PARAMETERS}")
    return value


def _is_written_out(value: Any) -> bool:
    """Whether the API server accepts it as an int-or-string: text without spaces around it, or a 64-bit whole number."""
    if isinstance(value, float):
        # YAML reads an unquoted 2.10 as a fraction, and the API server rejects it before any rule can say why.
        raise ValueError(f'{value} is a bare fraction; put it in quotes: "{value}"')
    if isinstance(value, str):
        return value == value.strip() and len(value) <= QUANTITY_LENGTH
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)[:64]


def is_quantity(text: str) -> str:
    """CEL: whether a text is a quantity that parses quickly."""
    return f"({SHORT_POWER.format(text)} && isQuantity({text}))"


def without_b(text: str) -> str:
    """CEL: a memory size without the B of its unit."""
    return f"({text}.matches('^[0-9.]+[KMGTP]i?B$') ? {text}.substring(0, size({text}) - 1) : {text})"


_MEMORY: Final = without_b("string(self)")
_QUANTITY: Final = is_quantity("string(self)")
_OF_MEMORY: Final = is_quantity(_MEMORY)


def _int_or_string(description: str, *rules: tuple[str, str]) -> WithJsonSchema:
    """A number or a text; each rule with its sentence."""
    return WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "maxLength": QUANTITY_LENGTH,
            "x-kubernetes-validations": [patterns.refusal(rule, "string(self)", sentence) for rule, sentence in rules],
            "description": description,
        }
    )


def _bounded(description: str, none: str, too_much: str) -> WithJsonSchema:
    """The schema of a size from 1M to 1Pi, with its two sentences."""
    return _int_or_string(
        description,
        (f"{_OF_MEMORY} && !quantity({_MEMORY}).isLessThan(quantity('1M'))", none),
        (f"!{_OF_MEMORY} || !quantity({_MEMORY}).isGreaterThan(quantity('1Pi'))", too_much),
    )


Memory = Annotated[str, BeforeValidator(_memory), _bounded("A memory size with a unit.", NO_MEMORY, TOO_MUCH_MEMORY)]
"""A memory size as its author wrote it; from 1M to 1Pi."""

Storage = Annotated[
    str, BeforeValidator(_storage), _bounded("A size of storage with a unit.", NO_STORAGE, TOO_MUCH_STORAGE)
]
"""A size of a disk, volume or image as its author wrote it; from 1M to 1Pi."""

Millicores = Annotated[
    str,
    BeforeValidator(_millicores),
    _int_or_string(
        "CPU cores, or millicores with the suffix m.",
        (f"{_QUANTITY} && quantity(string(self)).isGreaterThan(quantity('0'))", NO_CPU),
        (f"!{_QUANTITY} || !quantity(string(self)).isGreaterThan(quantity('{quantity.MOST_CORES}'))", TOO_MANY_CORES),
    ),
]
"""CPU as its author wrote it."""

Parameters = Annotated[
    str,
    BeforeValidator(_parameters),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": QUANTITY_LENGTH,
            "x-kubernetes-validations": [
                patterns.refusal(f"self.matches('^({_PARAMETERS.pattern})$')", "self", NO_PARAMETERS),
                # Besides what is no number at all, which the first rule reports.
                patterns.refusal(
                    "!self.matches('^[0-9]{1,4}([.][0-9]{1,3})?T$') || "
                    f"double(self.substring(0, size(self) - 1)) <= {MOST_TRILLIONS}.0",
                    "self",
                    TOO_MANY_PARAMETERS,
                ),
            ],
            "description": "A number of parameters.",
        }
    ),
]
"""A number of parameters as its author wrote it: 8B."""

Money = Annotated[
    str,
    BeforeValidator(_money),
    _int_or_string(
        "An amount in US dollars.",
        (
            "type(self) == int ? self >= 0 && self <= 100000 : "
            "string(self).matches('^[0-9]{1,6}([.][0-9]{1,6})?$') && double(string(self)) <= 100000.0",
            NO_PRICE,
        ),
    ),
]
"""An amount in US dollars as its author wrote it."""

Budget = Annotated[
    str,
    BeforeValidator(_budget),
    _int_or_string(
        "A sum in US dollars.",
        (
            "type(self) == int ? self > 0 && self <= 1000000000 : string(self).matches('^[0-9]{1,10}([.][0-9]{1,6})?$') && "
            "double(string(self)) > 0.0 && double(string(self)) <= 1000000000.0",
            NO_BUDGET,
        ),
    ),
]
"""A sum in US dollars as its author wrote it."""


@dataclass(frozen=True, slots=True)
class Within:
    """Makes a text a decimal from `least` (exclusive when `above`) to `most`, kept as its author wrote it.

    At most eight digits before and six after the point, so that sums of such decimals are rationals of bounded size.
    """

    what: str
    example: str
    least: str
    most: int
    above: bool = False

    @property
    def _sentence(self) -> str:
        low = f"above {self.least}" if self.above else f"from {self.least}"
        return f"is not {self.what} {low} to {self.most}; write a decimal, for example {self.example}"

    def _read(self, value: Any) -> str:
        readable = _is_written_out(value) and _DECIMAL.fullmatch(str(value)) is not None
        number, least = Decimal(str(value)) if readable else Decimal(-1), Decimal(self.least)
        if number > self.most or not (least < number if self.above else least <= number):
            raise ValueError(f"{_shown(value)} {self._sentence}")
        return str(value)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        least, compare = float(self.least), ">" if self.above else ">="
        rule = (
            f"string(self).matches('^{_DECIMAL.pattern}$') && "
            f"double(string(self)) {compare} {least} && double(string(self)) <= {float(self.most)}"
        )
        return _int_or_string(f"{self.what.capitalize()}.", (rule, self._sentence)).json_schema or {}


Dollars = Annotated[str, Within("an amount of US dollars", "28000", least="0", most=10_000_000)]
"""A purchase or a yearly sum in US dollars as its author wrote it."""
