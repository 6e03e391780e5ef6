"""Waits for the program to import the watched modules, and imports none of them itself.

`arm` puts a finder before all others. It finds nothing itself: for the few names it waits for it asks the finders behind it, and
has its own function called once the module is there. Small, since every interpreter of the container runs it.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from gpujob_runner.report.loader import Loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WATCHED: dict[str, str] = {
    "torch.optim.optimizer": "hooks.torch_hooks.watch_optimizers",
    "torch.utils.data.dataloader": "hooks.torch_hooks.watch_batches",
    "deepspeed.runtime.engine": "hooks.torch_hooks.watch_deepspeed",
    "transformers.integrations.integration_utils": "hooks.trainer.watch_trainer",
}
"""Module that is waited for, and the function of this package that is called with it."""

OPTIMIZER = "torch.optim.optimizer"

environment: dict[str, str] = {}
"""What the pod and the launcher said to the interpreter at its start, for a program may clear its environment."""


def job_environment() -> dict[str, str]:
    """The environment of the process, and of its start what the program took away since."""
    return {**environment, **os.environ}


class Finder:
    """Finds the watched modules by the other finders, each until it was imported."""

    def __init__(self, watched: dict[str, str]) -> None:
        self.waiting = dict(watched)
        self._asking: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any | None:
        # While it asks the others it is not there: some of them ask all finders themselves.
        if name not in self.waiting or name in self._asking:
            return None
        self._asking.add(name)
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = None if finder is self or find is None else find(name, path, target)
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        spec.loader = Loader(spec.loader, self._execute)
                    return spec
        finally:
            self._asking.discard(name)
        return None

    def _execute(self, loader: Any, module: Any) -> None:
        name = module.__spec__.name
        loader.exec_module(module)
        function = self.waiting.pop(name, None)
        if function is not None:
            call(function, module)


def call(function: str, module: Any) -> None:
    """Calls "folder.module.function" of this package with what was imported; a failure stays here."""
    try:
        home, _, name = function.rpartition(".")
        getattr(import_module("gpujob_runner.report." + home), name)(module)
    except Exception as error:
        _log_failure(function, error)


def _log_failure(function: str, error: Exception) -> None:
    try:
        from gpujob_runner.report import guard

        guard.failed(function.rpartition(".")[2], error)
    except Exception:
        pass


def arm(without_optimizer: bool = False) -> None:
    """Watches from now on; `without_optimizer` leaves the optimizers alone, so that only the user's line counts steps."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    inherited = ("GPUJOB_", "POD_IP", "RANK", "WORLD_SIZE")
    environment.update({name: value for name, value in os.environ.items() if name.startswith(inherited)})
    watched = {name: function for name, function in WATCHED.items() if not (without_optimizer and name == OPTIMIZER)}
    for name in [name for name in watched if name in sys.modules]:
        call(watched.pop(name), sys.modules[name])
    sys.meta_path.insert(0, Finder(watched))
