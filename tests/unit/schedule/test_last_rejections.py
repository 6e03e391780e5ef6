"""What a cycle rejected holds for the next one while nothing was gained; then each class of equal demands is decided again alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from builders import ANY_IMAGES, H100, demand, fleet, load_catalog, node, pod

from gpujob.fleet.pools.fleet import Fleet
from gpujob.schedule.answers import Answer, LastRejections
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import ALWAYS, SchedulingCycle


def on(*busy: int) -> Fleet:
    """Nodes of 8 GPUs, so many of which are taken."""
    pods = (pod(f"p{number}", f"n{number}", {"nvidia.com/gpu": taken}) for number, taken in enumerate(busy) if taken)
    return fleet(*(node(f"n{number}", H100) for number in range(len(busy))), *pods, catalog=ANY_IMAGES)


def job(name: str, gpus: int = 8, namespace: str = "team", *, plan_only: bool = False, **spec: Any) -> PendingJob:
    return PendingJob(name, name, demand(gpusPerNode=gpus, **spec), plan_only, namespace, name)


def cycle(
    known: Fleet, *jobs: PendingJob, held: LastRejections | None = None, facts: object = "facts"
) -> LastRejections:
    """The rejections after one cycle."""
    rejections = held or LastRejections()
    rejections.begin(facts)
    list(SchedulingCycle(ANY_IMAGES, None, rejections).run(jobs, known, ALWAYS))
    return rejections


FULL = on(8, 8)
SHORT = on(4, 8)


def retried(rejections: LastRejections, known: Fleet, facts: object = "facts") -> list[bool]:
    return list(rejections.retry(known, ANY_IMAGES, facts))


def test_before_any_cycle_a_whole_one_is_needed() -> None:
    assert retried(LastRejections(), FULL, None) == [False]


def test_after_a_time_without_jobs_a_whole_one_is_needed() -> None:
    rejections = cycle(FULL, job("a"))
    rejections.forget()
    assert retried(rejections, FULL) == [False]


def test_where_nothing_is_gained_each_class_is_rejected_again() -> None:
    rejections = cycle(FULL, job("a"), job("b"), job("c", 4))
    assert retried(rejections, FULL) == [True, True], "a and b are one class"


def test_a_gain_that_helps_one_needs_a_whole_cycle_and_one_that_helps_none_does_not() -> None:
    rejections = cycle(FULL, job("a"), job("b", 4))
    assert retried(rejections, on(7, 8)) == [True, True], "one GPU is free now, which is too few for both"
    assert retried(rejections, on(4, 8)) == [True, False]


def test_other_facts_need_a_whole_cycle() -> None:
    rejections = cycle(FULL, job("a"))
    assert retried(rejections, FULL, "others") == [False]
    rejections.begin("others")
    assert rejections.still_valid(demand(gpusPerNode=8), FULL, ANY_IMAGES) is None


def test_a_cycle_that_placed_a_job_needs_a_whole_one() -> None:
    assert retried(cycle(SHORT, job("a"), job("b", 4)), SHORT) == [False]


def test_a_cycle_that_reserved_something_needs_a_whole_one() -> None:
    known = fleet(node("n", H100), pod("p", "n", {"nvidia.com/gpu": 4}),
                  {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9},
                  catalog=ANY_IMAGES)  # fmt: skip
    first, low = job("a", priorityClassName="high"), job("b", 4)
    assert retried(cycle(known, first, low), known) == [False]


def test_a_plan_that_has_a_place_takes_nothing_and_needs_no_whole_cycle() -> None:
    assert retried(cycle(SHORT, job("a"), job("b", 4, plan_only=True)), SHORT) == [True, True]


def test_a_job_that_tries_what_has_room_is_not_kept() -> None:
    rejections = cycle(FULL, job("a"), job("b", placement={"probe": {"steps": 50}}))
    assert retried(rejections, FULL) == [False]
    assert Answer.tries(demand(placement={"probe": {"steps": 50}}))
    assert not Answer.tries(demand())


def test_an_answer_holds_for_the_same_catalog_and_is_of_the_newer_snapshot() -> None:
    wanted = demand(gpusPerNode=8)
    rejections = cycle(FULL, PendingJob("a", "a", wanted, namespace="team", name="a"))
    again = on(8, 8)
    held = rejections.still_valid(wanted, FULL, ANY_IMAGES)
    assert held is not None
    assert held.fleet is FULL
    assert rejections.still_valid(wanted, FULL, load_catalog()) is None
    assert rejections.still_valid(demand(gpusPerNode=4), FULL, ANY_IMAGES) is None
    assert rejections.still_valid(wanted, again, ANY_IMAGES) in (None, held)


def test_equal_demands_of_one_cycle_are_decided_once() -> None:
    known = SHORT
    placings = [
        each for each in SchedulingCycle(ANY_IMAGES).run([job("a"), job("b"), job("c", 4)], known, ALWAYS) if each
    ]
    assert placings[0].answer is placings[1].answer
    assert placings[2].answer is not placings[0].answer
    assert [placing.choice is not None for placing in placings] == [False, False, True]


CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
         "volumeMounts": [{"name": "v", "mountPath": "/v"}]}  # fmt: skip


def with_claim(*users: tuple[str, str], namespace: str = "team") -> Fleet:
    """Two nodes, the first full, and a claim of one node that pods mount: name and node of each."""
    spec = {"accessModes": ["ReadWriteOnce"], "volumeName": "pv"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": namespace},
             "spec": spec, "status": {"phase": "Bound"}}  # fmt: skip
    pods = [pod(name, on) for name, on in users]
    for each in pods:
        each["metadata"]["namespace"] = namespace
        each["spec"]["volumes"] = CLAIM["volumes"]
    nodes = [node(f"n{number}", H100) for number in range(2)]
    return fleet(*nodes, claim, pod("full", "n0", {"nvidia.com/gpu": 8}), *pods, catalog=ANY_IMAGES)


def test_a_pod_of_a_claim_that_ends_or_comes_needs_a_whole_cycle_for_the_jobs_with_that_claim_alone() -> None:
    rejections = cycle(with_claim(("p", "cpu")), job("a", **CLAIM), job("b", 9))
    assert retried(rejections, with_claim(("p", "cpu"))) == [True, True]
    assert retried(rejections, with_claim()) == [False]
    assert retried(rejections, with_claim(("p", "cpu"), ("q", "cpu"))) == [False], "its sentence names the pods"
    rejections = cycle(with_claim(("p", "cpu")), job("b", 9))
    assert retried(rejections, with_claim()) == [True]


def test_the_end_of_a_pod_in_another_namespace_is_no_gain() -> None:
    ours = cycle(with_claim(("p", "cpu")), job("a", **CLAIM))
    both = with_claim(("p", "cpu"))
    theirs = replace(both, mounts=both.mounts | with_claim(("p", "cpu"), namespace="other").mounts)
    assert retried(ours, theirs) == [True]


def test_a_plan_that_has_a_place_is_decided_again_when_its_claim_is_mounted() -> None:
    rejections = cycle(with_claim(), job("a", plan_only=True, **CLAIM), job("b", 9))
    assert retried(rejections, with_claim()) == [True, True]
    assert retried(rejections, with_claim(("p", "cpu"))) == [False]


def test_a_job_that_waited_for_a_claim_is_placed_in_the_next_cycle() -> None:
    held = cycle(with_claim(("p", "cpu")), job("a", **CLAIM))
    found = [
        each for each in SchedulingCycle(ANY_IMAGES, None, held).run([job("a", **CLAIM)], with_claim(), ALWAYS) if each
    ]
    assert [each.choice and each.choice.nodes for each in found] == [("n1",)]


def test_a_job_that_starts_in_this_cycle_is_named_to_the_next_one_of_its_claim() -> None:
    """On two nodes with one GPU free each, so that both cannot be on the first."""
    spec = {"accessModes": ["ReadWriteOnce"], "volumeName": "pv"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "team"},
             "spec": spec, "status": {"phase": "Bound"}}  # fmt: skip
    known = fleet(*(node(f"n{number}", H100, 1) for number in range(2)), claim, catalog=ANY_IMAGES)
    jobs = [job("a", 1, **CLAIM), job("b", 1, **CLAIM)]
    first, second = (each for each in SchedulingCycle(ANY_IMAGES).run(jobs, known, ALWAYS) if each is not None)
    assert first.choice is not None
    where = first.choice.nodes[0]
    assert second.decision.candidates[0].reasons[0].message == (
        f"PersistentVolumeClaim c will be mounted on node {where} by job a, and one node at a time can mount it"
    )


def test_a_volume_that_a_job_of_this_cycle_takes_is_left_for_no_other() -> None:
    """Two claims of local volumes, and one such volume."""
    affinity = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0"]}]}
    local = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
             "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}  # fmt: skip
    asks = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]}
    claims = [
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "team"},
         "spec": {**asks, "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Pending"}}
        for name in ("c", "d")
    ]  # fmt: skip
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "status": {"phase": "Available"},
              "spec": {**asks, "capacity": {"storage": "1Gi"},
                       "nodeAffinity": {"required": {"nodeSelectorTerms": [affinity]}}}}  # fmt: skip
    known = fleet(node("n0", H100), node("n1", H100), local, volume, *claims, catalog=ANY_IMAGES)
    other = {
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "d"}}],
        "volumeMounts": CLAIM["volumeMounts"],
    }
    run = SchedulingCycle(ANY_IMAGES).run([job("a", 1, **CLAIM), job("b", 1, **other)], known, ALWAYS)
    assert [each.choice and each.choice.nodes for each in run if each is not None] == [("n0",), None]
