"""The building blocks of the API: the base model and the field types that several kinds use.

Every type carries its own CRD schema (bounds and CEL rules with a remedy), so that the API server, the command line and
the operator refuse the same input with the same words. `gpujob.api.crd` turns the models into crds/*.yaml.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from gpujob import quantity
from gpujob.api import forms
from gpujob.errors import BadQuantity

MEMORY_REMEDY: Final = "write a number with a unit, for example 80G or 64Gi"
CPU_REMEDY: Final = "write cores (8) or millicores (500m)"
PARAMETERS_REMEDY: Final = "write millions, billions or trillions, for example 350M, 8B or 1.1T"
MONEY_REMEDY: Final = 'write US dollars as a decimal in quotes, for example "2.10"'

QUANTITY_LENGTH: Final = 24
"""The most characters of a quantity or an amount."""

_PARAMETERS: Final = re.compile(r"([1-9][0-9]{0,3}([.][0-9]{1,3})?|0[.][0-9]{0,2}[1-9])[MBT]")
_DOLLARS: Final = re.compile(r"[0-9]{1,6}([.][0-9]{1,6})?")
_DECIMAL: Final = re.compile(r"[0-9]{1,8}([.][0-9]{1,6})?")


class Shape(BaseModel):
    """A part of a manifest: camelCase names, unknown fields refused, docstrings become the CRD's descriptions."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=False,
        extra="forbid",
        frozen=True,
        defer_build=True,
    )


def _memory(value: Any) -> str:
    """A memory quantity as text; refuses what is no quantity and what is below 1M (a forgotten unit)."""
    try:
        enough = _is_written_out(value) and quantity.parse_bytes(value) >= quantity.MEGA
    except BadQuantity:
        enough = False
    if not enough:
        raise ValueError(f"{_shown(value)} is not a memory size of at least 1M; {MEMORY_REMEDY}")
    return str(value)


def _millicores(value: Any) -> str:
    """A CPU quantity as text."""
    try:
        enough = _is_written_out(value) and quantity.parse_millicores(value) >= 1
    except BadQuantity:
        enough = False
    if not enough:
        raise ValueError(f"{_shown(value)} is not a CPU quantity; {CPU_REMEDY}")
    return str(value)


def _money(value: Any) -> str:
    """An amount of US dollars as text."""
    try:
        readable = _is_written_out(value) and _DOLLARS.fullmatch(str(value)) and quantity.parse_dollars(value) >= 0
    except BadQuantity:
        readable = False
    if not readable:
        raise ValueError(f"{_shown(value)} is not a price in US dollars between 0 and 100000; {MONEY_REMEDY}")
    return str(value)


def _parameters(value: Any) -> str:
    """A number of parameters as text."""
    if not isinstance(value, str) or not _PARAMETERS.fullmatch(value):
        raise ValueError(f"{_shown(value)} is not a number of parameters; {PARAMETERS_REMEDY}")
    return value


def _is_written_out(value: Any) -> bool:
    """Whether the API server takes it for an int-or-string: text without spaces around it, or a 64-bit whole number."""
    if isinstance(value, float):
        # YAML reads an unquoted 2.10 as a fraction, and the API server refuses it before any rule can say why.
        raise ValueError(f'{value} is a bare fraction; put it in quotes: "{value}"')
    if isinstance(value, str):
        return value == value.strip() and len(value) <= QUANTITY_LENGTH
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)[:64]


def _int_or_string(description: str, rule: str, message: str) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "maxLength": QUANTITY_LENGTH,
            "x-kubernetes-validations": [{"rule": rule, "messageExpression": message}],
            "description": description,
        }
    )


Memory = Annotated[
    str,
    BeforeValidator(_memory),
    _int_or_string(
        "A memory size with a unit.",
        "isQuantity(string(self)) && !quantity(string(self)).isLessThan(quantity('1M'))",
        f"string(self) + ' is not a memory size of at least 1M; {MEMORY_REMEDY}'",
    ),
]
"""A memory size as its author wrote it; at least 1M."""

Millicores = Annotated[
    str,
    BeforeValidator(_millicores),
    _int_or_string(
        "CPU cores, or millicores with the suffix m.",
        "isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",
        f"string(self) + ' is not a CPU quantity; {CPU_REMEDY}'",
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
                {
                    "rule": f"self.matches('^({_PARAMETERS.pattern})$')",
                    "messageExpression": f"self + ' is not a number of parameters; {PARAMETERS_REMEDY}'",
                }
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
        "type(self) == int ? self >= 0 && self <= 100000 : "
        "string(self).matches('^[0-9]{1,6}([.][0-9]{1,6})?$') && double(string(self)) <= 100000.0",
        f"string(self) + ' is not a price in US dollars between 0 and 100000; {MONEY_REMEDY}'",
    ),
]
"""An amount in US dollars as its author wrote it."""


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
        return (
            _int_or_string(f"{self.what.capitalize()}.", rule, f"string(self) + ' {self._sentence}'").json_schema or {}
        )


Dollars = Annotated[str, Within("an amount of US dollars", "28000", least="0", most=10_000_000)]
"""A purchase or a yearly sum in US dollars as its author wrote it."""

DnsLabel = Annotated[str, Field(min_length=1, max_length=63), forms.DNS_LABEL]
"""A name of at most 63 characters: lower-case letters, digits and hyphens."""

DnsName = Annotated[str, Field(min_length=1, max_length=253)]
"""The name of a pool, node or runtime: what nothing is called is said when the job is placed."""

ObjectName = Annotated[str, Field(min_length=1, max_length=253), forms.DNS_SUBDOMAIN]
"""The name of another object that the pods refer to."""

DataKey = Annotated[str, Field(min_length=1, max_length=253), forms.DATA_KEY]
"""A key of a ConfigMap or Secret."""

Reference = Annotated[str, Field(min_length=1, max_length=512), forms.IMAGE]
"""A container image."""

Path = Annotated[str, Field(min_length=1, max_length=1024)]
"""A path inside the container."""

Word = Annotated[str, Field(min_length=1, max_length=63)]
"""One word of a list, for example an accelerator's id."""

Text = Annotated[str, Field(max_length=32768)]
"""A longer text, for example an environment variable's value."""

Gid = Annotated[int, Field(ge=0, le=4294967294)]
"""A numeric group or user id."""


def list_map(*keys: str, items: int) -> Any:
    """The bound and the merge keys of a list of records: server-side apply merges by them, duplicates are refused."""
    return Field(
        max_length=items,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)},
    )


def a_set(*, items: int) -> Any:
    """The bound of a list of distinct words: duplicates are refused."""
    return Field(max_length=items, json_schema_extra={"x-kubernetes-list-type": "set"})


def a_list(*, items: int) -> Any:
    """The bound of an ordered list."""
    return Field(max_length=items, json_schema_extra={"x-kubernetes-list-type": "atomic"})


class ObjectMeta(BaseModel):
    """What is read of an object's metadata; the rest is left as it is."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    name: str = "unnamed"
    namespace: str | None = None
    uid: str | None = None
    generation: int = 1
    creation_timestamp: str | None = Field(default=None, alias="creationTimestamp")
    resource_version: str | None = Field(default=None, alias="resourceVersion")
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
