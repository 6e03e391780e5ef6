"""Adds the measurements of a profile's jobs to decisions, and a job's measurement to its profile."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, cast
from weakref import WeakValueDictionary

import structlog

from gpujob.cluster.client.api_errors import ApiError, Forbidden, Invalid
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.writer.writes import Writer
from gpujob.lifecycle.attempts import is_final
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.profile_measurements import Profile, learned_of
from gpujob.status.attempts import cost, probe_runs, waits
from gpujob.status.job import job_status
from gpujob.status.job.telemetry import SILENT
from gpujob.status.profile import LEAST_SECONDS, Ran, after_run, from_status
from gpujob.status.records.objects import ChildRecord, JobRecord
from gpujob.values.untrusted import table

log = structlog.get_logger(__name__)


EMPTY: Final = Profile()
"""That of a job without one, and of one that nothing has been written to: one object for all jobs that wait."""


class ProfileUpdates:
    """Reads and writes GPUJobProfiles; a failed write is reported and never blocks the end of a job."""

    def __init__(self, controller_state: ControllerState, writer: Writer) -> None:
        self._work, self._writer = controller_state, writer
        self._under_way: defaultdict[tuple[str, str], Counter[tuple[str, str]]] | None = None
        self._placing: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {}
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def informed(self, job: JobRecord, demand: Demand) -> Demand:
        """The demand with the measurements of earlier runs and the job's own probes, and the pools on which probes failed."""
        tries = demand.probe_steps is not None or demand.exploration is not None
        if tries and job_status.runs_unchecked(job):
            why = "nothing is tried: its image runs no Python, so nothing is measured"
            demand = demand.but(probe_steps=None, exploration=None, unprobed=why)
        if demand.exploration is not None:
            demand = demand.but(under_way=tuple(sorted(self._under_way_of(job).items())))
        status = {"probes": probe_runs.kept(job)}
        own, profile = probe_runs.measurements(status), _profile(job)
        if not own and not profile and not status["probes"]:
            return demand
        held = self._held(job.namespace, profile)
        known = {measurement.key for measurement in held.measurements}
        measurements = (*held.measurements, *(each for each in own if each.key not in known))
        learned = learned_of(profile, measurements, demand.work.precision.value)
        failed, probed = tuple(sorted(probe_runs.failed(status))), tuple(sorted(probe_runs.tried(status)))
        return replace(
            demand, learned=learned, probes_failed=failed, probed=probed, unread=held.unread,
            unstarted=tuple(sorted(probe_runs.unstarted(status))),
        )  # fmt: skip

    def learned_from(self, job: JobRecord, demand: Demand) -> object | None:
        """What `informed` reads besides the job; None for a job that explores, because that counts the runs of others."""
        return None if demand.exploration is not None else self._held(job.namespace, _profile(job))

    async def remember(self, job: JobRecord, child: ChildRecord) -> None:
        """Writes a run's measurement into its profile, if it has one and measured enough.

        Raises ApiError if another try soon can succeed; afterwards the job ends without it.
        """
        ran, profile = self._ran(job, child), _profile(job)
        if ran is None or not profile:
            return
        # The measurement of one job is read again before the next one is added.
        async with self._locks.setdefault((job.namespace, profile), asyncio.Lock()):
            body = after_run(job.namespace, profile, self._held(job.namespace, profile), ran)
            if body is None:
                return
            try:
                await self._writer.apply_profile(body)
            except ApiError as error:
                for_good = isinstance(error, Forbidden | Invalid)
                if not for_good and self._work.remember(job.uid).delay < self._work.timings.profile_patience:
                    raise
                log.warning("profile not written", job=f"{job.namespace}/{job.name}", profile=profile, error=str(error))

    def _ran(self, job: JobRecord, child: ChildRecord) -> Ran | None:
        measured, demand = self._work.telemetry.get(job.uid, SILENT).measured, self._work.parsed_spec(job).demand
        placement = child.hint.placement or job.status.get("placement") or {}
        rates, seconds = (measured.overall, measured.seconds) if measured else ({}, 0.0)
        if seconds < LEAST_SECONDS:
            # This process began to read a moment ago, or after the last reply: the status has it.
            rates, seconds = from_status(job.status)
        if demand is None or not rates:
            return None
        ended = waits.read_time(child.ended_at) or self._work.wall()
        spent = cost.cost(job.status, placement, str(job.status.get("startTime") or ""), ended)
        whole_run = probe_runs.steps_of(child) is None
        return Ran(
            job=f"{job.uid}.{child.attempt}",
            device=probe_runs.device_of(placement),
            accelerator=str(placement.get("accelerator", "")),
            shape=probe_runs.shape_of(placement),
            precision=demand.work.precision.value,
            rates=rates,
            seconds=int(seconds),
            # The cost of a probe says nothing about the cost of a run.
            dollars=cost.dollars(spent.get("accrued")) if whole_run else None,
            ended=ended,
        )

    @property
    def counted_runs(self) -> bool:
        """Whether the last decision depended on which jobs of a profile run."""
        return self._under_way is not None

    def decides(self) -> None:
        """A decision about the queue begins: runs in flight are counted again."""
        self._under_way = None

    def count_placed(self, job: JobRecord, place: tuple[str, str]) -> None:
        """Counts a placed job until its status shows it. Jobs without a profile are not counted."""
        if _profile(job):
            self._placing[job.uid] = (job.namespace, _profile(job)), place

    def step_ended(self, uid: str) -> None:
        """The step that places a job has ended: its status shows its place, or it has none."""
        self._placing.pop(uid, None)

    def _under_way_of(self, job: JobRecord) -> Counter[tuple[str, str]]:
        if self._under_way is None:
            self._under_way = defaultdict(Counter)
            for whose, place in (*self._placing.values(), *self._running()):
                self._under_way[whose][place] += 1
        return self._under_way[job.namespace, _profile(job)]

    def _running(self) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
        """The profile, device and gang of each job that runs, or is about to, and is no probe."""
        for uid, job in self._work.index.jobs.items():
            begun = not is_final(job) and job.spec.get("profile") and job.status.get("jobName")
            if begun and uid not in self._placing and not probe_runs.is_trial(job.status):
                placement = table(job.status, "placement")
                yield (job.namespace, _profile(job)), (probe_runs.device_of(placement), probe_runs.shape_of(placement))

    def _held(self, namespace: str, profile: str) -> Profile:
        record = self._work.index.cache.get("gpujobprofiles", namespace, profile) if profile else None
        return cast("Profile", record) if record is not None else EMPTY


def _profile(job: JobRecord) -> str:
    return str(job.spec.get("profile") or "")
