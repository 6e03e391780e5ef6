"""What the RuntimeClass of a pool's pods adds to them: its overhead counts, its nodes alone qualify, its taints are tolerated."""

from __future__ import annotations

from typing import Any

from builders import ANY_IMAGES, H100, MI300X, Object, decision, demand, fleet, node, pod, runtime_class

from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.suggestions.search import with_fix
from gpujob.values.vocabulary import Outcome, Reason, Verdict

HEAVY = runtime_class("nvidia", "nvidia", overhead={"podFixed": {"cpu": "250m", "memory": "1Gi"}})
"""Each of its pods takes so much more than its containers."""
SOME = runtime_class("nvidia", "nvidia", scheduling={"nodeSelector": {"sandbox": "yes"}})
SMALL = {"cpu": "8", "memory": "32Gi"}


def decided(*objects: Object, **spec: Any) -> Decision:
    """The decision, which the quick choice must equal."""
    found = decision(*objects, **spec)
    pick = choose(demand(**spec), fleet(*objects, catalog=ANY_IMAGES), ANY_IMAGES)
    assert (pick.verdict, pick.choice) == (found.verdict, found.choice)
    return found


def messages(found: Decision) -> list[str]:
    return [reason.message for reason in found.candidates[0].reasons]


def test_its_overhead_is_taken_of_the_node_beside_what_the_job_asks() -> None:
    small = node("h", H100, allocatable=SMALL)
    asked = {"cpu": "8", "memory": "31Gi"}
    assert decided(small, resources=asked).verdict is Verdict.PLACED
    found = decided(HEAVY, small, resources=asked)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert messages(found) == [
        "needs 8.25 CPU (250m of it overhead of RuntimeClass nvidia) on one node, the largest node has 8"
    ]
    known = fleet(HEAVY, small, catalog=ANY_IMAGES)
    fixed = with_fix(found, known, ANY_IMAGES)
    assert fixed.fix is not None
    assert (fixed.fix.changes[0].field, fixed.fix.changes[0].after) == ("spec.resources.cpu", "7")
    assert choose(fixed.fix.demand, known, ANY_IMAGES).verdict is Verdict.PLACED


def test_the_share_of_a_job_that_asks_nothing_leaves_room_for_it() -> None:
    choice = decided(HEAVY, node("h", H100, 1, allocatable=SMALL)).choice
    assert choice is not None
    assert choice.needs.millicores + 250 <= 8000
    assert choice.needs.memory + 2**30 <= 32 * 2**30


def test_a_node_that_lacks_only_the_overhead_now_says_so() -> None:
    there = node("h", H100, 2, allocatable=SMALL)
    found = decided(HEAVY, there, pod("p", "h", memory="12Gi"), resources={"cpu": "2", "memory": "20Gi"})
    assert found.verdict is Verdict.WAITING
    said = "GPUs are free on node h, which has too little left beside them: 20Gi memory of 21Gi needed"
    assert messages(found)[0] == f"{said} (1Gi of it overhead of RuntimeClass nvidia)"


def test_what_is_promised_to_one_pod_is_gone_for_the_next_with_its_overhead() -> None:
    wish = demand(resources={"cpu": "1", "memory": "15Gi"})
    known = fleet(HEAVY, node("h", H100, 3, allocatable=SMALL), catalog=ANY_IMAGES)
    first = choose(wish, known, ANY_IMAGES).choice
    assert first is not None
    after = known.reserve(first.candidate.pool, 1, first.needs, first.nodes)
    second = choose(wish, after, ANY_IMAGES).choice
    assert second is not None, "2 x 16 of 32Gi"
    assert choose(wish, after.reserve(second.candidate.pool, 1, second.needs, second.nodes), ANY_IMAGES).choice is None
    heavier = demand(resources={"cpu": "1", "memory": "15.5Gi"})
    assert choose(heavier, after, ANY_IMAGES).choice is None


def test_a_quota_counts_it() -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team"},
             "status": {"hard": {"requests.memory": "16Gi"}, "used": {}}}  # fmt: skip
    known = fleet(HEAVY, node("h", H100), quota, catalog=ANY_IMAGES)
    fits = demand(resources={"memory": "15Gi"}).but(namespace="team")
    assert decide(fits, known, ANY_IMAGES).verdict is Verdict.PLACED
    over = decide(demand(resources={"memory": "16Gi"}).but(namespace="team"), known, ANY_IMAGES)
    assert messages(over) == ["ResourceQuota q: requests.memory needs 17Gi, 16Gi left of 16Gi"]


def test_nodes_without_its_label_are_left_out_and_named() -> None:
    found = decided(SOME, node("bare", H100), node("good", H100, labels={"sandbox": "yes"}))
    assert found.choice is not None
    assert found.choice.nodes == ("good",)
    none = decided(SOME, node("bare", H100))
    assert (none.verdict, none.candidates[0].outcome) == (Verdict.MISCONFIGURED, Outcome.MISCONFIGURED)
    assert messages(none) == [
        "its node lacks the label sandbox=yes, which RuntimeClass nvidia requires (node bare); label it, or set "
        "spec.runtimeClassName in a GPUPool for such nodes"
    ]


def test_its_tolerations_open_nodes() -> None:
    tainted = node("t", H100, taints=["sandbox=yes:NoSchedule"])
    assert decided(runtime_class("nvidia", "nvidia"), tainted).verdict is Verdict.IMPOSSIBLE
    for toleration in (
        {"key": "sandbox", "operator": "Exists"},
        {"operator": "Exists"},
        {"key": "sandbox", "value": "yes"},
    ):
        tolerant = runtime_class("nvidia", "nvidia", scheduling={"tolerations": [toleration]})
        assert decided(tolerant, tainted).verdict is Verdict.PLACED, toleration
    other = runtime_class("nvidia", "nvidia", scheduling={"tolerations": [{"key": "sandbox", "value": "no"}]})
    assert decided(other, tainted).verdict is Verdict.IMPOSSIBLE


def test_an_overhead_that_is_no_quantity_fits_nowhere_until_it_is_mended() -> None:
    odd = runtime_class("nvidia", "nvidia", overhead={"podFixed": {"memory": "much"}})
    found = decided(odd, node("h", H100))
    assert found.verdict is Verdict.MISCONFIGURED
    assert found.candidates[0].reasons[0].reason is Reason.INVALID_SPEC
    assert messages(found)[0].startswith("RuntimeClass nvidia: overhead.podFixed: memory: ")
    assert messages(found)[0].endswith("; fix it")


def test_amd_pods_name_no_class() -> None:
    assert decided(HEAVY, SOME, node("a", MI300X, allocatable=SMALL), resources={"cpu": "8"}).verdict is Verdict.PLACED
