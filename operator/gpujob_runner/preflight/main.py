"""The preflight's entry: what the init container runs."""

import json
import os
from pathlib import Path

NOTES = Path("/run/gpujob/image.json")


def main() -> None:
    """Notes the image's PYTHONPATH, which the pod's own variable is about to hide."""
    NOTES.write_text(json.dumps({"PYTHONPATH": os.environ.get("PYTHONPATH", "")}))
