"""What GPUJobs have cost, added up by namespace, profile, pool and more: from the statuses of the jobs that are there."""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from gpujob.cli.input.spans import LONGEST, seconds_in
from gpujob.cli.printing import plain
from gpujob.status.attempts.spending import spans
from gpujob.values.errors import BadInput
from gpujob.values.quantity import exact_dollars, format_dollars
from gpujob.values.untrusted import table

BY: Final = ("namespace", "profile", "pool", "job")
"""Words that jobs can be grouped by."""

NOTE: Final = "jobs that were deleted are not counted"


@dataclass(slots=True)
class Sum:
    """What one group has used: jobs by uid, GPU-seconds, micro-dollars, and GPU-seconds without a known price."""

    jobs: set[str] = field(default_factory=set)
    gpu_seconds: int = 0
    dollars: int = 0
    unpriced: int = 0

    def add(self, uid: str, gpu_seconds: int, dollars: int | None) -> None:
        """One span of a job."""
        self.jobs.add(uid)
        self.gpu_seconds += gpu_seconds
        self.dollars += dollars or 0
        self.unpriced += gpu_seconds if dollars is None else 0

    @property
    def gpu_hours(self) -> str:
        """GPU-hours with two decimals."""
        return f"{self.gpu_seconds / 3600:.2f}"


Group = tuple[str, ...]


def sums(jobs: Iterable[Mapping[str, Any]], by: Sequence[str], since: datetime, now: datetime) -> dict[Group, Sum]:
    """What jobs used between two times, by group, the most expensive first."""
    found: defaultdict[Group, Sum] = defaultdict(Sum)
    for job in jobs:
        metadata, spec, status = table(job, "metadata"), table(job, "spec"), table(job, "status")
        words = {
            "namespace": str(metadata.get("namespace", "")),
            "profile": str(spec.get("profile") or ""),
            "job": str(metadata.get("name", "")),
        }
        for span in spans(status, str(metadata.get("creationTimestamp", "")), now):
            seconds, dollars = span.within(since, now)
            if seconds or dollars:
                group = tuple(plain(words.get(word, span.pool)) for word in by)
                found[group].add(str(metadata.get("uid", "")), seconds, dollars)
    return dict(sorted(found.items(), key=lambda each: (-each[1].dollars, -each[1].gpu_seconds, each[0])))


def documents(found: Mapping[Group, Sum], by: Sequence[str]) -> list[dict[str, Any]]:
    """The groups as JSON; `unpricedGPUHours` where no price was known for a part."""
    return [
        dict(zip(by, group, strict=True))
        | {"jobs": len(each.jobs), "gpuHours": each.gpu_hours, "cost": exact_dollars(each.dollars)}
        | ({"unpricedGPUHours": f"{each.unpriced / 3600:.2f}"} if each.unpriced else {})
        for group, each in found.items()
    ]


def print_csv(found: Mapping[Group, Sum], by: Sequence[str]) -> None:
    """The groups as CSV on stdout; `cost` in US dollars."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow((*by, "jobs", "gpuHours", "cost", "unpricedGPUHours"))
    for group, each in found.items():
        row = (*group, len(each.jobs), each.gpu_hours, exact_dollars(each.dollars), f"{each.unpriced / 3600:.2f}")
        writer.writerow(row)


def rows(found: Mapping[Group, Sum]) -> list[tuple[str, ...]]:
    """The groups as cells of a table."""
    return [
        (*(word or "-" for word in group), str(len(each.jobs)), each.gpu_hours, f"${format_dollars(each.dollars)}")
        for group, each in found.items()
    ]


def unpriced(found: Mapping[Group, Sum]) -> str:
    """What is said where no price was known for a part; empty where all had one."""
    seconds = sum(each.unpriced for each in found.values())
    return f"{seconds / 3600:.2f} GPU-hours have no known price and cost nothing here" if seconds else ""


def groups(text: str) -> tuple[str, ...]:
    """The words of --by; BadInput for an unknown one."""
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    wrong = next((word for word in words if word not in BY), None)
    if wrong is not None or not words:
        raise BadInput(f"--by: {wrong or text!r} is none of {', '.join(BY)}; write some of them with commas between")
    if len(set(words)) < len(words):
        raise BadInput(f"--by: {text!r} names one twice; remove one")
    return words


def ago(text: str, now: datetime) -> datetime:
    """The time that --since means, for example 30d; BadInput for what is none."""
    seconds = None if text[-1:].isdigit() else seconds_in(text)
    if seconds is None or not 0 < seconds <= LONGEST:
        raise BadInput(f"--since: {text!r} is no time of at most 3650 days; write for example 90m, 12h, 30d or 4w")
    return now - timedelta(seconds=seconds)
