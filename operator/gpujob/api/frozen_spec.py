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

UNORDERED: Final = frozenset(
    {
        "env", "envByBackend.cuda", "envByBackend.rocm", "imagePullSecrets", "model.lora.targets", "placement.accelerators.allow",
        "placement.accelerators.deny", "placement.capacityTypes", "placement.devices", "placement.pools.allow", "placement.pools.deny",
        "placement.vendors", "requires", "securityContext.supplementalGroups", "shapes.env", "volumeMounts", "volumes",
        "volumes.ephemeral.volumeClaimTemplate.spec.accessModes",
    }
)  # fmt: skip
"""The lists of the types set and map: the API server's `==` ignores their order, so that they may change it at any time too."""


def frozen_digest(spec: Mapping[str, Any]) -> str:
    """The digest of what `immutability` (`validation.jobs`) keeps of a spec as the API server has it: specs with equal digests run the
    same program.
    """
    kept = {name: value for name, value in spec.items() if name not in FREE}
    kept["placement"] = {
        name: value for name, value in table(spec, "placement").items() if name not in FREE_IN_PLACEMENT
    }
    return hashlib.sha256(_text(_ordered(kept)).encode()).hexdigest()[:16]


def _ordered(value: Any, path: str = "") -> Any:
    """A part of a spec with its unordered lists sorted; `path` as in `UNORDERED`."""
    if isinstance(value, dict):
        return {name: _ordered(part, f"{path}.{name}".removeprefix(".")) for name, part in value.items()}
    if not isinstance(value, list):
        return value
    parts = [_ordered(part, path) for part in value]
    return sorted(parts, key=_text) if path in UNORDERED else parts


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
