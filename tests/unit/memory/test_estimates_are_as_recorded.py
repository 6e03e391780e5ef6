"""The estimates of many kinds of work, byte for byte: each line of golden/estimates.jsonl is one workload and what it takes.

Accuracy is measured elsewhere (`test_estimates_hold_against_measurements`); this file shows each change of a figure.
After a wanted change:  UPDATE_GOLDEN=1 pytest tests/unit/memory/test_estimates_are_as_recorded.py  and read the diff.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.models.shapes import ModelShape
from gpujob.memory.allocator import allocator_overhead
from gpujob.memory.estimate import Estimates, estimate
from gpujob.memory.model_shape import known_shape, usual_shape
from gpujob.memory.recipe import recipe
from gpujob.memory.workload import Workload
from gpujob.values.vocabulary import Checkpointing, Method, Optimizer, Precision, Sharding

FILE = Path(__file__).parent / "golden" / "estimates.jsonl"
LINES = FILE.read_text(encoding="utf-8").splitlines()
ENUMS = {
    "method": Method,
    "precision": Precision,
    "optimizer": Optimizer,
    "checkpointing": Checkpointing,
    "sharding": Sharding,
}


def shape(model: str | int, said: dict[str, Any]) -> ModelShape:
    """A model of the catalog, or the usual one with so many parameters; `said`: sizes that a job gives."""
    if isinstance(model, int):
        return usual_shape(model, **said)
    known = load_catalog().model(model)
    assert known is not None
    return known_shape(known, **said)


def workload(line: dict[str, Any]) -> Workload:
    members = {key: ENUMS[key](value) if key in ENUMS else value for key, value in line["work"].items()}
    if "targets" in members:
        members["targets"] = tuple(members["targets"])
    return Workload(shape(line["model"], line.get("said", {})), **members)


def figures(work: Workload) -> dict[str, Any]:
    """What an estimate says, in bytes."""
    found = estimate(work)
    return {
        "low": found.low,
        "expected": found.expected,
        "high": found.high,
        "taken": found.taken,
        "contexts": allocator_overhead.contexts(work),
        "parts": {name: held for name, held in found.components.named() if held},
        "phases": [sum(moment) for moment in found.moments],
        "recipe": recipe(work),
    }


@pytest.mark.parametrize("number", range(len(LINES)))
def test_an_estimate_is_as_recorded(number: int) -> None:
    line = json.loads(LINES[number])
    work = workload(line)
    found = figures(work)
    if os.environ.get("UPDATE_GOLDEN"):
        LINES[number] = json.dumps({**line, "takes": found}, ensure_ascii=False)
        FILE.write_text("\n".join(LINES) + "\n", encoding="utf-8")
        return
    assert found == line["takes"], f"line {number + 1} is estimated otherwise; if wanted, set UPDATE_GOLDEN=1"
    assert Estimates(work).on(work.gpus) == estimate(work)
