"""Running jobs as they go: how far, how fast (with the last minutes as a sparkline), until when, for how much.

Speeds come live from the reporters of the jobs' first pods, through the API server's proxy, with the user's own rights;
without the right to `pods/proxy`, or where a pod does not answer, what the status says is shown.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from gpujob.metrics.exposition import Report, UnreadableReport, read_report
from gpujob.metrics.window import Window
from gpujob.status.patience import read_time
from gpujob.status.records import PodState, read_pod_record
from gpujob.untrusted import table, whole_number
from gpujob.vocabulary import GROUP, VERSION, Label, State

if TYPE_CHECKING:
    from gpujob.cli.live import LiveCluster

HEADERS: Final = ("NAMESPACE", "JOB", "STATE", "POOL", "ACCEL", "PROGRESS", "SPEED", "LATELY", "ETA", "COST")
LIVE: Final = (State.PLACED, State.STARTING, State.RUNNING)
"""States that are shown."""

BARS: Final = "▁▂▃▄▅▆▇█"
POINTS: Final = 24
"""Readings of a sparkline."""

UNITS: Final = {"tokens": "tok/s", "samples": "samples/s", "steps": "steps/s"}
"""What a speed is in, the first that is known."""


@dataclass(slots=True)
class Trace:
    """What was read of one job so far."""

    window: Window = field(default_factory=Window)
    speeds: deque[float] = field(default_factory=lambda: deque(maxlen=POINTS))
    report: Report | None = None
    last: tuple[float, Mapping[str, float]] | None = None

    def take(self, report: Report, at: float) -> None:
        """Takes a reading at a time in seconds."""
        self.window.add(at, report.counters)
        self.report = report
        unit = next((word for word in UNITS if word in report.counters), None)
        if unit is not None and self.last is not None and at > self.last[0] and unit in self.last[1]:
            self.speeds.append(max(0.0, (report.counters[unit] - self.last[1][unit]) / (at - self.last[0])))
        self.last = (at, report.counters)


class Top:
    """The running jobs of a cluster, read again at each look."""

    def __init__(self, cluster: LiveCluster, namespace: str | None) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._traces: dict[str, Trace] = {}
        self.note = ""
        """Why speeds are those of the status, where they are."""

    def look(self) -> list[tuple[str, ...]]:
        """A row for each job that is placed, starts or runs, in the order of namespaces and names."""
        self.note = ""
        within = f"/namespaces/{self._namespace}" if self._namespace else ""
        found = self._cluster.listed(f"/apis/{GROUP}/{VERSION}{within}/gpujobs")["items"]
        jobs = [job for job in found if table(job, "status").get("state") in LIVE]
        self._read(jobs, within)
        return [row(job, self._traces.get(_uid(job)), datetime.now(UTC)) for job in sorted(jobs, key=_where)]

    def _read(self, jobs: Iterable[Mapping[str, Any]], within: str) -> None:
        statuses = {_uid(job): table(job, "status") for job in jobs}
        running = {uid for uid, status in statuses.items() if status.get("state") == State.RUNNING}
        for uid in self._traces.keys() - running:
            del self._traces[uid]
        for uid, namespace, pod in self._first_pods(running, within):
            path = f"/api/v1/namespaces/{namespace}/pods/{pod.name}:{pod.port}/proxy/metrics"
            status, body = self._cluster.get(path)
            if status in (401, 403):
                self.note = "live speeds need the right to get pods/proxy; these are the statuses' own"
                return
            try:
                report = read_report(body) if status == 200 else None
                attempt = whole_number(statuses[uid].get("attempt")) or 1
                if report is not None and report.is_of(uid, attempt, must_say=pod.on_host_network):
                    self._traces.setdefault(uid, Trace()).take(report, time.monotonic())
            except UnreadableReport:
                continue

    def _first_pods(self, running: set[str], within: str) -> Iterator[tuple[str, str, PodState]]:
        from gpujob.cli.live import Refused

        try:
            pods = (
                self._cluster.listed(f"/api/v1{within}/pods", labelSelector=Label.JOB_UID)["items"] if running else []
            )
        except Refused as error:
            self.note = str(error)
            return
        for raw in pods:
            record = read_pod_record(raw)
            pod = record.state
            if pod and pod.index == 0 and pod.running and pod.port and record.use.job_uid in running:
                yield record.use.job_uid, record.use.namespace, pod


def row(job: Mapping[str, Any], trace: Trace | None, now: datetime) -> tuple[str, ...]:
    """The cells of one job."""
    metadata, status = table(job, "metadata"), table(job, "status")
    shown, placement = table(status, "display"), table(status, "placement")
    report = trace.report if trace else None
    return (
        str(metadata.get("namespace", "")),
        str(metadata.get("name", "")),
        str(status.get("state", "")),
        str(placement.get("pool", "-")),
        str(shown.get("accelerator", "-")),
        _progress(report, status),
        _speed(trace, status),
        sparkline(trace.speeds if trace else ()),
        _eta(report, status, now),
        str(shown.get("cost", "-")),
    )


def sparkline(speeds: Iterable[float]) -> str:
    """Speeds as bars from nothing to the fastest of them; empty for none."""
    values = list(speeds)
    top = max(values, default=0.0)
    return "".join(BARS[round(value / top * (len(BARS) - 1)) if top else 0] for value in values)


def _progress(report: Report | None, status: Mapping[str, Any]) -> str:
    if report and report.progress is not None:
        return f"{report.progress * 100:.0f} %"
    if report and "steps" in report.counters:
        return f"step {report.counters['steps']:.0f}"
    return str(table(status, "display").get("progress", "-"))


def _speed(trace: Trace | None, status: Mapping[str, Any]) -> str:
    rates = trace.window.rates() if trace else {}
    for word, unit in UNITS.items():
        if word in rates:
            return f"{rates[word]:,.0f} {unit}" if rates[word] >= 100 else f"{rates[word]:.3g} {unit}"
    said = str(table(status, "display").get("throughput", "-"))
    return f"{said} {UNITS['tokens']}" if said.replace(".", "").isdigit() else said


def _eta(report: Report | None, status: Mapping[str, Any], now: datetime) -> str:
    end = read_time(table(status, "progress").get("estimatedEnd"))
    seconds = (
        report.remaining if report and report.remaining is not None else (end - now).total_seconds() if end else None
    )
    if seconds is None:
        return "-"
    minutes = max(0, round(seconds / 60))
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"


def _uid(job: Mapping[str, Any]) -> str:
    return str(table(job, "metadata").get("uid", ""))


def _where(job: Mapping[str, Any]) -> tuple[str, str]:
    metadata = table(job, "metadata")
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def watch(top: Top, every: float, *, once: bool, color: bool) -> None:
    """Shows the jobs until interrupted, or once where nobody looks at a terminal."""
    from rich.live import Live

    from gpujob.cli.drawing import console_of, print_table, table_of
    from gpujob.cli.printing import say

    console = console_of(color)
    rows = top.look()
    if once or not console.is_terminal:
        print_table(console, HEADERS, rows, [""] * len(rows))
        if top.note:
            say(top.note)
        return
    with Live(table_of(HEADERS, rows, [""] * len(rows)), console=console, screen=True, auto_refresh=False) as screen:
        while True:
            screen.update(table_of(HEADERS, rows, [""] * len(rows), caption=top.note), refresh=True)
            time.sleep(every)
            rows = top.look()


def seconds(text: str) -> float:
    """The seconds of --every; BadInput for what is no number of at least 1."""
    from gpujob.errors import BadInput

    number = whole_number(text)
    if not number:
        raise BadInput(f"--every: {text!r} is not a whole number of seconds of at least 1")
    return float(number)
