"""What a job's command line and environment set for its nodes and GPUs, beside the fields that decide on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from gpujob.placement.request.other_launchers import MOST, OTHERS, chosen_by, counted_by
from gpujob.placement.request.shell_script import WITHOUT_GPUS, Step, steps_of
from gpujob.values.vocabulary import Vendor

if TYPE_CHECKING:
    from gpujob.api.kinds.gpujob import GPUJobSpec, ShapeChoice
    from gpujob.placement.request.gang import Gang

LAUNCHERS: Final = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
"""The names of torchrun."""

FLAGS: Final = frozenset({
    "--standalone", "-m", "--module", "--no-python", "--no_python", "--run-path", "--run_path", "--use-env", "--use_env",
    "--virtual-local-rank", "--virtual_local_rank", "-h", "--help",
})  # fmt: skip
"""Its options without a value (torch/distributed/run.py)."""

_OF_AMD: Final = frozenset(
    {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}
)
VISIBLE: Final[Mapping[Vendor, frozenset[str]]] = {
    Vendor.AMD: _OF_AMD,
    Vendor.NVIDIA: frozenset({"CUDA_VISIBLE_DEVICES"}),
}
"""Variables that choose among the GPUs of a container, which are numbered from 0."""

WRAPPERS: Final = frozenset({
    "env", "nohup", "time", "nice", "numactl", "taskset", "timeout", "stdbuf", "nsys", "rocprof", "rocprofv3", "uv", "poetry", "pipenv",
    "conda", "micromamba", "pixi", "tini", "dumb-init", "catchsegv",
})  # fmt: skip
"""Programs that start the program which their words name, once and with the same GPUs."""

_PYTHON: Final = re.compile(r"python[0-9.]*")
_OPTION: Final = re.compile(r"--(nproc[-_]per[-_]node|nnodes)")
_RANGE: Final = re.compile(r"([0-9]{1,6})(?::([0-9]{1,6}))?")
_NUMBERS: Final = re.compile(r"(?: *-?[0-9]{1,6} *(?:,|$))*")
_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


class Launch(NamedTuple):
    """An option of a launcher: its text, whether it counts nodes (else processes of a node), its least and largest number, whether
    the command line starts nothing else so (of several steps one may leave GPUs alone), whether it counts on one node alone, and the
    remedy, with a place for the right number.
    """

    text: str
    of_nodes: bool
    least: int
    most: int
    alone: bool = True
    of_one_node: bool = False
    remedy: str = "remove the option, the operator sets the number"

    def contradicts(self, gang: Gang) -> bool:
        """Whether it names another number of nodes or GPUs than the gang has; of one of several steps, a larger one."""
        if self.of_one_node and gang.nodes > 1:
            return False
        there = self.there(gang)
        return self.least > there or (self.alone and self.most < there)

    def there(self, gang: Gang) -> int:
        """The nodes or the GPUs of a node that the gang has."""
        return gang.nodes if self.of_nodes else gang.gpus_per_node


class Visible(NamedTuple):
    """A variable or an option that chooses among the GPUs of a pod: its name, its value, and where it is written."""

    name: str
    value: str
    where: str


class Program(NamedTuple):
    """What the command line and the variables of a gang set for its nodes and GPUs."""

    launches: tuple[Launch, ...] = ()
    visible: tuple[tuple[Vendor, Visible], ...] = ()
    """Each with the vendor on whose devices it acts."""


def programs_of(spec: GPUJobSpec) -> tuple[Program, ...]:
    """The program of the job's own gang, and that of each of its shapes."""
    return (_program(spec, None), *(_program(spec, shape) for shape in spec.shapes))


def _program(spec: GPUJobSpec, shape: ShapeChoice | None) -> Program:
    words = (*spec.command, *((shape and shape.args) or spec.args))
    backends = (getattr(spec.env_by_backend, of_stack, ()) for of_stack in ("cuda", "rocm"))
    named = {each.name for of in (spec.env, *backends, shape.env if shape else ()) for each in of}
    steps = steps_of(words, None if spec.env_from else named)
    every = _targets(steps)
    found = set.intersection(*(set(each.items()) for each in every)) if every else set[tuple[str, str | None]]()
    said = [Visible(name, value, "on the command line") for name, value in sorted(found) if value is not None]
    hidden = {name for each in every for name in each}
    said += _chosen(steps)
    by_backend, more = spec.env_by_backend, shape.env if shape else ()
    visible = list[tuple[Vendor, Visible]]()
    for vendor, of_stack in zip((Vendor.NVIDIA, Vendor.AMD), ("cuda", "rocm"), strict=True):
        env = {each.name: each.value for each in (*spec.env, *getattr(by_backend, of_stack, ()), *more)}
        acting = ((name, value) for name, value in env.items() if value is not None and name not in hidden)
        given = [Visible(name, value, "in env") for name, value in acting]
        acts = (each for each in (*given, *said) if each.name in VISIBLE[vendor] or each.name.startswith("-"))
        visible += [(vendor, each) for each in acts]
    return Program(_launches(steps), tuple(visible))


