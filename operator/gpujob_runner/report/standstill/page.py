"""GET /ranks as JSON: each rank of the pod with its steps, its phase, how long it stands still, and its stack.

What other processes wrote is read from files, so that any value may be of any type; what is not a number or text is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from gpujob_runner.report.settings import number_in
from gpujob_runner.report.standstill.phases import TRAINING
from gpujob_runner.report.standstill.stack import LONGEST_LINE, MOST_LINES

CONTENT_TYPE = "application/json; charset=utf-8"
SILENT_AFTER = 10.0
"""Seconds after its last beat from which a process counts as one that does not answer: five beats."""


def aged(process: dict[str, Any], now: float) -> dict[str, Any]:
    """What another process wrote, as it is `now` (time.monotonic): one that does not write any more stands still, in a phase after its
    bound."""
    beat, figures = number_in(process.get("beat")), process.get("figures")
    silent = 0.0 if beat is None else now - beat
    if silent <= SILENT_AFTER or not isinstance(figures, dict):
        return process
    still = number_in(figures.get("still_seconds"))
    left = number_in(figures.get("phase_left_seconds"))
    if still is not None and (_phase(figures) == TRAINING or (left is not None and silent > left)):
        figures = {**figures, "still_seconds": still + silent}
    return {**process, "figures": figures, "silent": silent}


def ranks_page(processes: Iterable[dict[str, Any]], job_uid: str, attempt: str) -> str:
    """The page: the ranks, and the job and attempt that they belong to."""
    ranks = [_rank(process) for process in processes if isinstance(process.get("figures"), dict)]
    return json.dumps({"jobUid": job_uid, "attempt": attempt, "ranks": ranks})


def _rank(process: dict[str, Any]) -> dict[str, Any]:
    figures, stack = process["figures"], process.get("stack")
    lines = stack[:MOST_LINES] if isinstance(stack, list) else []
    return {
        "rank": number_in(process.get("rank")) or 0,
        "world": number_in(process.get("world_size")) or 1,
        "steps": number_in(figures.get("steps_total")) or 0,
        "phase": _phase(figures),
        "still": number_in(figures.get("still_seconds")) or 0,
        "silent": number_in(process.get("silent")) or 0,
        "stack": [line[:LONGEST_LINE] for line in lines if isinstance(line, str)],
    }


def _phase(figures: dict[str, Any]) -> str:
    phases = figures.get("phase")
    return str(next(iter(phases), TRAINING))[:32] if isinstance(phases, dict) else TRAINING
