"""Several claims without volumes yet: each takes a PersistentVolume of its own, on one node, and later jobs do not get it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import ANY_IMAGES, Object, demand, fleet, pod

from gpujob.fleet.assembly.usage import PodReservation
from gpujob.fleet.kubernetes.objects import Pod, Resources
from gpujob.fleet.kubernetes.parse import read_pod
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
from gpujob.placement.engine.decide import decide
from gpujob.placement.filters.volumes import mounted
from gpujob.placement.report import summary
from gpujob.placement.scoring.candidate import Decision
from gpujob.schedule.answers import LastRejections
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import ALWAYS, SchedulingCycle, place_all
from gpujob.values.vocabulary import Label, Reason, Verdict
from tests.unit.placement.test_claims_that_are_not_bound import (
    HOST,
    LOCAL,
    NOWHERE,
    TO_BE_MADE,
    ZONE,
    claim,
    kind_of,
    machine,
    of_pod,
    outcome,
    volume,
)  # fmt: skip

A, B = machine("a", "z-a"), machine("b", "z-b")
ANYWHERE = {"nodeAffinity": {}}


def claims(*names: str, kind: str = "local", **more: Any) -> list[Object]:
    return [claim(kind, **more) | {"metadata": {"name": name, "namespace": "default"}} for name in names]


def disks(nodes: str, **more: Any) -> list[Object]:
    """A local disk for each letter, on the node of that name."""
    return [volume(f"p{number}", HOST, node, **more) for number, node in enumerate(nodes)]


def named(*names: str) -> list[Object]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]


@pytest.mark.parametrize("plain", ["c", "d"])
@pytest.mark.parametrize("names", ["vw", "wv"])
def test_of_equal_volumes_a_claim_leaves_those_that_another_one_needs(plain: str, names: str) -> None:
    """One of two claims selects a label, and both volumes have one size."""
    selecting = claim("local", selector={"matchLabels": {"t": "x"}})
    each = [claim("local") if name == plain else selecting for name in "cd"]
    objects = [one | {"metadata": {"name": name, "namespace": "default"}} for one, name in zip(each, "cd", strict=True)]
    there = [volume(name, HOST, "a") for name in names]
    there[0] = there[0] | {"metadata": {"name": names[0], "labels": {"t": "x"}}}
    assert outcome(place(fleet(LOCAL, A, B, *objects, *there, catalog=ANY_IMAGES), CD)) == "a"


@pytest.mark.parametrize("nodes", ["ab", "ba"])
def test_the_order_of_volumes_changes_no_sentence(nodes: str) -> None:
    there = [volume(f"p{node}", HOST, f"other-{node}") for node in nodes]
    found = place(fleet(LOCAL, A, B, *claims("c"), *there, catalog=ANY_IMAGES), named("c"))
    assert "kubernetes.io/hostname In other-a other-b" in summary.summary(found)


def own(count: int, storage_class: str = "local") -> list[Object]:
    return [{**of_pod(storage_class), "name": f"e{number}"} for number in range(count)]


def place(known: Fleet, volumes: list[Object], **spec: Any) -> Decision:
    return decide(mounted(demand(volumes=volumes, **spec), known, "default"), known, ANY_IMAGES)


CD = named("c", "d")


@pytest.mark.parametrize(("objects", "volumes", "right"), [
    ([*claims("c", "d"), *disks("abb")], CD, "b"),
    ([*claims("c", "d"), *disks("aabb")], CD, "a"),
    ([*claims("c", "d"), *disks("b")], CD, TO_BE_MADE),
    ([*claims("c", "d"), *disks("ab")], CD, TO_BE_MADE),
    ([*claims("c", "d"), *disks("a"), volume("q", ZONE, "z-b")], CD, TO_BE_MADE),
    ([*claims("c", "d", "e"), *disks("aabbb")], named("c", "d", "e"), "b"),
    (disks("abb"), own(2), "b"),
    (disks("b"), own(2), TO_BE_MADE),
    (disks("ab"), own(2), TO_BE_MADE),
    ([*claims("c"), *disks("abb")], [*named("c"), *own(1)], "b"),
    ([*claims("c"), *disks("b")], [*named("c"), *own(1)], TO_BE_MADE),
    # A disk for all nodes is enough for the second claim.
    ([*claims("c", "d"), *disks("b"), volume("all", **ANYWHERE)], CD, "b"),
    # The small claim takes the small disk, and the large one what is left.
    ([*claims("d"), *claims("c", size="20Gi"), *disks("a"), *disks("b", capacity={"storage": "20Gi"}),
      volume("p9", HOST, "b")], CD, "b"),
    # A disk that is kept for one of them is not the other one's.
    ([*claims("c", "d"), *disks("bb", claimRef={"namespace": "default", "name": "c"}), volume("q", HOST, "b")], CD, "b"),
    ([*claims("c", "d"), *disks("bb", claimRef={"namespace": "default", "name": "c"}), volume("q", HOST, "a")], CD, TO_BE_MADE),
    ([*claims("c", "d", kind=""), *disks("b", storageClassName="")], CD, TO_BE_MADE),
    ([*claims("c", "d", kind=""), *disks("abb", storageClassName="")], CD, "b"),
    # A claim that is bound takes none.
    ([*claims("c"), *claims("d", volume="v"), volume("v", HOST, "b", phase="Bound"), *disks("ab")], CD, "b"),
    ([*claims("c"), *claims("d", volume="v"), volume("v", HOST, "b", phase="Bound"), *disks("a")], CD, TO_BE_MADE),
    ([*claims("c", "e"), *claims("d", volume="v"), volume("v", HOST, "b", phase="Bound"), *disks("aab")],
     named("c", "d", "e"), TO_BE_MADE),
    ([*claims("c", volume="p0"), *claims("d", volume="p1"), *disks("ab", phase="Bound")], CD, NOWHERE),
    ([*claims("c", volume="p0"), *claims("d"), *disks("a", phase="Bound"), volume("q", ZONE, "z-b")], CD, TO_BE_MADE),
    ([*claims("c"), *disks("z")], named("c"), TO_BE_MADE),
    # What is kept for a claim is the only one that it takes, wherever others are made.
    ([*claims("c"), *disks("z", claimRef={"namespace": "default", "name": "c"})], named("c"), NOWHERE),
])  # fmt: skip
def test_each_claim_takes_its_own_volume(objects: list[Object], volumes: list[Object], right: str) -> None:
    assert outcome(place(fleet(LOCAL, A, B, *objects, catalog=ANY_IMAGES), volumes)) == right


@pytest.mark.parametrize(("zone", "left", "right"), [
    ("z-b", "", "b"),
    # One claim takes what is left, and a volume is made for the other one in its zone alone.
    ("z-b", "a", "b"),
    ("z-a", "a", "a"),
    ("z-c", "a", NOWHERE),
    ("z-c", "aa", "a"),
])  # fmt: skip
def test_a_class_that_makes_volumes_makes_those_that_are_missing(zone: str, left: str, right: str) -> None:
    known = fleet(kind_of("std", zone), A, B, *disks(left, storageClassName="std"), catalog=ANY_IMAGES)
    assert outcome(place(known, own(2, "std"))) == right


@pytest.mark.parametrize(("objects", "right"), [
    ([volume("all", **ANYWHERE)], TO_BE_MADE),
    ([volume("all", **ANYWHERE), volume("more", **ANYWHERE)], "a,b"),
    (disks("ab"), "a,b"),
    (disks("aa"), TO_BE_MADE),
])  # fmt: skip
def test_each_pod_of_a_gang_takes_its_own_volume(objects: list[Object], right: str) -> None:
    assert outcome(place(fleet(LOCAL, A, B, *objects, catalog=ANY_IMAGES), own(1), nodes=2)) == right


def queue(known: Fleet, *jobs: list[Object], **spec: Any) -> list[str]:
    """The outcome of each job of a queue."""
    wanted = [demand(volumes=volumes, **spec) for volumes in jobs]
    waiting = [PendingJob(f"u{at}", "", each, namespace="default", name=f"j{at}") for at, each in enumerate(wanted)]
    return [outcome(placing.decision) for placing in place_all(waiting, known, ANY_IMAGES)]


@pytest.mark.parametrize(("left", "jobs", "right"), [
    ("b", [named("c"), named("d")], ["b", TO_BE_MADE]),
    ("ab", [named("c"), named("d")], ["a", "b"]),
    ("abb", [CD, own(1)], ["b", "a"]),
    ("ab", [own(1), own(1), own(1)], ["a", "b", TO_BE_MADE]),
    ("aab", [own(1), named("c"), named("d")], ["a", "a", "b"]),
    # The same claim is bound once.
    ("ab", [named("c"), named("c"), named("d")], ["a", "a", "b"]),
])  # fmt: skip
def test_a_later_job_gets_no_volume_that_an_earlier_one_takes(
    left: str, jobs: list[list[Object]], right: list[str]
) -> None:
    assert queue(fleet(LOCAL, A, B, *claims("c", "d"), *disks(left), catalog=ANY_IMAGES), *jobs) == right


def test_each_pod_of_an_earlier_gang_takes_one() -> None:
    known = fleet(LOCAL, A, B, *disks("aab"), catalog=ANY_IMAGES)
    assert queue(known, own(1), own(1), nodes=2) == ["a,b", TO_BE_MADE]


def test_the_sentence_says_how_many_are_left() -> None:
    known = fleet(LOCAL, A, B, *claims("c", "d"), *disks("b"), catalog=ANY_IMAGES)
    assert (
        "PersistentVolumeClaim d is not bound, and StorageClass local makes no volumes and has 1 PersistentVolume left "
        "for 2 claims of the job, so no pod with it starts; create such a PersistentVolume or remove it from the job"
    ) in summary.summary(place(known, CD))
    apart = fleet(LOCAL, A, B, *claims("c", "d"), *disks("ab"), catalog=ANY_IMAGES)
    assert summary.summary(place(apart, CD)) == (
        "PersistentVolumeClaim d is not bound, and no node has a PersistentVolume for each of c and d, so no pod with it "
        "starts; create one on a node that has those of the others or remove it from the job"
    )
    zones = fleet(LOCAL, A, B, *claims("c", "d"), *disks("a"), volume("q", ZONE, "z-b"), catalog=ANY_IMAGES)
    assert "c and d together (each takes a PersistentVolume of its own) can be mounted on none of its 2 nodes" in (
        summary.summary(place(zones, CD))
    )


def test_a_sentence_names_the_first_of_many_nodes_and_claims() -> None:
    names = [f"node-{number:04}" for number in range(1500)]
    many = [volume(f"v-{name}", HOST, name, capacity={"storage": "10Gi"}) for name in names]
    known = fleet(LOCAL, A, *claims("c"), *many, catalog=ANY_IMAGES)
    shown = "kubernetes.io/hostname In node-0000 node-0001 node-0002 and 1497 more"
    assert f"PersistentVolumeClaim c (StorageClass local: {shown}) can be" in summary.summary(place(known, named("c")))
    one = volume("v", HOST, *names, phase="Bound")
    bound = fleet(LOCAL, A, *claims("c", volume="v"), one, catalog=ANY_IMAGES)
    assert f"PersistentVolumeClaim c ({shown}) can be" in summary.summary(place(bound, named("c")))
    each = [f"c{number:02}" for number in range(64)]
    all_of_b = [volume(f"v{number}", HOST, "b") for number in range(64)]
    elsewhere = fleet(LOCAL, A, *claims(*each), *all_of_b, catalog=ANY_IMAGES)
    on_b = "(StorageClass local: kubernetes.io/hostname In b)"
    assert f"PersistentVolumeClaim c00 {on_b}, c01 {on_b}, c02 {on_b} and 61 more can be mounted on none" in (
        summary.summary(place(elsewhere, named(*each)))
    )


def reserving(node: str, *names: str, makes: int = 0, job: str = "j0") -> PodReservation:
    """The reservation of a job that was placed in an earlier cycle."""
    new_claims = (("local", 10 * 2**30),) * makes
    return PodReservation(
        f"uid-{job}", node, "nvidia.com/gpu", 1, Resources(1000, 2**30, 0, 1), 1, "default", "p", volume_claims=names,
        job=job, new_claims=new_claims,
    )  # fmt: skip


def started(on: str) -> Pod:
    """The pod of that job."""
    raw = pod("p", on, {"nvidia.com/gpu": 1})
    raw["metadata"]["labels"] = {Label.JOB_UID: "uid-j0", Label.ATTEMPT: "1"}
    return read_pod(raw)


@pytest.mark.parametrize(("left", "reservations", "pods", "right"), [
    ("b", [reserving("b", "c")], [], TO_BE_MADE),
    ("bb", [reserving("b", "c")], [], "b"),
    ("ab", [reserving("b", "c")], [], "a"),
    ("b", [reserving("", "c")], [], "b"),
    ("b", [reserving("b", makes=1)], [], TO_BE_MADE),
    ("b", [reserving("b", makes=1)], [started("")], TO_BE_MADE),
    # Its claim is bound once its pod is on the node.
    ("b", [reserving("b", makes=1)], [started("b")], "b"),
    ("b", [reserving("b", "nowhere")], [], "b"),
    ("ab", [reserving("a", makes=1), reserving("b", makes=1)], [], TO_BE_MADE),
    ("ab", [reserving("a", "c"), reserving("b", makes=1, job="j1")], [], TO_BE_MADE),
])  # fmt: skip
def test_what_a_job_of_an_earlier_cycle_takes_is_taken_until_it_is_bound(
    left: str, reservations: list[PodReservation], pods: list[Pod], right: str
) -> None:
    objects = read_cluster([LOCAL, A, B, *claims("c", "d"), *disks(left)])
    described = replace(objects, reservations=tuple(reservations), pods=tuple(pods))
    known, _ = fleet_of(described, ANY_IMAGES)
    assert queue(known, named("d")) == [right]


def test_a_refusal_holds_only_while_the_same_volumes_are_taken() -> None:
    objects = read_cluster([LOCAL, A, B, *claims("c", "d"), *disks("b")])
    (before, _), (after, _) = (
        fleet_of(replace(objects, reservations=reserved), ANY_IMAGES) for reserved in ((reserving("b", "c"),), ())
    )
    refusals = LastRejections()
    refusals.begin("facts")
    waiting = PendingJob("u", "", demand(volumes=named("d")), namespace="default", name="j")
    cycle = SchedulingCycle(ANY_IMAGES, refusals=refusals)
    assert [placing and placing.verdict for placing in cycle.run([waiting], before, ALWAYS)] == [Verdict.MISCONFIGURED]
    assert list(refusals.retry(before, ANY_IMAGES, "facts")) == [True]
    assert list(refusals.retry(after, ANY_IMAGES, "facts")) == [False]


def test_a_claim_that_is_to_be_made_again_has_one_remedy() -> None:
    """Its access mode is chosen again then."""
    once = {"accessModes": ["ReadWriteOnce"]}
    reasons = []
    for left in ("", "a"):
        known = fleet(LOCAL, A, B, *claims("c", **once), *disks(left, **once), catalog=ANY_IMAGES)
        found = place(known, named("c"), nodes=2)
        reasons.append({each.reason for one in found.candidates for each in one.reasons} & {Reason.ACCESS_MODE})
        assert (found.verdict is Verdict.MISCONFIGURED) == (not left)
    assert reasons == [set(), {Reason.ACCESS_MODE}]
