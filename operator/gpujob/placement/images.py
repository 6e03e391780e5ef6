"""The images to try on a pool, best first, and why an image cannot run a job there.

What a rule says of a pool's facts and an image alone is kept with the pool, what it says of the job and an image alone
is worked out once a decision: with 100 pools and 30 images that is most of the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, cast

from gpujob.catalog.records import Catalog, Runtime
from gpujob.finding import Finding
from gpujob.fleet.pools import Pool
from gpujob.placement import image_rules
from gpujob.placement.decision import ImageChoice
from gpujob.placement.demand import Demand, OwnRuntime
from gpujob.vocabulary import Backend, Reason, Vendor

NO_IMAGE: Final = "none"
"""The runtime's name where the catalog has no image for a pool's stack."""

OF_JOB: Final = (image_rules.framework_unsupported, image_rules.python_unsupported, image_rules.image_needs_root)
"""Rules of an image that look at the job and never at the pool."""

OF_FACTS: Final = tuple(rule for rule in image_rules.IMAGE_RULES if rule not in OF_JOB)
"""Rules of an image that look at the pool's facts, and at nothing of a job but whether it asks to override them."""


class _NoOverride:
    """What a rule of facts gets in the place of a job: it fails loudly when it looks at more than this."""

    gfx_override: Final = None


_NO_OVERRIDE: Final = cast(Demand, _NoOverride())
_NO_POOL: Final = cast(Pool, None)
"""What a rule of the job gets in the place of a pool."""

Findings = tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Image:
    """An image to try on a pool: its facts (None: unchecked) and its rank among the pool's images, less is better."""

    choice: ImageChoice
    facts: Runtime | None
    rank: tuple[object, ...] = ()

    @property
    def size(self) -> int | None:
        """Bytes, None where nobody says."""
        return self.facts.size_bytes if self.facts else None


def images_for(demand: Demand, pool: Pool, catalog: Catalog) -> tuple[Image, ...]:
    """The images to try on a pool: the job's own, else every runtime of the vendor's stack, best first."""
    backend = Backend.CUDA if pool.vendor is Vendor.NVIDIA else Backend.ROCM
    if demand.own_images:
        own = next((own for own in demand.own_images if own.backend is backend), demand.own_images[0])
        return (_own_image(own, catalog),)
    return _shipped_images(catalog, backend)


@lru_cache(maxsize=4)
def _shipped_images(catalog: Catalog, backend: Backend) -> tuple[Image, ...]:
    """A stack's runtimes, best first; where there is none, what stands for it and is refused by its name."""
    images = (
        Image(ImageChoice(runtime.name, runtime.image, backend), runtime, _rank(runtime))
        for runtime in catalog.runtimes
        if runtime.backend is backend
    )
    return tuple(sorted(images, key=lambda image: image.rank)) or (Image(ImageChoice(NO_IMAGE, "", backend), None),)


def _own_image(own: OwnRuntime, catalog: Catalog) -> Image:
    facts = (
        next((runtime for runtime in catalog.runtimes if runtime.name == own.runtime), None) if own.runtime else None
    )
    return Image(ImageChoice("own", own.image, own.backend), facts)


def _rank(runtime: Runtime) -> tuple[object, ...]:
    """Higher preference, then newest framework, then newest backend, then the name."""
    newest_first = tuple(-part for part in (*runtime.framework_release, 0, 0, 0)[:4])
    return (
        -runtime.preference,
        newest_first,
        tuple(-part for part in (*runtime.backend_release, 0, 0, 0)[:4]),
        runtime.name,
    )


@dataclass(frozen=True, slots=True)
class OnPool:
    """What a pool's facts alone say of an image."""

    refusals: Findings
    doubts: Findings


