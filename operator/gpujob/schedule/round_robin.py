"""The order of explanations: namespaces take turns, so that none waits for another's many jobs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import TypeVar

Job = TypeVar("Job")


def in_turns(jobs: Iterable[tuple[Job, str, float]], told_in: Mapping[str, float]) -> Iterator[Job]:
    """The jobs, each given with its namespace and the time of its last explanation: one of each namespace, then the second of
    each.

    Within a namespace the oldest time comes first, and so do namespaces, by `told_in`; the times are of one clock, and None or
    minus infinity means never. Equal ones keep their order.
    """
    turns, ordered = defaultdict[str, Iterator[int]](count), []
    for job, namespace, _ in sorted(jobs, key=lambda each: each[2]):
        ordered.append((next(turns[namespace]), told_in.get(namespace, -math.inf), job))
    ordered.sort(key=lambda each: each[:2])
    return (job for _, _, job in ordered)
