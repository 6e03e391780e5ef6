"""Labels and owner references are anybody's: a Job counts as a child only where the operator made it or would make it next."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ANY_IMAGES, H100, node

from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.fleet.assembly.reservations import quotas_reserved
from gpujob.fleet.assembly.usage import PodReservation, reservations_of
from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.policy.resource_quota import objects_of, quotas_of, read_quota
from gpujob.status.attempts.ownership import is_child, is_stray
from gpujob.status.records.read_objects import read_child, read_job, read_pod_record
from gpujob.values.names import child_name
from gpujob.values.vocabulary import Label


def gpujob(**status: Any) -> dict[str, Any]:
    metadata = {"name": "j", "namespace": "team", "uid": "u", "resourceVersion": "2"}
    return {"metadata": metadata, "spec": {}, "status": status}


def child(number: int = 1, uid: str = "c", **metadata: Any) -> dict[str, Any]:
    """A Job that asks for all GPUs of node n1 and has no pods."""
    pins = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": pins}}}
    train = {"name": "train", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    head = {
        "name": child_name("j", "u", number),
        "namespace": "team",
        "uid": uid,
        "resourceVersion": "3",
        "labels": {Label.JOB_UID: "u", Label.ATTEMPT: str(number)},
        "ownerReferences": [{"kind": "GPUJob", "name": "j", "uid": "u", "controller": True}],
    }
    pod = {"affinity": affinity, "containers": [train]}
    return {"metadata": {**head, **metadata}, "spec": {"suspend": True, "template": {"spec": pod}}}


def pod(owner: str, **metadata: Any) -> dict[str, Any]:
    head = {
        "name": "p",
        "namespace": "team",
        "uid": "p",
        "resourceVersion": "4",
        "labels": {Label.JOB_UID: "u", Label.ATTEMPT: "1"},
        "ownerReferences": [{"kind": "Job", "name": "x", "uid": owner, "controller": True}],
    }
    return {"metadata": {**head, **metadata}, "spec": {}, "status": {"phase": "Failed"}}


RECORDED = {"state": "Running", "attempt": 1, "jobName": child_name("j", "u", 1), "jobUID": "c"}
FOREIGN = [
    pytest.param(child(namespace="another"), {}, id="another namespace"),
    pytest.param(child(name="mine"), {}, id="another name"),
    pytest.param(child(name=child_name("j", "v", 1)), {}, id="the name of another job's child"),
    pytest.param(child(ownerReferences=[]), {}, id="nobody's"),
]
FINAL = RECORDED | {"state": "Failed"}
STRAYS = [
    pytest.param(child(2), {}, id="an attempt that is not the next"),
    pytest.param(child(99, uid="d"), RECORDED, id="a much later attempt"),
    pytest.param(child(uid="d"), RECORDED, id="the name of the recorded child"),
    pytest.param(child(uid="d"), FINAL, id="the name of the recorded child after the job's end"),
]
STRANGERS = FOREIGN + STRAYS
OURS = [
    pytest.param(child(), {}, id="made before the status could say so"),
    pytest.param(child(), RECORDED, id="recorded"),
    pytest.param(child(labels={}), RECORDED, id="recorded, and a user removed its labels"),
    pytest.param(child(2, uid="d"), RECORDED | {"jobName": None, "jobUID": None}, id="the next attempt"),
    pytest.param(child(), {"attempt": 1, "jobName": child_name("j", "u", 1)}, id="recorded before uids were"),
    pytest.param(child(), {"attempt": 3}, id="an earlier attempt, which is to be deleted"),
]


@pytest.mark.parametrize(("raw", "status"), STRANGERS)
def test_a_stranger_neither_tells_of_a_job_nor_holds_gpus(raw: Any, status: Any) -> None:
    assert not is_child(read_child(raw), read_job(gpujob(**status)))
    index = book_of(gpujob(**status), raw)
    assert (index.child("u"), index.children_of("u")) == (None, [])
    assert list(index.children()) == []
    assert index.fleet().pools[0].free == 8


@pytest.mark.parametrize(("raw", "status", "stray"), [
    *((*each.values, False) for each in FOREIGN + OURS), *((*each.values, True) for each in STRAYS),
])  # fmt: skip
def test_a_job_under_the_name_of_a_child_that_is_none_is_a_stray(raw: Any, status: Any, stray: bool) -> None:
    job = read_job(gpujob(**status))
    assert is_stray(read_child(raw), job) is stray
    assert [each.uid for each in book_of(gpujob(**status), raw).strays_of(job)] == [raw["metadata"]["uid"]] * stray


@pytest.mark.parametrize(("raw", "status"), OURS)
def test_what_the_operator_made_is_a_child(raw: Any, status: Any) -> None:
    index = book_of(gpujob(**status), raw)
    assert [each.uid for each in index.children_of("u")] == [raw["metadata"]["uid"]]
    assert index.fleet().pools[0].free == 0


def test_a_child_beside_a_stranger_is_the_child() -> None:
    index = book_of(gpujob(**RECORDED), child(99, uid="d"), child())
    found = index.child("u")
    assert found is not None
    assert found.uid == "c"


def test_the_number_of_an_attempt_is_that_of_its_name() -> None:
    labels = {Label.JOB_UID: "u", Label.ATTEMPT: "7"}
    assert read_child(child(labels=labels)).attempt == 1


def test_what_a_child_holds_follows_its_gpujob() -> None:
    index = book_of(None, child())
    assert index.fleet().pools[0].free == 8
    index.cache.apply("gpujobs", "ADDED", gpujob(**RECORDED))
    index.take(index.cache.take_changes())
    assert index.fleet().pools[0].free == 0
    index.cache.apply("gpujobs", "DELETED", gpujob(**RECORDED))
    index.take(index.cache.take_changes())
    assert index.fleet().pools[0].free == 8


def test_a_child_that_is_deleted_and_held_by_a_finalizer_holds_no_gpus() -> None:
    index = book_of(gpujob(**RECORDED), child(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["team/mine"]))
    assert index.fleet().pools[0].free == 8


def test_a_suspended_child_holds_no_more_than_was_decided() -> None:
    """Who may change a Job can give one that is suspended other nodes, and more pods."""
    raw = child()
    node = {"nodes": 1, "gpusPerNode": 2, "nodeNames": ["n2"]}
    assert [each.free for each in book_of(gpujob(**RECORDED, placement=node), raw).fleet().pools] == [8]
    node = {"nodes": 1, "gpusPerNode": 2, "nodeNames": ["n1"]}
    raw["spec"]["completions"] = 900
    assert [each.free for each in book_of(gpujob(**RECORDED, placement=node), raw).fleet().pools] == [6]


def test_pods_of_other_namespaces_tell_nothing_of_a_job() -> None:
    index = book_of(gpujob(**RECORDED), child())
    one = index.child("u")
    assert one is not None
    index.cache.replace("pods", [pod("c", name="q", namespace="another"), pod("d"), pod("c", name="r")], "9")
    index.take(index.cache.take_changes())
    assert [each.name for each in index.pods(one)] == ["r"]


@pytest.mark.parametrize(("namespace", "left"), [("team", 8), ("another", 0)])
def test_a_pod_of_another_namespace_keeps_no_promise_of_a_quota(namespace: str, left: int) -> None:
    hard = {"requests.nvidia.com/gpu": "8"}
    quota = read_quota({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": {}}})
    reservation = PodReservation("u", "n1", "nvidia.com/gpu", 8, Resources(), 1, "team")
    there = read_pod_record(pod("c", namespace=namespace)).use
    after = quotas_reserved(quotas_of([("team", quota)]), [reservation], [there], {}, ())
    assert after["team"][0].left["requests.nvidia.com/gpu"] == left


@pytest.mark.parametrize("name", ["count/jobs.batch", "services", "count/services"])
def test_a_job_whose_pods_are_to_come_was_counted(name: str) -> None:
    """The child exists, and its quota says so; of its two pods none is there yet."""
    raw = {"metadata": {"name": "q"}, "status": {"hard": {name: "3", "pods": "9"}, "used": {name: "1", "pods": "0"}}}
    gang = reservations_of("u", 1, "team", ("n1", "n2"), "p", "nvidia.com/gpu", 8, Resources(), [("rdma/hca", 1)])
    (after,) = quotas_reserved(quotas_of([("team", read_quota(raw))]), gang, [], {}, ())["team"]
    assert (after.left[name], after.left["pods"]) == (2, 7)


@pytest.mark.parametrize(("pods", "services"), [(1, 0), (3, 1)])
def test_a_gang_whose_child_is_not_made_yet_takes_its_objects_once(pods: int, services: int) -> None:
    hard = {"count/jobs.batch": "3", "count/services": "3", "pods": "9", "requests.rdma/hca": "9"}
    quota = read_quota({"metadata": {"name": "q"}, "status": {"hard": hard, "used": {}}})
    nodes = tuple(f"n{number}" for number in range(pods))
    gang = reservations_of(
        "u",
        1,
        "team",
        nodes,
        "p",
        "nvidia.com/gpu",
        8,
        Resources(),
        [("rdma/hca", 1)],
        objects=objects_of(pods, by_claim=False).items(),
    )
    (after,) = quotas_reserved(quotas_of([("team", quota)]), gang, [], {}, ())["team"]
    assert dict(after.left) == {
        "count/jobs.batch": 2, "count/services": 3 - services, "pods": 9 - pods, "requests.rdma/hca": 9 - pods,
    }  # fmt: skip


@pytest.mark.parametrize(("storage_class", "fast"), [("", 80), ("fast", 80), ("slow", 100)])
def test_claims_that_pods_to_come_will_make_are_counted(storage_class: str, fast: int) -> None:
    """Those without a StorageClass are of the default one, fast."""
    of_class = "fast.storageclass.storage.k8s.io/requests.storage"
    hard = {"persistentvolumeclaims": "3", "requests.storage": "100", of_class: "100"}
    quota = read_quota({"metadata": {"name": "q"}, "status": {"hard": hard, "used": {}}})
    gang = reservations_of(
        "u", 1, "team", ("n1", "n2"), "p", "nvidia.com/gpu", 8, Resources(), new_claims=((storage_class, 10),)
    )
    (after,) = quotas_reserved(quotas_of([("team", quota)]), gang, [], {}, (), "fast")["team"]
    left = {"persistentvolumeclaims": 1, "requests.storage": 80, of_class: fast}
    assert dict(after.left) == left
    there = [read_pod_record(pod("c", name=name)).use for name in "pq"]
    (counted,) = quotas_reserved(quotas_of([("team", quota)]), gang, there, {}, (), "fast")["team"]
    assert counted.left == quota.left


def test_the_index_takes_the_volumes_of_children_until_their_pods_are_there() -> None:
    made = child()
    template = {"spec": {"storageClassName": "local", "resources": {"requests": {"storage": "1Gi"}}}}
    made["spec"]["template"]["spec"]["volumes"] = [{"name": "e", "ephemeral": {"volumeClaimTemplate": template}}]
    index = book_of(gpujob(**RECORDED, placement={"nodes": 1, "gpusPerNode": 8, "nodeNames": ["n1"]}), made)
    storage = {
        "metadata": {"name": "local", "uid": "s", "resourceVersion": "5"},
        "provisioner": "kubernetes.io/no-provisioner",
    }
    disk = {
        "metadata": {"name": "v", "uid": "v", "resourceVersion": "5"},
        "spec": {"storageClassName": "local", "capacity": {"storage": "1Gi"}},
        "status": {"phase": "Available"},
    }
    index.cache.replace("storageclasses", [storage], "5")
    index.cache.replace("persistentvolumes", [disk], "5")
    index.take(index.cache.take_changes())
    assert dict(index.fleet().volumes.taken) == {"v": None}
    for version in range(6, 306):
        phase = {"status": {"phase": ("Pending", "Failed")[version % 2]}}
        index.cache.replace("pods", [pod("c", resourceVersion=str(version)) | phase], str(version))
        index.take(index.cache.take_changes())
    left = index.fleet().volumes
    assert dict(left.taken) == {"v": None}
    other = pod("x", name="q", uid="q", labels={}, resourceVersion="306")
    other["spec"], other["status"] = {"nodeName": "n1", "containers": [{"name": "c"}]}, {"phase": "Running"}
    index.cache.apply("pods", "ADDED", other)
    index.take(index.cache.take_changes())
    assert index.fleet().volumes is left, "a pod of no such job changes nothing"
    running = {"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
    index.cache.replace("pods", [pod("c", resourceVersion="307") | running], "307")
    index.take(index.cache.take_changes())
    assert dict(index.fleet().volumes.taken) == {}


def book_of(job: Any, *children: Any) -> ClusterIndex:
    """A index of one node with 8 GPUs, a GPUJob and what says that it is a child of it."""
    cache = ObjectCache(mirrored("gpujob-runner-x"))
    for kind in cache.kinds:
        cache.replace(kind, [], "1")
    raw = node("n1", H100)
    cache.replace("nodes", [raw | {"metadata": raw["metadata"] | {"uid": "n", "resourceVersion": "2"}}], "2")
    cache.replace("gpujobs", [job] if job else [], "2")
    cache.replace("jobs", list(children), "3")
    index = ClusterIndex(cache, ANY_IMAGES)
    index.take(cache.take_changes())
    return index
