"""Checks, inside the image to be, that all compiled modules find their libraries and that every module of the operator loads."""

import ctypes
import importlib
import pathlib
import pkgutil

import gpujob

for folder in ("/usr/lib/python3.13", "/usr/local/lib/python3.13"):
    for library in sorted(pathlib.Path(folder).rglob("*.so")):
        try:
            ctypes.CDLL(str(library))
        except OSError as error:
            raise SystemExit(f"{library}: {error}") from None
for module in pkgutil.walk_packages(gpujob.__path__, "gpujob."):
    # The command line has dependencies of its own, which are not in the image.
    if not module.name.startswith("gpujob.cli"):
        importlib.import_module(module.name)
