"""What a job's command line and environment say of its nodes and GPUs, beside the fields that decide on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from gpujob.values.vocabulary import Vendor

if TYPE_CHECKING:
    from gpujob.api.kinds.gpujob import GPUJobSpec, ShapeChoice

LAUNCHERS: Final = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
"""The names of torchrun; other launchers have other options."""

FLAGS: Final = frozenset({
    "--standalone", "-m", "--module", "--no-python", "--no_python", "--run-path", "--run_path", "--use-env", "--use_env",
    "--virtual-local-rank", "--virtual_local_rank", "-h", "--help",
})  # fmt: skip
"""Its options without a value (torch/distributed/run.py)."""

SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh"})
PRINTING: Final = frozenset({"echo", "printf", "cat"})
"""Commands whose words are only text."""

_OF_AMD: Final = frozenset(
    {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}
)
VISIBLE: Final[Mapping[Vendor, frozenset[str]]] = {
    Vendor.AMD: _OF_AMD,
    Vendor.NVIDIA: frozenset({"CUDA_VISIBLE_DEVICES"}),
}
"""Variables that choose among the GPUs of a container, which are numbered from 0."""

LONGEST: Final = 4096
"""Characters of one word in which options are looked for: a longer one is a script of its own."""

_OPTION: Final = re.compile(r"--(nproc[-_]per[-_]node|nnodes)")
_RANGE: Final = re.compile(r"([0-9]{1,6})(?::([0-9]{1,6}))?")
_NUMBERS: Final = re.compile(r"(?: *-?[0-9]{1,6} *(?:,|$))*")
_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r]+|\\\n|\#[^\n]*)
    |(?P<end>[;&|()<>\n]+)
    |(?P<word>(?:[^\s;&|()<>'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED: Final = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)
_OPENS, _CLOSES = frozenset({"if", "case", "for", "while", "until"}), frozenset({"fi", "esac", "done"})


class Launch(NamedTuple):
    """An option of torchrun: its text, whether it counts nodes (else processes of a node), and its least and largest number."""

    text: str
    of_nodes: bool
    least: int
    most: int


class Visible(NamedTuple):
    """A variable that chooses among the GPUs of a pod: its name, its value, and where it is written."""

    name: str
    value: str
    where: str


class Program(NamedTuple):
    """What the command line and the variables of a gang say of its nodes and GPUs."""

    launches: tuple[Launch, ...] = ()
    visible: tuple[tuple[Vendor, Visible], ...] = ()
    """Each with the vendor on whose devices it acts."""


def programs_of(spec: GPUJobSpec) -> tuple[Program, ...]:
    """The program of the job's own gang, and that of each of its shapes."""
    return (_program(spec, None), *(_program(spec, shape) for shape in spec.shapes))


def _program(spec: GPUJobSpec, shape: ShapeChoice | None) -> Program:
    words = (*spec.command, *((shape and shape.args) or spec.args))
    commands = [command for command in _commands(words) if command]
    found = {(name, value): None for command in commands for name, value in _assigned(command)}
    said = [Visible(name, value, "on the command line") for name, value in found]
    by_backend, more = spec.env_by_backend, shape.env if shape else ()
    visible = list[tuple[Vendor, Visible]]()
    for vendor, of_stack in zip((Vendor.NVIDIA, Vendor.AMD), ("cuda", "rocm"), strict=True):
        env = {each.name: each.value for each in (*spec.env, *getattr(by_backend, of_stack, ()), *more)}
        given = [Visible(name, value, "in env") for name, value in env.items() if value is not None]
        visible += [(vendor, each) for each in (*given, *said) if each.name in VISIBLE[vendor]]
    return Program(launches(words), tuple(visible))


def launches(words: Sequence[str]) -> tuple[Launch, ...]:
    """The options of torchrun on a command line that name the number of nodes or processes; those of a shell's script too."""
    return tuple(each for command in _commands(words) for each in _of_torchrun(command).values())


def chosen(value: str) -> frozenset[int] | None:
    """The numbers of the GPUs that the value of such a variable chooses; None if it names them in another way."""
    if _NUMBERS.fullmatch(value) is None:
        return None
    return frozenset(int(number) for number in value.split(",") if number.strip())


def _of_torchrun(command: Sequence[str]) -> Mapping[str, Launch]:
    """The last of each option before the script, whose own options follow it."""
    at = next((at for at, word in enumerate(command) if _is_launcher(word)), None)
    found: dict[str, Launch] = {}
    if at is None or command[0] in PRINTING:
        return found
    words = iter(command[at + 1 :])
    for word in takewhile(lambda word: word.startswith("-") and word != "--", words):
        name, given, value = word.partition("=")
        attached = not name.startswith("--") and len(name) > 2
        if not given and name not in FLAGS and not attached:
            value = next(words, "")
        option, number = _OPTION.fullmatch(name), _RANGE.fullmatch(value)
        if option and number:
            least, of_nodes = int(number[1]), option[1] == "nnodes"
            found[option[1].replace("-", "_")] = Launch(f"{name}={value}", of_nodes, least, int(number[2] or least))
    return found


def _is_launcher(word: str) -> bool:
    return word.removeprefix("-m").rsplit("/", 1)[-1] in LAUNCHERS


def _assigned(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The variables that a command sets for its program, or for those that follow it."""
    words = iter(command[1:] if command[0] in ("export", "env", "declare") else command)
    for word in words:
        if (found := _ASSIGNED.fullmatch(word)) is None:
            return
        yield found[1], found[2]


def _commands(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """The commands that a command line starts: itself, or those of a shell's script that it starts in every case."""
    script = _script(words)
    if script is None:
        yield [word for word in words if len(word) <= LONGEST]
    elif len(script) <= LONGEST:
        yield from _of_script(script)


def _script(words: Iterable[str]) -> str | None:
    """The script after a shell's -c; None if the command line has none."""
    rest = iter(words)
    if not any(word.rsplit("/", 1)[-1] in SHELLS for word in rest):
        return None
    for option in takewhile(lambda word: word.startswith("-"), rest):
        if option.endswith("c") and not option.startswith("--"):
            return next(rest, None)
        if option.endswith("o"):
            next(rest, None)
    return None


def _of_script(script: str) -> Sequence[Sequence[str]]:
    """The commands of a script, without those of branches and loops; none of one that starts several at a time (`&`)."""
    commands, command = list[list[str]](), list[str]()
    depth, at = 0, 0
    while token := _TOKEN.match(script, at):
        at = token.end()
        if token["end"]:
            if token["end"].strip("\n;") == "&":
                return ()
            commands += [command] if not depth else []
            command = []
        elif word := token["word"]:
            depth += (word in _OPENS) - (word in _CLOSES) if not command else 0
            if command or word not in ("then", "do", "else", "elif", "{", "}", "!", "time", "exec", *_CLOSES):
                command.append(_QUOTED.sub(lambda part: part[1] or part[2] or part[3] or "", word))
    return [*commands, command] if at == len(script) and not depth else commands
