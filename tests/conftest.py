"""What all tests share: the folder with `builders`, hypothesis profiles for slow machines, and the order for several processes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.balance import measured

SLOW = [HealthCheck.too_slow]

settings.register_profile("repeatable", deadline=None, max_examples=40, suppress_health_check=SLOW, derandomize=True)
"""The same examples in each run: a change is judged by what it changes, not by luck."""
settings.register_profile("search", deadline=None, max_examples=40, suppress_health_check=SLOW)
"""Other examples in each run, for `make search`: what it finds becomes a test of its own."""
settings.load_profile("repeatable")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several processes share the files, the longest come first: no process begins one when the others have none left."""
    if hasattr(config, "workerinput"):
        seconds = measured()
        items.sort(key=lambda item: -seconds.get(item.nodeid.partition("::")[0], 0))
