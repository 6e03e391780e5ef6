"""What is said about words that people bring from other kinds and tools, and about texts that would break a sentence."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.api.fields import patterns
from gpujob.api.kinds.gpujob import GPUJob
from gpujob.api.manifest import read_gpujob, read_gpupool
from gpujob.api.suggestions import NOT_OFFERED, USUAL_WORDS, WORDS_MEANT, _model_of
from gpujob.values.errors import BadManifest


def refusal(spec: Any) -> str:
    """What read_gpujob says about a spec."""
    with pytest.raises(BadManifest) as refused:
        read_gpujob({"metadata": {"name": "a"}, "spec": spec})
    return str(refused.value)


MEANT: list[tuple[dict[str, Any], str]] = [
    ({"resources": {"gpu": 2}}, "spec.resources.gpu: unknown field; write spec.gpusPerNode"),
    ({"resources": {"nvidia.com/gpu": 2}}, "spec.resources.nvidia.com/gpu: unknown field; write spec.gpusPerNode"),
    ({"gpus": 2}, "spec.gpus: unknown field; did you mean gpusPerNode?"),
    ({"gpu": 2}, "spec.gpu: unknown field; did you mean gpusPerNode?"),
    ({"workers": 2}, "spec.workers: unknown field; did you mean nodes?"),
    (
        {"replicas": 2},
        "spec.replicas: unknown field; one GPUJob is one run; make one GPUJob for each copy of a server, "
        "and spec.nodes for the nodes of a gang",
    ),
    (
        {"completions": 20},
        "spec.completions: unknown field; one GPUJob is one run; make one GPUJob for each value of an array or sweep, "
        "and spec.nodes for the nodes of a gang",
    ),
    (
        {"runtimeClassName": "nvidia"},
        "spec.runtimeClassName: unknown field; the handler of containers is an admin's: runtimeClassName of a GPUPool",
    ),
    (
        {"nodeSelector": {"nvidia.com/gpu.product": "A100"}},
        "spec.nodeSelector: unknown field; write spec.placement.accelerators, or spec.placement.pools for the nodes of a pool",
    ),
    ({"ports": []}, "spec.ports: unknown field; a Service of yours finds the pods by the label gpujob.dev/job: NAME"),
    ({"num_workers": 2}, "spec.num_workers: unknown field; did you mean nodes?"),
    ({"image": "a"}, "spec.image: unknown field; write spec.images.cuda.image and spec.images.rocm.image"),
    (
        {"resources": {"limits": {"cpu": 1}}},
        "spec.resources.limits: unknown field; write spec.gpusPerNode for GPUs and spec.resources.cpu and memory",
    ),
    ({"resources": {"shm": "1Gi"}}, "spec.resources.shm: unknown field; did you mean sharedMemory?"),
    ({"gpuMemry": "80G"}, "spec.gpuMemry: unknown field; did you mean gpuMemory?"),
    ({"gres": 1}, "spec.gres: unknown field; did you mean gpusPerNode?"),
    ({"time": 60}, "spec.time: unknown field; did you mean activeDeadlineSeconds?"),
    ({"partition": "a"}, "spec.partition: unknown field; write spec.placement.pools.allow"),
    ({"queueName": "a"}, "spec.queueName: unknown field; there is one queue; priorityClassName orders the jobs in it"),
    (
        {"volumes": [{"name": "a", "nfs": {}}]},
        "spec.volumes[0].nfs: unknown field; network and cloud disks are mounted by a "
        "persistentVolumeClaim, whose PersistentVolume names them",
    ),
    (
        {"placement": {"vendors": "nvidia"}},
        "spec.placement.vendors: must be a list, for example [NVIDIA], got 'nvidia'",
    ),
    ({"placement": {"devices": "MIG"}}, "spec.placement.devices: must be a list, for example [Partition], got 'MIG'"),
    (
        {"placement": {"capacityTypes": "spot"}},
        "spec.placement.capacityTypes: must be a list, for example [Spot], got 'spot'",
    ),
    ({"placement": {"vendors": "intel"}}, "spec.placement.vendors: must be a list, for example [intel], got 'intel'"),
    ({"labels": {}}, "spec.labels: unknown field; write spec.podMetadata.labels"),
    ({"placement": {"vendor": "AMD"}}, "spec.placement.vendor: unknown field; did you mean vendors?"),
    ({"vendor": "AMD"}, "spec.vendor: unknown field; write spec.placement.vendors"),
    ({"timeout": 60}, "spec.timeout: unknown field; did you mean activeDeadlineSeconds?"),
    ({"ttl": 60}, "spec.ttl: unknown field; did you mean ttlSecondsAfterFinished?"),
    ({"budget": "5"}, "spec.budget: unknown field; write spec.placement.budget"),
    (
        {"volumes": [{"name": "a", "hostPath": {"path": "/a"}}]},
        "spec.volumes[0].hostPath: unknown field; folders of the host are not offered; use a persistentVolumeClaim",
    ),
]


@pytest.mark.parametrize(("spec", "says"), MEANT, ids=lambda value: str(value)[:40])
def test_a_usual_word_points_at_the_field_that_it_is_here(spec: dict[str, Any], says: str) -> None:
    assert refusal(spec) == says


@pytest.mark.parametrize("word", sorted(NOT_OFFERED))
def test_what_is_said_not_to_be_offered_is_no_field(word: str) -> None:
    assert NOT_OFFERED[word] in refusal({word: 1})


@pytest.mark.parametrize(
    "field", sorted({word for said in USUAL_WORDS.values() for word in said.split() if "spec." in word})
)
def test_every_field_that_is_named_exists(field: str) -> None:
    model: Any = GPUJob
    *inner, last = field.rstrip(",").split(".")
    for part in inner:
        model = _model_of(model, part)
    assert last in {info.alias or name for name, info in model.model_fields.items()}


def test_a_word_of_another_kind_is_not_taken_for_one_of_a_job() -> None:
    with pytest.raises(BadManifest, match=r"^spec.gpus: unknown field; known here are"):
        read_gpupool({"metadata": {"name": "p"}, "spec": {"nodeSelector": {"matchLabels": {"a": "b"}}, "gpus": 8}})


def test_what_is_empty_must_not_be() -> None:
    assert refusal({"workingDir": ""}) == "spec.workingDir: must not be empty; fill it in or take it out"


LINES = {
    "gpuMemory": ("80G\n", "spec.gpuMemory: 80G\\n is not a memory size of at least 1M; write a number with a unit"),
    "env": ([{"name": "A\nerror: B"}], "spec.env[0].name: A\\nerror: B is not the name of a variable"),
    "requires": (["BF16\n", "BF16\n"], "spec.requires[1]: BF16\\n is given twice; remove one"),
    "a\nb": (1, "spec.a\\nb: unknown field"),
    "nodes": ("2\u2028", "spec.nodes: must be a whole number, got '2\\u2028'"),
}


@pytest.mark.parametrize("field", LINES)
def test_a_refused_text_with_line_ends_stays_one_sentence(field: str) -> None:
    value, says = LINES[field]
    told = refusal({field: value})
    assert told.startswith(says)
    assert len(told.splitlines()) == 1


def test_a_python_range_has_an_example_of_python() -> None:
    assert refusal({"framework": {"python": "3.12"}}) == (
        "spec.framework.python: framework.python is not a version range; write for example >=3.11 or ==3.12.*"
    )


FORMS = [form for form in vars(patterns).values() if isinstance(form, patterns.Form)]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.what)
def test_the_example_of_a_form_is_of_the_form(form: patterns.Form) -> None:
    _, found, example = form.write.partition("for example ")
    assert not found or all(form.fits(word) for word in example.replace(" or ", ", ").split(", "))


@given(text=st.text(alphabet="aZ9-_./:@ \n", max_size=24))
def test_no_form_takes_a_text_with_a_line_end_or_a_blank(text: str) -> None:
    assert not any(form.fits(text) for form in FORMS if " " in text or "\n" in text)


WORDS = {
    "vendors: amd": ({"placement": {"vendors": ["amd"]}}, "AMD"),
    "vendors: Nvidea": ({"placement": {"vendors": ["Nvidea"]}}, "NVIDIA"),
    "vendors: rocm": ({"placement": {"vendors": ["rocm"]}}, "AMD"),
    "method: qlora": ({"model": {"parameters": "8B", "method": "qlora"}}, "QLoRA"),
    "method: fine-tuning": ({"model": {"parameters": "8B", "method": "fine-tuning"}}, "Full"),
    "objective: cost": ({"placement": {"objective": "cost"}}, "Cost"),
    "objective: fastest": ({"placement": {"objective": "fastest"}}, "Speed"),
    "capacityTypes: spot": ({"placement": {"capacityTypes": ["spot"]}}, "Spot"),
    "capacityTypes: on-demand": ({"placement": {"capacityTypes": ["on-demand"]}}, "OnDemand"),
    "devices: MIG": ({"placement": {"devices": ["MIG"]}}, "Partition"),
    "preflight: disabled": ({"preflight": "disabled"}, "Disabled"),
    "precision: bfloat16": ({"model": {"parameters": "8B", "precision": "bfloat16"}}, "BF16"),
    "precision: FP8OCP": ({"model": {"parameters": "8B", "precision": "FP8OCP"}}, "FP8"),
    "sharding: zero-3": ({"model": {"parameters": "8B", "sharding": "zero-3"}}, "ZeRO3"),
    "optimizer: adamw_8bit": ({"model": {"parameters": "8B", "optimizer": "adamw_8bit"}}, "AdamW8Bit"),
}


@pytest.mark.parametrize("case", WORDS)
def test_a_word_in_a_wrong_case_or_spelling_comes_with_the_right_one(case: str) -> None:
    spec, word = WORDS[case]
    assert refusal(spec).endswith(f", got {case.partition(': ')[2]!r}; did you mean {word}?")


@pytest.mark.parametrize("given", ["Intel", "", "💥", "x" * 60_000])
def test_a_word_that_is_like_none_is_not_guessed(given: str) -> None:
    told = refusal({"placement": {"vendors": [given]}})
    assert told.startswith("spec.placement.vendors[0]: must be 'AMD' or 'NVIDIA', got '")
    assert "did you mean" not in told


@pytest.mark.parametrize("word", sorted(set(WORDS_MEANT.values())))
def test_every_word_that_is_meant_is_one_that_can_be_written(word: str) -> None:
    assert f"'{word}'" in str(GPUJob.model_json_schema())


TOLERATED = "GPU taints are tolerated without it; other tolerations are an admin's, in a GPUPool"
OF_THE_HOST = "host access is not offered; fabric.hostNetwork of a GPUPool is an admin's"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        *((word, TOLERATED) for word in ("tolerations", "toleration", "Tolerations")),
        *(
            (word, OF_THE_HOST)
            for word in ("hostNetwork", "hostPID", "hostIPC", "host_network", "hostPort", "hostUsers")
        ),
    ],
)
def test_what_only_an_admin_gives_is_named_as_such(word: str, said: str) -> None:
    assert refusal({word: True}) == f"spec.{word}: unknown field; {said}"


def cyclic() -> dict[str, Any]:
    held: dict[str, Any] = {}
    held["labels"] = held
    return held


def nested(lists: int) -> list[Any]:
    """So many lists, one in the other."""
    return reduce(lambda inner, _: [inner], range(lists - 1), [1])


DEEP = nested(41)
ENTRIES = "must be a list; begin each entry with a hyphen, for example"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"args": [b"hello"]}, "spec.args[0]: is !!binary, and fields are text; write the text, or put the data into a Secret"),
        ({"env": [{"name": "A", "value": b"x"}]}, "spec.env[0].value: is !!binary, and fields are text; "),
        ({"podMetadata": {"labels": {"a": b"x"}}}, "spec.podMetadata.labels.a: is !!binary, "),
        ({"requires": {"BF16"}}, "spec.requires: is a !!set; write a list, for example [BF16]"),
        ({"podMetadata": cyclic()}, "spec.podMetadata.labels: holds itself, by an alias (*) of its own anchor (&); "),
        ({"args": DEEP}, "spec.args[0]: is nested more than 32 levels deep"),
        ({"env": {"A": "b"}}, f'spec.env: {ENTRIES} - {{name: A, value: "b"}}, got a table'),
        ({"env": {}}, f"spec.env: {ENTRIES} - {{name: NAME, value: "),
        ({"envByBackend": {"rocm": {"A": 1}}}, f'spec.envByBackend.rocm: {ENTRIES} - {{name: A, value: "1"}}, got a table'),
        ({"shapes": [{"env": {"A": "b"}}]}, f'spec.shapes[0].env: {ENTRIES} - {{name: A, value: "b"}}, got a table'),
        ({"volumes": {"name": "a"}}, f"spec.volumes: {ENTRIES} - name: a, got a table"),
        ({"env": ["A=b"]}, "spec.env[0]: must be a table; write {name: A, value: \"b\"}, got 'A=b'"),
        ({"command": ["python\n"]}, "spec.command: the first word of command, the program, has a control character; take it out"),
        ({"command": ["a", "b\0"]}, "spec.command: a word of command has the character NUL, which no program can be given; "),
        ({"args": ["\0"]}, "spec.args: a word of args has the character NUL, which no program can be given; take it out"),
        ({"env": [{"name": "A", "value": "\0"}]}, "spec.env[0].value: the value has the character NUL, "),
        ({"workingDir": "/a\tb"}, "spec.workingDir: workingDir has a control character; take it out"),
        (None, "spec: is empty; write at least {}, for example spec: {command: [python3, train.py]}"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_what_is_no_json_or_no_list_is_named_with_its_remedy(spec: Any, says: str) -> None:
    told = refusal(spec)
    assert told.startswith(says)
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    ("lists", "says"),
    [(30, "must be a text, got a list"), (31, "is nested more than 32 levels deep, as no field is; ")],
)
def test_a_manifest_is_nested_at_most_32_levels_deep(lists: int, says: str) -> None:
    """A field of the spec is at level 2, and a word in its list at level 3."""
    assert refusal({"args": nested(lists)}).startswith(f"spec.args[0]: {says}")


@pytest.mark.parametrize("word", ["a\nb", "-c", "import os\nprint(1)", "\t"])
def test_a_program_is_given_lines_and_tabs(word: str) -> None:
    read_gpujob({"metadata": {"name": "a"}, "spec": {"command": ["python3", word], "args": [word]}})


def test_a_table_that_is_used_twice_does_not_hold_itself() -> None:
    shared = {"team": "a"}
    read_gpujob({"metadata": {"name": "a"}, "spec": {"podMetadata": {"labels": shared, "annotations": shared}}})
    assert refusal({"podMetadata": {"labels": shared, "annotations": shared}, "args": [b""]}).startswith(
        "spec.args[0]: is !!binary"
    )
