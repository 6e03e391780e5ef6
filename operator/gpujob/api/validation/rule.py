"""A rule over several fields: checked by the API server (CEL) and by the manifest parser (Python).

Each rule has one sentence for both. A rule without an expression would cost the API server too much and is checked by Python
alone. The rules of each kind are in `jobs`, `pools` and `runtimes`, those that jobs and pools share in `pods`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gpujob.api.fields import patterns

Holds = Callable[[Any], bool]
Offenders = Callable[[Any], Iterable[tuple[str, str]]]
"""The entries of a model's field that break a rule: the place after the field ([0].name, or empty), and the entry's own text."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule on one model: where it points, its sentence, the CEL expression and the same as a predicate.

    A rule over the entries of a field names the offender: its sentence follows the text of `offenders` in Python, that of the
    CEL expression `named` in the API server, or `unnamed` where such an expression would cost the API server too much.
    """

    model: type[BaseModel]
    field: str
    message: str
    expression: str
    holds: Holds
    offenders: Offenders | None = None
    named: str = ""
    unnamed: str = ""
    by_itself: bool = False
    """Whether the expression reads the field alone, as `self`, and not the model: for each field that a rule reads of a large object
    the API server copies the schema of all of them, also at each write of the status.
    """

    def cel(self) -> dict[str, str]:
        """The entry of x-kubernetes-validations."""
        entry = {"rule": self.expression, "message": self.message}
        if self.named:
            entry = patterns.refusal(self.expression, self.named, self.message)
        elif self.unnamed:
            entry["message"] = f"{self.unnamed} {self.message}"
        return entry | {"fieldPath": f".{self.field}"} if self.field and not self.by_itself else entry

    def reads(self) -> set[str]:
        """The fields of the model that the rule reads; one without an expression reads the field where it points."""
        return {self.field.partition(".")[0], *_READ.findall(self.expression)}

    def problems(self, value: Any) -> Iterator[tuple[str, str]]:
        """Path below the model and sentence of each breach."""
        if self.offenders is not None:
            for place, text in self.offenders(value):
                yield f"{self.field}{place}", f"{text[:MOST_SHOWN] or EMPTY} {self.message}"
        elif not self.holds(value):
            yield self.field, self.message


_READ: Final = re.compile(r"\bself[.]([A-Za-z]+)")
"""A field of the model in an expression; of a rule `by_itself` also CEL's own functions, which no field is named after."""


class _EveryField:
    """A container of every name."""

    def __contains__(self, name: object) -> bool:
        return True


EVERY_FIELD: Final[Container[str]] = _EveryField()


