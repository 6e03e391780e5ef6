"""Running jobs as they go: how far, how fast (with the last minutes as a sparkline), until when, for how much.

Speeds come live from the reporters of the jobs' first pods, through the API server's proxy, with the user's own rights;
without the right to `pods/proxy`, or where a pod does not answer, what the status says is shown, and why. What a job has
cost is counted to the moment of the reading.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from gpujob.cluster.metrics.exposition import MOST_BYTES, Report, UnreadableReport, read_report
from gpujob.cluster.metrics.window import SHORTEST, Window
from gpujob.status.attempts import cost
from gpujob.status.attempts.waits import read_time
from gpujob.status.records.objects import PodRecord, PodState
from gpujob.status.records.read_objects import read_pod_record
from gpujob.values.finding import Dollars, listed
from gpujob.values.untrusted import object_in, one_line, table, whole_number
from gpujob.values.vocabulary import Label, State

if TYPE_CHECKING:
    from gpujob.cli.input.live import LiveCluster

HEADERS: Final = ("NAMESPACE", "JOB", "STATE", "POOL", "ACCEL", "PROGRESS", "SPEED", "TREND", "ETA", "COST")
LIVE: Final = (State.PLACED, State.STARTING, State.RUNNING)
"""States that are shown."""

LEFT_OUT: Final = ("TREND", "ACCEL", "POOL", "ETA", "PROGRESS", "NAMESPACE")
"""Columns that a narrow terminal leaves out, in this order."""

GAP: Final = 2
"""Blanks between two columns."""

BARS: Final = "▁▂▃▄▅▆▇█"
POINTS: Final = 24
"""Readings of a sparkline."""

UNITS: Final = {"tokens": "tok/s", "samples": "samples/s", "steps": "steps/s"}
"""Units of a speed; the first known one is shown."""


@dataclass(slots=True)
class Trace:
    """The readings of one job so far."""

    window: Window = field(default_factory=Window)
    speeds: deque[float] = field(default_factory=lambda: deque(maxlen=POINTS))
    report: Report | None = None
    last: tuple[float, Mapping[str, float]] | None = None

    def rates(self) -> dict[str, float]:
        """What each counter gains a second: over the last readings; for the first one since the program's first step."""
        return self.window.rates() or (self.report.rates(SHORTEST) if self.report else {})

    def take(self, report: Report, at: float) -> None:
        """Adds a reading at a time in seconds."""
        self.window.add(at, report.counters)
        self.report = report
        unit = next((word for word in UNITS if word in report.counters), None)
        if unit is not None and self.last is not None and at > self.last[0] and unit in self.last[1]:
            self.speeds.append(max(0.0, (report.counters[unit] - self.last[1][unit]) / (at - self.last[0])))
        self.last = (at, report.counters)


class Top:
    """The running jobs of a cluster, read again at each refresh."""

    def __init__(self, cluster: LiveCluster, namespace: str | None) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._traces: dict[str, Trace] = {}
        self.note = ""
        """Why speeds come from the status, if they do."""

    def rows(self) -> list[tuple[str, ...]]:
        """A row for each job that is placed, starts or runs, sorted by namespace and name."""
        self.note = ""
        found = self._cluster.gpujobs(self._namespace)
        jobs = [job for job in found if table(job, "status").get("state") in LIVE]
        if not jobs:
            self.note = _none_shown(len(found), self._namespace)
        self._read(jobs)
        return [row(job, self._traces.get(_uid(job)), datetime.now(UTC)) for job in sorted(jobs, key=_where)]

    def _read(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        known = {_uid(job): job for job in jobs}
        statuses = {uid: table(job, "status") for uid, job in known.items()}
        running = {uid for uid, status in statuses.items() if status.get("state") == State.RUNNING}
        for uid in self._traces.keys() - running:
            del self._traces[uid]
        silent: list[str] = []
        for uid, namespace, pod in self._first_pods({uid: known[uid] for uid in running}):
            path = f"/api/v1/namespaces/{namespace}/pods/{pod.name}:{pod.port}/proxy/metrics"
            status, body = self._cluster.get(path, MOST_BYTES + 1)
            if status == 401 or _is_refusal(status, body):
                self.note = "live speeds need the right to get pods/proxy; these are the statuses' own"
                return
            try:
                if status == 200:
                    report = read_report(body)
                    attempt = whole_number(statuses[uid].get("attempt")) or 1
                    if report.is_of(uid, attempt, must_say=pod.on_host_network):
                        self._traces.setdefault(uid, Trace()).take(report, time.monotonic())
                        continue
                    why = "answers with the report of another job"
                else:
                    why = f"does not answer through the API server ({status}{_api_message(body)})"
            except UnreadableReport as error:
                why = f"answers what is no report ({error})"
            silent.append(f"pod {namespace}/{pod.name} {why}")
        if silent:
            more = f", and {len(silent) - 1} more likewise" if len(silent) > 1 else ""
            self.note = f"{silent[0]}{more}; shown are the status's figures"

    def _first_pods(self, running: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str, PodState]]:
        from gpujob.cli.input.live import Refused

        within = f"/namespaces/{self._namespace}" if self._namespace else ""
        try:
            path = f"/api/v1{within}/pods"
            pods = self._cluster.listed(path, labelSelector=Label.JOB_UID)["items"] if running else []
        except Refused as error:
            self.note = str(error)
            return
        for raw in pods:
            record = read_pod_record(raw)
            pod = record.state
            job = running.get(record.use.job_uid)
            if pod and pod.index == 0 and pod.running and pod.port and job and _is_of(record, job):
                yield record.use.job_uid, record.use.namespace, pod


