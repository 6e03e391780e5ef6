"""Every bench imports: one that is run once a month must not find its names gone."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path

import pytest

from bench import queue_loop

ROOT = Path(__file__).parents[2]
OF_IMAGES = {"torch", "transformers"}
"""Packages that only the images of jobs have."""
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "bench").rglob("*.py")
    if path.name != "__init__.py"
)


@pytest.mark.parametrize("name", MODULES)
def test_a_bench_imports(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        assert missing.name in OF_IMAGES


def test_the_bench_of_a_long_queue_measures_a_wake_up() -> None:
    async def wake_up() -> float:
        return await queue_loop.Loop([queue_loop.job(0, False)]).wake_up(lambda: None)

    assert asyncio.run(wake_up()) > 0
