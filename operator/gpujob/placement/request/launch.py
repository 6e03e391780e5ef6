"""What a job's command line and environment say of its nodes and GPUs, beside the fields that decide on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

LAUNCHERS: Final = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
"""The names of torchrun; other launchers have other options."""

VISIBLE: Final = frozenset(
    {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}
)
"""Variables that choose among the GPUs of a container, which are numbered from 0."""

LONGEST: Final = 4096
"""Characters of one word in which options are looked for: a longer one is a script of its own."""

_OPTION: Final = re.compile(r"--(nproc[-_]per[-_]node|nnodes)(?:=(.*))?", re.DOTALL)
_RANGE: Final = re.compile(r"([0-9]{1,6})(?::([0-9]{1,6}))?")
_NUMBERS: Final = re.compile(r"(?: *-?[0-9]{1,6} *(?:,|$))*")


class Launch(NamedTuple):
    """An option of torchrun: its text, whether it counts nodes (else processes of a node), and its least and largest number."""

    text: str
    of_nodes: bool
    least: int
    most: int


def launches(words: Iterable[str]) -> Iterator[Launch]:
    """The options of torchrun on a command line that name the number of nodes or processes; those of a shell's script too."""
    parts = (part.strip("\"';") for word in words if len(word) <= LONGEST for part in word.split())
    if not any(part.rsplit("/", 1)[-1] in LAUNCHERS for part in parts):
        return
    for part in parts:
        if (option := _OPTION.fullmatch(part)) is None:
            continue
        value = option[2] if option[2] is not None else next(parts, "")
        if number := _RANGE.fullmatch(value):
            least = int(number[1])
            yield Launch(f"--{option[1]}={value}", option[1] == "nnodes", least, int(number[2] or least))


def chosen(value: str) -> frozenset[int] | None:
    """The numbers of the GPUs that the value of such a variable chooses; None if it names them in another way."""
    if _NUMBERS.fullmatch(value) is None:
        return None
    return frozenset(int(number) for number in value.split(",") if number.strip())
