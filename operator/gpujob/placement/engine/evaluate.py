"""The candidates of a pool: every image for one gang, with the outcome, the reasons and the warnings.

Results that several candidates share are computed once: for a demand over all pools, for a pool over all images, for images
with equal findings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.devices.throughput import Speed
from gpujob.catalog.entities import Accelerator
from gpujob.catalog.models import naming
from gpujob.fleet.pools.autoscaling import lacks_disk
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import MOST_NODES, Pool
from gpujob.placement.capacity.node_filters import pod_request
from gpujob.placement.capacity.node_fit import (
    NodeFit,
    find_room,
    needs_of,
    relevant_size,
    room_without_growth,
    uniform_size,
)
from gpujob.placement.engine.gang_sizing import SEVERAL, division, largest_gangs
from gpujob.placement.engine.job_warnings import JobWarnings, warnings_of
from gpujob.placement.filters import pool_filters
from gpujob.placement.filters.fixable import beyond_every_device, can_be_fixed, fix_could_help
from gpujob.placement.filters.memory import heads_not_divided, memory_tight, needed, risk
from gpujob.placement.filters.pool_filters import PoolRule
from gpujob.placement.filters.quota import Allowance
from gpujob.placement.filters.selection import FilterSelection, PoolClass
from gpujob.placement.images import filters
from gpujob.placement.images.compatibility import Findings
from gpujob.placement.images.image import unchecked as image_unchecked
from gpujob.placement.images.selection import ImageGroup, ImageSelector
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.placement.request.model_requirements import stored_format
from gpujob.placement.scoring import score
from gpujob.placement.scoring.candidate import Candidate
from gpujob.placement.scoring.score import PoolResult
from gpujob.placement.scoring.speed import speed_of
from gpujob.values.derived import derived
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import FIXABLE_REASONS, Outcome, Precision, Reason, Sharding, Vendor

MOST_ON_A_NODE: Final = 16
"""The most GPUs that a node is taken to have while nothing says how many."""

_new: Final = tuple.__new__


class GangEvaluator:
    """Evaluates a demand of one gang on one pool after the other."""

    def __init__(
        self,
        demand: Demand,
        fleet: Fleet,
        catalog: Catalog,
        asking: FilterSelection,
        rejections: ImageSelector,
        problems: Findings = (),
    ) -> None:
        self.demand, self.fleet, self.catalog = demand, fleet, catalog
        self.asking, self.rejections, self.problems = asking, rejections, problems
        self.allowance = Allowance(demand, fleet)
        self.scales = demand.scales(demand.gang)
        self._filters: dict[PoolClass, Sequence[PoolRule]] = {}

    @derived
    def warnings(self) -> JobWarnings:
        """The warnings that hold for every pool."""
        return warnings_of(self.demand, self.fleet, self.catalog)

    def trials(self, pool: Pool) -> Sequence[PoolResult]:
        """Every image on one pool."""
        return tuple(self.some(pool, self.rejections.alike(pool)))

    def some(
        self, pool: Pool, images: Iterable[ImageGroup], room: NodeFit | None = None, rejections: Findings | None = None
    ) -> Iterator[PoolResult]:
        """Some images on one pool. `room` and `refused` are the results of `find_room` and of the pool filters, if they are
        known.
        """
        demand = self.demand
        of_pool = self._rejections(pool) if rejections is None else rejections
        uniform = uniform_size(demand, pool)
        one_size = self.rejections.suited(pool).largest <= uniform
        speed, sizes = speed_of(demand, pool, self.catalog), dict[int | None, _PoolEvaluation]()
        for each in images:
            for size, alike in ((None, each),) if one_size else _by_size(each, uniform):
                if size not in sizes:
                    found = find_room(demand, pool, size) if room is None else room
                    there, price = self._affordable(pool, of_pool, found, size)
                    sizes[size] = _PoolEvaluation(self, pool, of_pool, speed, there, price, size)
                yield sizes[size].trial(alike)

    def _affordable(self, pool: Pool, of_pool: Findings, room: NodeFit, size: int | None) -> tuple[NodeFit, int | None]:
        """The room within the job's price limit, and the price. A host that is started for the job is paid whole; the pool filter
        checks the price of the job's GPUs, which is what it costs on nodes that are there and on hosts that are started for others.
        """
        price = score.job_price(self.demand, pool, room)
        if not room.coming or any(finding.reason is Reason.PRICE_CAP for finding in of_pool):
            return room, price
        beyond = pool_filters.hosts_over_cap(self.demand, price)
        if beyond is None:
            return room, price
        there = room_without_growth(self.demand, pool, size, beyond)
        return there, score.job_price(self.demand, pool, there) if len(there.busy) > 1 else price

    def _rejections(self, pool: Pool) -> Findings:
        """All findings that reject a pool whatever the image."""
        of_rules = self.asking.rejections(self.demand, pool, self.fleet, self._filters)
        return (*self.problems, *of_rules, *self.rejections.of_device(pool))


def _by_size(alike: ImageGroup, uniform: int) -> Iterator[tuple[int | None, ImageGroup]]:
    """Images by their size, if the room depends on it."""
    indices: dict[int | None, list[int]] = defaultdict(list)
    for index, image in enumerate(alike.images):
        indices[relevant_size(image.size, uniform)].append(index)
    return ((size, alike.only(some)) for size, some in indices.items())


class _PoolEvaluation:
    """One pool for a demand of one gang and images of one size: the results that all of them share."""

    __slots__ = (
        "_after",
        "_asked",
        "_before",
        "_beyond",
        "_busy",
        "_fixable",
        "_planned",
        "_pool",
        "_price",
        "_risk",
        "_room",
        "_speed",
        "_suspected",
        "_warnings",
    )

    def __init__(
        self,
        asked: GangEvaluator,
        pool: Pool,
        of_pool: Findings,
        speed: Speed | None,
        room: NodeFit,
        price: int | None,
        size: int | None,
    ) -> None:
        self._asked, self._pool, self._speed, self._room = asked, pool, speed, room
        demand = asked.demand
        self._price = price
        over, forever = _over_quota(asked, pool, room, size)
        self._before, self._beyond, self._busy = of_pool, (*room.never, *forever), (*room.busy, *over)
        self._fixable = can_be_fixed(pool, (*self._before, *self._beyond))
        if self._fixable and self._before and pool.accelerator is None and (none := self._no_device()) is not None:
            self._fixable = False
            self._before = (none, *(each for each in self._before if each.reason not in _OF_UNIDENTIFIED))
        of_job, nodes = asked.warnings, room.nodes or room.awaited
        self._warnings = (*_warnings_before(demand, pool, of_job), *pool.warnings)
        self._suspected = any(node.suspected is not None for node in nodes)
        self._planned = bool(_disturbances(demand, nodes))
        self._risk = risk(demand, demand.gang, pool)
        of_room = (*_of_nodes(demand, nodes), *_warnings_after(demand, pool, room))
        self._after = (
            *of_room,
            *of_job.user,
            *_without_bf16(demand, pool),
            *_without_format(demand, pool, asked.catalog),
            *of_job.unknown,
            *asked.allowance.unchecked(pool),
        )

    def trial(self, alike: ImageGroup) -> PoolResult:
        """The result of some images, with all their reasons and warnings."""
        demand = self._asked.demand
        outcome, unrefused = self._outcome(alike), self._before + self._beyond or self._busy
        image = alike.images[0]
        unchecked = (image_unchecked(image.choice),) if image.facts is None else ()
        warnings = self._warnings + unchecked + alike.warnings + self._after
        pool, gang, price, coming = self._pool, demand.gang, self._price, self._room.coming
        speed, scales, suspected, planned = self._speed, self._asked.scales, self._suspected, self._planned
        before, beyond, likely = self._before, self._beyond, self._risk
        # From a tuple, in half of the time: an explanation makes thousands.
        candidates = [
            _new(Candidate, (
                pool, image.choice, gang, outcome, before + rejections + beyond if rejections else unrefused,
                warnings, price, coming, speed, scales, suspected, planned, likely,
            ))
            for image, rejections in zip(alike.images, alike.rejections, strict=True)
        ]  # fmt: skip
        ranks = [image.rank for image in alike.images]
        return PoolResult(candidates, ranks, self._room, filters.count(warnings), alike.lacks, alike.apart)

    def _outcome(self, alike: ImageGroup) -> Outcome:
        """Infeasible outweighs fixable, and fixable outweighs unavailable."""
        if not (alike.rejections[0] or self._before or self._beyond):
            return Outcome.BUSY if self._busy else Outcome.FITS
        mendable = alike.mendable or can_be_fixed(self._pool, alike.rejections[0])
        helps = self._fixable and mendable and fix_could_help(self._asked.demand, self._pool)
        return Outcome.MISCONFIGURED if helps else Outcome.REJECTED

    def _no_device(self) -> Finding | None:
        demand, pool, catalog = self._asked.demand, self._pool, self._asked.catalog
        return beyond_every_device(demand, pool, catalog, *_least_memory(demand, pool, catalog))


_OF_UNIDENTIFIED: Final = (Reason.DEVICE_UNKNOWN, Reason.MEM_UNKNOWN)
"""Reasons whose remedy says what the devices are."""


def _least_memory(demand: Demand, pool: Pool, catalog: Catalog) -> tuple[int, Gang]:
    """The bytes that a device of a pool must have at least, where nothing identifies it, and the gang that needs so few: of a model
    that is divided over as many GPUs as the job says, or as the pool's nodes may have.
    """
    gang = demand.gang.sized(demand.gang.memory, demand.gang.pools, sharded=True)
    needs = (
        division(demand.model, demand, SEVERAL if demand.sized_by_model else gang, catalog) if demand.model else None
    )
    if needs is None:
        return needed(demand) or 0, demand.gang
    if not demand.sized_by_model:
        gangs = [gang]
    elif _is_counted(pool):
        gangs = [gang for alike in largest_gangs(demand, pool, catalog) for gang in alike]
    else:
        gangs = [Gang(demand.gang.nodes if demand.nodes_given else MOST_NODES, MOST_ON_A_NODE)]
    each = [(needs.on(gang.gpus).expected, gang) for gang in gangs if gang.gpus == 1 or not _is_on_one(demand)]
    return min(each, default=(needed(demand) or 0, demand.gang), key=itemgetter(0))


def _is_on_one(demand: Demand) -> bool:
    """Whether the job says that its model is whole on each GPU."""
    return demand.model is not None and demand.model.sharding_given and demand.model.sharding is Sharding.NONE


def _is_counted(pool: Pool) -> bool:
    """Whether the number of devices of some node is known."""
    return pool.growth is not None or any(node.total or node.healthy for node in pool.nodes)


def _over_quota(asked: GangEvaluator, pool: Pool, room: NodeFit, size: int | None) -> tuple[Findings, Findings]:
    """What the namespace's quotas do not allow now, and what they never allow."""
    if not asked.allowance.is_limited or any(finding.reason not in FIXABLE_REASONS for finding in room.never):
        return (), ()
    found, never = asked.allowance.shortages(pool, needs_of(asked.demand, pool, size, room))
    return ((), found) if never else (found, ())


