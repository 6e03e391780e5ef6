"""A field has one name, that of the CRD: the API server drops or refuses any other, so the command line refuses it too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

import pytest
from builders import gpupool, manifest
from pydantic import BaseModel

from gpujob.api.kinds.gpujob import GPUJobSpec
from gpujob.api.kinds.gpupool import GPUPoolSpec
from gpujob.api.manifest import read_gpujob, read_gpupool
from gpujob.values.errors import BadManifest


def of_two_words(kind: type[BaseModel], *path: str) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """The path, the name in Python and the name in the CRD of each field whose two names differ, also of tables below."""
    for name, field in kind.model_fields.items():
        alias = str(field.alias)
        if alias != name:
            yield path, name, alias
        for inner, entry in tables_of(field.annotation):
            yield from of_two_words(inner, *path, alias + entry)


def tables_of(annotation: Any, entry: str = "") -> Iterator[tuple[type[BaseModel], str]]:
    """The tables that a field takes, each with [0] if it takes a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, entry
    elif get_origin(annotation) is not dict:
        for each in get_args(annotation):
            yield from tables_of(each, "[0]" if get_origin(annotation) is tuple else entry)


def with_name(spec: dict[str, Any], path: tuple[str, ...], name: str) -> None:
    """Sets a field to a number, whatever it takes."""
    for part in path:
        inner: dict[str, Any] = {}
        spec[part.removesuffix("[0]")] = [inner] if part.endswith("[0]") else inner
        spec = inner
    spec[name] = 1


@pytest.mark.parametrize(("path", "name", "alias"), [*of_two_words(GPUJobSpec)])
def test_a_job_has_no_field_by_its_name_in_python(path: tuple[str, ...], name: str, alias: str) -> None:
    document = manifest("train")
    with_name(document["spec"], path, name)
    with pytest.raises(BadManifest) as error:
        read_gpujob(document)
    assert f"{'.'.join(('spec', *path, name))}: unknown field; did you mean {alias}?" in str(error.value).splitlines()


@pytest.mark.parametrize(("path", "name", "alias"), [*of_two_words(GPUPoolSpec)])
def test_a_pool_has_no_field_by_its_name_in_python(path: tuple[str, ...], name: str, alias: str) -> None:
    document = gpupool("p", {"pool": "p"})
    with_name(document["spec"], path, name)
    with pytest.raises(BadManifest) as error:
        read_gpupool(document)
    assert f"{'.'.join(('spec', *path, name))}: unknown field; did you mean {alias}?" in str(error.value).splitlines()


@pytest.mark.parametrize(
    ("field", "given", "example"),
    [
        (
            "volumes",
            {"data": {"persistentVolumeClaim": "corpus"}},
            "- {name: data, persistentVolumeClaim: {claimName: corpus}}",
        ),
        (
            "volumes",
            {"data": {"persistentVolumeClaim": {"claimName": "corpus"}, "mountPath": "/data"}},
            "- {name: data, persistentVolumeClaim: {claimName: corpus}, mountPath: /data}",
        ),
        ("env", {"EPOCHS": 3}, '- {name: EPOCHS, value: "3"}'),
        ("env", {"KEY": {"valueFrom": {"secretKeyRef": {"name": "s"}}}}, "- {name: KEY, valueFrom: {secretKeyRef: …}}"),
        ("envFrom", {"configMapRef": {"name": "settings"}}, "- configMapRef: {name: settings}"),
    ],
)
def test_the_example_of_a_list_is_what_one_can_write(field: str, given: dict[str, Any], example: str) -> None:
    with pytest.raises(BadManifest) as error:
        read_gpujob(manifest("train", **{field: given}))
    wanted = f"spec.{field}: must be a list; begin each entry with a hyphen, for example {example}, got a table"
    assert wanted in str(error.value).splitlines()


@pytest.mark.parametrize(
    ("first", "is_refused"),
    [
        ("python3 train.py --lr 3", True),
        ("torchrun\ttrain.py", True),
        ("cd /work && python3 train.py", True),
        (" python3", True),
        ("python3", False),
        ("/opt/My Company/bin/train", False),
        ("./run all", False),
        ("$(PROGRAM)", False),
    ],
)
def test_a_command_line_in_one_text_is_no_program(first: str, is_refused: bool) -> None:
    document = manifest("train", command=[first, "x"])
    if is_refused:
        with pytest.raises(
            BadManifest, match="the first entry of command is the name of the program alone; write each"
        ):
            read_gpujob(document)
    else:
        assert read_gpujob(document).spec.command == (first, "x")