def _chosen(steps: Iterable[Step]) -> list[Visible]:
    """The option of the only launcher that names GPUs of its node."""
    launching = [step for step in steps if _launcher(step.words) is not None]
    if len(launching) != 1 or not launching[0].sure:
        return []
    command = launching[0].words
    at = _launcher(command) or 0
    name = _program_of(command[at])
    said = chosen_by(name, command[at + 1 :]) if name in OTHERS else None
    return [Visible(*said, "on the command line")] if said else []


def launches(words: Sequence[str]) -> tuple[Launch, ...]:
    """The options of launchers on a command line that name a number of nodes or processes; those of a shell's script too."""
    return _launches(steps_of(words))


def _launches(steps: Iterable[Step]) -> tuple[Launch, ...]:
    launching = [step for step in steps if _launcher(step.words) is not None]
    alone = len(launching) == 1
    found = (each for step in launching if step.sure for each in _of_launcher(step.words))
    return tuple(each._replace(alone=alone) for each in found)


def chosen(value: str) -> frozenset[int] | None:
    """The numbers of the GPUs that the value of such a variable chooses; None if it names them in another way."""
    if _NUMBERS.fullmatch(value) is None:
        return None
    return frozenset(int(number) for number in value.split(",") if number.strip())


def _of_launcher(command: Sequence[str]) -> Iterable[Launch]:
    """The options of a command's launcher that name a number of nodes or processes."""
    at = _launcher(command)
    if at is None:
        return
    name, rest = _program_of(command[at]), command[at + 1 :]
    if name in LAUNCHERS:
        yield from _of_torchrun(rest).values()
        return
    for text, number, (of_nodes, at_most, of_one_node, remedy) in counted_by(name, rest):
        yield Launch(text, of_nodes, number, MOST if at_most else number, of_one_node=of_one_node, remedy=remedy)


def _of_torchrun(rest: Sequence[str]) -> Mapping[str, Launch]:
    """The last of each option before the script, whose own options follow it."""
    found = dict[str, Launch]()
    words = iter(rest)
    for word in takewhile(lambda word: word.startswith("-") and word != "--", words):
        name, given, value = word.partition("=")
        attached = not name.startswith("--") and len(name) > 2
        if not given and name not in FLAGS and not attached:
            value = next(words, "")
        if word == "--standalone":
            found[word] = Launch(word, of_nodes=True, least=1, most=1)
        option, number = _OPTION.fullmatch(name), _RANGE.fullmatch(value)
        if option and number:
            least, of_nodes = int(number[1]), option[1] == "nnodes"
            found[option[1].replace("-", "_")] = Launch(f"{name}={value}", of_nodes, least, int(number[2] or least))
    return found


def _launcher(command: Sequence[str]) -> int | None:
    """The place of the launcher in a command: its first word, or what a wrapper or Python starts; None if it starts none."""
    known, words = LAUNCHERS | OTHERS.keys(), enumerate(command)
    at, word = next(((at, word) for at, word in words if _ASSIGNED.fullmatch(word) is None), (0, ""))
    if _program_of(word) in WRAPPERS:
        starts = (each for each in words if _PYTHON.fullmatch(_program_of(each[1])) or _program_of(each[1]) in known)
        at, word = next(starts, (0, ""))
    if _PYTHON.fullmatch(_program_of(word)):
        at, word = _started_by_python(words)
    return at if _program_of(word) in known else None


def _started_by_python(words: Iterator[tuple[int, str]]) -> tuple[int, str]:
    """The module or the script after Python's options."""
    for at, word in words:
        if word in ("-X", "-W"):
            next(words, None)
        elif word == "-m":
            return next(words, (0, ""))
        elif not word.startswith("-") or word.startswith("-m"):
            return at, word
    return 0, ""


def _program_of(word: str) -> str:
    """The program or module that a word starts."""
    return word.removeprefix("-m").rsplit("/", 1)[-1]


def _targets(steps: Iterable[Step]) -> Sequence[Mapping[str, str | None]]:
    """The variables that each launcher gets from the command line, or else each program; None for a value that is not known."""
    shell, launched, others = (
        dict[str, str | None](),
        list[Mapping[str, str | None]](),
        list[Mapping[str, str | None]](),
    )
    for words, sure in steps:
        own = dict(_assigned(words))
        if words[0] in ("export", "declare"):
            shell |= dict.fromkeys(words[1:]) | (own if sure else dict.fromkeys(own))
        elif words[0] == "unset" or len(own) == len(words):
            # A variable that is set and not exported is the program's only if it had it before.
            shell |= dict.fromkeys((*words[1:], *own))
        elif words[len(own)] not in WITHOUT_GPUS:
            (others if _launcher(words) is None else launched).append(shell | own)
    return launched or others


def _assigned(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The variables that a command sets for its program, or for those that follow it."""
    words = iter(command[1:] if command[0] in ("export", "env", "declare") else command)
    for word in words:
        if (found := _ASSIGNED.fullmatch(word)) is None:
            return
        yield found[1], found[2]
