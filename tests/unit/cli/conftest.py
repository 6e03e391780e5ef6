"""The fixtures of this room's tests; what they are made of is in cli_room.py, which tests import by name."""

from __future__ import annotations

from cli_room import gpujob, plan

__all__ = ["gpujob", "plan"]
