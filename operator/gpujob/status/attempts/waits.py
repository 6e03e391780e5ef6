"""The time-dependent part of a waiting job: excluded pools and nodes, and its wait for a better pool.

Times are datetimes in UTC; a status is hostile input, and an unreadable time is no wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, Final

from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.pools.arriving import Arriving, is_bare
from gpujob.placement.request.demand import Demand, ExcludedNode
from gpujob.status.records.refused_pods import is_same_refusal
from gpujob.values.errors import BadQuantity
from gpujob.values.quantity import parse_bytes
from gpujob.values.untrusted import one_line, tables, whole_number
from gpujob.values.vocabulary import ConditionType, Reason, Vendor

LONGEST_EXCLUSION: Final = timedelta(minutes=20)
"""Twice as long as the operator excludes a node (`Timings.node_excluded`)."""

LENGTH_OF_TIME: Final = 20

MOST_CHARACTERS: Final = 24
"""Of a memory size in a status."""

REMEMBERED: Final = 16
"""The most pools, and the most nodes, that a status lists; the oldest are dropped first."""


@dataclass(frozen=True, slots=True)
class ExcludedPool:
    """An entry of status.excludedPools; times are RFC 3339."""

    name: str
    until: str
    reason: Reason
    message: str = ""
    refusal: str = ""
    """The API server's words, where it refused the pods."""
    others_until: str = ""
    """Until when no other pool is tried either, because another one had the same refusal."""

    def entry(self) -> dict[str, str]:
        """The entry as the status has it."""
        members = {
            "name": self.name,
            "until": self.until,
            "reason": self.reason.value,
            "message": self.message,
            "refusal": self.refusal,
            "othersUntil": self.others_until,
        }
        return {key: text for key, text in members.items() if text}


def timely(demand: Demand, created: str, status: Mapping[str, Any], now: datetime) -> Demand:
    """The job's current demand: without pools and nodes that failed it lately, without expired waits."""
    away = tuple(sorted(pools_away(status, now)))
    resting = tuple(sorted(_resting(status, now)))
    begun = read_time(created)
    over = begun is None or now >= begun + timedelta(seconds=demand.wait_seconds)
    found = {
        "pools_away": away,
        "pools_resting": resting,
        "refused_everywhere": _refused_everywhere(status, now),
        "wait_seconds": 0 if over else demand.wait_seconds,
        "excluded_nodes": tuple(sorted(excluded_nodes(status, now))),
        "memory_floor": _memory_floor(status),
        "stays_on": _stays_on(status),
        "resumes_on": _ran_on(status) if demand.keeps_vendor else None,
    }
    # Most jobs have no past: a copy of their demand for each is most of what a long queue costs.
    changes: dict[str, Any] = {name: value for name, value in found.items() if value != getattr(demand, name)}
    return replace(demand, **changes) if changes else demand


def _stays_on(status: Mapping[str, Any]) -> str:
    """The pool of the last attempt if it failed by the job's own fault; empty otherwise, and if the job now needs larger GPUs."""
    last = next((e for e in tables(status, "attempts") if e.get("attempt") == status.get("attempt")), {})
    if last.get("reason") == Reason.GPU_OUT_OF_MEMORY and _memory_floor(status) is not None:
        return ""
    return str(last.get("pool", ""))[:253] if last.get("blame") == "User" else ""


def _ran_on(status: Mapping[str, Any]) -> Vendor | None:
    """The vendor of the newest attempt whose program ran."""
    ran = [(whole_number(e.get("attempt")) or 0, e.get("vendor")) for e in tables(status, "attempts") if e.get("from")]
    name = max(ran, key=itemgetter(0), default=(0, None))[1]
    return next((vendor for vendor in Vendor if vendor == name), None)


def _memory_floor(status: Mapping[str, Any]) -> int | None:
    """status.gpuMemory in bytes; None where it says no memory size."""
    said = status.get("gpuMemory")
    try:
        return parse_bytes(said) if isinstance(said, str) and len(said) <= MOST_CHARACTERS else None
    except BadQuantity:
        return None


def next_change(demand: Demand, created: str, status: Mapping[str, Any], now: datetime) -> float | None:
    """Seconds until `timely` changes; None if time alone never changes it."""
    moments = [until for pool in _left_out(status, now) for until in (pool.until, pool.others_until)]
    moments += [each.until for each in excluded_nodes(status, now)]
    moments += [arriving.until for arriving in demand.arriving]
    ends = [time for text in moments if (time := read_time(text))]
    begun = read_time(created)
    if begun is not None and demand.wait_seconds:
        ends.append(begun + timedelta(seconds=demand.wait_seconds))
    waits = [(end - now).total_seconds() for end in ends if end > now]
    return min(waits) if waits else None


