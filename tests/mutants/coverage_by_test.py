"""Which tests run which line of gpujob: recorded by a pytest plugin (`-p tests.mutants.coverage_by_test`), read by `Record`."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

FOLDER = "MUTANTS_RECORD"
"""The variable with the folder of the data; without it the plugin records nothing."""

PACKAGE = "MUTANTS_PACKAGE"
"""The variable with the package whose lines are recorded; no other module is traced."""


class _Recorder:
    def __init__(self, folder: str, package: str) -> None:
        self._coverage = coverage.Coverage(
            data_file=str(Path(folder) / "lines"), data_suffix=True, config_file=False, source_pkgs=[package],
        )  # fmt: skip
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Lines are counted for the test without its parameters."""
        self._coverage.switch_context(item.nodeid.partition("[")[0])
        try:
            return (yield)  # type: ignore[misc]
        finally:
            self._coverage.switch_context("")

    def pytest_unconfigure(self) -> None:
        self._coverage.stop()
        self._coverage.save()


def pytest_configure(config: pytest.Config) -> None:
    """In each process that runs tests; with xdist these are its workers."""
    if os.environ.get(FOLDER) and (hasattr(config, "workerinput") or not config.getoption("numprocesses", None)):
        config.pluginmanager.register(_Recorder(os.environ[FOLDER], os.environ.get(PACKAGE, "gpujob")), "lines-by-test")


class Record:
    """What was recorded."""

    def __init__(self, folder: Path) -> None:
        data = coverage.CoverageData(basename=str(folder / "combined"), no_disk=True)
        for path in sorted(folder.glob("lines.*")):
            one = coverage.CoverageData(basename=str(path))
            one.read()
            data.update(one)
        self._lines: dict[str, dict[int, list[str]]] = {}
        self._size: dict[str, int] = defaultdict(int)
        for path in data.measured_files():
            tests = {line: [name for name in names if name] for line, names in data.contexts_by_lineno(path).items()}
            self._lines[path] = tests
            for names in tests.values():
                for name in names:
                    self._size[name] += 1

    def tests(self, path: Path, line: int) -> list[str]:
        """Tests that run a line, those that run little else first.

        A line that runs when its module is imported is every test's that runs any line of the module, or every test's where the
        module has no other lines.
        """
        lines = self._lines.get(str(path), {})
        names = set(lines.get(line) or [name for each in lines.values() for name in each]) or set(self._size)
        return sorted(names, key=lambda name: (self._size[name], name))
