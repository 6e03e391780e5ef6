"""The documents of a text, YAML or JSON, read as kubectl reads them: `y` is true, `1:30` is text, 010 is eight.

Python's readers and kubectl's differ in the meaning of an unquoted word, and both ignore duplicate keys. A manifest goes to
kubectl, so it is read strictly and rejected for such keys. Cluster descriptions come from other programs, including Python ones,
for which y and n are texts; their duplicate keys are reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

import orjson
import yaml

from gpujob.values.errors import BadClusterFile
from gpujob.values.untrusted import one_line

HAND_WRITTEN: Final = 1_000_000
"""The most characters of a JSON text that a user can have written: if it is broken, it is read again as YAML, and its keys are
compared.
"""

ALIASED: Final = 1_000_000
"""The most values that aliases add to a document."""

_JSON_START: Final = re.compile(r"\s*[\[{]\s*[\"\]}{]")


def read_documents(text: str, notes: list[str] | None = None) -> list[Any]:
    """The documents of a YAML or JSON text (several documents, JSON lines); BadClusterFile with the position of an error.

    Without `notes` the text is a manifest. For a cluster description, a sentence for each duplicate key is added to `notes`.
    """
    repeated: list[str] = []
    documents = _documents(text, repeated, _Manifest if notes is None else _Description)
    if repeated and notes is None:
        raise BadClusterFile("\n".join(f"{sentence}; remove one" for sentence in repeated))
    if notes is not None:
        notes += [f"{sentence}; the last one counts" for sentence in repeated]
    return documents


def _documents(text: str, repeated: list[str], loader: Any) -> list[Any]:
    if _JSON_START.match(text):
        documents = _json(text)
        if documents is not None:
            _refuse_nested(documents)
            repeated += _repeated_in_json(text) if len(text) <= HAND_WRITTEN else []
            return documents
        if len(text) > HAND_WRITTEN:  # As YAML it would take minutes.
            raise BadClusterFile(_json_problem(text))
    try:
        return [document for document in _yaml(loader(text), repeated) if document is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        remedy = _instead_of(text, mark) if "cannot start any token" in str(error.problem) else ""
        raise BadClusterFile(f"is no YAML or JSON: {where}{error.problem or error.context}{remedy}") from error
    except yaml.YAMLError as error:
        raise BadClusterFile(f"is no YAML or JSON: {str(error).splitlines()[0]}") from error
    except (ValueError, RecursionError) as error:
        raise BadClusterFile(f"is no YAML or JSON that can be read: {str(error)[:120]}") from error


def _instead_of(text: str, mark: Any) -> str:
    """What to write instead of a character with which no value begins in YAML."""
    line = text.splitlines()[mark.line : mark.line + 1] if mark else []
    if line and line[0][mark.column : mark.column + 1] == "\t":
        return "; it is a tab, indent with spaces"
    return "; put the text that begins with it in quotes"


# --- JSON


def _json(text: str) -> list[Any] | None:
    """The JSON documents of a text: one, or one a line; None if it is no JSON."""
    try:
        return [orjson.loads(text)]
    except orjson.JSONDecodeError:
        pass
    try:
        return [orjson.loads(line) for line in text.splitlines() if line.strip()]
    except orjson.JSONDecodeError:
        return None


def _refuse_nested(documents: list[Any]) -> None:
    """BadClusterFile for nesting deeper than any Kubernetes object, and than Python's own recursion."""
    try:
        orjson.dumps(documents)
    except orjson.JSONEncodeError as error:
        raise BadClusterFile(
            "is nested more than 254 levels deep, as no Kubernetes object is; take that out"
        ) from error


def _json_problem(text: str) -> str:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return f"is no JSON: line {error.lineno}, column {error.colno}: {error.msg}"
    return "is no JSON"


def _repeated_in_json(text: str) -> Iterator[str]:
    """A sentence for each duplicate key of a table in valid JSON; JSON's reader gives no line numbers."""
    import json

    found: list[str] = []

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        whole = dict(pairs)
        if len(whole) < len(pairs):
            keys = [key for key, _ in pairs]
            found.extend(f"{key[:63]} is given twice in one table" for key in whole if keys.count(key) > 1)
        return whole

    decoder, place = json.JSONDecoder(object_pairs_hook=table), 0
    while (place := len(text) - len(text[place:].lstrip())) < len(text):
        _, place = decoder.raw_decode(text, place)
    return iter(found)


# --- YAML


def _yaml(loader: Any, repeated: list[str]) -> Iterator[Any]:
    """The documents, empty ones as None."""
    try:
        while loader.check_node():
            node = loader.get_node()
            _refuse_expanding(node)
            repeated += _repeated_in_yaml(node)
            yield loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_expanding(root: yaml.Node) -> None:
    """BadClusterFile for a document to which its aliases add too much; one without aliases has the size of its text."""
    sizes: dict[int, float] = {}
    waiting, written = [(root, False)], 0
    while waiting:
        node, whole = waiting.pop()
        inner = _inside(node)
        if whole:
            sizes[id(node)] = _own_size(node) + sum(sizes[id(each)] for each in inner)
        elif id(node) not in sizes:
            written += _own_size(node)
            sizes[id(node)] = float("inf")  # until it is counted: a node that holds itself has no end
            waiting.append((node, True))
            waiting += [(each, False) for each in inner]
    if sizes[id(root)] == float("inf"):
        raise BadClusterFile(_held_by_itself(root))
    if sizes[id(root)] - written > ALIASED:
        raise BadClusterFile(f"aliases make more than {ALIASED:,} values of this document; write them out")


