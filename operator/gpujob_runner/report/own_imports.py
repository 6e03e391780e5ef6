"""What the reporter imports comes from its own folder and from Python's own library, whatever stands on the program's path.

A program's folder comes first on sys.path, and its `html.py` may be anything. So a finder before all others answers for the
threads that execute a module of the reporter just now, and for no others; sys.path stays as it is. A file of the program that
has the name of a module that the reporter imported is still what the program imports by that name.
"""

from __future__ import annotations

import sys
from _thread import _local
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

from gpujob_runner.report.loader import Loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = "gpujob_runner."


class OwnFinder:
    """Finds the reporter's modules, and for them those of `library`; another's import it leaves to the other finders."""

    def __init__(self, library: list[str]) -> None:
        self._library = library
        self._here = _local()
        """`found`: names found in the library, in a thread that executes a module of the reporter. No thread of a forked
        child has one by chance, as it might have the number of a thread that is gone."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any | None:
        if name.startswith(PREFIX):
            spec: Any = PathFinder.find_spec(name, path)
            if spec is not None and spec.loader is not None:
                spec.loader = Loader(spec.loader, self.execute)
            return spec
        found: list[str] | None = getattr(self._here, "found", None)
        if path is not None or found is None:
            return None
        spec = BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name)
        if spec is None:
            spec = PathFinder.find_spec(name, self._library)
            if spec is None or spec.loader is None:
                raise ModuleNotFoundError(f"no module named {name!r} in Python's own library", name=name)
            found.append(name)
        return spec

    def execute(self, loader: Any, module: Any) -> None:
        """Executes a module of the reporter."""
        if getattr(self._here, "found", None) is not None:
            loader.exec_module(module)
            return
        found: list[str] = []
        self._here.found = found
        try:
            loader.exec_module(module)
        finally:
            self._here.found = None
            for name in found:
                _give_back(name)


def _give_back(name: str) -> None:
    """Forgets a module of the library where the program would find another by that name."""
    module = sys.modules.get(name)
    spec = PathFinder.find_spec(name)
    if spec is not None and spec.origin and module is not None and spec.origin != getattr(module, "__file__", None):
        del sys.modules[name]


def import_from(library: list[str]) -> None:
    """From now on the reporter's modules import from `library`, the folders of Python's own, as described above."""
    if not any(isinstance(finder, OwnFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, OwnFinder(library))