def _none_shown(found: int, namespace: str | None) -> str:
    """The message if no job is shown."""
    where = f"namespace {namespace}" if namespace else "any namespace"
    others = f"; {found} wait or have ended: kubectl get gpujobs{f' -n {namespace}' if namespace else ' -A'}"
    return f"no job is placed, starts or runs in {where}{others if found else ''}"


def _is_refusal(status: int, body: bytes) -> bool:
    """Whether the API server itself rejects: a proxy between it and a pod may answer 403, too."""
    return status == 403 and _answer(body).get("reason") == "Forbidden"


def _api_message(body: bytes) -> str:
    """The API server's message about an unreachable pod; empty without one."""
    message = one_line(str(_answer(body).get("message") or ""))[:120]
    return f": {message}" if message else ""


def _answer(body: bytes) -> Mapping[str, Any]:
    found = object_in(body) or {}
    return found if found.get("kind") == "Status" else {}


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
        _cost(status, now) or str(shown.get("cost", "-")),
    )


def _cost(status: Mapping[str, Any], now: datetime) -> str:
    """The job's cost until now, because the status is written less often. Empty if unknown."""
    accrued = cost.dollars(
        cost.cost(status, table(status, "placement"), str(status.get("startTime")), now).get("accrued")
    )
    return str(Dollars(accrued)) if status.get("startTime") and accrued is not None else ""


def sparkline(speeds: Iterable[float]) -> str:
    """Speeds as bars from 0 to the fastest of them; empty for none."""
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
    rates = trace.rates() if trace else {}
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


def _is_of(record: PodRecord, job: Mapping[str, Any]) -> bool:
    """Whether a pod that names a job is in its namespace and of the child that the status records."""
    child = table(job, "status").get("jobUID")
    same = record.state is not None and child in (None, record.state.child_uid)
    return same and record.use.namespace == _where(job)[0]


def _uid(job: Mapping[str, Any]) -> str:
    return str(table(job, "metadata").get("uid", ""))


def _where(job: Mapping[str, Any]) -> tuple[str, str]:
    metadata = table(job, "metadata")
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def watch(top: Top, every: float, *, once: bool, color: bool) -> None:
    """Shows the jobs until interrupted, or once if stdout is no terminal."""
    from rich.live import Live

    from gpujob.cli.output.drawing import PLAN_WIDTH, console_of, print_table, table_of
    from gpujob.cli.printing import say

    console = console_of(color)
    rows = top.rows()
    if once or not console.is_terminal:
        headers, shown = fitting(HEADERS, rows, console.width if console.is_terminal else PLAN_WIDTH)
        if rows:
            print_table(console, headers, shown, width=PLAN_WIDTH)
        if lacking := [word for word in HEADERS if word not in headers]:
            say(f"without {listed(lacking)}, which a wider terminal shows")
        if top.note:
            say(top.note)
        return
    with Live(console=console, screen=True, auto_refresh=False) as screen:
        while True:
            headers, shown = fitting(HEADERS, rows, console.width)
            screen.update(table_of(headers, shown, caption=top.note), refresh=True)
            time.sleep(every)
            rows = top.rows()


def fitting(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> tuple[list[str], list[list[str]]]:
    """The columns that fit a terminal of this width: names wrap only after all optional columns are left out."""
    kept = list(range(len(headers)))
    for word in ("", *LEFT_OUT):
        kept = [number for number in kept if headers[number] != word]
        widest = [max(map(len, (headers[number], *(row[number] for row in rows)))) for number in kept]
        if sum(widest) + GAP * (len(kept) - 1) <= width:
            break
    return [headers[number] for number in kept], [[row[number] for number in kept] for row in rows]


def seconds(text: str) -> float:
    """The seconds of --every; BadInput unless it is a number of at least 1."""
    from gpujob.values.errors import BadInput

    number = whole_number(text)
    if not number:
        raise BadInput(f"--every: {text!r} is not a whole number of seconds of at least 1")
    return float(number)
