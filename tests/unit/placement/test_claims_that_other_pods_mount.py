"""A claim that another pod mounts: which nodes are left, what a job says that waits, and what is reserved for it."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ANY_IMAGES, H100, MI300X, Object, demand, fleet, gpupool, node, pod

from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.engine.choose import choose, waits_for
from gpujob.placement.engine.decide import decide
from gpujob.placement.filters.volumes import mounted
from gpujob.placement.report import summary
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Outcome, Reason, Verdict

GPU = "nvidia.com/gpu"


def claim(name: str = "c", mode: str = "ReadWriteOnce", namespace: str = "default") -> Object:
    spec = {"volumeName": f"pv-{name}", "accessModes": [mode]}
    metadata = {"name": name, "namespace": namespace}
    bound = {"phase": "Bound"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
        "status": bound,
    }


def using(name: str, on: str, *claims: str, gpus: int = 0, namespace: str = "default") -> Object:
    raw = pod(name, on, {GPU: gpus} if gpus else {}, cpu="1", memory="1Gi")
    raw["metadata"]["namespace"] = namespace
    raw["spec"]["volumes"] = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return raw


def wish(*claims: str, **spec: Any) -> Demand:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return demand(volumes=volumes, volumeMounts=[{"name": each, "mountPath": f"/{each}"} for each in claims], **spec)


def decided(known: Fleet, wanted: Demand) -> Decision:
    """The decision, which the choice alone agrees with."""
    asked = mounted(wanted, known, "default")
    found = decide(asked, known, ANY_IMAGES)
    assert choose(asked, known, ANY_IMAGES).verdict is found.verdict
    return found


def place(*objects: Object, claims: tuple[str, ...] = ("c",), **spec: Any) -> Decision:
    return decided(fleet(*objects, catalog=ANY_IMAGES), wish(*claims, **spec))


def nodes_of(found: Decision) -> tuple[str, ...]:
    assert found.choice is not None, summary.summary(found)
    return found.choice.nodes


TWO = (node("a", H100, price="1"), node("b", H100, price="1"))
CHEAP, DEAR = node("a", H100, price="1"), node("b", MI300X, price="9")


def test_a_job_goes_to_the_node_of_the_pod_also_in_a_dearer_pool() -> None:
    assert nodes_of(place(*TWO, claim(), using("p", "b", "c"))) == ("b",)
    assert nodes_of(place(CHEAP, DEAR, claim(), using("p", "b", "c"))) == ("b",)
    assert nodes_of(place(CHEAP, DEAR, claim())) == ("a",)


def test_two_pods_on_two_nodes_leave_both() -> None:
    known = [node("z", H100, price="1"), *TWO, claim(), using("p", "b", "c", gpus=8), using("q", "z", "c")]
    assert nodes_of(place(*known)) == ("z",)


@pytest.mark.parametrize(
    ("objects", "spec", "sentence", "reasons"),
    [
        ([*TWO, claim(), using("p", "b", "c", gpus=8)], {},
         "PersistentVolumeClaim c is mounted on node b by pod p, and one node at a time can mount it; "
         "needs 1 free GPU on one node, 0 of 8 are free", [Reason.ACCESS_MODE, Reason.NOT_ENOUGH_FREE]),
        ([*TWO, claim(), using("p", "cpu", "c"), using("q", "cpu", "c"), using("r", "cpu", "c")], {},
         "PersistentVolumeClaim c is mounted on node cpu by pod p and 2 more, and one node at a time can mount it",
         [Reason.ACCESS_MODE]),
        ([*TWO, claim(mode="ReadWriteOncePod"), using("p", "b", "c")], {},
         "PersistentVolumeClaim c is mounted on node b by pod p, and one pod at a time can mount it", [Reason.ACCESS_MODE]),
        ([node("a", H100), node("b", H100, cordoned=True), claim(), using("p", "b", "c")], {},
         "PersistentVolumeClaim c is mounted on node b by pod p, and one node at a time can mount it; node b is cordoned",
         [Reason.ACCESS_MODE, Reason.CORDONED]),
        ([node("a", H100), node("b", H100, allocatable={"cpu": "2"}), claim(), using("p", "b", "c")], {"resources": {"cpu": "8"}},
         "PersistentVolumeClaim c is mounted on node b by pod p, and one node at a time can mount it; "
         "needs 8 CPU on one node, 1 of 2 nodes have that", [Reason.ACCESS_MODE, Reason.NODE_TOO_SMALL]),
    ],
)  # fmt: skip
def test_a_job_without_room_there_waits_and_says_for_what(
    objects: list[Object], spec: dict[str, Any], sentence: str, reasons: list[Reason]
) -> None:
    found = place(*objects, **spec)
    assert found.verdict is Verdict.WAITING
    assert summary.summary(found).split(": ", 1)[1].split("; now")[0] == sentence
    assert [each.reason for each in found.candidates[0].reasons] == reasons


def test_claims_on_two_nodes_leave_none() -> None:
    found = place(*TWO, claim(), claim("d"), using("p", "a", "c"), using("q", "b", "d"), claims=("c", "d"))
    assert found.verdict is Verdict.WAITING
    assert [each.reason for each in found.candidates[0].reasons] == [Reason.ACCESS_MODE, Reason.ACCESS_MODE]


def test_a_volume_of_a_node_that_a_pod_mounts_elsewhere_waits_and_is_never_impossible() -> None:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}]
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-c"},
              "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}  # fmt: skip
    assert place(*TWO, claim(), volume, using("p", "b", "c")).verdict is Verdict.WAITING
    assert nodes_of(place(*TWO, claim(), volume, using("p", "a", "c"))) == ("a",)


@pytest.mark.parametrize(
    "objects",
    [
        [claim(), using("p", "b", "c", namespace="other")],
        [claim(), claim(namespace="other"), using("p", "b", "c", namespace="other")],
        [claim(mode="ReadWriteMany"), using("p", "b", "c")],
        [using("p", "b", "c")],
    ],
)
def test_what_ties_no_job(objects: list[Object]) -> None:
    """Another namespace's claim, one of many nodes, and one of which nothing is known."""
    assert nodes_of(place(*TWO, *objects, pod("full", "a", {GPU: 7}))) == ("a",)


