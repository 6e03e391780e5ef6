"""From manifests to models: one readable sentence for each problem, equal to the API server's."""

from __future__ import annotations

import datetime
import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from gpujob.api.suggestions import choices, closest_word, field_of_choice, hint, hint_of_spec, meant
from gpujob.api.table_examples import is_variable, list_example, shown, table_example
from gpujob.api.valid_part import further_problems
from gpujob.api.validation.rule import Rule, broken
from gpujob.values.errors import BadManifest
from gpujob.values.finding import first_lines
from gpujob.values.names import NO_NAMESPACE, is_namespace
from gpujob.values.untrusted import one_line
from gpujob.values.vocabulary import API_VERSION

if TYPE_CHECKING:
    from gpujob.api.kinds.gpujob import GPUJob
    from gpujob.api.kinds.gpupool import GPUPool
    from gpujob.api.kinds.gpuruntime import GPURuntime

Kind = TypeVar("Kind", bound=BaseModel)

PROBLEMS: Final = 10
"""The most problems that are reported at once."""

SPEC_BYTES: Final = 200 * 1024
"""The largest spec: etcd and annotations bound what can be stored beside it."""

DEPTH: Final = 32
"""The deepest nesting that is read; the schema's own is 9."""

_NAME: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

_SENTENCES: Final = {
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a text",
    "tuple_type": "must be a list",
    "dict_type": "must be a table of keys and values",
    "model_type": "must be a table of keys and values",
}

ALLOWING: Final = ("accelerators", "pools")
"""Fields with lists of allowed and denied names. A CRD cannot accept a list in their place and check it."""

LEAST_SPEC: Final = {
    "GPUJob": "; write at least {}, for example spec: {command: [python3, train.py]}",
    "GPUPool": "; write for example spec: {nodeSelector: {matchLabels: {rack: lab}}}",
}
"""The remedy for a kind without a spec."""

_BARE: Final = re.compile("[A-Za-z./_-][A-Za-z0-9./_=-]*")
"""Words that YAML reads as texts without quotes."""


def read_gpujob(document: Mapping[str, Any]) -> GPUJob:
    """A GPUJob's metadata and spec; raises BadManifest. The status is the operator's and is left out."""
    # late import of each kind: most files hold one, and models are half of a short command's start
    from gpujob.api.kinds.gpujob import GPUJob
    from gpujob.api.validation.jobs import RULES

    return _read(GPUJob, RULES, document)


def read_gpupool(document: Mapping[str, Any]) -> GPUPool:
    """A GPUPool's metadata and spec; raises BadManifest."""
    from gpujob.api.kinds.gpupool import GPUPool
    from gpujob.api.validation.pools import RULES

    return _read(GPUPool, RULES, document)


def read_gpuruntime(document: Mapping[str, Any]) -> GPURuntime:
    """A GPURuntime's metadata and spec; raises BadManifest."""
    from gpujob.api.kinds.gpuruntime import GPURuntime
    from gpujob.api.validation.runtimes import RULES

    return _read(GPURuntime, RULES, document)


def _read(kind: type[Kind], rules: Sequence[Rule], document: Mapping[str, Any]) -> Kind:
    if not isinstance(document, Mapping):
        raise BadManifest(f"not a {kind.__name__}: the document is no table of keys and values")
    wrong = _header(kind, document)
    try:
        text = _text(document, kind)
    except BadManifest as error:
        raise BadManifest(_first_of([*wrong.values(), *str(error).splitlines()])) from error
    try:
        # Through JSON text: only there pydantic accepts lists as tuples but not "2" as 2, like the API server.
        model = kind.model_validate_json(text, strict=True, by_name=False)
    except ValidationError as error:
        found = error.errors(include_url=False)
        said = [_sentence(each, kind) for each in found if _path(each["loc"]) not in wrong]
        further = further_problems(kind, rules, text, [(each["loc"], each["type"]) for each in found])
        raise BadManifest(_first_of([*wrong.values(), *said, *further])) from error
    problems = [*wrong.values(), *(f"{path}: {message}" for path, message in broken(model, rules))]
    if problems:
        raise BadManifest(_first_of(problems))
    return model


def _header(kind: type[BaseModel], document: Mapping[str, Any]) -> dict[str, str]:
    """The sentence about name and namespace, by field; raises BadManifest for another kind or version."""
    wrong = [
        f"{field}: must be {expected}, got {shown(document[field])}"
        for field, expected in (("apiVersion", API_VERSION), ("kind", kind.__name__))
        if document.get(field, expected) != expected
    ]
    if wrong:
        raise BadManifest("\n".join(wrong))
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping):
        return {}
    name, namespace, found = metadata.get("name"), metadata.get("namespace"), dict[str, str]()
    # Kinds without namespaces ignore one, and an empty one is none.
    if kind.__name__ == "GPUJob" and namespace not in (None, "") and (said := _of_namespace(namespace)):
        found["metadata.namespace"] = f"metadata.namespace: {said}"
    if name is not None and (said := _of_name(name)):
        found["metadata.name"] = f"metadata.name: {said}"
    return found


