"""The files of `gpujob_runner` as this installation has them: what the ConfigMap of a namespace is made from."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from gpujob.render.runner import Runner
from gpujob.values.generated import generate

PACKAGE: Final = "gpujob_runner"


def load_runner() -> Runner:
    """Every file of the runner, Python and shell, by its path below the folder that it is mounted in; it is read, never imported."""
    spec = find_spec(PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise FileNotFoundError(f"this installation lacks the package {PACKAGE}; install gpujob-operator again")
    root = Path(folders[0])
    files = (file for kind in ("*.py", "*.sh") for file in root.rglob(kind))
    return Runner({f"{PACKAGE}/{file.relative_to(root).as_posix()}": file.read_text() for file in files})


def main(arguments: list[str]) -> int:
    """Writes the ConfigMap's name into a file, for the chart's roles, or checks it; the exit code."""
    return generate(arguments, PACKAGE, lambda path: {path: f"{load_runner().name}\n".encode()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
