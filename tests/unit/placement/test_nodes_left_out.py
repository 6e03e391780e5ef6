"""A node on which the infrastructure failed the job is left out for a while, although it has room; other jobs take it."""

from __future__ import annotations

from dataclasses import replace

from builders import ANY_IMAGES, H100, L4, demand, fleet, gpupool, node, pod

from gpujob.api.kinds.gpujob import GPUJob
from gpujob.placement.engine.choose import choose, waits_for
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.decision_json import plan
from gpujob.placement.request.demand import Demand, ExcludedNode
from gpujob.render.children import render
from gpujob.values.vocabulary import Outcome, Reason, Verdict

UNTIL = "2026-11-28T12:00:00Z"
A, B = node("a", H100), node("b", H100)


def leaves_out(*names: str, **spec: object) -> Demand:
    return replace(demand(**spec), excluded_nodes=tuple(ExcludedNode(name, UNTIL, 3, "NodeLost") for name in names))


def test_another_node_of_the_pool_is_taken() -> None:
    here = fleet(A, B, catalog=ANY_IMAGES)
    assert plan(decide(demand(), here, ANY_IMAGES))["chosen"]["nodeNames"] == ["a"]
    assert plan(decide(leaves_out("a"), here, ANY_IMAGES))["chosen"]["nodeNames"] == ["b"]


def test_a_gang_needs_nodes_beside_it() -> None:
    here = fleet(A, B, node("c", H100), catalog=ANY_IMAGES)
    found = plan(decide(leaves_out("b", nodes=2, gpusPerNode=8), here, ANY_IMAGES))
    assert found["chosen"]["nodeNames"] == ["a", "c"]
    assert choose(leaves_out("b", nodes=3, gpusPerNode=8), here, ANY_IMAGES).verdict is Verdict.WAITING


def test_where_no_other_node_has_room_the_job_waits_and_says_until_when() -> None:
    here = fleet(A, catalog=ANY_IMAGES)
    found = decide(leaves_out("a"), here, ANY_IMAGES)
    assert (found.verdict, found.candidates[0].outcome) == (Verdict.WAITING, Outcome.BUSY)
    assert [(each.reason, each.message) for each in found.candidates[0].reasons] == [
        (Reason.NODE_EXCLUDED, f"node a is left out until {UNTIL}, since attempt 3 failed there (NodeLost)")
    ]


def test_what_others_hold_and_what_is_left_out_are_told_beside_each_other() -> None:
    here = fleet(A, node("full", H100), pod("p-full", "full", {H100.resource: 8}), catalog=ANY_IMAGES)
    reasons = decide(leaves_out("a", gpusPerNode=8), here, ANY_IMAGES).candidates[0].reasons
    assert [each.reason for each in reasons] == [Reason.NOT_ENOUGH_FREE, Reason.NODE_EXCLUDED]


def test_nothing_is_held_on_such_a_node() -> None:
    here = fleet(A, B, pod("p-a", "a", {H100.resource: 4}), pod("p-b", "b", {H100.resource: 6}), catalog=ANY_IMAGES)
    (before,) = waits_for(demand(gpusPerNode=8), here, ANY_IMAGES)
    (after,) = waits_for(leaves_out("a", gpusPerNode=8), here, ANY_IMAGES)
    assert (before.on, after.on) == ((("a", 4),), (("b", 2),))
    assert waits_for(leaves_out("a", "b", gpusPerNode=8), here, ANY_IMAGES) == ()


def test_a_node_that_is_too_small_is_refused_for_that() -> None:
    here = fleet(A, catalog=ANY_IMAGES)
    assert decide(leaves_out("a", gpusPerNode=9), here, ANY_IMAGES).verdict is Verdict.IMPOSSIBLE


def terms(*labels: tuple[str, str]) -> object:
    """The node affinity of a pod that waits for a node to be added to a pool of which node `old` failed it."""
    there = node("old", L4, 1, labels={"pool": "new", **dict(labels)})
    grows = gpupool("new", {"pool": "new"}, accelerator="L4", provision={"maxNodes": 2, "gpusPerNode": 1})
    found = decide(leaves_out("old"), fleet(there, grows, catalog=ANY_IMAGES), ANY_IMAGES)
    assert found.choice is not None
    job = GPUJob.model_validate({"metadata": {"name": "j", "uid": "u"}, "spec": {"command": ["x"]}})
    pod = render(job, found.choice, 2, ()).job["spec"]["template"]["spec"]
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return term.get("matchFields")


def test_pods_that_wait_for_a_new_node_keep_off_it() -> None:
    assert terms() == [{"key": "metadata.name", "operator": "NotIn", "values": ["old"]}]


def test_karpenter_would_pass_over_a_pod_that_names_nodes() -> None:
    assert terms(("karpenter.sh/nodepool", "gpu")) is None