def _disturbances(demand: Demand, nodes: Iterable[PoolNode]) -> list[Finding]:
    """The announced maintenance of a gang's nodes that may begin before the job ends."""
    return [each.planned for each in nodes if each.planned is not None and demand.outlasts(each.planned_at)]


MOST_SUSPECTED: Final = 8
"""The number of a gang's nodes whose warnings are shown."""


def _warnings_before(demand: Demand, pool: Pool, of_job: JobWarnings) -> Iterable[Finding]:
    """Warnings that hold for all images, shown before the warnings about the image."""
    program = (*of_job.program, *of_job.launch.get(pool.vendor, ()))
    if demand.model is None:
        return program
    return (*memory_tight(demand, pool), *of_job.sharding, *heads_not_divided(demand, pool), *program)


def _of_nodes(demand: Demand, nodes: Sequence[PoolNode]) -> Iterator[Finding]:
    """The warnings about the nodes of a gang, or about those that it waits for."""
    yield from [node.suspected for node in nodes if node.suspected is not None][:MOST_SUSPECTED]
    yield from _disturbances(demand, nodes)[:MOST_SUSPECTED]


def _warnings_after(demand: Demand, pool: Pool, room: NodeFit) -> Iterator[Finding]:
    """Warnings about the room, which hold for all images, shown after the warnings about the image."""
    if any(taint.effect == "PreferNoSchedule" for node in room.nodes if node.taints for taint in node.taints):
        yield Finding(Reason.TAINT_PREFERRED_AGAINST, "a chosen node has a PreferNoSchedule taint")
    if room.coming and pod_request(demand).storage and any(n.coming and lacks_disk(n.allocatable) for n in room.nodes):
        sentence = "disk of nodes to be added is unknown; set spec.provision.ephemeralStorage of the GPUPool"
        yield Finding(Reason.NODE_UNKNOWN, sentence)
    if room.coming and pool.growth is not None and pool.growth.warning is not None:
        yield pool.growth.warning
    unknown = next((n for n in room.nodes if n.image_mounts.able is None), None) if demand.image_volumes else None
    if unknown is not None:
        sentence = "whether {} can mount an image as a volume is not known: {}"
        name = f"node {unknown.name}" if unknown.name else "a node to be added"
        yield Finding(Reason.IMAGE_VOLUME_UNCHECKED, sentence, (name, unknown.image_mounts.why))


