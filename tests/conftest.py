"""What all tests share: the folder with `builders`, and hypothesis profiles for slow machines."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow]

settings.register_profile("repeatable", deadline=None, max_examples=40, suppress_health_check=SLOW, derandomize=True)
"""The same examples in each run: a change is judged by what it changes, not by luck."""
settings.register_profile("search", deadline=None, max_examples=40, suppress_health_check=SLOW)
"""Other examples in each run, for `make search`: what it finds becomes a test of its own."""
settings.load_profile("repeatable")
