"""The images to try on a vendor's devices, best first: the job's own, else every runtime of the stack."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.images.runtime import Runtime
from gpujob.placement.request.demand import Demand, OwnRuntime
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Backend, Reason, Vendor

NO_IMAGE: Final = "none"
"""The name of the runtime if the catalog has no image for a vendor's stack."""


@dataclass(frozen=True, slots=True)
class ImageChoice:
    """The image of a candidate and the runtime whose facts were checked (None: nothing is known of the image)."""

    name: str
    image: str
    backend: Backend


@dataclass(frozen=True, slots=True)
class Image:
    """An image to try on a pool: its facts (None: unchecked) and its rank among the stack's images, 0 is the best."""

    choice: ImageChoice
    facts: Runtime | None
    rank: int = 0

    @property
    def size(self) -> int | None:
        """Bytes, None if unknown."""
        return self.facts.size_bytes if self.facts else None


_NAMES: Final = {
    Backend.CUDA: re.compile(r"(?<![a-z])(cuda|nvcr|nvidia|cu1[1-9][0-9])(?![a-z])"),
    Backend.ROCM: re.compile(r"(?<![a-z])rocm(?![a-z])"),
}
"""Words in the names of images for a stack."""


def unchecked(choice: ImageChoice) -> Finding:
    """The warning about an image with a name and no known facts; the name may be that of an image for the other stack."""
    sentence, own = "nothing is known of the image: architectures, driver and versions unchecked", choice.backend
    named = [backend for backend, words in _NAMES.items() if words.search(choice.image.lower())]
    if len(named) != 1 or named[0] is own:
        return Finding(Reason.IMAGE_UNCHECKED, sentence)
    sentence += "; {} has the name of an image for {}, write one for {} into images.{}"
    return Finding(Reason.IMAGE_UNCHECKED, sentence, (choice.image[:128], named[0], own, own.lower()))


def own_images(demand: Demand, vendor: Vendor, catalog: Catalog) -> tuple[Image, ...]:
    """The job's own image for a vendor's devices; an image for another vendor comes with the reason."""
    backend = _backend(vendor)
    own = next((own for own in demand.own_images if own.backend is backend), demand.own_images[0])
    return (_own_image(own, catalog),)


@lru_cache(maxsize=4)  # 0.1 ms of sorting, for each of the 19 kinds of equipment of 100 pools
def shipped_images(catalog: Catalog, vendor: Vendor) -> tuple[Image, ...]:
    """A stack's runtimes, best first; if there is none, a placeholder that is rejected by its name."""
    backend = _backend(vendor)
    ordered = sorted((runtime for runtime in catalog.runtimes if runtime.backend is backend), key=_best_first)
    images = (
        Image(ImageChoice(runtime.name, catalog.pulled_as(runtime.image), backend), runtime, rank)
        for rank, runtime in enumerate(ordered)
    )
    return tuple(images) or (Image(ImageChoice(NO_IMAGE, "", backend), None),)


def _backend(vendor: Vendor) -> Backend:
    return Backend.CUDA if vendor is Vendor.NVIDIA else Backend.ROCM


def _own_image(own: OwnRuntime, catalog: Catalog) -> Image:
    facts = (
        next((runtime for runtime in catalog.runtimes if runtime.name == own.runtime), None) if own.runtime else None
    )
    return Image(ImageChoice("own", catalog.pulled_as(own.image), own.backend), facts)


def _best_first(runtime: Runtime) -> tuple[object, ...]:
    """Higher preference, then newest framework, then newest backend, then the name."""
    newest_first = tuple(-part for part in (*runtime.framework_release, 0, 0, 0)[:4])
    return (
        -runtime.preference,
        newest_first,
        tuple(-part for part in (*runtime.backend_release, 0, 0, 0)[:4]),
        runtime.name,
    )
