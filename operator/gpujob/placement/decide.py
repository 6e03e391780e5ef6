"""decide(demand, fleet, catalog): an outcome for every pool × runtime × shape, the choice and the verdict.

Deterministic to the last tie: equal inputs give equal decisions on every machine, since ranking ends in names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from gpujob.catalog.records import Catalog, Runtime
from gpujob.catalog.throughput import Speed
from gpujob.finding import Finding
from gpujob.fleet import quota
from gpujob.fleet.pools import Fleet, Pool
from gpujob.placement import image_rules, ranking, rules
from gpujob.placement.capacity import Room, find_room, shared_memory
from gpujob.placement.decision import Candidate, Choice, Decision, ImageChoice
from gpujob.placement.demand import Demand, OwnRuntime
from gpujob.placement.memory import memory_tight, sharding_assumed
from gpujob.placement.ranking import Trial
from gpujob.placement.sizing import estimated
from gpujob.vocabulary import Backend, Outcome, Reason, Vendor, Verdict

MISCONFIGURING: Final = frozenset(
    {
        Reason.DEVICE_UNKNOWN,
        Reason.MEM_UNKNOWN,
        Reason.MODELS_DIFFER,
        Reason.LABELS_CONTRADICT,
        Reason.NO_DEVICE_PLUGIN,
        Reason.NO_RESOURCE_NAME,
        Reason.RUNTIME_CLASS_MISSING,
        Reason.RUNTIME_UNKNOWN,
        Reason.POOL_UNKNOWN,
        Reason.ACCELERATOR_UNKNOWN,
        Reason.FEATURE_UNKNOWN,
        Reason.FRAMEWORK_UNKNOWN,
        Reason.INVALID_SPEC,
        Reason.MODEL_UNKNOWN,
        Reason.NO_POOL,
    }
)
"""Reasons that somebody can mend; every other reason of a rule refuses for good."""

NO_IMAGE: Final = "none"
"""The runtime's name where the catalog has no image for a pool's stack."""


@dataclass(frozen=True, slots=True)
class _Image:
    """An image to try on a pool: its facts (None: unchecked) and its rank among the pool's images."""

    choice: ImageChoice
    facts: Runtime | None
    rank: tuple[object, ...] = ()


def decide(demand: Demand, fleet: Fleet, catalog: Catalog) -> Decision:
    """The decision for one demand; `fix` is left to `fixes.nearest_fix`, since only impossible jobs need it."""
    demand = estimated(demand, fleet, catalog)
    problems = rules.job_problems(demand, fleet, catalog)
    trials = [
        trial
        for pool in fleet.pools
        for gang in demand.gangs_for(pool.name)
        for trial in _try_pool(demand.only(gang), pool, fleet, catalog, problems)
    ]
    ranked = ranking.ranked(trials, demand)
    best = ranked[0] if ranked and ranked[0].candidate.outcome is Outcome.FITS else None
    candidates = tuple(trial.candidate for trial in ranked)
    if best is None:
        return Decision(demand, _verdict(candidates, problems), candidates, problems=problems)
    better = ranking.worth_waiting_for(best.candidate, candidates, demand) if demand.wait_seconds else None
    if better is not None:
        others = (candidate for candidate in candidates if candidate is not better)
        return Decision(demand, Verdict.WAITING, (better, *others))
    chosen = replace(best.candidate, outcome=Outcome.CHOSEN)
    choice = Choice(
        candidate=chosen,
        # A pod that waits for a node to be added goes to any node of the pool, and so do the others of its gang.
        nodes=tuple("" if best.room.coming else node.name for node in best.room.nodes),
        needs=best.room.needs,
        shared_memory=shared_memory(demand, best.room.needs),
        tolerations=_tolerations(best.room, chosen.pool),
    )
    return Decision(demand, Verdict.PLACED, (chosen, *candidates[1:]), choice)


def _verdict(candidates: Iterable[Candidate], problems: tuple[Finding, ...]) -> Verdict:
    outcomes = {candidate.outcome for candidate in candidates}
    if problems:
        return Verdict.MISCONFIGURED
    if Outcome.BUSY in outcomes:
        return Verdict.WAITING
    return Verdict.MISCONFIGURED if Outcome.MISCONFIGURED in outcomes else Verdict.IMPOSSIBLE


def _try_pool(
    demand: Demand, pool: Pool, fleet: Fleet, catalog: Catalog, problems: tuple[Finding, ...]
) -> Iterator[Trial]:
    """Every image on one pool for a demand of one gang; what does not depend on the image is worked out once."""
    of_pool = (*problems, *filter(None, (rule(demand, pool, fleet) for rule in rules.POOL_RULES)))
    of_pool = (*of_pool, *image_rules.features_missing_on_device(demand, pool, catalog))
    speed = _speed(demand, pool, catalog)
    rooms: dict[int | None, tuple[Room, int | None]] = {}
    for image in _images(demand, pool, catalog) or (_no_image(pool),):
        size = image.facts.size_bytes if image.facts else None
        if size not in rooms:
            room = find_room(demand, pool, size)
            rooms[size] = room, ranking.job_price(demand, pool, room)
        room, price = rooms[size]
        over, forever = _over_quota(demand, pool, room, fleet)
        refusals = (*of_pool, *_image_refusals(demand, pool, image, catalog), *room.never, *forever)
        if room.coming and not any(finding.reason is Reason.PRICE_CAP for finding in refusals):
            # Hosts that are started for the job are paid whole; the pool's rule asked about the job's GPUs alone.
            refusals = (*refusals, *filter(None, (rules.over_cap(demand, price),)))
        busy = (*room.busy, *over)
        outcome = _outcome(demand, pool, refusals, busy, catalog)
        candidate = Candidate(
            pool, image.choice, demand.gang, outcome,
            refusals if refusals else busy,
            (*memory_tight(demand, pool), *sharding_assumed(demand), *_doubts(demand, pool, image.facts, room)),
            price,
            room.coming,
            speed,
        )  # fmt: skip
        yield Trial(candidate, room, (image_rules.count(candidate.doubts), *image.rank))


