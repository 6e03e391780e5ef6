"""What follows from a value, worked out on first use and kept with it: `functools.cached_property` without its lock.

The lock, which Python has given up since 3.12, takes most of the time of a first use, and a decision makes many values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class derived(Generic[T]):  # noqa: N801 - it is read as a decorator
    """A method's result as an attribute of a value whose fields never change."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out, self._name, self.__doc__ = work_out, work_out.__name__, work_out.__doc__

    @overload
    def __get__(self, value: None, owner: type) -> Self: ...
    @overload
    def __get__(self, value: object, owner: type) -> T: ...
    def __get__(self, value: object, owner: type) -> Self | T:
        if value is None:
            return self
        found = value.__dict__[self._name] = self._work_out(value)
        return found
