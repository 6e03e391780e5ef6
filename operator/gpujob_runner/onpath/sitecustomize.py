"""Starts the reporter if the pod requests it, corrects the image's variables, then runs the sitecustomize that it shadows.

This folder is what PYTHONPATH names, so every interpreter of the container runs this file, old ones too: it stays
plain, and raises no exception but those of the shadowed sitecustomize, which Python itself reports.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, TypeVar

    T = TypeVar("T")

_HERE = os.path.dirname(os.path.abspath(__file__))


def _with_own_library(work: "Callable[[], T]") -> "T":
    """Calls `work` with Python's own library as the path, so that no folder of the user's hides a module of it.

    No other thread runs yet that could miss the rest of the path.
    """
    path, home = sys.path[:], os.path.dirname(os.__file__)
    archive = "python%d%d.zip" % sys.version_info[:2]  # noqa: UP031
    own = [entry for entry in path if entry == home or os.path.basename(entry) in ("lib-dynload", archive)]
    sys.path[:] = own if home in own else [home] + own  # noqa: RUF005
    try:
        return work()
    finally:
        sys.path[:] = path


def _image_note() -> "dict[str, Any]":
    """The preflight's note about the image: its own PYTHONPATH, and variables that name unusable folders."""
    folder = os.environ.get("GPUJOB_RUN_FOLDER", "/run/gpujob")
    with open(os.path.join(folder, "image.json")) as file:
        import json

        note = json.load(file)
        return note if isinstance(note, dict) else {}


def _put_image_right() -> None:
    """Unsets the image's caches that this uid can neither read nor write, so that libraries use HOME; restores its PYTHONPATH."""
    note = _with_own_library(_image_note)
    for name, folder in dict(note.get("unset") or {}).items():
        # A folder that a script has set since then is not the image's.
        if os.environ.get(name) == folder:
            del os.environ[name]
    _give_back_image_path(str(note.get("PYTHONPATH") or ""))


def _give_back_image_path(noted: str) -> None:
    """Inserts the folders of the image's own PYTHONPATH, which the pod's variable hides, behind the pod's in sys.path."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    missing = [entry for entry in noted.split(os.pathsep) if entry and entry not in named]
    if not missing:
        return
    place = 1 + max([i for i, entry in enumerate(sys.path) if entry in named] or [-1])
    sys.path[place:place] = [entry for entry in missing if entry not in sys.path]
    os.environ["PYTHONPATH"] = os.pathsep.join([entry for entry in named if entry] + missing)


def _start_reporter() -> None:
    """Loads gpujob_runner from beside this folder, without a change of sys.path, and watches for the import of torch."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    if "gpujob_runner" not in sys.modules:
        spec = PathFinder.find_spec("gpujob_runner", [os.path.dirname(os.path.dirname(_HERE))])
        if spec is None or spec.loader is None:
            return
        module = module_from_spec(spec)
        sys.modules["gpujob_runner"] = module
        spec.loader.exec_module(module)
    from gpujob_runner.report.own_imports import import_from
    from gpujob_runner.report.watch import arm

    import_from(list(sys.path))
    arm(without_optimizer=os.environ.get("GPUJOB_REPORT_OPTIMIZER", "").lower() == "off")


def _run_shadowed() -> None:
    """Runs the sitecustomize that Python finds without this folder."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    elsewhere = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("GPUJOB_REPORT_PORT") and sys.version_info >= (3, 9):
    try:  # noqa: SIM105
        _with_own_library(_start_reporter)
    except Exception:
        pass
if sys.version_info >= (3, 4):  # noqa: UP036
    try:  # noqa: SIM105
        _put_image_right()
    except Exception:
        pass
    _run_shadowed()
