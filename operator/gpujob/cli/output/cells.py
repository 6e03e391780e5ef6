"""What stands in the cells of a table, and of a page: sizes, prices, speeds and images as people read them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from gpujob.memory.phases import Components
from gpujob.placement.scoring.candidate import Candidate, speed_text
from gpujob.values.finding import Dollars, Finding, Need, Size, counted, listed
from gpujob.values.vocabulary import DeviceKind, Outcome

if TYPE_CHECKING:
    from gpujob.fleet.pools.pool import Pool
    from gpujob.memory.estimate import Estimate
    from gpujob.placement.request.gang import Gang

UNKNOWN: Final = "-"
GANG: Final = "GPUS (nodes x each)"
"""The header over shapes such as 2x8."""
MAIN_PARTS: Final = 3
"""Components of a model's memory that its one line names, the largest first."""

NONE: Final = "0"
"""What takes nothing."""
IN_BRACKETS: Final = "In brackets: nothing at the peak, so much at another moment."
RESERVE: Final = "Reserve: what the allocator holds besides, and contexts; of LOW, what another moment takes more."


def cards(pool: Pool) -> str:
    """How many cards a pool's devices are, where one card is several devices (8 devices (4 cards)); else empty."""
    each = pool.accelerator.devices_per_card if pool.accelerator and pool.kind is DeviceKind.WHOLE else 1
    return f"{counted(pool.total, 'device')} ({counted(pool.total // each, 'card')})" if each > 1 else ""


def main(candidate: Candidate) -> list[str]:
    """Shape, price of the job, and what became of the candidate, the chosen one ticked."""
    outcome = candidate.outcome
    told = f"✔ {outcome}" if outcome is Outcome.CHOSEN else outcome.value
    return [candidate.gang.shape, money(candidate.price_per_hour), told]


def devices(pool: Pool) -> list[str]:
    """Accelerator, free and all GPUs, memory of a device."""
    return [pool.accelerator_id, f"{pool.free}/{pool.total}", size(pool.memory)]


def size(amount: int | None) -> str:
    """Bytes of memory."""
    return UNKNOWN if amount is None else str(Size(amount))


def needs(gangs: Iterable[Gang]) -> dict[str, Estimate]:
    """What the model takes on each GPU, by the shape of the gang."""
    return {gang.shape: gang.memory for gang in gangs if gang.memory is not None}


def memory(needs: Mapping[str, Estimate]) -> tuple[list[str], list[list[str]], list[str]]:
    """What the model takes on each GPU in each shape, at least, expected and at most: headers, the rows of the components and
    of what the allocator reserves, and the row of the sums. Each column adds up, but for its rounding.
    """
    headers = [header for shape in needs for header in (f"{shape} LOW", "EXPECTED", "HIGH")]
    rows = [
        [name, *(cell for need in needs.values() for cell in _ends(need, part))]
        for part, (name, _) in enumerate(Components().named())
        if any(need.most[part] for need in needs.values())
    ]
    reserves = ((need.reserve[0], 0, need.reserve[1]) for need in needs.values())
    reserve = ["reserve", *(size(amount) if amount else NONE for each in reserves for amount in each)]
    # What is asked for is never rounded down, as in the sentences.
    ends = (end for need in needs.values() for end in (need.low, need.expected, need.high))
    return ["MEMORY OF EACH GPU", *headers], [*rows, reserve], ["total", *(str(Need(end)) for end in ends)]


def _ends(need: Estimate, part: int) -> Iterator[str]:
    """A component's cells: in its peak, or in brackets at another moment."""
    amount, most = need.components[part], need.most[part]
    yield size(need.least[part]) if need.least[part] else NONE
    yield size(amount) if amount or not most else f"({size(most)})"
    yield size(need.greatest[part]) if need.greatest[part] else NONE


def memory_line(gangs: Sequence[Gang]) -> str:
    """What the model takes on each GPU: of the first gang expected and at most, by its largest components; of the others at
    most. Empty where that is not known."""
    by_shape = needs(gangs)
    if not by_shape:
        return ""
    (shape, need), *others = by_shape.items()
    largest = sorted(((name, amount) for name, amount in need.components.named() if amount), key=lambda part: -part[1])
    named, rest = largest[:MAIN_PARTS], sum(amount for _, amount in largest[MAIN_PARTS:])
    parts = [f"{name} {size(amount)}" for name, amount in (*named, *([("others", rest)] if rest else ()))]
    also = [f"{Need(each.high)} as {other}" for other, each in others]
    alone = f"{Need(need.expected)} expected on each GPU as {shape} ({', '.join(parts)}), at most {Need(need.high)}"
    return f"{alone}; at most {listed(also)}" if also else alone


def why(candidate: Candidate, general: Container[Finding]) -> str:
    """The first reason of a candidate's own; what is wrong with the job itself stands above the table."""
    return next((finding.message for finding in candidate.reasons if finding not in general), "")


def money(micro: int | None) -> str:
    """Micro-dollars as dollars, without the sign."""
    return UNKNOWN if micro is None else str(Dollars(micro)).removeprefix("$")


def started(candidate: Candidate) -> str:
    """What hosts that are started for the job cost whole, and its GPUs alone; empty where the two are the same."""
    price, whole = candidate.pool.price, candidate.price_per_hour
    alone = price.per_gpu_hour * candidate.gang.gpus if price else None
    if alone is None or whole is None or alone == whole:
        return ""
    return f"{Dollars(whole)} an hour for hosts that are started for this job, its GPUs alone {Dollars(alone)}"


def speed(candidate: Candidate) -> str:
    """How fast the whole job is in H100s; ~ where it is an estimate."""
    if candidate.speed is None:
        return UNKNOWN
    return ("~" if candidate.speed.estimate else "") + speed_text(candidate.speed_of_job or 0)


def short(image: str) -> str:
    """An image as it can be pulled, without a digest that stands behind a tag; the whole of it is in `-o wide`."""
    name, _, digest = image.partition("@")
    tagged = ":" in name.rpartition("/")[2]
    return (name if tagged or not digest else image) or UNKNOWN