def _held_by_itself(root: yaml.Node) -> str:
    """Where a table or list holds an alias of itself, which has no end."""
    waiting: list[tuple[str, yaml.Node, frozenset[int]]] = [("", root, frozenset())]
    while waiting:
        path, node, above = waiting.pop()
        if id(node) in above:
            line = node.start_mark.line + 1
            where = path.lstrip(".") or "document"
            return f"{where}: holds itself, by an alias (*) of the anchor (&) in line {line}; write the value out"
        within = above | {id(node)}
        if isinstance(node, yaml.MappingNode):
            waiting += [
                (f"{path}.{one_line(str(key.value)[:63])}", value, within) for key, value in reversed(node.value)
            ]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(f"{path}[{place}]", each, within) for place, each in reversed(list(enumerate(node.value)))]
    return "document: holds itself by an alias; write the value out"


def _inside(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _own_size(node: yaml.Node) -> int:
    """One value, and one more for each 64 characters of a text: a long one that is repeated fills the memory as well."""
    return 1 + len(node.value) // 64 if isinstance(node, yaml.ScalarNode) else 1


def _repeated_in_yaml(root: yaml.Node) -> Iterator[str]:
    """A sentence for each duplicate key of a table, with the lines; an alias is not followed again."""
    waiting, seen = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        inner = node.value if isinstance(node, yaml.CollectionNode) else ()
        if isinstance(node, yaml.MappingNode):
            yield from _repeated_keys(node)
            inner = [each for pair in node.value for each in pair]
        for each in inner:
            if isinstance(each, yaml.CollectionNode) and id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)


def _repeated_keys(node: yaml.MappingNode) -> Iterator[str]:
    lines: dict[str, int] = {}
    for key, _ in node.value:
        # Keys from << are not the author's.
        if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
            continue
        line = key.start_mark.line + 1
        if key.value in lines:
            yield f"line {line}: {key.value[:63]} is given twice, first in line {lines[key.value]}"
        lines.setdefault(key.value, line)


_SafeLoader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TRUE: Final = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE: Final = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_WORDS: Final = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}
_WHOLE: Final = r"[-+]?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]*|[1-9][0-9_]*)"
_FRACTION: Final = (
    r"[-+]?([.][0-9]+|[0-9][0-9_]*([.][0-9_]*)?)([eE][-+]?[0-9_]+)?|[-+]?[.](inf|Inf|INF)|[.](nan|NaN|NAN)"
)
MOST_DIGITS: Final = 4000
"""The longest whole number that is read; Python refuses those of more than 4300 digits."""
_BASES: Final = {"0x": 16, "0b": 2, "0o": 8}


def _resolvers(truths: Iterable[str]) -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """The type of an unquoted word by its first character: kubectl's YAML 1.1, without dates and base-60 numbers."""
    found: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for kind, pattern, first in (
        ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("bool", "|".join(truths), "yYnNtTfFoO"),
        ("int", _WHOLE, "-+0123456789"),
        ("float", _FRACTION, "-+.0123456789"),
        ("merge", "<<", "<"),
    ):
        for character in first:
            found.setdefault(character, []).append((f"tag:yaml.org,2002:{kind}", re.compile(f"^(?:{pattern})$")))
    return found


class _Manifest(_SafeLoader):  # type: ignore[misc]
    """YAML as kubectl reads it (sigs.k8s.io/yaml, compared with kubectl 1.37): y and n are true and false."""

    yaml_implicit_resolvers: ClassVar = _resolvers(_WORDS)


class _Description(_SafeLoader):  # type: ignore[misc]
    """The same, except for y and n, which Python's writer leaves unquoted."""

    yaml_implicit_resolvers: ClassVar = _resolvers(word for word in _WORDS if len(word) > 1)


def _truth(loader: Any, node: yaml.ScalarNode) -> bool:
    word = loader.construct_scalar(node)
    if word not in _WORDS:
        raise yaml.constructor.ConstructorError(None, None, f"{word[:63]} is neither true nor false", node.start_mark)
    return _WORDS[word]


def _whole(loader: Any, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node).replace("_", "").lower()
    sign, digits = (-1 if text.startswith("-") else 1), text.lstrip("+-")
    if len(digits) > MOST_DIGITS:
        sentence = (
            f"{digits[:20]}… is a number of {len(digits)} digits; no field takes more than 19, put a text in quotes"
        )
        raise yaml.constructor.ConstructorError(None, None, sentence, node.start_mark)
    base = _BASES.get(digits[:2])
    if base:
        return sign * int(digits[2:], base)
    return sign * int(digits, 8 if len(digits) > 1 and digits.startswith("0") else 10)


def _fraction(loader: Any, node: yaml.ScalarNode) -> float | str:
    text: str = loader.construct_scalar(node)
    plain = text.replace("_", "").lower()
    number = float(plain.replace(".inf", "inf").replace(".nan", "nan"))
    # kubectl keeps numbers beyond 64 bits as text.
    return text if number in (float("inf"), float("-inf")) and "inf" not in plain else number


for _kind, _read in (("bool", _truth), ("int", _whole), ("float", _fraction)):
    for _loader in (_Manifest, _Description):
        _loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _read)