def _without_bf16(demand: Demand, pool: Pool) -> Iterator[Finding]:
    """The warning that a device has no BF16, if the job computes in it or may. Mixed precision is FP16 there, as `roofline.peak`
    takes it.
    """
    device, precision = pool.accelerator, demand.model.precision if demand.model is not None else None
    if device is None or "BF16" in device.features or device.support == "unsupported":
        return
    if precision in (None, Precision.BF16):
        yield Finding(Reason.BF16_EMULATED, "{} has no native BF16", (device.id,))
    elif precision is Precision.MIXED:
        yield Finding(Reason.BF16_EMULATED, "{} has no native BF16, so Mixed is taken as FP16 there", (device.id,))


def _without_format(demand: Demand, pool: Pool, catalog: Catalog) -> Iterator[Finding]:
    """The warning that vLLM does not read weights on a device as they are published: FP8, 4-bit floats and AWQ on NVIDIA devices before
    Turing, FP8 on AMD devices that do not have it (docs.vllm.ai, features/quantization). Others are not checked.
    """
    device, model = pool.accelerator, demand.model
    if device is None or model is None or model.name is None or not (lacks := _lacks_for_floats(device)):
        return
    form = "AWQ" if naming.is_awq(model.name) else stored_format(model, catalog)
    unread = ("FP8",) if device.vendor is Vendor.AMD else ("AWQ", "FP8", "FP4", "MXFP4")
    if form in unread and stored_format(model, catalog):
        sentence = "{} is published in {}, which vLLM does not read on {} ({}); name other weights, or allow another accelerator"
        yield Finding(Reason.PRECISION_UNSUPPORTED, sentence, (model.name, form, device.id, lacks))


def _lacks_for_floats(device: Accelerator) -> str:
    """What a device lacks to read weights in 8-bit floats; empty if it reads them, may, or is rejected anyway."""
    if device.support == "unsupported":
        return ""
    if device.vendor is Vendor.AMD:
        return "" if device.features.intersection(pool_filters.FORMATS[Precision.FP8]) else "it has no FP8"
    capability = device.architecture.split(".")
    old = all(map(str.isdecimal, capability)) and [*map(int, capability)] < [7, 5]
    return f"compute capability {device.architecture}, it needs 7.5" if old else ""