def _of_name(given: Any) -> str:
    """The fault of a name; empty without one."""
    if isinstance(given, (bool, int, float)):
        return _no_text(given)
    if isinstance(given, str) and _NAME.fullmatch(given):
        return ""
    said = "is empty" if given == "" else f"{shown(given)} is not a name"
    return f"{said}; write lower-case letters, digits, hyphens and dots"


def _of_namespace(given: Any) -> str:
    """The fault of a namespace; empty without one."""
    if isinstance(given, (bool, int, float)):
        return _no_text(given)
    return "" if is_namespace(given) else NO_NAMESPACE.format(shown(given))


def _text(document: Mapping[str, Any], kind: type[BaseModel]) -> str:
    """The document as JSON, without its status; raises BadManifest if JSON cannot represent it or it is too large."""
    wanted = {key: value for key, value in document.items() if key != "status"}
    try:
        plain = _without_nulls(wanted)
        size = len(json.dumps(plain.get("spec"), default=_date, ensure_ascii=False).encode())
        text = json.dumps(plain, default=_date, ensure_ascii=False)
        text.encode()
    except UnicodeError as error:
        raise BadManifest("document: holds a text that is not Unicode") from error
    except (RecursionError, ValueError, TypeError) as error:
        raise BadManifest(one_line(_no_json(wanted))) from error
    if "spec" not in plain:
        raise BadManifest(_no_spec(plain, kind, "is empty" if "spec" in wanted else "is required"))
    if size > SPEC_BYTES:
        raise BadManifest(
            f"spec: has {size} bytes, at most {SPEC_BYTES} are taken; put files into a ConfigMap (spec.code)"
        )
    return text


def _no_spec(document: Mapping[str, Any], kind: type[BaseModel], missing: str) -> str:
    """The sentences about a manifest without a spec: each field that stands beside it, else what to write at least."""
    others = [str(key) for key in document if key not in ("apiVersion", "kind", "metadata")]
    near = difflib.get_close_matches("spec", others)
    if near:
        return f"{near[0]}: unknown field; did you mean spec?"
    found = [f"{one_line(key[:60])}: unknown field{below}" for key in others if (below := hint_of_spec(kind, key))]
    return _first_of(found) or f"spec: {missing}{LEAST_SPEC.get(kind.__name__, '')}"


def _no_json(document: Mapping[str, Any]) -> str:
    """Where a document holds what JSON cannot, and what to write."""
    waiting: list[tuple[tuple[Any, ...], Any, tuple[int, ...]]] = [((), document, ())]
    while waiting:
        path, value, above = waiting.pop()
        if id(value) in above:
            return f"{_path(path)}: holds itself, by an alias (*) of its own anchor (&); write the value out"
        if len(path) > DEPTH:
            return f"{_path(path[:3])}: is nested more than {DEPTH} levels deep, as no field is; take that out"
        if isinstance(value, Mapping | list):
            pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
            waiting += [((*path, key), inner, (*above, id(value))) for key, inner in reversed(list(pairs))]
        elif isinstance(value, bytes):
            return f"{_path(path)}: is !!binary, and fields are text; write the text, or put the data into a Secret"
        elif isinstance(value, set):
            return f"{_path(path)}: is a !!set; write a list, for example [{', '.join(sorted(map(str, value))[:3])}]"
    return "document: holds what JSON cannot; write texts, numbers, true, false, lists and tables"


def _path(parts: Sequence[Any]) -> str:
    """The path of a field, as messages write it."""
    return (
        "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")[:200] or "document"
    )


