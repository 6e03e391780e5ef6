"""Values computed on first use and cached: `functools.cached_property` without its lock.

The lock, which Python removed in 3.12, takes most of the time of a first use, and a decision creates many values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final, Generic, Self, TypeVar, cast, overload

T = TypeVar("T")

_END: Final = object()


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


class Lazy(Generic[T]):
    """The items of an iterator, computed on demand and once."""

    __slots__ = ("_known", "_rest")

    def __init__(self, rest: Iterator[T]) -> None:
        self._known, self._rest = list[T](), rest

    def __iter__(self) -> Iterator[T]:
        for index in count():
            if index == len(self._known):
                following = next(self._rest, _END)
                if following is _END:
                    return
                self._known.append(cast("T", following))
            yield self._known[index]