def reservation_left(created: str, status: Mapping[str, Any], now: datetime, seconds: float) -> float:
    """The rest of the seconds for which devices are reserved for a waiting job, since it was created or, after a placement, came
    back into the queue; 0 if none are left.

    Suspending and resuming a job adds no seconds: after that they count from its creation.
    """
    placed, suspended = _turned(status, ConditionType.PLACED), _turned(status, ConditionType.SUSPENDED)
    moments = [read_time(created), placed if placed and not (suspended and suspended >= placed) else None]
    begun = max((moment for moment in moments if moment is not None), default=None)
    return 0.0 if begun is None else max(0.0, seconds - max(0.0, (now - begun).total_seconds()))


def _turned(status: Mapping[str, Any], kind: ConditionType) -> datetime | None:
    """When a condition became what it is."""
    found = (
        read_time(each.get("lastTransitionTime")) for each in tables(status, "conditions") if each.get("type") == kind
    )
    return max((moment for moment in found if moment is not None), default=None)


def end_of_wait(begun: datetime, bare: Arriving | None, seconds: float) -> datetime:
    """The time until which pods wait for new nodes: this number of seconds, and as many for the devices of a new node, once."""
    wait = timedelta(seconds=seconds)
    devices = read_time(bare.until) if bare is not None else None
    return begun + wait if devices is None else max(begun + wait, min(devices, begun + 2 * wait))


def arriving(nodes: Iterable[Node], now: datetime, seconds: float) -> Iterator[Arriving]:
    """New nodes without devices yet that are still waited for."""
    for node in nodes:
        since = read_time(node.created) if is_bare(node) else None
        if since is not None and now < since + timedelta(seconds=seconds):
            yield Arriving(node.name, node.created, write_time(since + timedelta(seconds=seconds)))


def still_arriving(newcomers: Iterable[Arriving], now: datetime) -> Iterator[Arriving]:
    """The new nodes without devices whose devices are still pending."""
    return (each for each in newcomers if (until := read_time(each.until)) is not None and now < until)


def pools_away(status: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, str]]:
    """The pools whose nodes did not come, with the time until which they are not waited for."""
    return ((pool.name, pool.until) for pool in _left_out(status, now) if pool.reason is Reason.NODES_DID_NOT_COME)


def _resting(status: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, str, str]]:
    """The pools whose nodes accepted no pod of the job, with the time until which they are not tried, and the message."""
    resting = (pool for pool in _left_out(status, now) if pool.reason is Reason.UNSCHEDULABLE)
    return ((pool.name, pool.until, pool.message) for pool in resting)


def _refused_everywhere(status: Mapping[str, Any], now: datetime) -> tuple[str, str] | None:
    """Until when no pool is tried because the API server refused the pods on two of them in the same words, and these words."""
    found = ((pool.others_until, pool.refusal) for pool in _left_out(status, now) if pool.others_until)
    return max((each for each in found if (until := read_time(each[0])) is not None and until > now), default=None)


def refused_alike(status: Mapping[str, Any], pool: str, words: str, now: datetime) -> list[str]:
    """The pools besides this one on which the API server refused the job's pods lately in the same words."""
    resting = (each for each in _left_out(status, now) if is_same_refusal(words, each.refusal))
    return [each.name for each in resting if each.name != pool]


def _left_out(status: Mapping[str, Any], now: datetime) -> Iterator[ExcludedPool]:
    for entry in tables(status, "excludedPools")[:REMEMBERED]:
        name, until, said = entry.get("name"), read_time(entry.get("until")), entry.get("message")
        if isinstance(name, str) and until is not None and until > now:
            why = Reason.UNSCHEDULABLE if entry.get("reason") == Reason.UNSCHEDULABLE else Reason.NODES_DID_NOT_COME
            others = read_time(entry.get("othersUntil"))
            refusal = _line(entry.get("refusal")) if why is Reason.UNSCHEDULABLE else ""
            # An entry of another clock keeps other pools away no longer than its own.
            rest = write_time(min(others, until)) if others is not None and refusal else ""
            yield ExcludedPool(name, write_time(until), why, _line(said), refusal, rest)


