"""What stands in the cells of a table, and of a page: sizes, prices, speeds and images as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpujob.finding import Dollars, Size
from gpujob.placement import documents
from gpujob.vocabulary import Outcome

if TYPE_CHECKING:
    from gpujob.placement.decision import Candidate

UNKNOWN: Final = "-"


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
