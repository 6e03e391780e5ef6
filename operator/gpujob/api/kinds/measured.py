"""The figures of a GPUJob's run in its status: progress, speed, cost. Numbers with parts are decimal strings."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpujob.api.fields.base import DnsName, Shape

Time = Annotated[str, Field(max_length=32)]
"""A time as RFC 3339 in UTC."""

Amount = Annotated[str, Field(max_length=24)]
"""A decimal number as text: the API's own numbers are whole."""


class Progress(Shape):
    """The progress of the job, as its program reports it."""

    step: int | None = None
    """Optimizer steps so far."""
    percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """How much is done; absent if the program does not report its length."""
    estimated_end: Time | None = None
    """The expected end at this speed."""
    updated: Time | None = None
    """When the operator read this."""


class Throughput(Shape):
    """The speed of the whole job, over all its processes; an absent member was not reported."""

    steps_per_second: Amount | None = None
    """Optimizer steps a second."""
    samples_per_second: Amount | None = None
    """Samples a second."""
    tokens_per_second: Amount | None = None
    """Tokens a second."""


class Cost(Shape):
    """The cost of the job's devices: seconds times the price of its placement."""

    accrued: Amount
    """US dollars so far, over all attempts."""
    earlier: Amount | None = None
    """US dollars of attempts before the current one; absent when there were none."""


class SavedCheckpoint(Shape):
    """The last checkpoint that the program reported as saved."""

    step: int
    """Its optimizer step."""
    time: Time | None = None
    """When it was reported."""
    save_seconds: int | None = None
    """Seconds of the slowest save, if the program reports them."""
    lost_steps: int | None = None
    """Steps that failed attempts made after their last checkpoint, as last read; absent when there were none."""


class Trial(Shape):
    """A probe of a job."""

    pool: DnsName
    """The pool."""
    device: Annotated[str, Field(max_length=128)]
    """Its device."""
    accelerator: Annotated[str, Field(max_length=63)]
    """The device's catalog id."""
    shape: Annotated[str, Field(max_length=16)]
    """Nodes x GPUs per node."""
    precision: Annotated[str, Field(max_length=16)]
    """The number format of the work."""
    unit: Annotated[str, Field(max_length=16)] | None = None
    """What was counted: tokens, samples or steps."""
    per_second: Amount | None = None
    """Units a second of the whole job; absent if the probe failed or reported no step."""
    failed: Annotated[str, Field(max_length=256)] | None = None
    """Why it failed."""
    unmeasured: Annotated[str, Field(max_length=256)] | None = None
    """Why nothing was measured although nothing failed."""
    started: bool | None = None
    """False: its pods did not start in time, so that a candidate with started pods is preferred."""
    time: Time
    """When it ended."""
