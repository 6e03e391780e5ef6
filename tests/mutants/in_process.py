"""Tries faults in the bodies of functions without starting Python again: one pytest process imports everything and records which test
runs which line; for each fault it forks, swaps the code of the functions and runs the tests of its line.

A fault in lines that run when their modules are imported shows there, so that `trial` has the last word about it.
"""

from __future__ import annotations

import ast
import gc
import os
import pickle
import re
import resource
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final, NamedTuple

import coverage
import pytest

from tests.mutants.changes import Change

Fault = tuple[Path, Change]
Lines = Mapping[str, Mapping[int, Sequence[str]]]
"""Tests by file and line."""

MOST_SECONDS: Final = 10.0
"""The CPU time for the tests of a fault that shows when modules are imported, as much again for modules that import its module."""

LEAST_SECONDS, TIMES_AS_LONG = 10, 5
"""The CPU time for the tests of a fault: this, and so many times as long as they take without it. A loop without end takes all of
it."""


class Trial(NamedTuple):
    """What came of a fault."""

    noticed: bool
    tests: int
    """The number of tests that run its statement."""
    again: tuple[str, ...] = ()
    """Where it was not noticed and runs when modules are imported: the tests, without parameters, that may notice it there."""


def trials(rooms: Sequence[str], folders: Sequence[str], faults: Sequence[Fault], seconds: float) -> list[Trial]:
    """For each fault whether a test of the rooms fails on it, or does not end within `seconds`; in a process that imported nothing."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    imports = _coverage(folders)
    imports.start()
    trials = _Trials(folders, faults, seconds, imports)
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not e2e", *rooms]
    if pytest.main(arguments, plugins=[trials]) not in (0, 1):
        raise RuntimeError(f"the tests of {rooms} cannot be collected")
    return trials.found


def statement(source: str, line: int) -> range | None:
    """The lines of the innermost statement of a function that a line is in, without its block; None outside of a function's body."""
    inside = [
        node for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.body[0].lineno <= line <= (node.end_lineno or 0)
    ]  # fmt: skip
    if not inside:
        return None
    around = [
        node for function in inside for each in function.body for node in ast.walk(each)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]  # fmt: skip
    found = min(around, key=lambda node: ((node.end_lineno or 0) - node.lineno, -node.col_offset))
    block = getattr(found, "body", None)
    last = block[0].lineno - 1 if isinstance(block, list) and block else found.end_lineno or found.lineno
    return range(found.lineno, max(last, found.lineno) + 1)


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and all that it contains."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes(each)


class _Trials:
    """A pytest plugin that runs no test as pytest would, but those of each fault in a fork."""

    def __init__(
        self, folders: Sequence[str], faults: Sequence[Fault], seconds: float, imports: coverage.Coverage
    ) -> None:
        self._folders, self._faults, self._seconds, self._imports = folders, faults, seconds, imports
        self.found: list[Trial] = []
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Each phase of a test."""
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of pytest's own loop."""
        self._imports.stop()
        imported = self._imports.get_data()
        lines, slow = self._recorded(session)
        functions = defaultdict(list)
        for each in gc.get_objects():
            if type(each) is FunctionType:
                functions[each.__code__.co_filename].append(each)
        items = {item.nodeid: item for item in session.items}
        for path, change in self._faults:
            source = path.read_bytes()
            where = statement(source.decode(), change.line) or ()
            names = {name for line in where for name in lines.get(str(path), {}).get(line, ())}
            first = not where or not {*where}.isdisjoint(imported.lines(str(path)) or ())
            near = _near(path, lines, slow) if first else ()
            tests = [items[name] for name in sorted(names & items.keys(), key=lambda name: (slow.get(name, 0.0), name))]
            swap = _swap(functions[str(path)], change.apply(source), str(path))
            cpu = LEAST_SECONDS + TIMES_AS_LONG * int(sum(slow[item.nodeid] for item in tests))
            noticed = bool(tests) and _fails(session, tests, swap, cpu, self._seconds)
            self.found.append(Trial(noticed, len(tests), () if noticed else near))
        return True

    def _recorded(self, session: pytest.Session) -> tuple[Lines, Mapping[str, float]]:
        """Which test runs which line of these folders, and how many seconds of CPU each test takes: by one run in a fork."""

        def work() -> object:
            record = _coverage(self._folders)
            record.start()
            taken = {}
            for index, item in enumerate(session.items):
                record.switch_context(item.nodeid)
                began = time.process_time()
                _run(item, session.items[index + 1 : index + 2])
                taken[item.nodeid] = time.process_time() - began
            record.stop()
            data = record.get_data()
            return {path: data.contexts_by_lineno(path) for path in data.measured_files()}, taken, self.failed

        with tempfile.TemporaryFile() as answer:

            def record() -> None:
                pickle.dump(work(), answer)
                answer.flush()

            _forked(record, float("inf"))
            answer.seek(0)
            lines, taken, failed = pickle.load(answer)
        if failed:
            raise RuntimeError(f"these tests fail without any fault: {failed}")
        return lines, taken


