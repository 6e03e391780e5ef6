"""Thousands of jobs wait for days: what of each is kept in memory, and that nothing of it is missing."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.messages.explanations import digest_of
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.status.records.read_objects import read_job
from gpujob.values.packed import Packed

STATUS: dict[str, Any] = {
    "observedGeneration": 1,
    "conditions": [{"type": "Placed", "status": "False", "reason": "Busy", "message": "fits pool a, which is busy"}],
    "candidates": [{"pool": "a"}],
    "display": {"reason": "Busy"},
}


def job(state: str = "Queued", **spec: Any) -> dict[str, Any]:
    metadata = {"name": "j", "namespace": "team", "uid": "u", "generation": 1, "resourceVersion": "5"}
    return {"metadata": metadata, "spec": {"gpusPerNode": 2, **spec}, "status": {**STATUS, "state": state}}


def state() -> ControllerState:
    return ControllerState(ClusterIndex(ObjectCache(mirrored("gpujob-runner-x")), load_catalog()))


@pytest.mark.parametrize("word", ["Queued", "Misconfigured", "Impossible"])
def test_the_status_of_a_job_that_waits_is_kept_as_text_and_is_the_same(word: str) -> None:
    kept = read_job(job(word)).status
    assert isinstance(kept, Packed)
    assert kept == {**STATUS, "state": word}
    assert digest_of(kept) == digest_of({**STATUS, "state": word})


@pytest.mark.parametrize("word", ["Placed", "Starting", "Running", "Restarting", "Suspended"])
def test_the_status_of_a_job_that_is_looked_at_often_is_not(word: str) -> None:
    assert isinstance(read_job(job(word)).status, dict)


def test_a_manifest_that_was_put_aside_is_read_again_and_the_demand_stays() -> None:
    work, record = state(), read_job(job())
    manifest, demand = work.manifest(record), work.parsed_spec(record).demand
    assert manifest is not None
    work.put_manifest_aside("u")
    assert work.parsed_spec(record).job is None
    assert work.parsed_spec(record).demand is demand
    assert work.manifest(record) == manifest
    assert work.parsed_spec(record).demand is demand


def test_a_manifest_that_cannot_be_read_is_none_before_and_after() -> None:
    work, record = state(), read_job(job(gpusPerNode=-1))
    assert work.manifest(record) is None
    work.put_manifest_aside("u")
    assert work.manifest(record) is None
    assert work.parsed_spec(record).problem


def test_a_job_of_another_generation_is_read_anew() -> None:
    work = state()
    work.manifest(read_job(job()))
    work.put_manifest_aside("u")
    changed = job(gpusPerNode=4)
    changed["metadata"]["generation"] = 2
    manifest = work.manifest(read_job(changed))
    assert manifest is not None
    assert manifest.spec.gpus_per_node == 4
