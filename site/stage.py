"""Stages what the documentation site is made of: the pages of the repository at their own places, and every file that they link.

So a link works in the repository and on the site alike, and mkdocs checks each of them.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = (
    "*.md", "docs/**/*.md", "charts/gpujob-operator/README.md", "images/README.md", "bench/**/*.md", "tests/cases/README.md",
)  # fmt: skip
"""Every page of the site, as globs below the repository."""
LINK: Final = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")


def pages() -> list[Path]:
    """The pages, relative to the repository, in their order."""
    return sorted({path.relative_to(ROOT) for pattern in PAGES for path in ROOT.glob(pattern)})


def linked(page: Path) -> set[Path]:
    """The files of the repository that a page links and that are no pages, relative to it."""
    found = set()
    for target in LINK.findall((ROOT / page).read_text()):
        if "://" in target or target.startswith("mailto:"):
            continue
        path = (ROOT / page.parent / target).resolve()
        if path.is_file() and path.is_relative_to(ROOT) and path.suffix != ".md":
            found.add(path.relative_to(ROOT))
    return found


def stage(folder: Path) -> None:
    """Makes the folder, in place of one that is there."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in {*pages(), *(file for page in pages() for file in linked(page))}:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, folder / path)


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