def _near(path: Path, lines: Lines, slow: Mapping[str, float]) -> tuple[str, ...]:
    """The tests that run a module, or one that imports it, as many of the shortest as take `MOST_SECONDS`: the module itself first."""
    name = ".".join(path.with_suffix("").parts[path.parts.index("gpujob") :]) if "gpujob" in path.parts else path.stem
    imports = re.compile(rf"^ *from {re.escape(name)} import", re.MULTILINE)
    users = [each for each in lines if each != str(path) and imports.search(Path(each).read_text())]
    whole = defaultdict[str, float](float)
    for test, seconds in slow.items():
        whole[test.partition("[")[0]] += seconds
    found: dict[str, None] = {}
    for modules in ([str(path)], users):
        tests = {
            test.partition("[")[0] for module in modules for each in lines.get(module, {}).values() for test in each
        }
        left = MOST_SECONDS
        for test in sorted(tests & whole.keys(), key=lambda test: (whole[test], test)):
            left -= whole[test]
            if left < 0:
                break
            found[test] = None
    return tuple(found)


def _coverage(folders: Sequence[str]) -> coverage.Coverage:
    return coverage.Coverage(data_file=None, config_file=False, source=folders)


def _run(item: pytest.Item, following: Sequence[pytest.Item]) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following[0] if following else None)


def _swap(functions: Sequence[FunctionType], source: bytes, path: str) -> Callable[[], None]:
    """What gives the functions of a module the code of a changed source."""

    def swap() -> None:
        # That the name of the file is the same keeps tracebacks and warnings the same.
        made = {
            (code.co_qualname, code.co_firstlineno): code
            for code in codes(compile(source, path, "exec", dont_inherit=True))
        }
        for function in functions:
            code = made.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
            if code is not None and len(code.co_freevars) == len(function.__code__.co_freevars):
                function.__code__ = code

    return swap


def _fails(
    session: pytest.Session, tests: Sequence[pytest.Item], swap: Callable[[], None], cpu: int, seconds: float
) -> bool:
    def work() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
        swap()
        for index, item in enumerate(tests):
            _run(item, tests[index + 1 : index + 2])
            if session.testsfailed:
                raise AssertionError(item.nodeid)

    return not _forked(work, seconds)


def _forked(work: Callable[[], None], seconds: float) -> bool:
    """Does work in a fork; whether it ended well within the time."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setpgid(0, 0)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            work()
            status = 0
        finally:
            os._exit(status)
    until, pause = time.monotonic() + seconds, 0.005
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(pause)
        pause = min(pause * 1.3, 0.2)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def main() -> int:
    """Reads (rooms, folders, faults, seconds) pickled from standard input, writes each Trial as a tuple to the file that is named."""
    answer = trials(*pickle.load(sys.stdin.buffer))
    Path(sys.argv[1]).write_bytes(pickle.dumps([tuple(each) for each in answer]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
