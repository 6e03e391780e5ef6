"""The pod's settings of the reporter, from environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

PORT = "GPUJOB_REPORT_PORT"


class Settings(NamedTuple):
    """`port` 0 takes any free one; amounts are of one step of the whole job."""

    port: int
    address: str
    folder: str
    samples_per_step: float | None
    tokens_per_step: float | None
    job_uid: str = ""
    attempt: str = ""
    phase_seconds: float | None = None


def read(environment: Mapping[str, str]) -> Settings | None:
    """The settings, or None if the pod requests no reporter."""
    port = whole(environment.get(PORT))
    if port is None or port > 65535:
        return None
    return Settings(
        port=port,
        address=environment.get("POD_IP", ""),
        folder=environment.get("GPUJOB_RUN_FOLDER", "/run/gpujob"),
        samples_per_step=_amount(environment.get("GPUJOB_SAMPLES_PER_STEP")),
        tokens_per_step=_amount(environment.get("GPUJOB_TOKENS_PER_STEP")),
        job_uid=environment.get("GPUJOB_JOB_UID", ""),
        attempt=environment.get("GPUJOB_ATTEMPT", ""),
        phase_seconds=whole(environment.get("GPUJOB_PHASE_SECONDS")) or None,
    )


def number_in(value: Any, any_number: bool = False) -> float | None:
    """A number, also from text; not finite ones only if `any_number`."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if any_number or abs(number) < 1e300 else None


def whole(text: str | None) -> int | None:
    """A whole number from 0 on, or None for anything else."""
    try:
        number = int(text or "")
    except ValueError:
        return None
    return number if number >= 0 else None


def _amount(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None
