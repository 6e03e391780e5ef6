"""The cost of a job's devices so far: the seconds of its attempts times the price of their placements."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gpujob.status.attempts.waits import read_time
from gpujob.values.errors import BadQuantity
from gpujob.values.quantity import MAX_BUDGET, exact_dollars, parse_dollars
from gpujob.values.untrusted import table, whole_number

HOUR: Final = 3600

CLOCKS: Final = 60
"""Seconds by which clocks of one cluster may differ."""


def cost(status: Mapping[str, Any], placement: Mapping[str, Any], started: str, until: datetime) -> dict[str, str]:
    """status.cost of a job whose current attempt began at `started` (RFC 3339) and ran until `until`.

    Empty if the placement has no price: an unknown price is never 0. A decrease by less than CLOCKS keeps the written amount,
    because the clocks of API servers and controllers differ by seconds. A larger difference comes from a wrong clock and is
    corrected.
    """
    earlier, begun = dollars(table(status, "cost").get("earlier")), read_time(started)
    price = dollars(placement.get("pricePerHour"))
    if price is None or begun is None:
        return dict(table(status, "cost"))
    seconds = max(0, int((until - begun).total_seconds()))
    recorded = dollars(table(status, "cost").get("accrued")) or 0
    accrued = (earlier or 0) + price * seconds // HOUR
    if accrued < recorded <= accrued + price * CLOCKS // HOUR:
        accrued = recorded
    return {"accrued": exact_dollars(accrued)} | ({"earlier": exact_dollars(earlier)} if earlier else {})


def running_seconds(status: Mapping[str, Any], until: datetime) -> int:
    """Seconds that all attempts of a job have run until then: the earlier ones, and the current one since startTime."""
    begun, earlier = read_time(status.get("startTime")), whole_number(status.get("ranSeconds")) or 0
    return earlier + (max(0, int((until - begun).total_seconds())) if begun else 0)


def seconds_to_run(deadline: Any, status: Mapping[str, Any], now: datetime) -> int | None:
    """Seconds for which a job may still run, all attempts together, by spec.activeDeadlineSeconds; None without one."""
    seconds = whole_number(deadline)
    return None if seconds is None else seconds - running_seconds(status, now)


def ended(status: Mapping[str, Any], now: datetime) -> dict[str, str]:
    """status.cost when the current attempt ends and another one can follow: all of it then belongs to earlier attempts."""
    begun, placement = str(status.get("startTime") or ""), table(status, "placement")
    accrued = dollars(cost(status, placement, begun, now).get("accrued"))
    return {"accrued": exact_dollars(accrued), "earlier": exact_dollars(accrued)} if accrued else {}


def dollars(text: Any) -> int | None:
    """Micro-dollars of an amount in a status; None if it is unreadable."""
    try:
        return parse_dollars(text, MAX_BUDGET) if isinstance(text, str) else None
    except BadQuantity:
        return None
