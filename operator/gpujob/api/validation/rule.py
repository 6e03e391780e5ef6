"""A rule over several fields: checked by the API server (CEL) and by the manifest parser (Python).

Each rule has one sentence for both. A rule without an expression would cost the API server too much and is checked by Python
alone. The rules of each kind are in `jobs`, `pools` and `runtimes`, those that jobs and pools share in `pods`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gpujob.api.fields import patterns

Holds = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule on one model: where it points, its sentence, the CEL expression and the same as a predicate."""

    model: type[BaseModel]
    field: str
    message: str
    expression: str
    holds: Holds

    def cel(self) -> dict[str, str]:
        """The entry of x-kubernetes-validations."""
        entry = {"rule": self.expression, "message": self.message}
        return entry | {"fieldPath": f".{self.field}"} if self.field else entry


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
    return Rule(model, field, f"{field} under gpujob.dev/ and kubernetes.io/ are the operator's and the cluster's; use other keys",
                f"!has(self.{field}) || self.{field}.all(k, !k.matches({_FOREIGN_CEL}))",
                lambda value: not any(_FOREIGN.search(key) for key in getattr(value, field)))  # fmt: skip


def keys(model: type[BaseModel], field: str, form: patterns.Form) -> Rule:
    """Every key of a table has a form, and no more before its slash than Kubernetes takes."""
    attribute, most = _attribute(model, field), patterns.PREFIX_LENGTH
    return Rule(model, field, f"a key {form.sentence}",
                f"!has(self.{field}) || self.{field}.all(k, {form.cel('k')} && k.indexOf('/') <= {most})",
                lambda value: all(form.fits(key) and key.find("/") <= most for key in getattr(value, attribute)))  # fmt: skip


def relative_path(model: type[BaseModel], field: str) -> Rule:
    """A path below a folder: otherwise the kubelet rejects the pod, long after the job was placed."""
    attribute = _attribute(model, field)
    return Rule(model, field, f"{field} must be a relative path without a part .. or a control character",
                f"!has(self.{field}) || (!self.{field}.startsWith('/') && !('/' + self.{field} + '/').contains('/../') && "
                f"!self.{field}.matches('{CONTROL_IN_CEL}'))",
                lambda value: not (text := getattr(value, attribute) or "").startswith("/")
                and ".." not in text.split("/")
                and CONTROL.search(text) is None)  # fmt: skip


def broken(model: BaseModel, rules: Sequence[Rule], path: str = "") -> Iterator[tuple[str, str]]:
    """Path and sentence of every rule that a model or a part of it breaks, and of every duplicate entry."""
    for rule in rules:
        if isinstance(model, rule.model) and not rule.holds(model):
            yield ".".join(filter(None, (path, rule.field))), rule.message
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        if not isinstance(value, tuple | BaseModel):
            continue
        inner = f"{path}.{info.alias or name}" if path else (info.alias or name)
        if isinstance(value, BaseModel):
            yield from broken(value, rules, inner)
            continue
        yield from _repeated(value, info, inner)
        for index, part in enumerate(value):
            if isinstance(part, BaseModel):
                yield from broken(part, rules, f"{inner}[{index}]")


def _repeated(entries: tuple[Any, ...], info: FieldInfo, path: str) -> Iterator[tuple[str, str]]:
    """Duplicate entries of a set or of a keyed list; the API server's own message names no remedy."""
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    keys = extra.get("x-kubernetes-list-map-keys")
    if not isinstance(keys, list) and extra.get("x-kubernetes-list-type") != "set":
        return
    seen: set[Any] = set()
    for index, entry in enumerate(entries):
        word = entry
        if isinstance(keys, list):
            word = " ".join(str(getattr(entry, _attribute(type(entry), str(key)))) for key in keys)
        if word in seen:
            yield f"{path}[{index}]", f"{word} is given twice; remove one"
        seen.add(word)


def _attribute(model: type[BaseModel], alias: str) -> str:
    return next(name for name, info in model.model_fields.items() if (info.alias or name) == alias)
