"""What the reporter imports comes from its own folder and from Python's own library, whatever stands on the program's path.

A program's folder comes first on sys.path, and its `html.py` may be anything. So a finder before all others answers for the
threads that execute a module of the reporter just now, and for no others; sys.path stays as it is. A file of the program that
has the name of a module that the reporter imported is still what the program imports by that name.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = "gpujob_runner."


class OwnLoader:
    """The loader of a module of the reporter; while it executes, its thread imports from Python's own library."""

    def __init__(self, loader: Any, finder: OwnFinder) -> None:
        self._loader = loader
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        self._finder.execute(self._loader, module)


class OwnFinder:
    """Finds the reporter's modules, and for them those of `library`; another's import it leaves to the other finders."""

    def __init__(self, library: list[str]) -> None:
        self._library = library
        self._executing: dict[int, list[str]] = {}
        """Names found in the library, by the thread that executes a module of the reporter."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any | None:
        if name.startswith(PREFIX):
            spec: Any = PathFinder.find_spec(name, path)
            if spec is not None and spec.loader is not None:
                spec.loader = OwnLoader(spec.loader, self)
            return spec
        if path is not None or get_ident() not in self._executing:
            return None
        spec = BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name)
        if spec is None:
            spec = PathFinder.find_spec(name, self._library)
            if spec is None or spec.loader is None:
                raise ModuleNotFoundError(f"no module named {name!r} in Python's own library", name=name)
            self._executing[get_ident()].append(name)
        return spec

    def execute(self, loader: Any, module: Any) -> None:
        """Executes a module of the reporter."""
        thread = get_ident()
        if thread in self._executing:
            loader.exec_module(module)
            return
        found: list[str] = []
        self._executing[thread] = found
        try:
            loader.exec_module(module)
        finally:
            del self._executing[thread]
            for name in found:
                _give_back(name)


def _give_back(name: str) -> None:
    """Forgets a module of the library where the program would find another by that name."""
    module = sys.modules.get(name)
    spec = PathFinder.find_spec(name)
    if spec is not None and spec.origin and module is not None and spec.origin != getattr(module, "__file__", None):
        del sys.modules[name]


def import_from(library: list[str]) -> None:
    """From now on the reporter's modules import from `library`, the folders of Python's own, as told above."""
    if not any(isinstance(finder, OwnFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, OwnFinder(library))
