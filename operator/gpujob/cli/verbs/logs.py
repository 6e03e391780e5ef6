"""`kubectl gpujob logs`: the output of an attempt's pods, lines of several pods in the order of their times and with the pod's number.

The number is the pod's node rank; all processes of a pod write one log. Output is passed on as it is, as kubectl does.
"""

from __future__ import annotations

import heapq
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final
from urllib.parse import quote, urlencode

from gpujob.cli.input.live import LiveCluster
from gpujob.cli.printing import say
from gpujob.lifecycle.attempts import is_final
from gpujob.status.records.objects import JobRecord, PodState
from gpujob.status.records.read_objects import TRAIN, read_job, read_pod_record
from gpujob.values.errors import BadInput
from gpujob.values.names import child_name
from gpujob.values.untrusted import object_in, one_line, tables, whole_number
from gpujob.values.vocabulary import PREFLIGHT, Label

PAUSE: Final = 2.0
"""Seconds between two reads of pods that have not started."""

MOST_AWAY: Final = 30
"""Reads in a row without an answer after which following ends: a minute."""

_STAMPED: Final = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?(.*)", re.DOTALL | re.ASCII
)
"""A line with its time, as the kubelet writes it: up to nine digits of a second, in the zone of its node."""

Write = Callable[[bytes], Any]

Stamp = tuple[int, int, str]
"""Seconds of Unix time, nanoseconds, and both as RFC 3339."""

BEFORE: Final[Stamp] = (0, 0, "")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a log with its end, when it was written, and by which pod of how many."""

    at: Stamp
    rank: int
    text: bytes


@dataclass
class Logs:
    """The logs of one attempt of a job."""

    cluster: LiveCluster
    job: JobRecord
    attempt: int
    rank: int | None = None
    write: Write = field(default=lambda data: sys.stdout.buffer.write(data))
    sleep: Callable[[float], None] = time.sleep
    without: int = 0
    """Pods without a log."""

    def show(self) -> None:
        """Writes what there is; BadInput if no pod has a log."""
        pods = self.pods()
        if not pods:
            raise BadInput(self._no_pods())
        for line in heapq.merge(*(self._lines(pod, follow=False) for pod in pods), key=lambda line: line.at):
            self._print(line, several=len(pods) > 1)
        if self.without == len(pods):
            what = "its pod has no log" if len(pods) == 1 else f"none of its {len(pods)} pods has a log"
            raise BadInput(
                f"GPUJob {self.job.name}: {what}; `kubectl gpujob explain {self.job.name}` says what it waits for"
            )

    def follow(self) -> None:
        """Writes what there is and what comes, until all pods of the attempt have ended."""
        pods = self._awaited_pods()
        lines = SimpleQueue[Line | Exception | None]()
        for pod in pods:
            Thread(target=self._feed, args=(pod, lines), daemon=True).start()
        left = len(pods)
        while left:
            line = lines.get()
            if isinstance(line, Exception):
                raise line
            left -= line is None
            if line is not None:
                self._print(line, several=len(pods) > 1)
                sys.stdout.flush()

    def pods(self) -> list[PodState]:
        """The attempt's pods by their number; with a rank that one alone."""
        selector = f"{Label.JOB_UID}={self.job.uid},{Label.ATTEMPT}={self.attempt}"
        page = self.cluster.listed(self._pods_path, labelSelector=selector)
        found = []
        for raw in tables(page, "items"):
            state = read_pod_record(raw).state
            # Labels are anybody's; the name of the Job that controls the pod is not.
            if state is not None and state.child_name == child_name(self.job.name, self.job.uid, self.attempt):
                found.append(state)
        found.sort(key=lambda pod: (pod.index is None, pod.index or 0, pod.name))
        return found if self.rank is None else [pod for pod in found if (pod.index or 0) == self.rank]

    @property
    def _pods_path(self) -> str:
        return f"/api/v1/namespaces/{quote(self.job.namespace)}/pods"

    def _awaited_pods(self) -> list[PodState]:
        announced = False
        while not (pods := self.pods()):
            job = read_job(self.cluster.gpujob(self.job.name, self.job.namespace))
            if is_final(job) or job.status.get("jobName") != child_name(job.name, job.uid, self.attempt):
                raise BadInput(self._no_pods())
            if not announced:
                say(f"attempt {self.attempt} has no pods yet; waiting for them")
            announced = True
            self.sleep(PAUSE)
        return pods

    def _no_pods(self) -> str:
        which = "pods" if self.rank is None else f"pod {self.rank}"
        attempts = [str(entry.get("attempt")) for entry in tables(self.job.status, "attempts")]
        listed = f"; attempts that are over: {', '.join(attempts)}" if attempts else ""
        return f"there are no {which} of attempt {self.attempt} of GPUJob {self.job.name} any more, or not yet{listed}"

    def _feed(self, pod: PodState, lines: SimpleQueue[Line | Exception | None]) -> None:
        try:
            for line in self._followed(pod):
                lines.put(line)
            lines.put(None)
        except Exception as error:
            lines.put(error)

    def _followed(self, pod: PodState) -> Iterator[Line]:
        """The lines of a pod until it has ended; a stream that breaks is taken up where it broke."""
        last, away = BEFORE, 0
        while True:
            try:
                for line in self._lines(pod, follow=True, since=last):
                    last, away = max(last, line.at), 0
                    yield line
                now = self.pods()
            except BadInput as error:
                away += 1
                if away > MOST_AWAY:
                    raise error
                self.sleep(PAUSE)
                continue
            current = next((each for each in now if each.name == pod.name), None)
            if current is None or current.phase in ("Succeeded", "Failed"):
                yield from self._lines(current or pod, follow=False, since=last) if current else ()
                return
            pod = current
            self.sleep(PAUSE)

    def _lines(self, pod: PodState, *, follow: bool, since: Stamp = BEFORE) -> Iterator[Line]:
        """The lines of a pod after a moment; none where its container has not started."""
        query = {"container": _container(pod), "timestamps": "true"} | ({"follow": "true"} if follow else {})
        if since[2]:
            query["sinceTime"] = since[2]
        status, body = self.cluster.stream(f"{self._pods_path}/{quote(pod.name)}/log?{urlencode(query)}")
        if status != 200:
            self._refused(pod, status, b"".join(body), follow=follow)
            return
        for line in _split(body):
            at, text = _stamp(line) or (since, line)
            # The API server takes whole seconds.
            if at[:2] > since[:2] or not since[2]:
                yield Line(at, pod.index or 0, text)

    def _refused(self, pod: PodState, status: int, body: bytes, *, follow: bool) -> None:
        """Why there is no log. That a container has not started, or that the pod is gone, ends nothing."""
        why = one_line(str((object_in(body) or {}).get("message") or "no reason given")[:300])
        if status in (401, 403):
            raise BadInput(f"this account may not read logs ({status}): {why}; ask for the right to get pods/log")
        if not follow:
            self.without += 1
            say(f"pod {pod.name}: no log ({status}): {why}")

    def _print(self, line: Line, *, several: bool) -> None:
        self.write((b"[%d] " % line.rank if several else b"") + line.text)


