"""`python -m tests.e2e.hasty_operator`: the operator with shorter times, which prints the jobs that it sees.

All that it does is what `python -m gpujob.cluster` does, so that a test of what it does after a minute takes seconds.
"""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial

import structlog

from gpujob.cluster.__main__ import main
from gpujob.cluster.app.app import Operator
from gpujob.cluster.cache.reflector import WatchTimings
from gpujob.cluster.election.election import LeaseTimings
from gpujob.lifecycle.timings import Timings
from tests.e2e.brisk_operator import publish_often

LEASE = LeaseTimings(duration=5, deadline=3.5, renew_every=1.5, retry_every=0.7)
WATCHING = WatchTimings(silence=float(os.environ.get("HASTY_SILENCE", "22")))
TIMINGS = Timings(
    runner_unused=8.0, forged_end=4.0, prices=1.0, orphans=2.0, stall_confirmed=3.0,
    control_plane_silent=float(os.environ.get("HASTY_CONTROL_PLANE_SILENT", "900")),
)  # fmt: skip

log = structlog.get_logger(__name__)


class Telling(Operator):
    """The operator, with a line in its log for each set of jobs that its cache shows."""

    async def run(self) -> None:
        telling = asyncio.create_task(self._tell())
        try:
            await super().run()
        finally:
            telling.cancel()

    async def _tell(self) -> None:
        told: list[str] | None = None
        while True:
            seen = sorted(f"{namespace}/{name}" for namespace, name in self.cache.objects("gpujobs"))
            if self.cache.complete and seen != told:
                told = seen
                log.info("jobs seen", jobs=seen)
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    publish_often()
    sys.exit(main(sys.argv[1:], partial(Telling, lease=LEASE, watching=WATCHING, timings=TIMINGS)))
