"""A module's own loader, with another way to execute the module; small, since every interpreter of the container runs it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class Loader:
    """Hands all to the loader of the module but its execution; leaves no trace of itself in the module."""

    def __init__(self, loader: Any, execute: Callable[[Any, Any], None]) -> None:
        """`execute` takes the module's own loader and the module."""
        self._loader = loader
        self._execute = execute

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        self._execute(self._loader, module)
