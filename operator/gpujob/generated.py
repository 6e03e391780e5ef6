"""Files that are generated from code or from other files: written by `make generate`, held to their source by `make verify`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path


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
