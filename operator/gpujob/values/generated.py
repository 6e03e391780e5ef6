"""Files that are generated from code or from other files: written by `make generate`, held to their source by `make verify`.

Each generator is a module that runs as `python -m MODULE [--check] PATH...`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path


def generate(
    arguments: Sequence[str],
    source: str,
    wanted: Callable[[Path], Mapping[Path, bytes]],
    strays: Callable[[Path, Mapping[Path, bytes]], Iterable[Path]] = lambda path, files: (),
) -> int:
    """Runs a generator: the exit code for its arguments.

    `wanted` gives the files and their contents for one PATH, a file or a folder; `strays` those that must not be there.
    """
    parser = argparse.ArgumentParser(description=f"Writes what is made from {source}.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file differs")
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    asked = parser.parse_args(arguments)
    found = [(path, wanted(path)) for path in asked.paths]
    files = {path: content for _, each in found for path, content in each.items()}
    return settle(
        files, source, check=asked.check, strays=[stray for path, each in found for stray in strays(path, each)]
    )


def settle(wanted: Mapping[Path, bytes], source: str, *, check: bool, strays: Iterable[Path] = ()) -> int:
    """Writes the files that differ from what is wanted and removes strays; with `check` names both, and is 1 if any is."""
    stale = [path for path, content in wanted.items() if not path.is_file() or path.read_bytes() != content]
    for path in (stale := [*stale, *strays]):
        if check:
            print(f"{path} differs from {source}; run make generate", file=sys.stderr)
        elif path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wanted[path])
        else:
            path.unlink()
    return int(check and bool(stale))
