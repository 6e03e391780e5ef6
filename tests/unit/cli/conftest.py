"""The fixtures of this room's tests; what they are made of is in cli_room.py and doctor_room.py, which tests import by name."""

from __future__ import annotations

from cli_room import gpujob, plan
from doctor_room import doctor, live

__all__ = ["doctor", "gpujob", "live", "plan"]
