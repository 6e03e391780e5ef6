"""What becomes of a reading: the clock of a node may be ahead, and a remedy is of the pods as they are."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gpujob.api.manifest import read_gpujob
from gpujob.catalog.load import load_catalog
from gpujob.cluster import scraping
from gpujob.cluster.book import Book
from gpujob.cluster.desk import Desk
from gpujob.cluster.kinds import mirrored
from gpujob.cluster.mirror import Mirror
from gpujob.cluster.scraping import Scraper, Unreached
from gpujob.metrics.exposition import read_report
from gpujob.render.attempt import Numbered
from gpujob.status.records import PodState, read_job
from gpujob.vocabulary import Label

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
JOB = read_job({"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": {}, "status": {"state": "Running"}})
POD = PodState("j-1-0-x", "c", "n", "Running", running=True, leaving=False, index=0, address="10.0.0.1", port=9466)


async def test_the_policy_to_add_selects_the_pods_of_a_job_with_a_long_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(*_: object) -> bytes:
        raise Unreached("no reply within 3 seconds")

    clock = [0.0]
    desk = Desk(Book(Mirror(mirrored("gpujob-runner-x")), load_catalog()), clock=lambda: clock[0], wall=lambda: NOW)
    monkeypatch.setattr(scraping, "fetch", silent)
    metadata = {"name": ".".join(["long" * 15] * 4), "namespace": "team", "uid": "u"}
    document = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": metadata, "spec": {}}
    scraper = Scraper(desk, lambda: True, "gpujob-system")
    async with scraping.reading_session() as session:
        for clock[0] in (0.0, 60.0):
            await scraper._read_one(session, read_job({**document, "status": {"state": "Running"}}), POD)
    (claim,) = desk.telemetry["u"].claims
    carried = Numbered(read_gpujob(document), 1).labels[Label.JOB]
    assert len(carried) == 63 < len(metadata["name"])
    assert f"podSelector {{gpujob.dev/job: {carried}}} and" in claim.message


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
