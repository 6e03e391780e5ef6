"""Why images cannot run one job on a pool, and the warnings about them.

The findings of the equipment are cached (`compatibility`), the findings of the job are computed once for equal demands, and both
together once for all pools of equal equipment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.images.runtime import Runtime
from gpujob.catalog.images.versions import Release, apart, first_of, release, satisfies
from gpujob.fleet.pools.equipment import Equipment
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.images import filters
from gpujob.placement.images.compatibility import Findings, Suitability, Suited, suitability
from gpujob.placement.images.drivers import least_need
from gpujob.placement.images.image import NO_IMAGE, Image, own_images, shipped_images
from gpujob.placement.request.demand import Demand
from gpujob.values.derived import Lazy
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import FIXABLE_REASONS, Backend, Reason


class ImageGroup(NamedTuple):
    """Images of a pool that differ only in rank, best first, with the reasons and warnings of each."""

    images: Sequence[Image]
    rejections: Sequence[Findings]
    """The reasons of each image: equally many, and all images fixable or none."""
    warnings: Findings
    mendable: bool = True
    """Whether a user or admin can fix all reasons."""
    lacks: Release = ()
    """The driver that they need and the pool does not have; empty if it is sufficient."""
    apart: float = 0.0
    """The distance of their versions from those that the job asks for; 0 where it accepts them."""

    def only(self, indices: Sequence[int]) -> ImageGroup:
        """A subset of them."""
        return self._replace(
            images=[self.images[index] for index in indices], rejections=[self.rejections[index] for index in indices]
        )


@lru_cache(maxsize=64)  # 240 choices for 60 demands take 114 ms with it, 131 without
def selector_of(demand: Demand, catalog: Catalog) -> ImageSelector:
    """The selector of a demand: the choice of a placed job, its explanation and equal jobs share what it finds."""
    return ImageSelector(demand, catalog)


class ImageSelector:
    """The findings of a job, with a pool's equipment, about the images to try there."""

    __slots__ = (
        "_accepted",
        "_alike",
        "_catalog",
        "_demand",
        "_far",
        "_has_own_word",
        "_of_job",
        "_of_stacks",
        "_own",
        "_reasons",
        "_required",
    )

    def __init__(self, demand: Demand, catalog: Catalog) -> None:
        self._demand, self._catalog = demand, catalog
        self._required = filters.required_by(demand, catalog)
        # Whether the job brings images, or facts about devices.
        self._has_own_word = bool(demand.own_images) or demand.gfx_override is not None
        self._of_job: dict[str, Findings] = {}
        self._far: dict[str, float] = {}
        self._of_stacks: dict[Backend, Findings] = {}
        self._reasons: set[Reason] = set()
        self._alike: dict[Suitability, Sequence[ImageGroup]] = {}
        self._accepted: dict[Suitability, Lazy[Image]] = {}
        self._own: dict[Equipment, Suitability] = {}

    def alike(self, pool: Pool) -> Sequence[ImageGroup]:
        """All images to try on a pool, with every reason and warning."""
        suited = self.suited(pool)
        found = self._alike.get(suited)
        if found is None:
            found = self._alike[suited] = tuple(self._sorted(suited))
        return found

    def acceptable(self, pool: Pool) -> Iterable[Image]:
        """The images that nothing rejects, best first: fewer warnings, then the rank."""
        suited = self.suited(pool)
        found = self._accepted.get(suited)
        if found is None:
            found = self._accepted[suited] = Lazy(self._acceptable(suited))
        return found

    def _acceptable(self, suited: Suitability) -> Iterator[Image]:
        missing = self._missing(suited)
        for image in suited.in_order:
            # The equipment's order leaves out what it rejects.
            facts = image.facts
            # Features first: version checks take longer.
            if facts is not None and (any(facts.name in each for each in missing) or self._rejections_by_job(facts)):
                continue
            if not self._of_stack(image):
                yield image

    def accepted(self, pool: Pool, image: Image) -> ImageGroup:
        """The warnings about an image that nothing rejects."""
        warnings = next(each.warnings for each in self.suited(pool).images if each.image is image)
        return ImageGroup((image,), ((),), warnings)

    def may_reject(self, reasons: Set[Reason], pool: Pool) -> bool:
        """Whether one of these reasons may reject an image; may return True without an exact check."""
        if self._has_own_word:
            return True
        if not self._reasons:
            asked = (each.reason for findings in self._of_job.values() for each in findings)
            of_features = (feature.reason for feature in self._required)
            self._reasons = {Reason.FRAMEWORK_UNSUPPORTED, *asked, *of_features}
        return not (self._reasons.isdisjoint(reasons) and self.suited(pool).reasons.isdisjoint(reasons))

    def of_device(self, pool: Pool) -> Findings:
        """The required features that a pool's devices lack."""
        if not self._required:
            return ()
        suited = self.suited(pool)
        return tuple(filter(None, (suited.missing_on_device(feature) for feature in self._required)))

    def suited(self, pool: Pool) -> Suitability:
        """The findings of a pool's equipment about the images to try there."""
        if not self._has_own_word:
            return suitability(pool, self._catalog)
        found = self._own.get(pool.equipment)
        if found is None:
            found = self._own[pool.equipment] = self._suited(pool)
        return found

    def _suited(self, pool: Pool) -> Suitability:
        demand, catalog = self._demand, self._catalog
        own = own_images(demand, pool.vendor, catalog) if demand.own_images else shipped_images(catalog, pool.vendor)
        return Suitability(pool.equipment, own, demand.gfx_override)

    def _sorted(self, suited: Suitability) -> Iterator[ImageGroup]:
        missing = self._missing(suited)
        found: dict[tuple[int, int, bool, Release, float], list[tuple[Image, Findings]]] = {}
        warnings: dict[int, Findings] = {}
        for each in self._of_framework(suited.images):
            rejections = self._against(each, missing)
            mendable = all(finding.reason in FIXABLE_REASONS for finding in rejections)
            warnings[id(each.warnings)] = each.warnings
            kind = (len(rejections), id(each.warnings), mendable, least_need(rejections), self._apart(each.image))
            found.setdefault(kind, []).append((each.image, rejections))
        for (_, about, mendable, lacks, far), alike in found.items():
            images, reasons = [image for image, _ in alike], [against for _, against in alike]
            yield ImageGroup(images, reasons, warnings[about], mendable, lacks, far)

    def _apart(self, image: Image) -> float:
        """How far the versions of an image are from those that the job asks for, summed over those that it does not accept."""
        facts, demand = image.facts, self._demand
        if facts is None or facts.unreadable or facts.framework != demand.framework:
            return 0.0
        if facts.name not in self._far:
            asked = ((demand.framework_version, facts.framework_version), (demand.python, facts.python or ""))
            far = (
                apart(release(has), first_of(wanted)) for wanted, has in asked if wanted and not satisfies(has, wanted)
            )
            self._far[facts.name] = sum(far)
        return self._far[facts.name]

    def _of_framework(self, images: Sequence[Suited]) -> Sequence[Suited]:
        """The images that have the job's framework, or may have it (unreadable ones); all of them if none has."""
        of_it = [each for each in images if self._may_have_framework(each.image)]
        return of_it or images

    def _may_have_framework(self, image: Image) -> bool:
        facts = image.facts
        return facts is None or bool(facts.unreadable) or facts.framework == self._demand.framework

    def _against(self, suited: Suited, missing: Sequence[Mapping[str, Finding]]) -> Findings:
        """All reasons that reject an image."""
        facts, found = suited.image.facts, self._of_stack(suited.image) + suited.rejections
        if facts is None or facts.unreadable:
            return found
        return (
            found + self._rejections_by_job(facts) + tuple(each[facts.name] for each in missing if facts.name in each)
        )

    def _missing(self, suited: Suitability) -> Sequence[Mapping[str, Finding]]:
        """For each required feature the runtimes that lack it."""
        return [suited.missing(feature) for feature in self._required]

    def _of_stack(self, image: Image) -> Findings:
        """The reasons against any image of a stack, whatever its contents."""
        backend = image.choice.backend
        if backend not in self._of_stacks:
            found = filters.features_of_other_stacks(self._required, backend)
            self._of_stacks[backend] = tuple(found)
        missing = self._of_stacks[backend]
        if image.choice.name != NO_IMAGE:
            return missing
        return (Finding(Reason.FRAMEWORK_UNSUPPORTED, "the catalog has no image for {}", (backend,)), *missing)

    def _rejections_by_job(self, facts: Runtime) -> Findings:
        """The reasons of the job against an image on any pool."""
        found = self._of_job.get(facts.name)
        if found is None:
            rules = (rule(self._demand, facts) for rule in filters.OF_JOB)
            found = self._of_job[facts.name] = tuple(filter(None, rules))
        return found
