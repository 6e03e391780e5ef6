"""What jobs of a profile measured comes into decisions, and what a job measured goes into its profile."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import structlog

from gpujob.cluster.api_errors import ApiError
from gpujob.cluster.desk import Desk
from gpujob.cluster.writer import Writer
from gpujob.placement.demand import Demand
from gpujob.placement.learned import Profile, learned_of
from gpujob.status import cost, probing
from gpujob.status.profile import Ran, after_run
from gpujob.status.records import ChildRecord, JobRecord
from gpujob.status.telemetry import SILENT

log = structlog.get_logger(__name__)


class Learning:
    """Reads and writes GPUJobProfiles; what cannot be written is told and never keeps a job from its end."""

    def __init__(self, desk: Desk, writer: Writer) -> None:
        self._desk, self._writer = desk, writer

    def informed(self, job: JobRecord, demand: Demand) -> Demand:
        """The demand with what earlier runs and the job's own trials measured, and the pools on which trials failed."""
        status = {"probes": probing.kept(job)}
        own, profile = probing.measurements(status), _profile(job)
        if not own and not profile and not status["probes"]:
            return demand
        held = self._held(job.namespace, profile)
        known = {measurement.key for measurement in held.measurements}
        measurements = (*held.measurements, *(each for each in own if each.key not in known))
        learned = learned_of(profile, measurements, demand.work.precision.value)
        failed, probed = tuple(sorted(probing.failed(status))), tuple(sorted(probing.tried(status)))
        return replace(demand, learned=learned, probes_failed=failed, probed=probed, unread=held.unread)

    async def remember(self, job: JobRecord, child: ChildRecord) -> None:
        """Writes what a run measured into its profile, where it has one and measured enough."""
        ran, profile = self._ran(job, child), _profile(job)
        body = (
            after_run(job.namespace, profile, self._held(job.namespace, profile).measurements, ran)
            if ran and profile
            else None
        )
        if body is None:
            return
        try:
            await self._writer.apply_profile(body)
        except ApiError as error:
            log.warning("profile not written", job=f"{job.namespace}/{job.name}", profile=profile, error=str(error))

    def _ran(self, job: JobRecord, child: ChildRecord) -> Ran | None:
        measured, demand = self._desk.telemetry.get(job.uid, SILENT).measured, self._desk.wish(job).demand
        placement = child.hint.placement or job.status.get("placement") or {}
        if measured is None or demand is None:
            return None
        spent = cost.cost(job.status, placement, str(job.status.get("startTime") or ""), self._desk.wall())
        whole_run = probing.steps_of(child) is None
        return Ran(
            job=f"{job.uid}.{child.attempt}",
            device=str(placement.get("device") or placement.get("accelerator", "")),
            accelerator=str(placement.get("accelerator", "")),
            shape=f"{placement.get('nodes', 1)}x{placement.get('gpusPerNode', 1)}",
            precision=demand.work.precision.value,
            rates=measured.overall,
            seconds=int(measured.seconds),
            # What a trial cost says nothing of what a run costs.
            dollars=cost.dollars(spent.get("accrued")) if whole_run else None,
            ended=self._desk.wall(),
        )

    def _held(self, namespace: str, profile: str) -> Profile:
        record = self._desk.book.mirror.get("gpujobprofiles", namespace, profile) if profile else None
        return cast("Profile", record) if record is not None else Profile()


def _profile(job: JobRecord) -> str:
    return str(job.spec.get("profile") or "")
