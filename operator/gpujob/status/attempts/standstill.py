"""Where the ranks of a job are that makes no step: which one is behind, and what the others wait in.

What ranks say is untrusted text; it is cut and kept on one line here, and decides nothing but this sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpujob.values.finding import counted, listed
from gpujob.values.untrusted import one_line

TRAINING: Final = "Training"
"""The phase in which the clock of a standstill runs; in any other one it stands until the bound of the phase."""

SILENT_AFTER: Final = 10.0
"""Seconds after which a process that writes no figures counts as one that does not answer."""

FRAMES: Final = 4
"""Frames of the rank that is behind in the sentence."""

LONGEST_FRAME: Final = 160
MOST_RANKS: Final = 65536
NAMED: Final = 4
"""Ranks and pods in the sentence."""

_WAITS: Final = re.compile(
    r"^(?:_?(?:all_reduce|all_gather|all_to_all|reduce_scatter|broadcast|scatter|gather|reduce|barrier|monitored_barrier)\w*"
    r"|recv|send|irecv|isend|batch_isend_irecv|wait|wait_stream|wait_tensor|synchronize|_engine_run_backward"
    r"|all_reduce_across\w*|_wait_\w+) \(|^\w+ \(of a tensor\)"
)
"""Functions in which a rank waits for its peers: torch.distributed, its store, streams, the backward pass, and copies to the host,
which wait for the collectives that were enqueued before."""

_OF_LIBRARIES: Final = re.compile(r"\((?:torch|deepspeed|accelerate|transformers|lightning|of a tensor|<frozen )")


@dataclass(frozen=True, slots=True)
class RankSeen:
    """One rank as its reporter shows it."""

    rank: int
    pod: str = ""
    node: str = ""
    steps: int = 0
    phase: str = TRAINING
    still: float = 0.0
    """Seconds without a sign of work; 0 in a phase, unless its bound is over."""
    silent: float = 0.0
    """Seconds since the process last answered."""
    stack: tuple[str, ...] = ()
    """Frames of its training thread, innermost first: function (file:line)."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """All ranks of a job that stands still, as read at one time."""

    seen: tuple[RankSeen, ...] = ()
    world: int = 1
    """Ranks of the whole job."""
    unread: tuple[tuple[str, str], ...] = ()
    """Pods that could not be read, and why."""


def sentence(ranks: Ranks) -> str:
    """Who is behind and what the others wait in; empty where no rank was read."""
    if not ranks.seen and not ranks.unread:
        return ""
    missing = sorted(set(range(min(ranks.world, MOST_RANKS))) - {each.rank for each in ranks.seen})
    silent = [each for each in ranks.seen if each.silent > SILENT_AFTER]
    behind = silent if silent or missing or ranks.unread else _behind(ranks.seen)
    waiting = [each for each in ranks.seen if each not in behind]
    parts = [_of_behind(behind)] if behind else []
    parts += [_of_missing(missing)] if missing else []
    parts += [f"pod {pod} {why}" for pod, why in ranks.unread[:NAMED]]
    known = "" if parts else "no rank is behind the others: "
    others = [known + _of_waiting(waiting)] if waiting else []
    return "; ".join(parts + others)


def _of_missing(missing: Sequence[int]) -> str:
    numbers = [str(number) for number in missing[:NAMED]] + (["…"] if len(missing) > NAMED else [])
    who = f"ranks {', '.join(numbers)} do" if len(missing) > 1 else f"rank {missing[0]} does"
    return f"{who} not report"


def _behind(ranks: Sequence[RankSeen]) -> list[RankSeen]:
    """The ranks that keep the others waiting: those that do not wait in a collective while others do, else those with the fewest
    steps, else the few that are elsewhere than most. Empty where nothing separates them."""
    if len(ranks) < 2:
        return list(ranks)
    fewest = min(each.steps for each in ranks)
    last = [each for each in ranks if each.steps == fewest]
    working = [each for each in ranks if each.stack and not _waits(each)]
    if working and len(working) < len(ranks):
        return [each for each in working if each in last] or last
    if len(last) < len(ranks):
        return last
    frames = Counter(each.stack[:1] for each in ranks)
    rare, number = min(frames.items(), key=lambda item: (item[1], item[0]))
    return [each for each in ranks if each.stack[:1] == rare] if 2 * number < len(ranks) else []


def _waits(each: RankSeen) -> bool:
    """Whether the innermost call outside of the interpreter's own is one that waits for peers."""
    return any(_WAITS.match(frame) for frame in each.stack[:FRAMES])


def _of_behind(behind: Sequence[RankSeen]) -> str:
    first = behind[0]
    others = f" and {counted(len(behind) - 1, 'other')}" if len(behind) > 1 else ""
    where = f" on node {first.node}" if first.node else ""
    step = f"is at step {first.steps}"
    if first.phase != TRAINING:
        step += f" (phase {_shown(first.phase)})"
    if first.silent > SILENT_AFTER:
        step += f" and has not answered for {first.silent:.0f} seconds: its process is stopped, or keeps Python's lock"
    stack = f" in {' < '.join(map(_shown, _shortened(first.stack)))}" if first.stack else ""
    return f"rank {first.rank}{others} (pod {first.pod}{where}) {step}{stack}"


def _of_waiting(waiting: Sequence[RankSeen]) -> str:
    """Where most of them wait, and how many are there."""
    frames = Counter((_shown(each.stack[0]) if each.stack else "") for each in waiting)
    place, number = max(frames.items(), key=lambda item: (item[1], item[0]))
    caller = next((own for each in waiting if (own := _own_frame(each))), "")
    called = f", called from {caller}" if caller and caller != place else ""
    who = f"rank {waiting[0].rank} waits" if len(waiting) == 1 else f"{number} of {len(waiting)} ranks wait"
    steps = listed([str(step) for step in sorted({each.steps for each in waiting})[:NAMED]])
    return f"{who} at step {steps}" + (f" in {place}{called}" if place else "")


def _shortened(stack: Sequence[str]) -> Sequence[str]:
    """The innermost frames, and the program's own one that leads there."""
    near = list(stack[:FRAMES])
    own = next((frame for frame in stack if not _OF_LIBRARIES.search(frame)), None)
    return near if own is None or own in near else [*near[:-1], own]


def _own_frame(each: RankSeen) -> str:
    return next((_shown(frame) for frame in each.stack if not _OF_LIBRARIES.search(frame)), "")


def _shown(frame: str) -> str:
    return one_line(frame)[:LONGEST_FRAME]
