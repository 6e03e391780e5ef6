"""The cells of a table or page: sizes, prices, speeds and images in display form."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from gpujob.memory.phases import Components
from gpujob.placement.report.summary import reasons_text
from gpujob.placement.scoring.candidate import Candidate, speed_text
from gpujob.values.finding import Dollars, Finding, Need, Size, counted, listed
from gpujob.values.quantity import MI
from gpujob.values.vocabulary import DeviceKind, Outcome

if TYPE_CHECKING:
    from gpujob.fleet.pools.pool import Pool
    from gpujob.memory.estimate import Estimate
    from gpujob.placement.request.gang import Gang

UNKNOWN: Final = "-"
GANG: Final = "GPUS (nodes x each)"
"""The header over shapes such as 2x8."""
EVERYWHERE: Final = "On every pool:"
"""The label of reasons that hold for every pool and are not in the sentence."""
MAIN_PARTS: Final = 3
"""Components of a model's memory that its one line names, the largest first."""

NONE: Final = "0"
"""The text for zero bytes."""
IN_BRACKETS: Final = "In brackets: nothing at the peak, so much at another moment."
RESERVE: Final = "Reserve: what the allocator holds besides, and contexts; of LOW, what another moment takes more."


def cards(pool: Pool) -> str:
    """The number of cards of a pool's devices, if one card has several devices (8 devices (4 cards)); else empty."""
    each = pool.accelerator.devices_per_card if pool.accelerator and pool.kind is DeviceKind.WHOLE else 1
    return f"{counted(pool.total, 'device')} ({counted(pool.total // each, 'card')})" if each > 1 else ""


def main(candidate: Candidate) -> list[str]:
    """Gang, price of the job, and outcome of the candidate; the chosen one is ticked."""
    outcome = candidate.outcome
    shown = f"✔ {outcome}" if outcome is Outcome.CHOSEN else outcome.value
    return [candidate.gang.shape, money(candidate.price_per_hour), shown]


def devices(pool: Pool) -> list[str]:
    """Accelerator, free and all GPUs, memory of a device."""
    return [pool.accelerator_id, f"{pool.free}/{pool.total}", size(pool.memory)]


def size(amount: int | None) -> str:
    """Bytes of memory."""
    return UNKNOWN if amount is None else str(Size(amount))


def needs(gangs: Iterable[Gang]) -> dict[str, Estimate]:
    """The model's memory on each GPU, by gang: by its shape. There are two shapes if the model is whole on the GPUs of some pools
    and sharded on those of others.
    """
    return {gang_text(gang): gang.memory for gang in gangs if gang.memory is not None}


def gang_text(gang: Gang) -> str:
    """The shape of a gang, and whether the model is sharded over it, if it is whole on each GPU of the same shape elsewhere."""
    return f"{gang.shape} sharded" if gang.sharded and gang.pools is not None else gang.shape


def memory(needs: Mapping[str, Estimate]) -> tuple[list[str], list[list[str]], list[str]]:
    """The model's memory on each GPU in each gang, low, expected and high: headers, the rows of the components and of the
    allocator's reserve, and the row of the sums. Each column adds up, except for its rounding.
    """
    headers = [header for shape in needs for header in (f"{shape} LOW", "EXPECTED", "HIGH")]
    rows = [
        [name, *(cell for need in needs.values() for cell in _ends(need, part))]
        for part, (name, _) in enumerate(Components().named())
        if any(need.most[part] for need in needs.values())
    ]
    reserves = ((need.reserve[0], 0, need.reserve[1]) for need in needs.values())
    reserve = ["reserve", *(size(amount) if amount else NONE for each in reserves for amount in each)]
    # A requirement is never rounded down, as in the sentences.
    ends = (end for need in needs.values() for end in (need.low, need.expected, need.high))
    return ["MEMORY OF EACH GPU", *headers], [*rows, reserve], ["total", *(str(Need(end)) for end in ends)]


def _ends(need: Estimate, part: int) -> Iterator[str]:
    """A component's cells: at its peak, or in brackets in another phase."""
    amount, most = need.components[part], need.most[part]
    yield size(need.least[part]) if need.least[part] else NONE
    yield size(amount) if amount or not most else f"({size(most)})"
    yield size(need.greatest[part]) if need.greatest[part] else NONE


def memory_line(candidates: Sequence[Candidate]) -> str:
    """The model's memory on each GPU: for the first gang expected and high, by its largest components; for the others high. Empty
    if unknown.
    """
    by_shape = needs(candidate.gang for candidate in candidates)
    if not by_shape:
        return ""
    (shape, need), *others = by_shape.items()
    has = next(candidate.pool.memory for candidate in candidates if gang_text(candidate.gang) == shape)
    largest = sorted(((name, amount) for name, amount in need.components.named() if amount), key=lambda part: -part[1])
    named, rest = largest[:MAIN_PARTS], sum(amount for _, amount in largest[MAIN_PARTS:])
    parts = [f"{name} {size(amount)}" for name, amount in (*named, *([("others", rest)] if rest * 100 >= MI else ()))]
    also = [f"{Need(each.high)} as {other}" for other, each in others]
    expected, most = Need(need.expected, has), Need(need.high, has)
    alone = f"{expected} expected on each GPU as {shape} ({', '.join(parts)}), at most {most}"
    return f"{alone}; at most {listed(also)}" if also else alone


ABOVE: Final = "the reason above"
SEVERAL_ABOVE: Final = "the reasons above"
"""In place of the reasons of a pool if all of them hold for every pool and stand above the table."""


def why(candidate: Candidate, general: Container[Finding], *, every: bool = False) -> str:
    """The reasons of the candidate, as `reasons_text` says them; those that hold for every pool by reference to what is above."""
    own = [finding for finding in candidate.reasons if finding not in general]
    if candidate.reasons and not own:
        return SEVERAL_ABOVE if len({finding.message for finding in candidate.reasons}) > 1 else ABOVE
    return "as above; " * (len(own) < len(candidate.reasons)) + reasons_text(candidate, own, every=every)


def money(micro: int | None) -> str:
    """Micro-dollars as dollars, without the sign."""
    return UNKNOWN if micro is None else str(Dollars(micro)).removeprefix("$")


def started(candidate: Candidate) -> str:
    """The full cost of hosts that are started for the job, and of its GPUs alone; empty if the two are equal."""
    gang, whole = candidate.gang, candidate.price_per_hour
    alone = candidate.pool.price_of(gang.nodes, gang.gpus_per_node)
    if alone is None or whole is None or alone == whole:
        return ""
    return f"{Dollars(whole)} an hour for hosts that are started for this job, its GPUs alone {Dollars(alone)}"


def speed(candidate: Candidate) -> str:
    """The speed of the whole job in H100s; ~ for an estimate."""
    if candidate.speed is None:
        return UNKNOWN
    return ("~" if candidate.speed.estimate else "") + speed_text(candidate.speed_of_job or 0)


def short(image: str) -> str:
    """An image that can be pulled, without a digest after a tag; `-o wide` shows it whole."""
    name, _, digest = image.partition("@")
    tagged = ":" in name.rpartition("/")[2]
    return (name if tagged or not digest else image) or UNKNOWN