class Refusals:
    """Why images cannot run one job, and what is doubtful about them, for one decision."""

    __slots__ = ("_catalog", "_of_features", "_of_job", "_of_stacks", "_reasons")

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._of_job: dict[str, Findings] = {}
        self._of_stacks: dict[Backend, Findings] = {}
        self._reasons: set[Reason] = set()
        self._of_features: dict[tuple[str, str], Findings] = {}

    def all(self, demand: Demand, pool: Pool, image: Image) -> Findings:
        """Every refusal of an image on a pool."""
        facts, found = image.facts, self._of_stack(demand, image)
        if facts is None:
            return found
        found += self._on_pool(demand, pool, image).refusals + self._asked(demand, facts)
        return found + self._features(demand, pool, facts) if demand.requires else found

    def _of_stack(self, demand: Demand, image: Image) -> Findings:
        """What is against any image of a stack, be its contents known or not."""
        backend = image.choice.backend
        if demand.requires and backend not in self._of_stacks:
            found = image_rules.features_of_other_stacks(demand, backend, self._catalog)
            self._of_stacks[backend] = tuple(found)
        missing = self._of_stacks[backend] if demand.requires else ()
        if image.choice.name != NO_IMAGE:
            return missing
        return (Finding(Reason.FRAMEWORK_UNSUPPORTED, "the catalog has no image for {}", (backend,)), *missing)

    def _asked(self, demand: Demand, facts: Runtime) -> Findings:
        """What the job has against an image on any pool."""
        if facts.name not in self._of_job:
            self._of_job[facts.name] = tuple(filter(None, (rule(demand, _NO_POOL, facts) for rule in OF_JOB)))
        return self._of_job[facts.name]

    def doubts(self, demand: Demand, pool: Pool, image: Image) -> Findings:
        """What is unknown or unusual about an image on a pool."""
        return self._on_pool(demand, pool, image).doubts

    def reasons(self, demand: Demand, pool: Pool) -> set[Reason]:
        """All reasons for which images that were asked about are refused; more than those of the pool where it is quicker."""
        if demand.own_images or demand.gfx_override is not None:
            found = (self.all(demand, pool, image) for image in images_for(demand, pool, self._catalog))
            return {finding.reason for findings in found for finding in findings}
        kept = pool.answers.get("reasons")
        if kept is None or kept[0] is not self._catalog:
            images = images_for(demand, pool, self._catalog)
            of_facts = (each.reason for image in images for each in self._on_pool(demand, pool, image).refusals)
            kept = pool.answers["reasons"] = (self._catalog, frozenset(of_facts))
        if not self._reasons:
            features = filter(None, map(self._catalog.features.get, demand.requires))
            asked = (each.reason for findings in self._of_job.values() for each in findings)
            self._reasons = {Reason.FRAMEWORK_UNSUPPORTED, *asked, *(feature.reason for feature in features)}
        return self._reasons | cast("frozenset[Reason]", kept[1])

    def acceptable(self, demand: Demand, pool: Pool) -> Iterator[Image]:
        """The images that nothing refuses, best first: fewer doubts, then the rank."""
        for image in self._in_order(demand, pool):
            # What the pool's facts refuse is not in the order; what the job refuses is asked first, since it is known.
            facts = image.facts
            if (facts is None or not self._asked(demand, facts)) and not self.all(demand, pool, image):
                yield image

    def _in_order(self, demand: Demand, pool: Pool) -> Sequence[Image]:
        if demand.own_images or demand.gfx_override is not None:
            return self._ordered(demand, pool)
        kept = pool.answers.get("order")
        if kept is None or kept[0] is not self._catalog:
            kept = pool.answers["order"] = (self._catalog, self._ordered(demand, pool))
        return cast("Sequence[Image]", kept[1])

    def _ordered(self, demand: Demand, pool: Pool) -> Sequence[Image]:
        """The images that the pool's facts do not refuse, best first."""
        images = [
            (image_rules.count(on_pool.doubts), image.rank, image)
            for image in images_for(demand, pool, self._catalog)
            if not (on_pool := self._on_pool(demand, pool, image)).refusals
        ]
        return [image for _, _, image in sorted(images, key=lambda found: found[:2])]

    def _on_pool(self, demand: Demand, pool: Pool, image: Image) -> OnPool:
        """What the pool's facts say; kept with the pool, but for the job's own images and overridden facts."""
        if demand.own_images or demand.gfx_override is not None or image.facts is None:
            return _on_pool(demand, pool, image)
        kept = pool.answers.get("images")
        if kept is None or kept[0] is not self._catalog:
            kept = pool.answers["images"] = (self._catalog, {})
        known = cast("dict[str, OnPool]", kept[1])
        if image.facts.name not in known:
            known[image.facts.name] = _on_pool(_NO_OVERRIDE, pool, image)
        return known[image.facts.name]

    def _features(self, demand: Demand, pool: Pool, facts: Runtime) -> Findings:
        key = (facts.name, pool.accelerator_id)
        if key not in self._of_features:
            missing = image_rules.features_missing_in_image(demand, pool, facts, self._catalog)
            self._of_features[key] = tuple(missing)
        return self._of_features[key]


def _on_pool(demand: Demand, pool: Pool, image: Image) -> OnPool:
    facts = image.facts
    refusals = tuple(filter(None, (rule(demand, pool, facts) for rule in OF_FACTS))) if facts else ()
    return OnPool(refusals, tuple(image_rules.doubts(demand, pool, facts)))
