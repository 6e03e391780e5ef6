"""A pod belongs to the GPUJob from whose uid the name of its Job is made, whatever its labels say: its GPUs count once."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.values.names import child_name, stem_in, stem_of
from gpujob.values.vocabulary import Annotation, Label
from tests.builders import ANY_IMAGES, H100, node

CHILD = child_name("j", "u", 1)
OWNER = [{"kind": "GPUJob", "name": "j", "uid": "u", "controller": True}]
JOB = {"metadata": {"name": "j", "namespace": "team", "uid": "u", "generation": 1}, "spec": {}}
HINT = {"pool": "h100-sxm-ondemand", "vendor": "NVIDIA", "accelerator": "H100-SXM", "nodes": 1, "gpusPerNode": 6}


def _template(labels: dict[str, str]) -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    container = {"name": "train", "resources": {"limits": {"nvidia.com/gpu": "6"}}}
    return {"metadata": {"labels": labels}, "spec": {"affinity": affinity, "containers": [container]}}


def child() -> dict[str, Any]:
    labels = {Label.JOB_UID: "u", Label.ATTEMPT: "1"}
    metadata = {
        "name": CHILD, "namespace": "team", "uid": "c", "labels": labels, "ownerReferences": OWNER,
        "annotations": {Annotation.PLACEMENT: orjson.dumps(HINT).decode(), Annotation.JOB_NAME: "j"},
    }  # fmt: skip
    return {"metadata": metadata, "spec": {"completions": 1, "template": _template(labels)}}


def pod(labels: dict[str, str], job: str = CHILD) -> dict[str, Any]:
    owner = {"kind": "Job", "name": job, "uid": "c", "controller": True}
    metadata = {"name": f"{job}-0-x", "namespace": "team", "uid": "p", "labels": labels, "ownerReferences": [owner]}
    return {
        "metadata": metadata,
        "spec": _template({})["spec"] | {"nodeName": "n0"},
        "status": {"phase": "Running"},
    }


def index(*pods: dict[str, Any]) -> ClusterIndex:
    """An index after its first look, as at the start of the operator."""
    cache = ObjectCache(mirrored("gpujob-runner-x"))
    for kind, objects in {"nodes": [node("n0", H100)], "pods": pods, "jobs": [child()], "gpujobs": [JOB]}.items():
        cache.replace(kind, list(objects), "7")
    found = ClusterIndex(cache, ANY_IMAGES)
    found.take(cache.take_changes())
    return found


LABELS = ({Label.JOB_UID: "u", Label.ATTEMPT: "1"}, {}, {Label.JOB_UID: "another", Label.ATTEMPT: "7"})


@pytest.mark.parametrize("labels", LABELS, ids=["its own", "none", "another job's"])
def test_a_pod_is_one_of_its_job_and_its_gpus_count_once(labels: dict[str, str]) -> None:
    found = index(pod(labels))
    assert [each.name for each in found.pods_of(found.jobs["u"])] == [f"{CHILD}-0-x"]
    (pool,) = found.fleet().pools
    assert [each.free for each in pool.nodes] == [2]
    found.cache.apply("gpujobs", "DELETED", JOB)
    assert found.take(found.cache.take_changes()) == {"u"}
    assert not found._by_stem


@pytest.mark.parametrize("labels", LABELS, ids=["its own", "none", "another job's"])
def test_a_pod_whose_job_is_listed_later_is_one_of_it(labels: dict[str, str]) -> None:
    cache = ObjectCache(mirrored("gpujob-runner-x"))
    found = ClusterIndex(cache, ANY_IMAGES)
    for kind, objects in {"nodes": [node("n0", H100)], "pods": [pod(labels)], "jobs": [child()]}.items():
        cache.replace(kind, list(objects), "7")
    found.take(cache.take_changes())
    cache.replace("gpujobs", [JOB], "7")
    assert "u" in found.take(cache.take_changes())
    assert [each.name for each in found.pods_of(found.jobs["u"])] == [f"{CHILD}-0-x"]
    (pool,) = found.fleet().pools
    assert [each.free for each in pool.nodes] == [2]
    assert not found._early.all()


def test_a_pod_that_is_gone_before_its_job_is_listed_is_one_of_none() -> None:
    cache = ObjectCache(mirrored("gpujob-runner-x"))
    found = ClusterIndex(cache, ANY_IMAGES)
    cache.replace("nodes", [node("n0", H100)], "7")
    cache.replace("pods", [pod({})], "7")
    found.take(cache.take_changes())
    assert found._early.all()
    cache.apply("pods", "DELETED", pod({}))
    cache.replace("gpujobs", [JOB], "7")
    found.take(cache.take_changes())
    assert not found.pods_of(found.jobs["u"])
    assert [each.free for pool in found.fleet().pools for each in pool.nodes] == [8]
    assert not found._early.all()


def test_a_pod_of_a_job_that_is_not_there_keeps_its_label() -> None:
    other = child_name("j", "u2", 1)
    found = index(pod({}, other))
    assert not found.pods_of(found.jobs["u"])
    (pool,) = found.fleet().pools
    assert [each.free for each in pool.nodes] == [-4], "that pod and the reservation"


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        (CHILD, stem_of("j", "u")),
        (child_name("a-1", "u", 12), stem_of("a-1", "u")),
        ("j-0123abcd", ""),
        ("j-0123abcd-x", ""),
        ("j-1", ""),
        ("web-28934820", ""),
        ("", ""),
    ],
)
def test_what_the_names_of_children_share(name: str, stem: str) -> None:
    assert stem_in(name) == stem