@dataclass(frozen=True, slots=True)
class Unread:
    """What of a manifest could not be read, and is not in the model that rules are applied to."""

    fields: Mapping[str, Iterable[Container[str]]] = field(default_factory=dict)
    """The fields of a table, by its path: no rule that reads one of them is applied."""
    entries: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The places that the entries which are left had in a list, by its path."""

    def hides(self, path: str, rule: Rule) -> bool:
        """Whether a rule on the table at a path reads a field that could not be read."""
        return any(name in names for names in self.fields.get(path, ()) for name in rule.reads())


MOST_SHOWN: Final = 63
"""The most characters of a rejected text in a sentence."""
EMPTY: Final = '""'


def of_each(
    model: type[BaseModel],
    field: str,
    message: str,
    expression: str,
    offenders: Offenders,
    *,
    named: str = "",
    unnamed: str = "",
    by_itself: bool = False,
) -> Rule:
    """A rule over the entries of a field that names each offender."""
    return Rule(
        model, field, message, expression, lambda value: not any(offenders(value)), offenders, named, unnamed, by_itself
    )


def of_each_key(model: type[BaseModel], field: str, message: str, broken: str, breaks: Callable[[str], bool]) -> Rule:
    """A rule over the keys of a table; `broken` is the CEL expression that the key `k` breaks it."""
    attribute = _attribute(model, field)
    return of_each(model, field, message,
                   f"!has(self.{field}) || !self.{field}.exists(k, {broken})",
                   lambda value: (("", key) for key in getattr(value, attribute) if breaks(key)),
                   named=f"self.{field}.filter(k, {broken})[0]")  # fmt: skip


def one_of(model: type[BaseModel], what: str, optional: tuple[str, ...] = ()) -> Rule:
    """Exactly one member of a union."""
    fields = {name: info.alias or name for name, info in model.model_fields.items() if name not in ("name", *optional)}
    count = " + ".join(f"(has(self.{alias}) ? 1 : 0)" for alias in fields.values())
    words = ", ".join(fields.values())
    return Rule(model, "", f"{what} needs exactly one of {words}", f"({count}) == 1",
                lambda value: sum(getattr(value, name) is not None for name in fields) == 1)  # fmt: skip


CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
"""Characters that no name of a program or a folder has."""
CONTROL_IN_CEL: Final = CONTROL.pattern.replace("\\", "\\\\")
"""The same between the quotes of CEL."""

_FOREIGN: Final = re.compile(
    r"^((gpujob[.]dev|([^/]*[.])?kubernetes[.]io|([^/]*[.])?k8s[.]io)/|(job-name|controller-uid)$)"
)
_FOREIGN_CEL: Final = "'" + _FOREIGN.pattern + "'"


def own_keys(model: type[BaseModel], field: str) -> Rule:
    """No key of a table is the operator's or the cluster's."""
    return of_each_key(model, field, "is a key of the operator or the cluster, as all under gpujob.dev/, kubernetes.io/ and k8s.io/; "
                       "use another key", f"k.matches({_FOREIGN_CEL})",
                       lambda key: _FOREIGN.search(key) is not None)  # fmt: skip


def keys(model: type[BaseModel], field: str, form: patterns.Form) -> Rule:
    """Every key of a table has a form, and no more before its slash than Kubernetes takes."""
    most = patterns.PREFIX_LENGTH
    return of_each_key(model, field, form.sentence, f"!({form.cel('k')} && k.indexOf('/') <= {most})",
                       lambda key: not form.fits(key) or key.find("/") > most)  # fmt: skip


def relative_path(model: type[BaseModel], field: str) -> Rule:
    """A path below a folder: otherwise the kubelet rejects the pod, long after the job was placed."""
    attribute = _attribute(model, field)
    return Rule(model, field, f"{field} must be a relative path without a part .. or a control character",
                f"!has(self.{field}) || (!self.{field}.startsWith('/') && !('/' + self.{field} + '/').contains('/../') && "
                f"!self.{field}.matches('{CONTROL_IN_CEL}'))",
                lambda value: not (text := getattr(value, attribute) or "").startswith("/")
                and ".." not in text.split("/")
                and CONTROL.search(text) is None)  # fmt: skip


_ALL_READ: Final = Unread()


def broken(
    model: BaseModel, rules: Sequence[Rule], path: str = "", unread: Unread = _ALL_READ
) -> Iterator[tuple[str, str]]:
    """Path and sentence of every rule that a model or a part of it breaks, and of every duplicate entry."""
    for rule in rules:
        if isinstance(model, rule.model) and not unread.hides(path, rule):
            for place, sentence in rule.problems(model):
                yield ".".join(filter(None, (path, place))), sentence
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        if not isinstance(value, tuple | BaseModel):
            continue
        inner = f"{path}.{info.alias or name}" if path else (info.alias or name)
        if isinstance(value, BaseModel):
            yield from broken(value, rules, inner, unread)
            continue
        placed = list(zip(unread.entries.get(inner, range(len(value))), value, strict=True))
        yield from _repeated(placed, info, inner)
        for index, part in placed:
            if isinstance(part, BaseModel):
                yield from broken(part, rules, f"{inner}[{index}]", unread)


def _repeated(entries: Iterable[tuple[int, Any]], info: FieldInfo, path: str) -> Iterator[tuple[str, str]]:
    """Duplicate entries of a set or of a keyed list; the API server's own message names no remedy."""
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    keys = extra.get("x-kubernetes-list-map-keys")
    if not isinstance(keys, list) and extra.get("x-kubernetes-list-type") != "set":
        return
    seen: set[Any] = set()
    for index, entry in entries:
        word = entry
        if isinstance(keys, list):
            word = " ".join(str(getattr(entry, _attribute(type(entry), str(key)))) for key in keys)
        if word in seen:
            yield f"{path}[{index}]", f"{word} is given twice; remove one"
        seen.add(word)


def _attribute(model: type[BaseModel], alias: str) -> str:
    return next(name for name, info in model.model_fields.items() if (info.alias or name) == alias)
