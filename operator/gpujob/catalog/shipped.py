"""The shipped catalog as one JSON file, generated from data/*.yaml: what is read at each start, in a fiftieth of the time.

    python -m gpujob.catalog.shipped [--check]

People write the YAML; every value is text in both.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import orjson

from gpujob.catalog.load import GENERATED, SHIPPED, read_documents
from gpujob.generated import settle

FOLDER: Final = Path(__file__).parent / "data"


def written() -> bytes:
    """What the generated file must say: the document of each file by its name."""
    found = {name: read_documents((FOLDER / f"{name}.yaml").read_text())[0] for name in SHIPPED}
    return orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def main(arguments: list[str]) -> int:
    """Writes the file; with --check 1 when it says something else."""
    return settle({FOLDER / GENERATED: written()}, "the catalog's YAML files", check="--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