def _date(value: Any) -> str:
    """An unquoted date of YAML as the text that kubectl sends."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _without_nulls(value: Any, depth: int = 0) -> Any:
    """A value without null members, which kubectl drops too; raises RecursionError if it is nested too deeply."""
    if depth > DEPTH:
        raise RecursionError("nested too deeply")
    if isinstance(value, Mapping):
        return {key: _without_nulls(inner, depth + 1) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner, depth + 1) for inner in value]
    # 2.0 is the whole number 2 for the API server.
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _first_of(sentences: Sequence[str]) -> str:
    """The first sentences, a line each, and how many more there are."""
    return "\n".join(map(one_line, first_lines(sentences, PROBLEMS, "problems of this manifest")))


def _sentence(problem: Mapping[str, Any], kind: type[BaseModel]) -> str:
    return f"{_path(problem['loc'])}: {_field_problem(problem, kind)}"


def _field_problem(problem: Mapping[str, Any], kind: type[BaseModel]) -> str:
    """The error of a field and what to write, in the manifest's terms."""
    given, bounds = problem.get("input"), problem.get("ctx", {})
    match problem["type"]:
        case "extra_forbidden":
            return f"unknown field{hint(kind, problem['loc'])}"
        case "missing":
            return "is required"
        case "string_type" if isinstance(given, (bool, int, float)):
            return _no_text(given, problem["loc"])
        case "literal_error":
            known = re.findall(r"'([^']*)'", str(bounds["expected"]))
            end = meant(given[:60], known) if isinstance(given, str) else ""
            return f"must be {bounds['expected']}, got {_given(given)}{end}"
        case "too_long" | "too_short" | "string_too_long" | "string_too_short":
            least = "too_short" in problem["type"]
            what = "characters" if "string" in problem["type"] else "entries"
            number = bounds["min_length" if least else "max_length"]
            return (
                "must not be empty; fill it in or take it out"
                if least and number == 1
                else f"must have at {'least' if least else 'most'} {number} {what}"
            )
        case "tuple_type" if isinstance(given, Mapping):
            return f"must be a list; begin each entry with a hyphen, for example {list_example(given, problem['loc'])}, got a table"
        case "model_type" if isinstance(given, str) and is_variable(problem["loc"]):
            name, _, value = given[:60].partition("=")
            return f"must be a table; write {{name: {one_line(name)}, value: {json.dumps(value)}}}, got {_given(given)}"
        case "tuple_type" if isinstance(given, str):
            wanted = closest_word(given[:60], choices(kind, problem["loc"]))
            return f"must be a list, for example {_as_list(wanted, problem['loc'])}, got {_given(given)}"
        case "model_type" if problem["loc"][-1] in ALLOWING and isinstance(given, (list, str)):
            names = listed(str(each)[:63] for each in (given[:4] if isinstance(given, list) else [given]))
            return f"must say allow or deny; write {problem['loc'][-1]}: {{allow: [{names}]}}, got {_given(given)}"
        case "greater_than_equal" | "less_than_equal":
            return f"{str(problem['msg']).replace('Input should be', 'must be')}, got {_given(given)}"
        case "model_type" if isinstance(given, str) and (own := field_of_choice(kind, problem["loc"], given)):
            return f"{_SENTENCES['model_type']}; write {own}, got {_given(given)}"
        case "dict_type" | "model_type" if example := table_example(kind.__name__, problem["loc"], given):
            return f"{_SENTENCES[problem['type']]}, for example {example}, got {_given(given)}"
        case "int_type" | "int_parsing" | "int_from_float" if str(problem["loc"][-1]).lower().count("seconds"):
            return f"must be a whole number of seconds, for example {_seconds(given)}, got {_given(given)}"
        case known if known in _SENTENCES:
            return f"{_SENTENCES[known]}, got {_given(given)}"
    return str(problem["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")


_SPAN: Final = re.compile("([0-9]{1,6}(?:[.][0-9]{1,3})?)\\s*([smhd])[a-z]*", re.IGNORECASE)
"""A span of time as people write it: 2h, 90 min, 1.5d."""


def _seconds(given: Any) -> int:
    """The seconds of a span of time, 7200 for 2h; of anything else those of an hour."""
    found = _SPAN.fullmatch(given.strip()) if isinstance(given, str) else None
    if found is None:
        return (
            int(given) if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 10 else 3600
        )
    return round(float(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2].lower()])


def _as_list(given: str, path: Sequence[Any]) -> str:
    """A text as the intended YAML list; a command line becomes one entry for each word."""
    words = given[:60].split() if path[-1] in ("command", "args") else [given[:60]]
    return f"[{listed(words)}]"


def listed(words: Iterable[str]) -> str:
    """Texts as the entries of a YAML list, in quotes where YAML reads another type."""
    return ", ".join(word if _BARE.fullmatch(word) else json.dumps(word) for word in words)


_WORDS: Final = ("command", "args", "env")
"""Fields whose texts a program reads, and numbers there are rarely versions."""


def _no_text(value: Any, path: Sequence[Any] = ()) -> str:
    """The remedy for a bare word or number in place of a text."""
    why = " (YAML takes an unquoted y, n, yes, no, on or off for that)" if isinstance(value, bool) else ""
    if isinstance(value, float) and not {*_WORDS} & {*path}:
        why = " (YAML takes an unquoted 2.10 for 2.1)"
    return f"must be a text, got {_given(value)}{why}; put it in quotes"


def _given(value: Any) -> str:
    """A rejected value in a sentence: text in quotes, so that '2' and 2 differ."""
    return repr(value[:60]) if isinstance(value, str) else shown(value)
