"""Parses what a reporter serves at /ranks: JSON, strictly and within bounds, because any program may listen on the port."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from gpujob.cluster.metrics.exposition import MOST_BYTES, Report, UnreadableReport
from gpujob.status.attempts.progress import FaultSeen
from gpujob.status.attempts.standstill import RankSeen
from gpujob.status.attempts.waits import write_time
from gpujob.status.records.device_words import broken_under_program
from gpujob.status.records.objects import PodState
from gpujob.values.untrusted import tables

MOST_RANKS: Final = 64
"""The most processes of a pod."""

MOST_FRAMES: Final = 24
LONGEST_FRAME: Final = 200
LARGEST: Final = 1e9
"""The largest rank, step or number of seconds that is believed."""


def read_ranks(body: bytes, pod: PodState, job_uid: str, attempt: int) -> tuple[int, list[RankSeen]]:
    """(ranks of the whole job, ranks of this pod); raises UnreadableReport, which repeats nothing of the content."""
    if len(body) > MOST_BYTES:
        raise UnreadableReport(f"more than {MOST_BYTES} bytes")
    try:
        page = json.loads(body)
    except (ValueError, RecursionError):
        raise UnreadableReport("not JSON") from None
    if not isinstance(page, dict) or page.get("jobUid") != job_uid or page.get("attempt") != str(attempt):
        raise UnreadableReport("not of this attempt of the job")
    entries = tables(page, "ranks")[:MOST_RANKS]
    seen = {each.rank: each for each in _ranks(entries, pod)}
    worlds = [int(number) for each in entries if (number := _number(each, "world")) is not None]
    return max(worlds, default=1), [seen[rank] for rank in sorted(seen)]


def faults_of(pod: PodState, report: Report) -> tuple[FaultSeen, ...]:
    """The faults of a report after which its program has to move."""
    said = ((broken_under_program(fault), device, at) for fault, device, at in report.faults)
    return tuple(
        FaultSeen(pod.name, what, device, write_time(datetime.fromtimestamp(int(at), UTC)))
        for what, device, at in said
        if what
    )


def _ranks(entries: list[Mapping[str, Any]], pod: PodState) -> Iterator[RankSeen]:
    for each in sorted(entries, key=lambda each: _number(each, "steps") or 0.0):
        rank = _number(each, "rank")
        if rank is not None:
            yield RankSeen(
                rank=int(rank),
                pod=pod.name,
                node=pod.node,
                steps=int(_number(each, "steps") or 0),
                phase=str(each.get("phase"))[:32],
                still=_number(each, "still") or 0.0,
                silent=_number(each, "silent") or 0.0,
                stack=tuple(_frames(each)),
            )


def _frames(each: Mapping[str, Any]) -> Iterator[str]:
    stack = each.get("stack")
    for frame in stack[:MOST_FRAMES] if isinstance(stack, list) else ():
        if isinstance(frame, str):
            yield frame[:LONGEST_FRAME]


def _number(each: Mapping[str, Any], key: str) -> float | None:
    value = each.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        return None
    return float(value)
