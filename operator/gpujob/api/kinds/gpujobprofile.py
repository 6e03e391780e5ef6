"""GPUJobProfile: the measurements of jobs of one profile, for the placement of the next job. Written by the operator."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpujob.api.fields.base import ObjectMeta, Shape, a_list
from gpujob.api.kinds.measured import Amount, Time
from gpujob.values.vocabulary import API_VERSION


class MeasuredRun(Shape):
    """One job's measurement."""

    job: Annotated[str, Field(max_length=63)]
    """The GPUJob's uid."""
    per_second: Amount
    """Units a second of the whole job."""
    seconds: int
    """Seconds of the measurement."""
    dollars: Amount | None = None
    """Cost of the job in US dollars; absent if its price was unknown."""
    time: Time
    """When the job ended."""


class Measurement(Shape):
    """The measurements on one kind of device in one shape and number format."""

    device: Annotated[str, Field(max_length=128)]
    """The device: a catalog id; a part of a device also has its profile."""
    shape: Annotated[str, Field(max_length=16)]
    """Nodes x GPUs per node."""
    precision: Annotated[str, Field(max_length=16)]
    """The number format of the work."""
    unit: Literal["tokens", "samples", "steps"]
    """What was counted."""
    accelerator: Annotated[str, Field(max_length=63)]
    """The device's catalog id."""
    per_second: Amount
    """Units a second of the whole job: the median of the runs; newer runs count more."""
    count: int
    """Runs so far, including runs that are no longer listed."""
    runs: Annotated[tuple[MeasuredRun, ...], a_list(items=8)] = ()
    """The last runs, the newest last."""


class GPUJobProfileStatus(Shape):
    """The measurements so far."""

    summary: Annotated[str, Field(max_length=128)] | None = None
    """The fastest measurement, for `kubectl get`."""
    runs: int | None = None
    """Runs so far."""
    measurements: Annotated[tuple[Measurement, ...], a_list(items=64)] = ()
    """By device, shape, number format and unit."""


class GPUJobProfile(Shape):
    """The measurements of jobs of one profile: throughput by device, shape and number format. It outlives the jobs."""

    api_version: Literal["gpujob.dev/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["GPUJobProfile"] = "GPUJobProfile"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)  # an instance here would build its validator at import
    status: GPUJobProfileStatus | None = None
    """The measurements so far."""
