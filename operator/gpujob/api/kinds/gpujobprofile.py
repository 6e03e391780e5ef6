"""GPUJobProfile: what jobs of one profile measured, so that the next one is placed by it. Written by the operator."""

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
    """Seconds over which that was measured."""
    dollars: Amount | None = None
    """US dollars that the job cost; absent when its price was unknown."""
    time: Time
    """When the job ended."""


class Measurement(Shape):
    """What was measured on one kind of device in one shape and number format."""

    device: Annotated[str, Field(max_length=128)]
    """The device: a catalog id, for a part of one with its profile."""
    shape: Annotated[str, Field(max_length=16)]
    """Nodes x GPUs per node."""
    precision: Annotated[str, Field(max_length=16)]
    """The number format of the work."""
    unit: Literal["tokens", "samples", "steps"]
    """What was counted."""
    accelerator: Annotated[str, Field(max_length=63)]
    """The device's catalog id."""
    per_second: Amount
    """Units a second of the whole job: the middle of the runs, newer ones counting more."""
    count: int
    """Runs so far, those no longer listed included."""
    runs: Annotated[tuple[MeasuredRun, ...], a_list(items=8)] = ()
    """The last runs, the newest last."""


class GPUJobProfileStatus(Shape):
    """What was measured so far."""

    summary: Annotated[str, Field(max_length=128)] | None = None
    """The fastest that was measured, for `kubectl get`."""
    runs: int | None = None
    """Runs so far."""
    measurements: Annotated[tuple[Measurement, ...], a_list(items=64)] = ()
    """By device, shape, number format and unit."""


class GPUJobProfile(Shape):
    """What jobs of one profile measured: throughput by device, shape and number format; outlives the jobs."""

    api_version: Literal["gpujob.dev/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["GPUJobProfile"] = "GPUJobProfile"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)  # an instance here would build its validator at import
    status: GPUJobProfileStatus | None = None
    """What was measured so far."""
