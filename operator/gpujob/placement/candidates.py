"""The candidates of a pool: every image for one gang, with the outcome, what refuses it and what is doubtful about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from gpujob.catalog.records import Catalog
from gpujob.catalog.throughput import Speed
from gpujob.finding import Finding, listed
from gpujob.fleet import quota
from gpujob.fleet.pools import Fleet, Pool
from gpujob.placement import image_rules, ranking, rules
from gpujob.placement.capacity import Room, find_room, telling_size, untold_size
from gpujob.placement.decision import Candidate
from gpujob.placement.demand import Demand
from gpujob.placement.images import Findings, Image, Refusals, images_for
from gpujob.placement.memory import memory_tight, sharding_assumed
from gpujob.placement.ranking import Trial
from gpujob.vocabulary import Outcome, Reason

MISCONFIGURING: Final = frozenset(
    {
        Reason.DEVICE_UNKNOWN,
        Reason.MEM_UNKNOWN,
        Reason.MODELS_DIFFER,
        Reason.LABELS_CONTRADICT,
        Reason.NO_DEVICE_PLUGIN,
        Reason.NO_DEVICE_CLASS,
        Reason.NAMESPACE_UNKNOWN,
        Reason.POD_SECURITY_BLOCKED,
        Reason.RUNTIME_CLASS_MISSING,
        Reason.RUNTIME_HANDLER_MISSING,
        Reason.RUNTIME_UNKNOWN,
        Reason.POOL_UNKNOWN,
        Reason.ACCELERATOR_UNKNOWN,
        Reason.FEATURE_UNKNOWN,
        Reason.FRAMEWORK_UNKNOWN,
        Reason.INVALID_SPEC,
        Reason.MODEL_UNKNOWN,
        Reason.VOLUME_MISSING,
        Reason.PRIORITY_CLASS_UNKNOWN,
        Reason.NO_POOL,
    }
)
"""Reasons that somebody can mend; every other reason of a rule refuses for good."""


class Asked:
    """A demand of one gang, asked of one pool after the other: what is equal for all of them, and for several images of a
    pool, is worked out once."""

    __slots__ = ("_catalog", "_fleet", "_of_images", "_problems", "demand", "rules")

    def __init__(
        self, demand: Demand, fleet: Fleet, catalog: Catalog, of_images: Refusals, problems: Findings = ()
    ) -> None:
        self.demand, self._fleet, self._catalog = demand, fleet, catalog
        self._of_images, self._problems = of_images, problems
        self.rules = rules.rules_of(demand)

    def trials(self, pool: Pool, images: Sequence[Image] | None = None, room: Room | None = None) -> Iterator[Trial]:
        """Every image, or those given, on one pool.

        `room`: what `find_room` finds for the images given, where that is known.
        """
        demand, fleet, catalog = self.demand, self._fleet, self._catalog
        about = rules.rules_about(pool)
        asked = (rule(demand, pool, fleet) for rule in self.rules if rule in about)
        of_device = image_rules.features_missing_on_device(demand, pool, catalog) if demand.requires else ()
        of_pool = (*self._problems, *filter(None, asked), *of_device)
        speed, untold = speed_of(demand, pool, catalog), untold_size(demand, pool)
        images = images_for(demand, pool, catalog) if images is None else images
        sizes: dict[int | None, _Sized] = {}
        for image, refusals, doubts in self._of_images.each(demand, pool, images):
            size = telling_size(image.size, untold)
            if size not in sizes:
                found = room or find_room(demand, pool, size)
                sizes[size] = _Sized(demand, pool, fleet, catalog, of_pool, speed, found)
            yield sizes[size].trial(image, refusals, doubts)


class _Sized:
    """One pool for a demand of one gang and images of one size: what is equal for all of them."""

    __slots__ = (
        "_before",
        "_beyond",
        "_busy",
        "_catalog",
        "_coming",
        "_demand",
        "_doubts",
        "_outcomes",
        "_pool",
        "_price",
        "_room",
        "_speed",
        "_unknown",
    )

    def __init__(
        self,
        demand: Demand,
        pool: Pool,
        fleet: Fleet,
        catalog: Catalog,
        of_pool: Findings,
        speed: Speed | None,
        room: Room,
    ) -> None:
        self._demand, self._pool, self._catalog, self._speed = demand, pool, catalog, speed
        self._unknown = (*_unknown_to_the_fleet(demand, fleet), *_quota_unchecked(demand, pool, fleet))
        self._room = room
        self._price = ranking.job_price(demand, pool, room)
        over, forever = _over_quota(demand, pool, room, fleet)
        self._before, self._beyond, self._busy = of_pool, (*room.never, *forever), (*room.busy, *over)
        self._coming = room.coming
        if self._coming and not any(finding.reason is Reason.PRICE_CAP for finding in of_pool):
            # Hosts that are started for the job are paid whole; the pool's rule asked about the job's GPUs alone.
            self._beyond += tuple(filter(None, (rules.over_cap(demand, self._price),)))
        self._outcomes: dict[int, tuple[Findings, Outcome, Findings]] = {}
        self._doubts: dict[tuple[int, bool], tuple[Findings, Findings, int]] = {}

    def trial(self, image: Image, refusals: Findings, doubts: Findings) -> Trial:
        """The trial of an image, with what refuses it and what is doubtful about it on this pool."""
        # Few of the images differ in these, and those that do not share one tuple.
        found = self._outcomes.get(id(refusals))
        if found is None:
            found = self._outcomes[id(refusals)] = (refusals, *self._outcome(refusals))
        about = (id(doubts), image.facts is None)
        unsure = self._doubts.get(about)
        if unsure is None:
            every = (*_doubts(self._demand, self._pool, image, self._room, doubts), *self._unknown)
            unsure = self._doubts[about] = (doubts, every, image_rules.count(every))
        candidate = Candidate(
            self._pool, image.choice, self._demand.gang, found[1], found[2], unsure[1],
            self._price, self._coming, self._speed, self._demand.scales(self._demand.gang),
        )  # fmt: skip
        return Trial(candidate, self._room, (unsure[2], image.rank))

    def _outcome(self, of_image: Findings) -> tuple[Outcome, Findings]:
        """A refusal for good outweighs what could be mended, and this outweighs what only needs time; and the reasons."""
        refusals = (*self._before, *of_image, *self._beyond)
        if not refusals:
            return (Outcome.BUSY if self._busy else Outcome.FITS), self._busy
        mendable = all(finding.reason in MISCONFIGURING for finding in refusals)
        helps = mendable and rules.mending_could_help(self._demand, self._pool, self._catalog)
        return (Outcome.MISCONFIGURED if helps else Outcome.REJECTED), refusals


def speed_of(demand: Demand, pool: Pool, catalog: Catalog) -> Speed | None:
    """The relative speed of one device as earlier runs measured it, else the catalog's; of a part of a device the same
    part of its speed, as an estimate."""
    if demand.learned is not None:
        measured = demand.learned.speed(pool.device, demand.gang.shape, lambda known: catalog.speed(known, demand.work))
        if measured is not None:
            return measured
    speed = catalog.speed(pool.accelerator.id, demand.work) if pool.accelerator else None
    if speed is None or pool.share is None:
        return None
    numerator, denominator = pool.share
    if pool.share == (1, 1):
        return speed
    source = f"{numerator}/{denominator} of {speed.source}"
    return replace(speed, millionths=speed.millionths * numerator // denominator, estimate=True, source=source)


def _over_quota(demand: Demand, pool: Pool, room: Room, fleet: Fleet) -> tuple[Findings, Findings]:
    """What the namespace's quotas do not leave now, and what they never allow."""
    if demand.namespace not in fleet.quotas or any(finding.reason not in MISCONFIGURING for finding in room.never):
        return (), ()
    needs = quota.taken_by(pool.counted_as, demand.gpus_per_node, room.needs, demand.nodes)
    quotas = fleet.quotas_for(demand.namespace, demand.priority_class, pool)
    finding, never = quota.refusal(quotas, needs)
    if finding is None:
        return (), ()
    return ((), (finding,)) if never else ((finding,), ())


