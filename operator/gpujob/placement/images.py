"""The images to try on a pool, best first, and why an image cannot run a job there.

What a rule says of a pool's facts and an image alone is kept with the pool, what it says of the job and an image alone
is worked out once a decision: with 100 pools and 30 images that is most of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar, cast

from gpujob.catalog.records import Catalog
from gpujob.catalog.runtime import Runtime
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
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Image:
    """An image to try on a pool: its facts (None: unchecked) and its rank among the stack's images, 0 is the best."""

    choice: ImageChoice
    facts: Runtime | None
    rank: int = 0

    @property
    def size(self) -> int | None:
        """Bytes, None where nobody says."""
        return self.facts.size_bytes if self.facts else None


def images_for(demand: Demand, pool: Pool, catalog: Catalog) -> tuple[Image, ...]:
    """The images to try on a pool: the job's own, else every runtime of the vendor's stack, best first."""
    backend = _backend(pool)
    if demand.own_images:
        own = next((own for own in demand.own_images if own.backend is backend), demand.own_images[0])
        return (_own_image(own, catalog),)
    return _shipped_images(catalog, backend)


def _backend(pool: Pool) -> Backend:
    return Backend.CUDA if pool.vendor is Vendor.NVIDIA else Backend.ROCM


@lru_cache(maxsize=4)
def _shipped_images(catalog: Catalog, backend: Backend) -> tuple[Image, ...]:
    """A stack's runtimes, best first; where there is none, what stands for it and is refused by its name."""
    ordered = sorted((runtime for runtime in catalog.runtimes if runtime.backend is backend), key=_best_first)
    images = (
        Image(ImageChoice(runtime.name, runtime.image, backend), runtime, rank) for rank, runtime in enumerate(ordered)
    )
    return tuple(images) or (Image(ImageChoice(NO_IMAGE, "", backend), None),)


def largest_size(demand: Demand, pool: Pool, catalog: Catalog) -> int:
    """Bytes of the largest of the images to try on a pool, of those whose size is known; 0 where none is."""
    if demand.own_images:
        return max(image.size or 0 for image in images_for(demand, pool, catalog))
    return _largest_shipped(catalog, _backend(pool))


@lru_cache(maxsize=4)
def _largest_shipped(catalog: Catalog, backend: Backend) -> int:
    return max(image.size or 0 for image in _shipped_images(catalog, backend))


def _own_image(own: OwnRuntime, catalog: Catalog) -> Image:
    facts = (
        next((runtime for runtime in catalog.runtimes if runtime.name == own.runtime), None) if own.runtime else None
    )
    return Image(ImageChoice("own", own.image, own.backend), facts)