@pytest.mark.parametrize(
    "source",
    [{"nfs": {"server": "s", "path": "/"}}, {"csi": {"driver": "efs.csi.aws.com"}}, {"accessModes": ["ReadWriteMany"]}],
)
def test_of_a_volume_that_nothing_attaches_a_claim_of_one_node_ties_no_job_and_one_of_a_pod_does(
    source: Object,
) -> None:
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-c"}, "spec": source}
    known = [*TWO, volume, using("p", "b", "c"), pod("full", "a", {GPU: 7})]
    assert nodes_of(place(*known, claim())) == ("a",)
    assert place(*known, claim(mode="ReadWriteOncePod")).verdict is Verdict.WAITING
    assert place(*known, claim(), nodes=2).verdict is Verdict.IMPOSSIBLE


def test_a_gang_over_nodes_stays_impossible_and_the_shape_of_one_node_goes_there() -> None:
    known = [*TWO, claim(), using("p", "b", "c")]
    assert place(*known, nodes=2).verdict is Verdict.IMPOSSIBLE
    shapes = [{"nodes": 2, "gpusPerNode": 4}, {"gpusPerNode": 8}]
    assert nodes_of(place(*known, shapes=shapes)) == ("b",)


def test_a_job_without_claims_is_decided_as_before() -> None:
    known = fleet(*TWO, claim(), using("p", "b", "c"), catalog=ANY_IMAGES)
    plain = demand()
    assert mounted(plain, known, "default") is plain
    assert known.mounts


def test_jobs_of_two_namespaces_with_claims_of_one_name_are_two_demands() -> None:
    known = fleet(*TWO, claim(), claim(namespace="other"), catalog=ANY_IMAGES)
    mine, theirs = (mounted(wish("c"), known, namespace) for namespace in ("default", "other"))
    assert mine != theirs
    assert mine == mounted(wish("c"), known, "default")


def test_a_node_that_is_added_cannot_mount_what_another_node_has() -> None:
    pool = gpupool("g", {"pool": "g"}, accelerator="H100-SXM", provision={"maxNodes": 2, "gpusPerNode": 8})
    there = node("b", H100, labels={"pool": "g"})
    assert place(pool, there, claim(), using("p", "b", "c", gpus=8)).verdict is Verdict.WAITING
    assert place(pool, claim(), using("p", "cpu", "c")).verdict is Verdict.WAITING
    assert nodes_of(place(pool, there, claim(), pod("full", "b", {GPU: 8}))) == ("",)
    assert nodes_of(place(pool, there, claim(), using("p", "b", "c"))) == ("b",)


def test_devices_are_reserved_only_where_the_claim_can_be_mounted() -> None:
    def reserved(*objects: Object, **spec: Any) -> list[tuple[str, int]]:
        known = fleet(*TWO, *objects, catalog=ANY_IMAGES)
        holds = waits_for(mounted(wish("c", **spec), known, "default"), known, ANY_IMAGES)
        return [each for hold in holds for each in hold.on]

    taken = pod("full", "a", {GPU: 1})
    assert reserved(claim(), taken, using("p", "b", "c", gpus=6), gpusPerNode=8) == [("b", 2)]
    assert reserved(claim(), using("p", "cpu", "c"), gpusPerNode=8) == []
    assert reserved(claim(mode="ReadWriteOncePod"), using("p", "b", "c"), gpusPerNode=8) == []


def test_a_pool_that_waits_for_a_claim_is_not_called_busy() -> None:
    known = [node("a", H100, price="1"), node("b", MI300X, price="9"), claim(), using("p", "b", "c")]
    found = place(*known, placement={"vendors": ["NVIDIA"]})
    assert "where a volume of the job cannot be mounted now: PersistentVolumeClaim c" in summary.summary(found)
    assert {each.outcome for each in found.candidates} == {Outcome.BUSY, Outcome.REJECTED}
