"""An OpenVEX 0.2.0 document: which known vulnerabilities of the image's parts do not matter to the operator, and why.

https://github.com/openvex/spec. Every row of vex.yaml is of one kind, which a test can prove: the vulnerable code is in a module of
Python's library that the operator never loads.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import yaml

ROWS: Final = Path(__file__).parent / "vex.yaml"
_CONTEXT: Final = "https://openvex.dev/ns/v0.2.0"


def read_rows(path: Path = ROWS) -> list[dict[str, str]]:
    """The rows of the file."""
    rows: list[dict[str, str]] = yaml.safe_load(path.read_text())
    return rows


def document(rows: list[dict[str, str]], repository: str, digest: str) -> dict[str, Any]:
    """The document about the image `repository` with this digest; its bytes depend on the arguments alone."""
    name = repository.rpartition("/")[2]
    image = f"pkg:oci/{name}@{quote(digest, safe='')}?repository_url={quote(repository, safe='')}"
    statements = [
        {
            "vulnerability": {"@id": row["source"], "name": row["vulnerability"]},
            "timestamp": f"{row['since']}T00:00:00Z",
            "products": [
                {
                    "@id": image,
                    "identifiers": {"purl": image},
                    "subcomponents": [{"@id": f"pkg:deb/debian/{row['package']}?distro=debian-13"}],
                }
            ],
            "status": "not_affected",
            "status_notes": f"The operator loads no module {row['module']}, which has the vulnerable code.",
            "justification": "vulnerable_code_not_in_execute_path",
        }
        for row in rows
    ]
    content = json.dumps(statements, sort_keys=True)
    return {
        "@context": _CONTEXT,
        "@id": f"https://gpujob.dev/vex/{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "author": "gpujob-operator maintainers",
        "role": "Supplier",
        "timestamp": max(f"{row['since']}T00:00:00Z" for row in rows),
        "version": 1,
        "statements": statements,
    }
