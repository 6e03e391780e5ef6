"""What the options of accelerate, deepspeed, vLLM and SGLang set for nodes and GPUs; nothing where others change their meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

MOST: Final = 999_999
"""No number on a command line is larger."""


class Counted(NamedTuple):
    """An option with a number: whether it counts nodes (else GPUs of a node), whether a smaller number is right too, and whether it
    counts on one node alone. `remedy` has a place for the right number.
    """

    of_nodes: bool = False
    at_most: bool = False
    of_one_node: bool = False
    remedy: str = "remove the option, the launcher counts the GPUs"


class _Launcher(NamedTuple):
    """A launcher: its subcommands, its options with a number, those that change their meaning, and whether a script follows them.
    `default`: what it takes one of, whatever the job has: where `unless_given`, if no option with a number is there. `ids`: the option
    with the numbers of GPUs, and the text before them.
    """

    subcommands: tuple[tuple[str, ...], ...]
    options: Mapping[str, Counted]
    unless: frozenset[str]
    has_script: bool = True
    default: tuple[str, Counted] | None = None
    unless_given: bool = False
    ids: tuple[str, str] = ("", "")


_MACHINES: Final = Counted(of_nodes=True, remedy="remove the option, the operator sets the number")
_ACCELERATE: Final = _Launcher(
    (("launch",),),
    {"num_processes": Counted(), "num_machines": _MACHINES},
    frozenset({"cpu", "use_cpu", "use_xpu", "tpu", "gpu_ids"}),
    ids=("gpu_ids", ""),
)
_TENSOR_PARALLEL: Final = Counted(of_one_node=True, remedy="write --tensor-parallel-size={}")
_OTHER_PARALLEL: Final = frozenset({
    "pipeline_parallel_size", "pp", "pp_size", "data_parallel_size", "dp", "dp_size", "data_parallel_size_local", "dpl", "config",
    "nnodes", "distributed_executor_backend", "device",
})  # fmt: skip
_VLLM: Final = _Launcher(
    (),
    dict.fromkeys(("tensor_parallel_size", "tp", "tp_size"), _TENSOR_PARALLEL),
    _OTHER_PARALLEL,
    has_script=False,
    default=(
        "no --tensor-parallel-size",
        _TENSOR_PARALLEL._replace(remedy="the engine uses one, write --tensor-parallel-size={}"),
    ),
    unless_given=True,
)
_OF_VLLM: Final = (("serve",), ("run-batch",), ("bench", "throughput"), ("bench", "latency"))

OTHERS: Final[Mapping[str, _Launcher]] = {
    "accelerate": _ACCELERATE,
    "accelerate-launch": _ACCELERATE._replace(subcommands=()),
    "accelerate.commands.launch": _ACCELERATE._replace(subcommands=()),
    "deepspeed": _Launcher(
        (),
        {"num_gpus": Counted(), "num_nodes": Counted(of_nodes=True, at_most=True, remedy="remove the option")},
        frozenset({"include", "i", "exclude", "e", "hostfile", "H", "elastic_training"}),
        default=(
            "deepspeed",
            Counted(
                of_nodes=True,
                remedy="write torchrun in its place: deepspeed reaches other nodes by ssh, which no pod offers",
            ),
        ),
        ids=("include", "localhost:"),
    ),
    "vllm": _VLLM._replace(subcommands=_OF_VLLM),
    "vllm.entrypoints.openai.api_server": _VLLM,
    "sglang": _VLLM._replace(subcommands=(("serve",),)),
    "sglang.launch_server": _VLLM,
}
"""Launchers by the name of their program or module."""


def counted_by(launcher: str, rest: Sequence[str]) -> Iterator[tuple[str, int, Counted]]:
    """The options of a launcher that name a number of nodes or GPUs, and what it takes without one: the text, the number, and what it
    counts. `rest`: the words after the launcher.
    """
    known, said = OTHERS[launcher], _options_of(launcher, rest)
    if said is None or not known.unless.isdisjoint(said):
        return
    found = False
    for name, (text, value) in said.items():
        counted = known.options.get(name)
        found |= counted is not None
        # With a number of machines the processes are those of all machines.
        if counted and re.fullmatch("[0-9]{1,6}", value) and not (name == "num_processes" and "num_machines" in said):
            yield text, int(value), counted
    if known.default and not (found and known.unless_given) and not any("$" in word for word in rest):
        text, counted = known.default
        yield text, 1, counted


def chosen_by(launcher: str, rest: Sequence[str]) -> tuple[str, str] | None:
    """The option of a launcher that names GPUs of the node, and their numbers as written; None if there is none."""
    known, said = OTHERS[launcher], _options_of(launcher, rest)
    name, before = known.ids
    if said is None or name not in said:
        return None
    text, value = said[name]
    return (text.partition("=")[0], value.removeprefix(before)) if value.startswith(before) else None


def _options_of(launcher: str, rest: Sequence[str]) -> Mapping[str, tuple[str, str]] | None:
    """The options of a launcher by name; None if it starts nothing, or nothing shows where its options end."""
    known = OTHERS[launcher]
    if known.subcommands:
        taken = next((len(each) for each in known.subcommands if tuple(rest[: len(each)]) == each), None)
        if taken is None:
            return None
        rest = rest[taken:]
    if known.has_script:
        before = list(takewhile(lambda pair: not _is_script(*pair), zip(rest, ["-", *rest], strict=False)))
        if len(before) == len(rest):
            return None  # Without its script the launcher's options look like those of the script.
        rest = rest[: len(before)]
    return dict(_options(rest))


_FLAGS: Final = frozenset({
    "no_python", "multi_gpu", "cpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "same_network", "debug", "quiet", "force_multi",
    "save_pid", "no_local_rank", "no_ssh", "no_ssh_check", "elastic_training",
})  # fmt: skip
"""Options of `accelerate launch` and `deepspeed` without a value, by their names with underscores."""


def _is_script(word: str, previous: str) -> bool:
    """Whether a word is a launcher's script, or comes just before it: one that may be the value of the option before it is none."""
    if word.endswith((".py", ".sh")) or word in ("-m", "--module", "--"):
        return True
    takes_value = previous.startswith("-") and "=" not in previous and _named(previous) not in _FLAGS
    return not word.startswith("-") and not takes_value


def _named(option: str) -> str:
    """The name of an option with underscores."""
    return option.lstrip("-").replace("-", "_")


def _options(words: Sequence[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """The name of each option with underscores, its text, and its value or the word after it."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if word.startswith("-"):
            name, given, value = word.partition("=")
            value = value if given else following
            yield _named(name), (f"{name}={value}", value)