def _line(said: object) -> str:
    return one_line(said[:512]) if isinstance(said, str) else ""


def with_pool_away(
    status: Mapping[str, Any],
    pool: str,
    now: datetime,
    seconds: float,
    why: Reason = Reason.NODES_DID_NOT_COME,
    said: str = "",
) -> list[dict[str, str]]:
    """status.excludedPools after one more pool failed the job."""
    return _with(status, [ExcludedPool(pool, write_time(now + timedelta(seconds=seconds)), why, said[:512])], now)


def with_refusal(
    status: Mapping[str, Any], pool: str, now: datetime, seconds: float, said: str, refusal: str
) -> list[dict[str, str]]:
    """status.excludedPools after the API server refused the pods on one more pool, in the words `refusal`.

    Where another one rests because of the same words, it is no matter of pools: for `seconds` no pool is tried. After that comes one
    of those that were not, because words can be the same and speak of a pool all the same; so the others rest for twice as long.
    """
    alike = refused_alike(status, pool, refusal, now)
    once, twice = (write_time(now + timedelta(seconds=times * seconds)) for times in (1, 2))
    rest = (
        (twice, Reason.UNSCHEDULABLE, said[:512], refusal, once)
        if alike
        else (once, Reason.UNSCHEDULABLE, said[:512], refusal)
    )
    longer = [replace(each, until=twice, others_until=once) for each in _left_out(status, now) if each.name in alike]
    return _with(status, [*longer, ExcludedPool(pool, *rest)], now)


def _with(status: Mapping[str, Any], new: Iterable[ExcludedPool], now: datetime) -> list[dict[str, str]]:
    """status.excludedPools with these entries in the place of earlier ones of the same pools."""
    last = {pool.name: pool for pool in new}
    kept = (pool for pool in _left_out(status, now) if pool.name not in last)
    return [pool.entry() for pool in (*kept, *last.values())][-REMEMBERED:]


def excluded_nodes(status: Mapping[str, Any], now: datetime) -> Iterator[ExcludedNode]:
    """The nodes of status.excludedNodes whose time is not over."""
    for entry in tables(status, "excludedNodes")[:REMEMBERED]:
        name, until = entry.get("name"), read_time(entry.get("until"))
        # An entry of another clock excludes nothing: of one that was set back since, too.
        if isinstance(name, str) and name and until is not None and now < until <= now + LONGEST_EXCLUSION:
            attempt, why = whole_number(entry.get("attempt")) or 0, one_line(str(entry.get("reason") or "")[:64])
            yield ExcludedNode(name[:253], write_time(until), attempt, why)


def with_excluded(
    status: Mapping[str, Any], nodes: Iterable[str], attempt: int, why: str, now: datetime, seconds: float
) -> list[dict[str, Any]]:
    """status.excludedNodes after an attempt failed on some nodes, which are left out for `seconds`."""
    until = write_time(now + timedelta(seconds=seconds))
    new = {node: ExcludedNode(node, until, attempt, why) for node in nodes}
    kept = (each for each in excluded_nodes(status, now) if each.node not in new)
    entries = [{"name": n, "until": u, "attempt": a, "reason": w} for n, u, a, w in (*kept, *new.values())]
    return [{key: value for key, value in entry.items() if value} | {"attempt": entry["attempt"]} for entry in entries][
        -REMEMBERED:
    ]


def read_time(text: Any) -> datetime | None:
    """A time as the API server writes it, 2026-01-01T12:00:00Z; None for any other text. Each round reads many: no strptime."""
    if not isinstance(text, str) or len(text) != LENGTH_OF_TIME or text[7] != "-" or text[10] != "T" or text[-1] != "Z":
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def within(time: str, after: str, before: str) -> str:
    """A time of another clock, clamped between two others; empty if there is none yet. Where these contradict each other, the first
    counts: the API server wrote it, and `before` is this process's idea of now.

    The kubelet records the start of a container by its node's clock, and costs are counted from there.
    """
    stated, first, last = map(read_time, (time, after, before))
    if not time or last is None:
        return time
    last = max(last, first) if first else last
    stated = min(stated or last, last)
    return write_time(max(stated, first) if first else stated)


def write_time(time: datetime) -> str:
    """The time as Kubernetes writes it; each round writes many: no strftime."""
    return f"{time.isoformat()[: LENGTH_OF_TIME - 1]}Z"
