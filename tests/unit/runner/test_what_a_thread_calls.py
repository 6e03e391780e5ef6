"""A thread that waits for a device in a copy to the host shows no frame of Python there: its bytecode says what it calls."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpujob_runner.report.standstill import stack


class Tensor:
    """Its methods wait in C, as those of a tensor on a device do."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lock.acquire()
        self.item = self.cpu = self.read = self.lock.acquire
        self.inside = self


def method(x: Any) -> None:
    x.item()


def in_an_expression(x: Any) -> None:
    print(1 + x.inside.cpu() * 2, file=sys.stderr)


def another_method(x: Any) -> None:
    x.read()


def with_an_argument(x: Any) -> None:
    x.item(True)


def a_function(x: Any) -> None:
    time.sleep(x.seconds)


MODULE = compile("float_of = 1\nx.item()\n", "program.py", "exec")


@pytest.fixture
def tensor() -> Iterator[Any]:
    made: Any = Tensor()
    made.seconds = 600.0  # A daemon's thread: it ends with the process.
    yield made
    made.lock.release()


@pytest.mark.parametrize(
    ("calls", "name"),
    [
        (method, "item"),
        (in_an_expression, "cpu"),
        (lambda x: exec(MODULE, {"x": x}), "item"),
        (another_method, None),
        (with_an_argument, None),
        (a_function, None),
    ],
    ids=["a method", "in an expression", "of a module", "another method", "with an argument", "a function"],
)
def test_the_copy_to_the_host_that_a_frame_waits_in(tensor: Any, calls: Any, name: str | None) -> None:
    thread = threading.Thread(target=calls, args=(tensor,), daemon=True)
    thread.start()
    end, before, frames = time.monotonic() + 60, [], list[str]()
    # It waits in the call once it is where it was a moment ago.
    while time.monotonic() < end and (not frames or frames != before or "(threading.py:" in frames[0]):
        time.sleep(0.05)
        before, frames = frames, stack.stack_of(thread.ident or 0)
    assert (frames[0] == f"{name} (of a tensor)") is (name is not None), frames
    # The program's own frame follows, or comes first.
    assert len(frames) > 1


def function_of_a_tensor(x: Any) -> float:
    return float(x)


def test_a_function_of_a_tensor_that_waits() -> None:
    """`float(loss)` runs C alone in between; a frame that stands at that call is made here, for no C function of Python's own waits."""

    class Number:
        def __float__(self) -> float:
            found.append(stack.copy_in(sys._getframe(1)))
            return 1.0

    found: list[str | None] = []
    function_of_a_tensor(Number())
    assert found == ["float"]
