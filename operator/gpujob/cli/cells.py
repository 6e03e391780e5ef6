"""What stands in the cells of a table, and of a page: sizes, prices, speeds and images as people read them."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Final

from gpujob.finding import Dollars, Finding, Need, Size
from gpujob.placement import documents
from gpujob.vocabulary import Outcome

if TYPE_CHECKING:
    from gpujob.placement.decision import Candidate
    from gpujob.placement.gang import Gang

UNKNOWN: Final = "-"
ABOVE: Final = "as said above"
"""What stands in the row of a pool to which nothing applies but what is wrong with the job itself."""

IN_BRACKETS: Final = "In brackets: nothing at the peak, so much at another moment."


def place(candidate: Candidate) -> list[str]:
    """Pool, accelerator, shape, free and all GPUs, memory of a device, price of the job."""
    pool = candidate.pool
    return [
        pool.name,
        pool.accelerator_id,
        candidate.gang.shape,
        f"{pool.free}/{pool.total}",
        size(pool.memory),
        money(candidate.price_per_hour),
    ]


def outcome(candidate: Candidate) -> str:
    """What became of a candidate, the chosen one ticked."""
    return f"✔ {candidate.outcome}" if candidate.outcome is Outcome.CHOSEN else candidate.outcome.value


def size(amount: int | None) -> str:
    """Bytes of memory."""
    return UNKNOWN if amount is None else str(Size(amount))


def memory(gangs: Iterable[Gang]) -> tuple[list[str], list[list[str]], list[list[str]]]:
    """What the model takes on each GPU in each shape: headers, rows of components, and rows of both ends and between."""
    needs = {gang.shape: gang.memory for gang in gangs if gang.memory is not None}
    parts = zip(*(zip(need.components.named(), need.most.named(), strict=True) for need in needs.values()), strict=True)
    rows = [
        [part[0][0][0], *(_component(amount, most) for (_, amount), (_, most) in part)]
        for part in parts
        if any(most for _, (_, most) in part)
    ]
    # What is asked for is never rounded down, as in the sentences.
    ends = [[end, *(str(Need(getattr(need, end))) for need in needs.values())] for end in ("low", "expected", "high")]
    return ["MEMORY OF EACH GPU", *needs], rows, ends


def _component(amount: int, most: int) -> str:
    return size(amount) if amount or not most else f"({size(most)})"


def why(candidate: Candidate, general: Container[Finding]) -> str:
    """The first reason of a candidate's own; what is wrong with the job itself stands above the table."""
    own = [finding for finding in candidate.reasons if finding not in general]
    return own[0].message if own else ABOVE if candidate.reasons else ""


def money(micro: int | None) -> str:
    """Micro-dollars as dollars, without the sign."""
    return UNKNOWN if micro is None else str(Dollars(micro)).removeprefix("$")


def speed(candidate: Candidate) -> str:
    """How fast the whole job is in B200s; ~ where it is an estimate."""
    if candidate.speed is None:
        return UNKNOWN
    return ("~" if candidate.speed.estimate else "") + documents.speed_text(candidate.speed_of_job or 0)


def short(image: str) -> str:
    """An image as it can be pulled, without a digest that stands behind a tag; the whole of it is in `-o wide`."""
    name, _, digest = image.partition("@")
    tagged = ":" in name.rpartition("/")[2]
    return (name if tagged or not digest else image) or UNKNOWN
