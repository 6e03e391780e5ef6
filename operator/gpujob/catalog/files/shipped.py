"""The shipped catalog as one JSON file, generated from data/*.yaml: what is read at each start, in a fiftieth of the time.

    python -m gpujob.catalog.files.shipped [--check]

People write the YAML; every value is text in both. The efficiencies are computed here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import orjson

from gpujob.catalog.devices.efficiency import dumped
from gpujob.catalog.devices.efficiency_fit import efficiencies
from gpujob.catalog.files.load import EFFICIENCIES, GENERATED, SHIPPED, read_documents, read_shipped
from gpujob.values.generated import generate

FOLDER: Final = Path(__file__).parent.parent / "data"


def written() -> bytes:
    """What the generated file must say: the document of each file by its name."""
    found: dict[str, Any] = {name: read_documents((FOLDER / f"{name}.yaml").read_text())[0] for name in SHIPPED}
    catalog = read_shipped(found)
    found[EFFICIENCIES] = dumped(efficiencies(catalog.throughputs, catalog.accelerators))
    return orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def main(arguments: list[str]) -> int:
    """Writes the file, or checks it; the exit code."""
    return generate([*arguments, str(FOLDER / GENERATED)], "the catalog's YAML files", lambda path: {path: written()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
