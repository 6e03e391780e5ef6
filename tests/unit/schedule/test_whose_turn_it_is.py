"""Jobs of higher priority go first: what is reserved for those that wait, what is not, and what lower ones report."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, ANY_IMAGES, H100, MI300X, Object, demand, fleet, gpupool, node, pod

from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.report import summary
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import ALWAYS, QueueDecision, place_all
from gpujob.values.vocabulary import Outcome, Reason, Verdict


def priority(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


CLASSES = (priority("high", 100), priority("middle", 50))


def waiting(name: str, high: str = "", namespace: str = "team", **spec: Any) -> PendingJob:
    """A job that came after those of smaller names."""
    wish = demand(**spec, **({"priorityClassName": high} if high else {}))
    return PendingJob(name, name, wish, namespace=namespace, name=name)


def high(name: str = "hi", **spec: Any) -> PendingJob:
    return waiting(name, "high", **spec)


def on(*objects: Object) -> Fleet:
    return fleet(*objects, *CLASSES, catalog=ANY_IMAGES)


def placed(known: Fleet, *jobs: PendingJob) -> dict[str, QueueDecision]:
    found = {placing.job.uid: placing for placing in place_all(jobs, known, ANY_IMAGES)}
    assert {placing.decision.verdict is placing.verdict for placing in found.values()} == {True}
    return found


def nodes_of(placing: QueueDecision) -> tuple[str, ...]:
    return placing.choice.nodes if placing.choice else ()


def half_busy(name: str, taken: int = 4, **more: Any) -> tuple[Object, Object]:
    return node(name, H100, **more), pod(f"p-{name}", name, {"nvidia.com/gpu": taken})


def reasons(placing: QueueDecision) -> list[Reason]:
    return [finding.reason for finding in placing.decision.candidates[0].reasons]


def test_a_lower_job_leaves_alone_what_a_higher_one_waits_for() -> None:
    found = placed(on(*half_busy("n")), waiting("lo", gpusPerNode=2), high(gpusPerNode=8))
    assert {uid: placing.verdict for uid, placing in found.items()} == dict.fromkeys(("lo", "hi"), Verdict.WAITING)
    assert reasons(found["lo"]) == [Reason.QUEUED_BEHIND]
    assert summary.summary(found["lo"].decision) == (
        "fits pool h100-sxm-ondemand, which is busy: queued behind job hi of priority 100, which waits for 8 GPUs on one "
        "node; 4 free GPUs are reserved for it"
    )
    assert reasons(found["hi"]) == [Reason.NOT_ENOUGH_FREE]


def test_one_that_loses_the_only_node_in_this_round_is_told_to_whom() -> None:
    found = placed(on(node("n", H100)), waiting("lo", gpusPerNode=8), high(gpusPerNode=8))
    assert nodes_of(found["hi"]) == ("n",)
    assert [finding.message for finding in found["lo"].decision.candidates[0].reasons] == [
        "queued behind job hi of priority 100, which takes 8 GPUs on one node now"
    ]


def test_where_nothing_is_free_both_reasons_are_told() -> None:
    found = placed(on(*half_busy("n", 8)), waiting("lo"), high(gpusPerNode=8))
    assert [finding.message for finding in found["lo"].decision.candidates[0].reasons] == [
        "queued behind job hi of priority 100, which waits for 8 GPUs on one node; none is free to be reserved for it",
        "needs 1 free GPU on one node, 0 of 8 are free",
    ]


def test_names_of_other_namespaces_are_not_told() -> None:
    found = placed(
        on(*half_busy("n")),
        waiting("lo"),
        waiting("z-lo", namespace="other"),
        high("secret", namespace="elsewhere", gpusPerNode=8),
        waiting("own", "middle", gpusPerNode=8),
    )
    said = {uid: found[uid].decision.candidates[0].reasons[0].message for uid in ("lo", "z-lo")}
    assert said == {
        "lo": "queued behind job own of priority 50 and 1 more, which waits for 8 GPUs on one node; none is free to be "
        "reserved for it",
        "z-lo": "queued behind a job of another namespace of priority 100 and 1 more, which waits for 8 GPUs on one node; "
        "4 free GPUs are reserved for it",
    }


def test_the_nodes_that_lack_the_fewest_devices_are_held_and_no_others() -> None:
    known = on(*half_busy("a", 6), *half_busy("b", 3), *half_busy("c", 5))
    found = placed(known, *(waiting(f"lo{number}", gpusPerNode=2) for number in range(3)), high(gpusPerNode=8))
    assert {uid: nodes_of(placing) for uid, placing in found.items()} == {
        "hi": (), "lo0": ("a",), "lo1": ("c",), "lo2": (),
    }  # fmt: skip


def test_what_a_gang_cannot_use_of_its_nodes_is_free_for_others() -> None:
    """Of a node each pod of a gang needs four: the other four never help it, since it has one pod a node."""
    known = on(node("a", H100), *half_busy("b", 6))
    found = placed(known, waiting("lo0", gpusPerNode=4), waiting("lo1", gpusPerNode=4), high(nodes=2, gpusPerNode=4))
    assert {uid: nodes_of(placing) for uid, placing in found.items()} == {"hi": (), "lo0": ("a",), "lo1": ()}
    assert reasons(found["lo1"]) == [Reason.QUEUED_BEHIND]


def test_another_pool_is_not_held() -> None:
    known = on(*half_busy("n"), node("a", MI300X))
    found = placed(known, waiting("lo"), high(gpusPerNode=8, placement={"vendors": ["NVIDIA"]}))
    assert nodes_of(found["lo"]) == ("a",)


def test_of_several_pools_only_the_one_that_lacks_the_fewest_is_held() -> None:
    known = on(*half_busy("n", 4), node("a", MI300X), pod("p-a", "a", {"amd.com/gpu": 3}))
    found = placed(known, *(waiting(f"lo{number}", gpusPerNode=4) for number in range(2)), high(gpusPerNode=8))
    assert {uid: nodes_of(placing) for uid, placing in found.items()} == {"hi": (), "lo0": ("n",), "lo1": ()}


QUOTA: Object = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q", "namespace": "team"},
    "status": {"hard": {"requests.nvidia.com/gpu": "8"}, "used": {"requests.nvidia.com/gpu": "8"}},
}


@pytest.mark.parametrize(
    ("objects", "spec"),
    [
        pytest.param(half_busy("n"), {"gpusPerNode": 9}, id="impossible"),
        pytest.param(half_busy("n"), {"gpusPerNode": 8, "requires": ["BF61"]}, id="misconfigured"),
        pytest.param((*half_busy("n"), QUOTA), {"gpusPerNode": 8}, id="beyond-its-quota"),
        pytest.param(
            half_busy("n", labels={"karpenter.sh/nodepool": "h100"}), {"nodes": 2, "gpusPerNode": 4}, id="may-grow"
        ),
        pytest.param((*half_busy("n"), node("m", H100, ready=False)), {"nodes": 2, "gpusPerNode": 8}, id="not-ready"),
        pytest.param((*half_busy("n"), node("m", H100, cordoned=True)), {"nodes": 2, "gpusPerNode": 4}, id="cordoned"),
    ],
)
def test_nothing_is_held_for_a_job_that_free_devices_do_not_help(objects: tuple[Object, ...], spec: Object) -> None:
    found = placed(on(*objects), waiting("lo", namespace="other"), high(**spec))
    assert (nodes_of(found["hi"]), nodes_of(found["lo"])) == ((), ("n",))


def test_nothing_is_held_for_a_plan_nor_for_a_job_whose_time_is_over() -> None:
    for until, plan_only in ((ALWAYS, False), (None, True)):
        first = PendingJob("hi", "", high(gpusPerNode=8).demand, plan_only, "team", "hi", until)
        assert nodes_of(placed(on(*half_busy("n")), waiting("lo"), first)["lo"]) == ("n",)


def test_among_equals_nothing_is_held() -> None:
    found = placed(on(*half_busy("n")), high("a-big", gpusPerNode=8), high("b-small"))
    assert nodes_of(found["b-small"]) == ("n",)


def test_each_of_several_higher_jobs_holds_nodes_of_its_own() -> None:
    known = on(*half_busy("a"), *half_busy("b"), *half_busy("c"))
    bigs = [high(f"hi{number}", gpusPerNode=8) for number in range(2)]
    found = placed(known, *bigs, waiting("lo0", gpusPerNode=4), waiting("lo1", gpusPerNode=4))
    assert nodes_of(found["lo0"]) != () == nodes_of(found["lo1"])
    assert nodes_of(placed(known, *bigs, high("hi2", gpusPerNode=8), waiting("lo0"))["lo0"]) == ()


def test_one_that_waits_for_something_better_keeps_what_it_could_have_now() -> None:
    """It has waited for the cheaper pool of its own will: neither is taken from it meanwhile."""
    known = on(*half_busy("n", 4, price="1"), node("a", MI300X, price="9"))
    patient = high(gpusPerNode=8, placement={"waitSeconds": 60, "objective": "Cost"})
    found = placed(known, patient, waiting("lo"))
    assert {uid: placing.verdict for uid, placing in found.items()} == dict.fromkeys(("lo", "hi"), Verdict.WAITING)
    assert {candidate.outcome for candidate in found["lo"].decision.candidates} == {Outcome.BUSY}


def test_the_memory_that_goes_with_held_devices_is_held_too() -> None:
    known = on(*half_busy("a"), node("b", H100, ready=False))
    asks = {"nodes": 1, "gpusPerNode": 6, "resources": {"memory": "900Gi"}}
    found = placed(known, high(**asks), waiting("lo", gpusPerNode=1, resources={"memory": "200Gi"}))
    assert reasons(found["lo"])[0] is Reason.QUEUED_BEHIND


def test_a_gang_s_fabric_is_held_with_its_devices() -> None:
    fabric = {"resources": {"rdma/ib": "1"}}
    nodes = [node(name, H100, labels={"pool": "x"}, allocatable={"rdma/ib": "1"}) for name in ("a", "b", "c")]
    known = on(*nodes, pod("p", "c", {"nvidia.com/gpu": 6}), gpupool("x", {"pool": "x"}, fabric=fabric))
    found = placed(known, high(nodes=3, gpusPerNode=4), waiting("lo", nodes=2, gpusPerNode=2), waiting("one"))
    assert {uid: nodes_of(placing) for uid, placing in found.items()} == {"hi": (), "lo": (), "one": ("a",)}
    assert reasons(found["lo"]) == [Reason.QUEUED_BEHIND]


def quota_of(namespace: str, **hard: str) -> Object:
    figures = {name.replace("gpu", "requests.nvidia.com/gpu"): amount for name, amount in hard.items()}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": namespace},
        "status": {"hard": figures, "used": dict.fromkeys(figures, "0")},
    }


@pytest.mark.parametrize(
    ("quota", "held"),
    [
        pytest.param({"gpu": "8"}, 1, id="one-gang"),
        pytest.param({"gpu": "23"}, 2, id="two-gangs"),
        pytest.param({"gpu": "32", "memory": "1500Gi"}, 1, id="memory-for-one"),
        pytest.param({"gpu": "7"}, 0, id="never"),
        pytest.param({"gpu": "99"}, 4, id="enough"),
    ],
)
def test_no_more_is_held_than_the_namespace_s_quota_lets_it_take(quota: dict[str, str], held: int) -> None:
    known = on(*(thing for name in "abcd" for thing in half_busy(name, 1)), quota_of("team", **quota))
    many = [high(f"hi{number}", namespace="team", gpusPerNode=8) for number in range(4)]
    others = [waiting(f"lo{number}", namespace="other", gpusPerNode=7) for number in range(4)]
    found = placed(known, *many, *others)
    assert sum(not nodes_of(found[job.uid]) for job in others) == held


def test_what_was_held_against_a_quota_counts_for_lower_priorities_too_and_takes_none_of_it() -> None:
    known = on(*half_busy("a", 1), *half_busy("b", 1), node("c", A100), quota_of("team", gpu="8"))
    found = placed(
        known,
        high(namespace="team", gpusPerNode=8, placement={"accelerators": {"allow": ["H100-SXM"]}}),
        waiting("mid", "middle", namespace="team", gpusPerNode=8, placement={"accelerators": {"allow": ["H100-SXM"]}}),
        waiting("lo-own", namespace="team", gpusPerNode=8),
        waiting("lo-z", namespace="other", gpusPerNode=7),
    )
    assert {uid: nodes_of(placing) for uid, placing in found.items()} == {
        "hi": (), "mid": (), "lo-own": ("c",), "lo-z": ("a",),
    }  # fmt: skip


@pytest.mark.parametrize(("limit", "held"), [("8", False), ("16", True)])
def test_a_quota_for_one_gang_holds_what_the_job_could_have_now_and_not_the_better_pool_too(
    limit: str, held: bool
) -> None:
    known = on(*half_busy("n", 4, price="1"), node("a", A100, price="9"), quota_of("team", gpu=limit))
    patient = high(gpusPerNode=8, placement={"waitSeconds": 60, "objective": "Cost"})
    found = placed(known, patient, waiting("lo", namespace="other", gpusPerNode=4))
    assert {uid: nodes_of(placing) for uid, placing in found.items()} == {"hi": (), "lo": () if held else ("n",)}


@pytest.mark.parametrize(
    ("taken", "asked"),
    [
        ({"cpu": "2"}, {"cpu": 127}),
        ({"memory": "20Gi"}, {"memory": "1020Gi"}),
        ({"ephemeral-storage": "10Gi"}, {"ephemeralStorage": "999Gi"}),
    ],
)
def test_nothing_is_held_where_pods_without_gpus_have_what_it_needs(taken: Object, asked: Object) -> None:
    for helps in (False, True):
        daemons = [pod(f"d-{name}", name, {"nvidia.com/gpu": 1} if helps else {}, **taken) for name in "ab"]
        known = on(*half_busy("a", 1), *half_busy("b", 1), *daemons)
        first = high(gpusPerNode=6, resources=asked)
        found = placed(known, first, *(waiting(f"lo{number}", gpusPerNode=6) for number in range(2)))
        assert nodes_of(found["hi"]) == ()
        assert sum(nodes_of(found[f"lo{number}"]) == () for number in range(2)) == helps


def test_of_a_gang_s_nodes_those_are_held_on_which_devices_help() -> None:
    known = on(*half_busy("a", 1), *half_busy("b", 2), *half_busy("c", 3), pod("d", "a", memory="100Gi"))
    found = placed(known, high(nodes=2, gpusPerNode=8, resources={"memory": "950Gi"}), waiting("lo", gpusPerNode=5))
    assert nodes_of(found["lo"]) == ("a",)


SYSTEM: Object = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "system-node-critical"},
    "value": 2_000_001_000,
}


@pytest.mark.parametrize(("namespace", "on_it"), [("team", ("n",)), ("kube-system", ())])
def test_a_class_of_the_system_holds_nothing_outside_its_namespace(namespace: str, on_it: tuple[str, ...]) -> None:
    first = waiting("hi", "system-node-critical", namespace=namespace, gpusPerNode=8)
    assert nodes_of(placed(on(*half_busy("n"), SYSTEM), first, waiting("lo", namespace="other"))["lo"]) == on_it
