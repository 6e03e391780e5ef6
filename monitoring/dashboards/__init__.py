"""All dashboards."""

from typing import Any

DASHBOARDS: tuple[dict[str, Any], ...] = ()
