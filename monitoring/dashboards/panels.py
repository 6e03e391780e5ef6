"""A dashboard as JSON."""

from __future__ import annotations

import json
from typing import Any


def as_json(board: dict[str, Any]) -> str:
    """As Grafana imports it."""
    return json.dumps(board, indent=1) + "\n"
