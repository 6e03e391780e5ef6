"""What is computed on use, and once."""

from __future__ import annotations

from collections.abc import Iterator

from gpujob.values.derived import Lazy


def test_a_lazy_sequence_is_worked_out_as_far_as_somebody_asks_and_once() -> None:
    asked: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(3):
            asked.append(number)
            yield number

    lazy = Lazy(numbers())
    one, other = iter(lazy), iter(lazy)
    assert (next(one), asked) == (0, [0])
    # Two that go on by turns see the same.
    assert (next(other), next(other), next(one), asked) == (0, 1, 1, [0, 1])
    assert (list(one), list(other), list(lazy), asked) == ([2], [2], [0, 1, 2], [0, 1, 2])
