"""A value where a table of keys and values is due is answered with an example that the field takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter

from gpujob.api.kinds.gpujob import GPUJob
from gpujob.api.kinds.gpupool import GPUPool
from gpujob.api.kinds.gpuruntime import GPURuntime
from gpujob.api.manifest import read_gpujob, read_gpupool, read_gpuruntime
from gpujob.api.table_examples import EXAMPLES, table_example
from gpujob.values.errors import BadManifest
from gpujob.values.vocabulary import API_VERSION

READERS: dict[type[BaseModel], Callable[[Mapping[str, Any]], Any]] = {
    GPUJob: read_gpujob,
    GPUPool: read_gpupool,
    GPURuntime: read_gpuruntime,
}
Path = tuple[str | int, ...]


def parts(annotation: Any) -> Iterator[tuple[str, Any]]:
    """The tables in a field's type: the field's own, or the entries of its list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield "own", annotation
    elif get_origin(annotation) is tuple:
        yield from (("entry", found) for _, found in parts(get_args(annotation)[0]))
    elif isinstance(get_origin(annotation), type) and issubclass(get_origin(annotation), Mapping):
        yield "own", annotation
    else:
        arguments = get_args(annotation)
        for argument in arguments[:1] if get_origin(annotation) is Annotated else arguments:
            yield from parts(argument)


def tables(model: type[BaseModel], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every field of a kind that is a table, and the type of the table."""
    for name, info in model.model_fields.items():
        alias = info.alias or name
        if alias == "status":
            continue
        for place, found in parts(info.annotation):
            at = (*path, alias, 0) if place == "entry" else (*path, alias)
            yield at, found
            if isinstance(found, type) and issubclass(found, BaseModel):
                yield from tables(found, at)


EVERY = [(kind, path, found) for kind in READERS for path, found in tables(kind)]


def nested(path: Path, value: Any) -> Any:
    """A document with a value at a path."""
    for part in reversed(path):
        value = [value] if isinstance(part, int) else {part: value}
    return value


def message(kind: type[BaseModel], path: Path, value: Any) -> str:
    """What is said of a value at a path."""
    document = nested(path, value)
    if path[0] != "spec":
        document["spec"] = {}
    with pytest.raises(BadManifest) as raised:
        READERS[kind]({"apiVersion": API_VERSION, "kind": kind.__name__, **document})
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    return next(line for line in str(raised.value).split("\n") if line.startswith(f"{where}: "))


@pytest.mark.parametrize(("kind", "path", "table"), EVERY, ids=[f"{kind.__name__}-{path}" for kind, path, _ in EVERY])
@pytest.mark.parametrize("given", [3, True, "word", "two words: {", -1, 10**30])
def test_each_example_is_one_that_the_field_takes(kind: type[BaseModel], path: Path, table: Any, given: Any) -> None:
    example = table_example(kind.__name__, path, given)
    written = yaml.safe_load(example)
    (value,) = written if isinstance(path[-1], int) else written.values()
    assert isinstance(value, dict)
    TypeAdapter(table).validate_json(TypeAdapter(Any).dump_json(value), strict=True)


@pytest.mark.parametrize(("kind", "path"), [each[:2] for each in EVERY], ids=[str(each[1]) for each in EVERY])
def test_every_table_has_an_example_in_its_error(kind: type[BaseModel], path: Path) -> None:
    if path == ("spec",) or path == ("metadata",):
        return
    said = message(kind, path, 3)
    assert f"must be a table of keys and values, for example {table_example(kind.__name__, path, 3)}, got 3" in said


@pytest.mark.parametrize(("spec", "said"), [
    ({"model": "llama"}, "spec.model: must be a table of keys and values, for example model: {name: llama}, got 'llama'"),
    ({"placement": "H100"},
     "spec.placement: must be a table of keys and values, for example placement: {accelerators: {allow: [H100]}}, got 'H100'"),
    ({"retries": 3},
     "spec.retries: must be a table of keys and values, for example retries: {user: 3, infrastructure: 5}, got 3"),
    ({"images": {"cuda": "foo"}},
     "spec.images.cuda: must be a table of keys and values, for example cuda: {image: foo}, got 'foo'"),
    ({"shapes": ["H100"]},
     "spec.shapes[0]: must be a table of keys and values, for example - {accelerator: H100, gpusPerNode: 4}, got 'H100'"),
    ({"code": "train.py"},
     "spec.code: must be a table of keys and values, for example code: {configMap: {name: train.py}}, got 'train.py'"),
    ({"activeDeadlineSeconds": "2h"},
     "spec.activeDeadlineSeconds: must be a whole number of seconds, for example 7200, got '2h'"),
    ({"ttlSecondsAfterFinished": "1 day"},
     "spec.ttlSecondsAfterFinished: must be a whole number of seconds, for example 86400, got '1 day'"),
    ({"placement": {"waitSeconds": "90min"}},
     "spec.placement.waitSeconds: must be a whole number of seconds, for example 5400, got '90min'"),
    ({"stall": {"afterSeconds": 0.5}}, "spec.stall.afterSeconds: must be a whole number of seconds, for example 3600, got 0.5"),
    ({"terminationGracePeriodSeconds": "60"},
     "spec.terminationGracePeriodSeconds: must be a whole number of seconds, for example 60, got '60'"),
])  # fmt: skip
def test_what_is_said_of_a_value_of_another_type(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(BadManifest) as raised:
        read_gpujob({"metadata": {"name": "j"}, "spec": spec})
    assert str(raised.value) == said


def test_no_example_is_left_that_no_field_has() -> None:
    asked = set()
    for kind, path, _ in EVERY:
        names = [kind.__name__]
        for part in path:
            names[-1:] = [names[-1] + "[]"] if isinstance(part, int) else [names[-1], part]
        ends = [".".join(names[first:]) for first in range(len(names))]
        asked.add(next((end for end in ends if end in EXAMPLES), ""))
    assert asked == EXAMPLES.keys()
