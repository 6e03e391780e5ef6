"""What a report says of times to come is told as of now: the clock of a node may be ahead."""

from __future__ import annotations

from datetime import UTC, datetime

from gpujob.catalog.load import load_catalog
from gpujob.cluster.book import Book
from gpujob.cluster.desk import Desk
from gpujob.cluster.kinds import mirrored
from gpujob.cluster.mirror import Mirror
from gpujob.cluster.scraping import Scraper
from gpujob.metrics.exposition import read_report
from gpujob.status.records import PodState, read_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
JOB = read_job({"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": {}, "status": {"state": "Running"}})
POD = PodState("j-1-0-x", "c", "n", "Running", running=True, leaving=False, index=0, address="10.0.0.1", port=9466)


def test_a_time_to_come_is_now() -> None:
    desk = Desk(Book(Mirror(mirrored("gpujob-runner-x")), load_catalog()), clock=lambda: 0.0, wall=lambda: NOW)
    scraper = Scraper(desk, lambda: True, "gpujob-system")
    for told, taken in ((253402300799, NOW.timestamp()), (1.0, 1.0)):
        text = f"gpujob_up 1\ngpujob_checkpoint_step 7\ngpujob_checkpoint_timestamp_seconds {told}\n"
        scraper._take(JOB, POD, read_report(f"{text}gpujob_last_step_timestamp_seconds {told}\n".encode()))
        measured = desk.telemetry["u"].measured
        assert measured is not None
        assert measured.checkpoint_at is not None
        assert (measured.checkpoint_at.timestamp(), measured.last_step_at) == (taken, taken)
