"""What the options of accelerate, deepspeed and vLLM say of nodes and GPUs; nothing where other options change their meaning."""

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
    """A launcher: its subcommand, its options with a number, those that change their meaning, and whether a script follows them."""

    subcommand: str
    options: Mapping[str, Counted]
    unless: frozenset[str]
    has_script: bool = True


_MACHINES: Final = Counted(of_nodes=True, remedy="remove the option, the operator sets the number")
_ACCELERATE: Final = _Launcher(
    "launch",
    {"num_processes": Counted(), "num_machines": _MACHINES},
    frozenset({"cpu", "use_cpu", "use_xpu", "tpu", "gpu_ids"}),
)
_VLLM: Final = Counted(of_one_node=True, remedy="write --tensor-parallel-size={}")
_OF_VLLM: Final = frozenset(
    {"pipeline_parallel_size", "pp", "data_parallel_size", "dp", "data_parallel_size_local", "dpl", "config", "nnodes"}
)
_SERVED: Final = {"tensor_parallel_size": _VLLM, "tp": _VLLM}

OTHERS: Final[Mapping[str, _Launcher]] = {
    "accelerate": _ACCELERATE,
    "accelerate-launch": _ACCELERATE._replace(subcommand=""),
    "accelerate.commands.launch": _ACCELERATE._replace(subcommand=""),
    "deepspeed": _Launcher(
        "",
        {"num_gpus": Counted(), "num_nodes": Counted(of_nodes=True, at_most=True, remedy="remove the option")},
        frozenset({"include", "i", "exclude", "e", "hostfile", "H", "elastic_training"}),
    ),
    "vllm": _Launcher("serve", _SERVED, _OF_VLLM, has_script=False),
    "vllm.entrypoints.openai.api_server": _Launcher("", _SERVED, _OF_VLLM, has_script=False),
}
"""Launchers by the name of their program or module."""


def counted_by(launcher: str, rest: Sequence[str]) -> Iterator[tuple[str, int, Counted]]:
    """The options of a launcher that name a number of nodes or GPUs: the text, the number, and what it counts. `rest`: the words
    after the launcher.
    """
    known = OTHERS[launcher]
    if known.subcommand:
        if list(rest[:1]) != [known.subcommand]:
            return
        rest = rest[1:]
    if known.has_script:
        before = list(takewhile(lambda word: not (word.endswith(".py") or word in ("-m", "--module", "--")), rest))
        if len(before) == len(rest):
            return  # Without its script the launcher's options look like those of the script.
        rest = before
    said = dict(_options(rest))
    if not known.unless.isdisjoint(said):
        return
    for name, (text, value) in said.items():
        counted = known.options.get(name)
        # With a number of machines the processes are those of all machines.
        if counted and re.fullmatch("[0-9]{1,6}", value) and not (name == "num_processes" and "num_machines" in said):
            yield text, int(value), counted


def _options(words: Sequence[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """The name of each option with underscores, its text, and its value or the word after it."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if word.startswith("-"):
            name, given, value = word.partition("=")
            value = value if given else following
            yield name.lstrip("-").replace("-", "_"), (f"{name}={value}", value)
