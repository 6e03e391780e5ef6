"""What a pool's equipment says about each image, whatever the job: reasons, warnings, features, and the order.

It is computed once for all pools of equal equipment and cached with each: with 100 pools and 30 images it is most of the work
of a decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.entities import Feature
from gpujob.fleet.pools.equipment import Equipment
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.images import drivers, filters
from gpujob.placement.images.image import Image, shipped_images
from gpujob.values.derived import derived
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Reason

Findings = tuple[Finding, ...]


class Suited(NamedTuple):
    """An image, and the findings for it on some equipment."""

    image: Image
    rejections: Findings
    warnings: Findings


class Suitability:
    """The findings of some equipment about images; `override` is the job's HSA_OVERRIDE_GFX_VERSION, if it has one."""

    def __init__(self, equipment: Equipment, images: Sequence[Image], override: str | None = None) -> None:
        images = self._images = nearest_to_driver(equipment, images)
        self._equipment = equipment
        # Equal findings are one object, so that comparing images is cheap.
        known: dict[Findings, Findings] = {}
        said = ((image, *_verdict(equipment, image, override)) for image in images)
        self.images = tuple(
            Suited(image, known.setdefault(rejections, rejections), known.setdefault(warnings, warnings))
            for image, rejections, warnings in said
        )
        self._missing: dict[str, Mapping[str, Finding]] = {}
        self._missing_on_device: dict[str, Finding | None] = {}

    @derived
    def in_order(self) -> Sequence[Image]:
        """The images that nothing rejects here, best first: fewer warnings, then the rank."""
        counted = [(filters.count(each.warnings), each.image.rank, each) for each in self.images if not each.rejections]
        return [each.image for _, _, each in sorted(counted, key=lambda found: found[:2])]

    @derived
    def reasons(self) -> frozenset[Reason]:
        """All reasons that reject an image here."""
        return frozenset(refusal.reason for each in self.images for refusal in each.rejections)

    @derived
    def largest(self) -> int:
        """Bytes of the largest image of known size; 0 if no size is known."""
        return max((image.size or 0 for image in self._images), default=0)

    def missing(self, feature: Feature) -> Mapping[str, Finding]:
        """The runtimes that lack a feature, at all or for these devices, with the finding for each."""
        found = self._missing.get(feature.name)
        if found is None:
            facts = [image.facts for image in self._images if image.facts is not None]
            verdicts = ((each.name, filters.missing_in_image(feature, self._equipment, each)) for each in facts)
            found = self._missing[feature.name] = {name: finding for name, finding in verdicts if finding is not None}
        return found

    def missing_on_device(self, feature: Feature) -> Finding | None:
        """Whether these devices lack a feature, whatever the image."""
        if feature.name not in self._missing_on_device:
            self._missing_on_device[feature.name] = filters.missing_on_device(feature, self._equipment)
        return self._missing_on_device[feature.name]


def nearest_to_driver(equipment: Equipment, images: Sequence[Image]) -> Sequence[Image]:
    """The images in their order, with their ranks in it: of equally preferred ones that were not tried with the host's driver first
    those whose drivers are the nearest to it.
    """
    far = {image.rank: drivers.untested_by(equipment, image.facts) for image in images}
    if not any(far.values()):
        return images
    preferred = {image.rank: image.facts.preference if image.facts else 0 for image in images}
    in_order = sorted(images, key=lambda image: (-preferred[image.rank], far[image.rank], image.rank))
    return tuple(replace(image, rank=rank) for rank, image in enumerate(in_order))


def suitability(pool: Pool, catalog: Catalog) -> Suitability:
    """The findings of a pool's equipment about the catalog's images."""
    kept = pool.answers.get(suitability)
    if kept is None or kept[0] is not catalog:
        kept = pool.answers[suitability] = (catalog, _of_shipped(catalog, pool.equipment))
    known: Suitability = kept[1]
    return known


@lru_cache(maxsize=256)  # 19 for 100 pools: those of equal equipment share the verdicts about 30 images
def _of_shipped(catalog: Catalog, equipment: Equipment) -> Suitability:
    return Suitability(equipment, shipped_images(catalog, equipment.vendor))


def _verdict(equipment: Equipment, image: Image, override: str | None) -> tuple[Findings, Findings]:
    """Why an image cannot run there, and the warnings about it."""
    facts = image.facts
    warnings = tuple(filters.warnings(equipment, facts, override))
    if facts is None and (elsewhere := filters.other_system(equipment)) is not None:
        return (elsewhere,), warnings
    if facts is None:
        return (), warnings
    held = filters.unreadable(facts)
    if held is not None:
        return (held,), ()
    return tuple(filter(None, (rule(equipment, facts, override) for rule in filters.OF_EQUIPMENT))), warnings