def _unknown_to_the_fleet(demand: Demand, fleet: Fleet) -> Findings:
    """What the job names and nothing here tells of."""
    found: Findings = ()
    if demand.priority_class is not None and not fleet.priorities:
        sentence = "nothing is known of PriorityClasses here, {} is unchecked and the job's priority taken as 0"
        found += (Finding(Reason.PRIORITY_CLASS_UNKNOWN, sentence, (demand.priority_class,)),)
    if demand.unread:
        found += (Finding(Reason.INVALID_SPEC, "{}", (demand.unread,)),)
    return found


def _quota_unchecked(demand: Demand, pool: Pool, fleet: Fleet) -> Findings:
    """That nobody knows whether a quota counts the job's pods."""
    if demand.namespace not in fleet.quotas:
        return ()
    traits = fleet.pod_traits(demand.priority_class, pool)
    for each in fleet.quotas[demand.namespace]:
        if each.counts(traits) is None:
            unknown = listed(str(scope) for scope in each.scopes if scope.holds(traits) is None)
            sentence = "ResourceQuota {} has the scope {}, of which nothing is known here: what it leaves is unchecked"
            return (Finding(Reason.QUOTA_UNCHECKED, sentence, (each.name, unknown)),)
    return ()


def _doubts(demand: Demand, pool: Pool, image: Image, room: Room, of_image: Findings) -> Iterator[Finding]:
    yield from memory_tight(demand, pool)
    yield from sharding_assumed(demand)
    if not demand.own_command:
        yield Finding(Reason.NO_COMMAND, "no command is given: the image's own runs; write spec.command")
    yield from pool.doubts
    if image.facts is None:
        yield Finding(
            Reason.IMAGE_UNCHECKED, "nothing is known of the image: architectures, driver and versions unchecked"
        )
    yield from of_image
    if any(taint.effect == "PreferNoSchedule" for node in room.nodes for taint in node.taints):
        yield Finding(Reason.TAINT_PREFERRED_AGAINST, "a chosen node has a PreferNoSchedule taint")
    untold = next((n for n in room.nodes if n.image_mounts.able is None), None) if demand.image_volumes else None
    if untold is not None:
        sentence = "whether {} can mount an image as a volume is not known: {}"
        name = f"node {untold.name}" if untold.name else "a node to be added"
        yield Finding(Reason.IMAGE_VOLUME_UNCHECKED, sentence, (name, untold.image_mounts.told))
    if demand.as_root:
        yield Finding(Reason.RUNS_AS_ROOT, 'runs as root, which the "restricted" Pod Security level refuses')
    if pool.accelerator and "BF16" not in pool.accelerator.features and pool.accelerator.support != "unsupported":
        yield Finding(Reason.BF16_EMULATED, "{} has no native BF16", (pool.accelerator.id,))
