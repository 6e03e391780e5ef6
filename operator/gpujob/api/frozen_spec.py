"""What of a GPUJob's spec cannot change while a child Job exists: its program is made from that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from gpujob.values.untrusted import table

FREE: Final = ("suspend", "stall", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
"""Fields that may change at any time: limits act on what runs."""

FREE_IN_PLACEMENT: Final = ("budget",)
"""The same of spec.placement."""


def frozen_digest(spec: Mapping[str, Any]) -> str:
    """The digest of what `immutability` (`validation.jobs`) keeps of a spec as the API server has it: specs with equal digests run the
    same program.
    """
    kept = {name: value for name, value in spec.items() if name not in FREE}
    kept["placement"] = {
        name: value for name, value in table(spec, "placement").items() if name not in FREE_IN_PLACEMENT
    }
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()[:16]
