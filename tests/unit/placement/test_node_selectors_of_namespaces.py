"""The node selector of a namespace: labels that admission adds to each pod, so that a node without them gets none."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ANY_IMAGES, H100, L4, MI300X, Object, demand, fleet, gpupool, node, pod

from gpujob.fleet.kubernetes.namespaces import NodeSelection, read_namespace
from gpujob.placement.engine.choose import choose
from gpujob.placement.filters.limit_range import bounded
from gpujob.placement.report import summary
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.suggestions.search import with_fix
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.vocabulary import Reason, Verdict

OPENSHIFT, KUBERNETES = "openshift.io/node-selector", "scheduler.alpha.kubernetes.io/node-selector"
GROWS = {"karpenter.sh/nodepool": "g"}


def space(written: Any, annotation: str = OPENSHIFT, **more: Any) -> Object:
    annotations = {annotation: written, **more}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "annotations": annotations}}


Y = space("team=y")


def machine(name: str, team: str = "", gpu: Any = H100, price: str = "1", **more: Any) -> Object:
    labels = {"kubernetes.io/hostname": name, **({"team": team} if team else {}), **more.pop("labels", {})}
    return node(name, gpu, price=price, labels=labels, **more)


def placed(*objects: Object, **spec: Any) -> Decision:
    """The decision of the queue, which the choice alone agrees with."""
    known = fleet(*objects, catalog=ANY_IMAGES)
    waiting = PendingJob("uid", "", demand(**spec), namespace="default")
    (placing,) = place_all([waiting], known, ANY_IMAGES)
    assert choose(bounded(waiting.demand, known, "default"), known, ANY_IMAGES).verdict is placing.decision.verdict
    return placing.decision


def reasons(found: Decision) -> set[Reason]:
    return {each.reason for candidate in found.candidates for each in candidate.reasons}


@pytest.mark.parametrize(("written", "labels"), [
    ("team=y", (("team", "y"),)),
    (" b = 1 ,a= ", (("a", ""), ("b", "1"))),
    ("node-role.kubernetes.io/gpu=", (("node-role.kubernetes.io/gpu", ""),)),
    ("a=1,a=2", (("a", "2"),)),
])  # fmt: skip
def test_what_admission_reads_is_read(written: str, labels: tuple[tuple[str, str], ...]) -> None:
    assert read_namespace(space(written)).selection == NodeSelection(OPENSHIFT, labels)


@pytest.mark.parametrize("written", ["", " "])
def test_an_empty_selector_selects_nothing(written: str) -> None:
    assert read_namespace(space(written)).selection is None
    # OpenShift leaves its own out where Kubernetes' annotation is there, even an empty one.
    assert read_namespace(space(written, KUBERNETES, **{OPENSHIFT: "team=y"})).selection is None


@pytest.mark.parametrize("written", [
    "team", "team==y", "team!=y", "team in (y)", "a=1,", ",", "=y", "a b=1", "a=\x1b[31m", "x/y/z=1", "a=" + "v" * 64,
    "a=1," * 2000 + "a=1", 7, True, ["team=y"], {"team": "y"},
])  # fmt: skip
def test_what_admission_cannot_read_lets_no_pod_start(written: Any) -> None:
    for annotation in (OPENSHIFT, KUBERNETES):
        selection = read_namespace(space(written, annotation)).selection
        assert selection is not None
        assert (selection.labels, len(selection.unread) <= 130, selection.unread.isprintable()) == ((), True, True)
    found = placed(machine("a", "y"), space(written))
    assert (found.verdict, reasons(found)) == (Verdict.MISCONFIGURED, {Reason.INVALID_SPEC})
    assert f"annotation {OPENSHIFT} is " in summary.summary(found)


@pytest.mark.parametrize("gpu", [H100, L4, MI300X])
@pytest.mark.parametrize("annotation", [OPENSHIFT, KUBERNETES])
def test_a_job_goes_to_a_node_with_the_labels_only(gpu: Any, annotation: str) -> None:
    found = placed(
        machine("a", "x", gpu), machine("b", "y", gpu, price="9"), machine("c", gpu=gpu), space("team=y", annotation)
    )
    assert found.choice is not None
    assert found.choice.nodes == ("b",)
    nowhere = placed(machine("a", "x", gpu), machine("c", gpu=gpu), space("team=y", annotation))
    assert (nowhere.verdict, reasons(nowhere)) == (Verdict.IMPOSSIBLE, {Reason.NODES_NOT_SELECTED})
    assert "all 2 nodes lack the label team=y, which namespace default requires" in summary.summary(nowhere)


def test_the_job_waits_for_the_node_with_the_labels_while_it_is_taken() -> None:
    found = placed(machine("a", "x"), machine("b", "y"), pod("user", "b", {"nvidia.com/gpu": "8"}), Y)
    assert found.verdict is Verdict.WAITING
    assert Reason.NODES_NOT_SELECTED in reasons(found)


def test_a_gang_needs_the_labels_on_each_node_and_a_smaller_one_is_the_way_out() -> None:
    nodes = [machine(name, team) for name, team in (("a", "x"), ("b", "y"), ("c", "y"))]
    two = placed(*nodes, Y, nodes=2, gpusPerNode=8)
    assert two.choice is not None
    assert two.choice.nodes == ("b", "c")
    three = with_fix(placed(*nodes, Y, nodes=3, gpusPerNode=8), fleet(*nodes, Y, catalog=ANY_IMAGES), ANY_IMAGES)
    assert (three.verdict, reasons(three)) == (Verdict.IMPOSSIBLE, {Reason.NODES_NOT_SELECTED})
    assert "1 of 3 nodes lacks the label team=y" in summary.summary(three)
    assert "with spec.nodes 2 instead of 3" in summary.summary(three)


def test_a_node_that_is_left_out_worsens_nothing() -> None:
    ours = machine("b", "y", labels=GROWS)
    for others in (
        [],
        [machine("a", "x", labels=GROWS)],
        [machine("a", labels=GROWS), machine("c", "x", labels=GROWS)],
    ):
        found = placed(ours, *others, Y, nodes=2, gpusPerNode=8)
        assert (found.verdict, reasons(found)) == (Verdict.WAITING, {Reason.MAY_GROW}), summary.summary(found)
        assert "needs 1 more node (2 with 8 GPUs each, the pool has 1)" in summary.summary(found)
    left_out = placed(machine("a", "x", labels=GROWS), Y)
    assert (left_out.verdict, reasons(left_out)) == (Verdict.IMPOSSIBLE, {Reason.NODES_NOT_SELECTED})


@pytest.mark.parametrize(("selected", "verdict"), [
    ({"team": "y"}, Verdict.PLACED),
    ({"rack": "r"}, Verdict.PLACED),
    ({"team": "x"}, Verdict.IMPOSSIBLE),
])  # fmt: skip
def test_new_nodes_have_the_labels_of_their_selector(selected: dict[str, str], verdict: Verdict) -> None:
    provision = {"maxNodes": 2, "gpusPerNode": 8, "cpu": "96", "memory": "1000Gi"}
    pool = gpupool("p", selected, accelerator="H100-SXM", provision=provision, price={"perGPUHour": "1"})
    found = placed(pool, Y)
    assert found.verdict is verdict, summary.summary(found)
    if verdict is Verdict.IMPOSSIBLE:
        assert "nodes to be added lack the label team=y" in summary.summary(found)


@pytest.mark.parametrize(
    ("teams", "verdict"), [("x", Verdict.IMPOSSIBLE), ("xy", Verdict.PLACED), ("y", Verdict.PLACED)]
)
def test_new_nodes_are_like_those_of_their_pool_where_all_of_them_lack_a_label(teams: str, verdict: Verdict) -> None:
    provision = {"maxNodes": 4, "gpusPerNode": 8, "cpu": "96", "memory": "1000Gi"}
    pool = gpupool("p", {"rack": "r"}, accelerator="H100-SXM", provision=provision, price={"perGPUHour": "1"})
    there = [machine(f"n{team}", team, labels={"rack": "r"}) for team in teams]
    full = [pod(f"p{team}", f"n{team}", {"nvidia.com/gpu": 8}) for team in teams]
    found = placed(pool, *there, *full, Y)
    assert found.verdict is verdict, summary.summary(found)


def test_no_new_node_has_the_name_that_a_namespace_selects() -> None:
    provision = {"maxNodes": 2, "gpusPerNode": 8, "cpu": "96", "memory": "1000Gi"}
    pool = gpupool("p", {"rack": "r"}, accelerator="H100-SXM", provision=provision)
    assert placed(pool, space("kubernetes.io/hostname=n1")).verdict is Verdict.IMPOSSIBLE
    there = machine("n1", labels={"rack": "r"})
    assert placed(pool, there, space("kubernetes.io/hostname=n1")).verdict is Verdict.PLACED


@pytest.mark.parametrize("asked", [7, 8])
@pytest.mark.parametrize(("nodes", "spec"), [
    ([machine("a", "y", gpu=L4, count=5), machine("b", "x", gpu=L4, count=6), Y], {}),
    ([machine("a", gpu=L4, count=5), machine("b", gpu=L4, count=6, taints=["t=x:NoSchedule"]),
      gpupool("p", {"kubernetes.io/arch": "amd64"})], {}),
    ([machine("a", gpu=L4, count=5), machine("b", gpu=L4, count=6, allocatable={"cpu": "32"})], {"resources": {"cpu": "64"}}),
])  # fmt: skip
@pytest.mark.parametrize("shape", [False, True])
def test_a_fix_takes_as_many_gpus_as_a_node_has_that_the_job_can_use(
    nodes: list[Object], spec: dict[str, Any], asked: int, shape: bool
) -> None:
    gang: dict[str, Any] = {"shapes": [{"gpusPerNode": asked}]} if shape else {"gpusPerNode": asked}
    fix = with_fix(placed(*nodes, **gang, **spec), fleet(*nodes, catalog=ANY_IMAGES), ANY_IMAGES).fix
    assert fix is not None
    field = "spec.shapes[0].gpusPerNode" if shape else "spec.gpusPerNode"
    assert [(change.field, change.after) for change in fix.changes] == [(field, 5)]


@pytest.mark.parametrize(("limit", "right"), [("5", 5), ("3.50", 3)])
def test_a_fix_takes_no_more_gpus_than_the_price_limit_allows(limit: str, right: int) -> None:
    nodes = [machine("a", gpu=L4, count=5), machine("b", gpu=L4, count=6)]
    found = placed(*nodes, gpusPerNode=7, placement={"maxPricePerHour": limit})
    fix = with_fix(found, fleet(*nodes, catalog=ANY_IMAGES), ANY_IMAGES).fix
    assert fix is not None
    assert [(change.field, change.after) for change in fix.changes] == [("spec.gpusPerNode", right)]