def _best_first(runtime: Runtime) -> tuple[object, ...]:
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

    __slots__ = ("_catalog", "_of_job", "_of_stacks", "_reasons")

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._of_job: dict[str, Findings] = {}
        self._of_stacks: dict[Backend, Findings] = {}
        self._reasons: set[Reason] = set()

    def each(self, demand: Demand, pool: Pool, images: Iterable[Image]) -> Iterator[tuple[Image, Findings, Findings]]:
        """Images with every refusal on a pool, and with what is unknown or unusual about them there."""
        known, missing = self._known(demand, pool), [self._missing(demand, pool, word) for word in demand.requires]
        for image in images:
            facts, found, on_pool = image.facts, self._of_stack(demand, image), _looked_up(known, demand, pool, image)
            if facts is not None and facts.unreadable:
                found += on_pool.refusals
            elif facts is not None:
                found += on_pool.refusals + self._asked(demand, facts)
                if missing:
                    found += tuple(lacking[facts.name] for lacking in missing if facts.name in lacking)
            yield image, found, on_pool.doubts

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

    def may_say(self, reasons: Set[Reason], demand: Demand, pool: Pool) -> bool:
        """Whether an image may be refused for one of these reasons; yes rather than a long look."""
        if demand.own_images or demand.gfx_override is not None:
            return True
        if not self._reasons:
            features = filter(None, map(self._catalog.features.get, demand.requires))
            asked = (each.reason for findings in self._of_job.values() for each in findings)
            self._reasons = {Reason.FRAMEWORK_UNSUPPORTED, *asked, *(feature.reason for feature in features)}
        return not (self._reasons.isdisjoint(reasons) and self._of_facts(demand, pool).isdisjoint(reasons))

    def acceptable(self, demand: Demand, pool: Pool) -> Iterator[Image]:
        """The images that nothing refuses, best first: fewer doubts, then the rank."""
        lacking = frozenset[str]().union(*(self._missing(demand, pool, word) for word in demand.requires))
        for image in self._in_order(demand, pool):
            # What the pool's facts refuse is not in the order, unless they are the job's own.
            facts = image.facts
            if facts is not None and (facts.name in lacking or self._asked(demand, facts)):
                continue
            if not self._of_stack(demand, image):
                yield image

    # What is kept with the pool

    def _of_facts(self, demand: Demand, pool: Pool) -> frozenset[Reason]:
        """All reasons for which the pool's facts refuse images."""
        on_pool = (on_pool for _, on_pool in self._on_pool(demand, pool))
        return self._kept(pool, "reasons", lambda: frozenset(each.reason for on in on_pool for each in on.refusals))

    def _missing(self, demand: Demand, pool: Pool, word: str) -> Mapping[str, Finding]:
        """The runtimes that lack a feature, at all or for the pool's devices, and how that is told."""
        feature = self._catalog.features.get(word)
        if feature is None:
            return {}
        told = ((each.name, image_rules.feature_missing(feature, pool, each)) for each in self._catalog.runtimes)
        return self._kept(pool, ("missing", word), lambda: {name: found for name, found in told if found is not None})

    def _in_order(self, demand: Demand, pool: Pool) -> Sequence[Image]:
        if demand.own_images or demand.gfx_override is not None:
            return self._ordered(demand, pool)
        return self._kept(pool, "order", lambda: self._ordered(demand, pool))

    def _ordered(self, demand: Demand, pool: Pool) -> Sequence[Image]:
        """The images that the pool's facts do not refuse, best first."""
        images = [
            (image_rules.count(on_pool.doubts), image.rank, image)
            for image, on_pool in self._on_pool(demand, pool)
            if not on_pool.refusals
        ]
        return [image for _, _, image in sorted(images, key=lambda found: found[:2])]

    def _on_pool(self, demand: Demand, pool: Pool) -> Iterator[tuple[Image, OnPool]]:
        """The images to try on a pool and what its facts say of each."""
        known = self._known(demand, pool)
        images = images_for(demand, pool, self._catalog)
        return ((image, _looked_up(known, demand, pool, image)) for image in images)

    def _known(self, demand: Demand, pool: Pool) -> dict[str, OnPool] | None:
        """What a pool's facts say of runtimes by name; None where the job brings images or facts of its own."""
        if demand.own_images or demand.gfx_override is not None:
            return None
        return self._kept(pool, "images", dict[str, OnPool])

    def _kept(self, pool: Pool, what: object, work_out: Callable[[], T]) -> T:
        """What was worked out from the pool's facts and this catalog, once."""
        kept = pool.answers.get(what)
        if kept is None or kept[0] is not self._catalog:
            kept = pool.answers[what] = (self._catalog, work_out())
        return cast("T", kept[1])


def _looked_up(known: dict[str, OnPool] | None, demand: Demand, pool: Pool, image: Image) -> OnPool:
    if known is None or image.facts is None:
        return _on_pool(demand, pool, image)
    found = known.get(image.facts.name)
    if found is None:
        found = known[image.facts.name] = _on_pool(_NO_OVERRIDE, pool, image)
    return found


def _on_pool(demand: Demand, pool: Pool, image: Image) -> OnPool:
    facts = image.facts
    if facts is not None and (held := image_rules.unreadable(facts)):
        return OnPool((held,), ())
    refusals = tuple(filter(None, (rule(demand, pool, facts) for rule in OF_FACTS))) if facts else ()
    return OnPool(refusals, tuple(image_rules.doubts(demand, pool, facts)))
