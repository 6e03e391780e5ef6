"""`python -m tests.search`: the properties on random examples, in a random order, for so many seconds; `make search` runs it.

The seed is printed first: the same seed tries the same examples in the same order. What fails becomes a test of its own.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence

import pytest

PROPERTIES = "tests/properties"
MOST_SEEDS = 10**9


class Budget:
    """A plugin of pytest: the order of a seed, and no test begins after the time is over. Collection does not count: it can
    take longer on a busy machine.
    """

    def __init__(self, seed: int, seconds: float) -> None:
        self._seed, self._seconds = seed, seconds
        self._all = self._tried = 0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Shuffles the tests, so that each of many runs begins with others."""
        self._all = len(items)
        random.Random(self._seed).shuffle(items)

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Runs the tests one by one until the time is over; a test that has begun runs to its end."""
        if session.testsfailed or session.config.option.collectonly:
            return None
        began = time.monotonic()
        for number, item in enumerate(session.items):
            if time.monotonic() - began >= self._seconds:
                break
            later = session.items[number + 1] if number + 1 < len(session.items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=later)
            self._tried += 1
            if session.shouldstop or session.shouldfail:
                break
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Says how far it came, and how to do it again."""
        said = f"tried {self._tried} of {self._all} properties; make search SEED={self._seed} tries the same"
        terminalreporter.write_line(said)


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0 if every property held. Arguments that are not ours go to pytest."""
    parser = argparse.ArgumentParser(prog="python -m tests.search")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int)
    options, more = parser.parse_known_args(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(MOST_SEEDS)
    print(f"seed {seed}: make search SEED={seed} tries the same examples in the same order", flush=True)
    asked = [PROPERTIES, "--hypothesis-profile=search", f"--hypothesis-seed={seed}", "-q", "-p", "no:xdist", *more]
    return int(pytest.main(asked, plugins=[Budget(seed, options.seconds)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
