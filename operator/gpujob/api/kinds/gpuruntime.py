"""GPURuntime: a container image and its facts. The catalog's rows have the same schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from gpujob.api.fields import patterns
from gpujob.api.fields.amounts import Storage
from gpujob.api.fields.base import DnsName, ObjectMeta, Reference, Shape, Word, a_set
from gpujob.values.vocabulary import API_VERSION

Version = Annotated[str, Field(min_length=1, max_length=64), patterns.VERSION]


class RuntimeFramework(Shape):
    """The framework inside the image."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """For example pytorch."""
    version: Version
    """Its version; ranges compare the release numbers."""


class DriverWindow(Shape):
    """Versions of the hosts' amdgpu module."""

    min: Version | None = None
    """The oldest; pools with an older one are rejected."""
    max: Version | None = None
    """The newest that was tested; a newer one gives a warning."""


def _optional(schema: dict[str, Any]) -> None:
    """The API server accepts a spec without facts if it extends a row; a rule requires them otherwise."""
    schema.pop("required", None)


class GPURuntimeSpec(Shape):
    """The image and its facts."""

    model_config = ConfigDict(json_schema_extra=_optional)

    extends: DnsName | None = None
    """A row of the catalog: its facts count for every field that this object leaves out. Write `image` alone for a copy of the row's
    image in another registry. A field that you write replaces the row's field as a whole."""
    image: Reference
    """The container image, with a digest if one is known; required without `extends`."""
    backend: Literal["CUDA", "ROCm"]
    """The software stack that it is built for; required without `extends`."""
    backend_version: Version
    """The version of CUDA or ROCm; compared as whole numbers (7.14 is newer than 7.2); required without `extends`."""
    framework: RuntimeFramework
    """The framework inside; required without `extends`."""
    python: Version | None = None
    """The Python version inside."""
    architectures: Annotated[tuple[Annotated[str, Field(max_length=16), patterns.ARCHITECTURE], ...], a_set(items=64)]
    """GPU architectures compiled in: gfx942 or gfx11-generic, or compute capabilities such as 9.0, 9.0a and 12.0+PTX; required without
    `extends`."""
    min_driver: Version | None = None
    """The oldest NVIDIA driver, or amdgpu module, that it runs on."""
    driver_window: DriverWindow | None = None
    """The amdgpu modules that a ROCm image runs on, in the form of amd.com/gpu.driver-version (6.16.13); for CUDA use minDriver."""
    cpu_architectures: Annotated[tuple[Literal["amd64", "arm64"], ...], a_set(items=4)] = ()
    """CPU architectures that the image exists for; amd64 when empty."""
    features: Annotated[tuple[Word, ...], a_set(items=64)] = ()
    """Features of the image, words of the catalog such as FlashAttention."""
    runs_as_non_root: Literal["True", "False", "Unknown"] | None = None
    """Whether it works as a user other than root; False rejects jobs that do not request root. Unknown when absent."""
    size: Storage | None = None
    """The unpacked size, for example 18G, for the disk check."""
    preference: Annotated[int, Field(ge=-1000, le=1000)] | None = None
    """Among the runtimes that a pool can run, the highest preference wins; then the newest framework, then the newest backend. 0 when
    absent."""


class GPURuntime(Shape):
    """A container image and its facts; an admin's object replaces a catalog row of the same name."""

    api_version: Literal["gpujob.dev/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["GPURuntime"] = "GPURuntime"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)  # an instance here would build its validator at import
    spec: GPURuntimeSpec
    """The image and its facts."""
