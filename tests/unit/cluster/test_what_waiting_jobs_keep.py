"""Thousands of jobs wait for days: what of each is kept in memory, and that nothing of it is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpujob.api.manifest import read_gpujob
from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.messages.explanations import digest_of
from gpujob.cluster.queue.work_queue import ControllerState, ParsedSpec
from gpujob.status.records.read_objects import read_job
from gpujob.values.packed import Packed
from gpujob.values.vocabulary import API_VERSION

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


@pytest.mark.parametrize("word", [None, "Queued", "Misconfigured", "Impossible"])
def test_the_spec_of_a_job_that_waits_is_kept_as_text_and_is_the_same(word: str | None) -> None:
    raw = job(suspend=True, command=["python3", "train.py"])
    raw["status"] = {**STATUS, "state": word} if word else {}
    kept = read_job(raw).spec
    assert isinstance(kept, Packed)
    assert kept == raw["spec"]
    assert (kept.get("suspend"), kept.get("activeDeadlineSeconds")) == (True, None)


def test_no_job_holds_its_manifest_and_each_has_its_own_name() -> None:
    work, first, second = state(), read_job(job()), read_job(job())
    manifest, demand = work.manifest(first), work.parsed_spec(first).demand
    assert manifest is not None
    assert (manifest.metadata.name, manifest.metadata.namespace, manifest.metadata.uid) == ("j", "team", "u")
    assert work.manifest(replace(second, name="other", uid="v")) == manifest.model_copy(
        update={"metadata": manifest.metadata.model_copy(update={"name": "other", "uid": "v"})}
    )
    assert work.parsed_spec(first).demand is demand
    assert set(ParsedSpec.__slots__) == {"generation", "demand", "problem"}


@pytest.mark.parametrize("state_of_job", [None, "Queued", "Running"])
def test_a_spec_is_read_the_same_however_it_is_kept(state_of_job: str | None) -> None:
    raw = job(command=["python3"], env=[{"name": "A", "value": "\u00e9" * 5000}])
    raw["status"] = {**STATUS, "state": state_of_job} if state_of_job else {}
    manifest = state().manifest(read_job(raw))
    assert manifest is not None
    assert (
        manifest.spec
        == read_gpujob(
            {"apiVersion": API_VERSION, "kind": "GPUJob", "metadata": raw["metadata"], "spec": raw["spec"]}
        ).spec
    )


def test_a_manifest_that_cannot_be_read_is_none_each_time() -> None:
    work, record = state(), read_job(job(gpusPerNode=-1))
    assert work.manifest(record) is None
    assert work.manifest(record) is None
    assert work.parsed_spec(record).problem


def test_a_job_of_another_generation_is_read_again() -> None:
    work = state()
    before = work.parsed_spec(read_job(job())).demand
    changed = job(gpusPerNode=4)
    changed["metadata"]["generation"] = 2
    manifest = work.manifest(read_job(changed))
    assert manifest is not None
    assert manifest.spec.gpus_per_node == 4
    assert work.parsed_spec(read_job(changed)).demand != before


def test_the_index_knows_the_jobs_that_run() -> None:
    work = state()
    index, cache = work.index, work.index.cache
    seen = []
    for version, word in enumerate(("Queued", "Running", "Running", "Succeeded"), 5):
        raw = job(word)
        raw["metadata"]["resourceVersion"] = str(version)
        cache.replace("gpujobs", [raw], str(version))
        index.take(cache.take_changes())
        seen.append(list(index.running))
    assert seen == [[], ["u"], ["u"], []]
    cache.replace("gpujobs", [job("Running")], "20")
    index.take(cache.take_changes())
    assert index.running["u"] is index.jobs["u"]
    cache.replace("gpujobs", [], "21")
    index.take(cache.take_changes())
    assert (index.running, index.jobs) == ({}, {})