def _speed(demand: Demand, pool: Pool, catalog: Catalog) -> Speed | None:
    """The relative speed of one device; of a part of a device the same part of its speed, as an estimate."""
    speed = catalog.speed(pool.accelerator.id, demand.work) if pool.accelerator else None
    if speed is None or pool.share is None:
        return None
    numerator, denominator = pool.share
    if pool.share == (1, 1):
        return speed
    source = f"{numerator}/{denominator} of {speed.source}"
    return replace(speed, millionths=speed.millionths * numerator // denominator, estimate=True, source=source)


def _over_quota(
    demand: Demand, pool: Pool, room: Room, fleet: Fleet
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """What the namespace's quotas do not leave now, and what they never allow."""
    if demand.namespace not in fleet.quotas or room.never:
        return (), ()
    needs = quota.taken_by(pool.resource, demand.gpus_per_node, room.needs, demand.nodes)
    finding, never = quota.refusal(fleet.quotas[demand.namespace], needs)
    if finding is None:
        return (), ()
    return ((), (finding,)) if never else ((finding,), ())


def _outcome(
    demand: Demand, pool: Pool, refusals: tuple[Finding, ...], busy: tuple[Finding, ...], catalog: Catalog
) -> Outcome:
    """A refusal for good outweighs what could be mended, and this outweighs what only needs time."""
    if not refusals:
        return Outcome.BUSY if busy else Outcome.FITS
    mendable = all(finding.reason in MISCONFIGURING for finding in refusals)
    helps = mendable and rules.mending_could_help(demand, pool, catalog)
    return Outcome.MISCONFIGURED if helps else Outcome.REJECTED


def _images(demand: Demand, pool: Pool, catalog: Catalog) -> tuple[_Image, ...]:
    """The images to try on a pool: the job's own, else every runtime of the vendor's stack."""
    backend = _backend(pool)
    if demand.own_images:
        own = next((own for own in demand.own_images if own.backend is backend), demand.own_images[0])
        return (_own_image(own, catalog),)
    return tuple(
        _Image(ImageChoice(runtime.name, runtime.image, backend), runtime, _image_rank(runtime))
        for runtime in catalog.runtimes
        if runtime.backend is backend
    )


def _backend(pool: Pool) -> Backend:
    return Backend.CUDA if pool.vendor is Vendor.NVIDIA else Backend.ROCM


def _no_image(pool: Pool) -> _Image:
    """Stands for the image that a catalog without any of this stack does not have: refused by its name."""
    return _Image(ImageChoice(NO_IMAGE, "", _backend(pool)), None)


def _own_image(own: OwnRuntime, catalog: Catalog) -> _Image:
    facts = (
        next((runtime for runtime in catalog.runtimes if runtime.name == own.runtime), None) if own.runtime else None
    )
    return _Image(ImageChoice("own", own.image, own.backend), facts)


def _image_rank(runtime: Runtime) -> tuple[object, ...]:
    """Higher preference, then newest framework, then newest backend, then the name."""
    newest_first = tuple(-part for part in (*runtime.framework_release, 0, 0, 0)[:4])
    return (
        -runtime.preference,
        newest_first,
        tuple(-part for part in (*runtime.backend_release, 0, 0, 0)[:4]),
        runtime.name,
    )


def _image_refusals(demand: Demand, pool: Pool, image: _Image, catalog: Catalog) -> Iterator[Finding]:
    facts = image.facts
    if image.choice.name == NO_IMAGE:
        yield Finding(Reason.FRAMEWORK_UNSUPPORTED, "the catalog has no image for {}", (image.choice.backend,))
    yield from image_rules.features_of_other_stacks(demand, image.choice.backend, catalog)
    if facts is None:
        return
    yield from filter(None, (rule(demand, pool, facts) for rule in image_rules.IMAGE_RULES))
    yield from image_rules.features_missing_in_image(demand, pool, facts, catalog)


def _doubts(demand: Demand, pool: Pool, facts: Runtime | None, room: Room) -> Iterator[Finding]:
    yield from pool.doubts
    if facts is None:
        yield Finding(
            Reason.IMAGE_UNCHECKED, "nothing is known of the image: architectures, driver and versions unchecked"
        )
    yield from image_rules.doubts(demand, pool, facts)
    if any(taint.effect == "PreferNoSchedule" for node in room.nodes for taint in node.taints):
        yield Finding(Reason.TAINT_PREFERRED_AGAINST, "a chosen node has a PreferNoSchedule taint")
    if demand.as_root:
        yield Finding(Reason.RUNS_AS_ROOT, 'runs as root, which the "restricted" Pod Security level refuses')
    if pool.accelerator and "BF16" not in pool.accelerator.features and pool.accelerator.support != "unsupported":
        yield Finding(Reason.BF16_EMULATED, "{} has no native BF16", (pool.accelerator.id,))


def _tolerations(room: Room, pool: Pool) -> tuple[tuple[str, str], ...]:
    taints = {(t.key, t.effect) for node in room.nodes for t in node.taints if t.effect != "PreferNoSchedule"}
    return tuple(sorted(taints))