def _container(pod: PodState) -> str:
    """The program's container; that of the preflight where this kept the program from starting."""
    refused = pod.check is not None and pod.check.over and pod.check.passed is False and not pod.started
    return PREFLIGHT if refused else TRAIN


def _stamp(line: bytes) -> tuple[Stamp, bytes] | None:
    """The time of a line and its text; None where it has no time."""
    found = _STAMPED.fullmatch(line)
    if found is None:
        return None
    second, part, zone = found[1].decode(), (found[2] or b"").decode(), found[3].decode()
    try:
        moment = datetime.fromisoformat(f"{second}{zone}")
    except ValueError:
        return None
    text = f"{second}{'.' + part if part else ''}{zone}"
    return (int(moment.timestamp()), int(part.ljust(9, "0")), text), found[4]


def _split(body: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of a stream with their ends; the last one gets one where it has none."""
    rest = b""
    for chunk in body:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"
    if rest:
        yield rest + b"\n"


def logs_of(cluster: LiveCluster, raw: Mapping[str, Any], attempt: str | None, rank: str | None) -> Logs:
    """The logs of a GPUJob's attempt, the newest when none is named; BadInput for what is no number, and before the first."""
    job = read_job(raw)
    newest = whole_number(job.status.get("attempt"))
    wanted = newest if attempt is None else _number("--attempt", attempt, least=1)
    if not wanted:
        state = str(job.status.get("state") or "not looked at yet")
        raise BadInput(f"GPUJob {job.name} has no attempt yet ({state}); `kubectl gpujob explain {job.name}` says why")
    return Logs(cluster, job, wanted, None if rank is None else _number("--rank", rank, least=0))


def _number(option: str, text: str, *, least: int) -> int:
    number = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else -1
    if number < least:
        raise BadInput(f"{option}: {text!r} is not a whole number of at least {least}")
    return number
