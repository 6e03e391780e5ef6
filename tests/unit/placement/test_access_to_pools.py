"""Who may use a pool: namespaces by label, Pod Security levels, what the installation allows, whole nodes; which nodes have the
fabric free; and which ServiceAccounts a job may name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import ANY_IMAGES, H100, MI300X, Object, demand, fleet, gpupool, node, pod

from gpujob.placement.report import summary
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.suggestions.search import with_fix
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.vocabulary import HostAccess, Outcome, Reason, Verdict

HOSTED = {"accelerator": "MI300X", "deviceMode": "HostDevices", "gpusPerNode": 8}


def space(name: str = "default", level: str | None = None, **labels: str) -> Object:
    enforced = {"pod-security.kubernetes.io/enforce": level} if level is not None else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {**enforced, **labels}}}


def bare(name: str) -> Object:
    """A node on which nothing offers or labels devices."""
    return node(name, labels={"rack": "a"})


def hosted(**spec: Any) -> Object:
    return gpupool("lab", {"rack": "a"}, **{**HOSTED, **spec})


def planned(*objects: Object, **spec: Any) -> Decision:
    return decisions([spec], *objects)[0]


def decisions(specs: list[dict[str, Any]], *objects: Object) -> list[Decision]:
    """The decisions about jobs of the namespace `default`, in their order."""
    waiting = [PendingJob(str(i), "", demand(**spec), namespace="default") for i, spec in enumerate(specs)]
    return [placing.decision for placing in place_all(waiting, fleet(*objects, catalog=ANY_IMAGES), ANY_IMAGES)]


def said(decision: Decision) -> tuple[Verdict, list[str]]:
    return decision.verdict, [reason.message for reason in decision.candidates[0].reasons]


def test_devices_without_a_plugin_are_what_the_admin_says() -> None:
    found = planned(bare("n"), hosted(), space(), gpusPerNode=8)
    assert found.choice is not None
    pool = found.choice.candidate.pool
    assert (pool.host_devices, pool.accelerator_id, pool.total, pool.free) == (True, "MI300X", 8, 8)
    assert pool.memory == fleet(node("m", MI300X), catalog=ANY_IMAGES).pools[0].memory


def test_without_a_pool_such_a_node_has_no_devices() -> None:
    assert fleet(bare("n")).pools == ()
    plugged = gpupool("lab", {"rack": "a"}, accelerator="MI300X")
    assert [pool.nodes for pool in fleet(bare("n"), plugged).pools] == [()]


@pytest.mark.parametrize("gpus", [1, 4, 7, 9])
def test_host_devices_are_given_out_by_whole_nodes(gpus: int) -> None:
    found = planned(bare("n"), hosted(), space(), gpusPerNode=gpus)
    assert found.verdict is Verdict.IMPOSSIBLE
    sentence = (
        "assigns whole nodes (spec.deviceMode HostDevices) of 8 GPUs each, the job requests {}; set spec.gpusPerNode: 8"
    )
    assert sentence.format(gpus) in said(found)[1]


def mounting(name: str, on: str, *, agent: bool = False, path: str = "/dev/kfd") -> Object:
    """A pod that mounts device files of its host."""
    made = pod(name, on)
    made["spec"]["volumes"] = [{"name": "d", "hostPath": {"path": path}}]
    if agent:
        made["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "exporter", "uid": "u"}]
    return made


@pytest.mark.parametrize(
    ("other", "free"),
    [
        (mounting("p", "n"), 0),
        (mounting("p", "n", path="/dev/dri"), 0),
        (mounting("p", "n", path="/dev/nvidia0"), 0),
        (mounting("p", "n", path="/dev/shm"), 8),
        (mounting("p", "n", agent=True), 8),
        (mounting("p", "m"), 8),
    ],
)
def test_a_node_takes_one_pod_that_works_on_its_device_files(other: Object, free: int) -> None:
    found = fleet(bare("n"), hosted(), other)
    assert found.pools[0].free == free


def test_a_plugin_s_own_count_is_not_touched_by_pods_that_mount_device_files() -> None:
    assert fleet(node("n", MI300X), mounting("p", "n")).pools[0].free == 8


def test_where_a_plugin_offers_them_too_the_pod_asks_for_all() -> None:
    found = planned(node("n", MI300X, labels={"rack": "a"}), hosted(), space(), gpusPerNode=8)
    assert found.choice is not None
    assert found.choice.candidate.pool.resource == "amd.com/gpu"


def test_a_count_that_nobody_says_is_asked_for() -> None:
    found = planned(bare("n"), gpupool("lab", {"rack": "a"}, accelerator="MI300X", deviceMode="HostDevices"), space())
    sentence = "the number of GPUs of node n is unknown; set spec.gpusPerNode in GPUPool lab"
    assert (found.verdict, sentence in said(found)[1]) == (Verdict.MISCONFIGURED, True)


def test_labels_may_say_the_count() -> None:
    labelled = node("n", labels={"rack": "a", **MI300X.labels(4, "")})
    pools = fleet(labelled, gpupool("lab", {"rack": "a"}, accelerator="MI300X", deviceMode="HostDevices")).pools
    assert [(pool.name, pool.total, pool.problem) for pool in pools] == [("lab", 4, None)]


def test_nodes_of_different_size_are_no_one_pool() -> None:
    sizes = [node(f"n{count}", labels={"rack": "a", **MI300X.labels(count, "")}) for count in (4, 8)]
    pool = fleet(*sizes, gpupool("lab", {"rack": "a"}, accelerator="MI300X", deviceMode="HostDevices")).pools[0]
    assert pool.problem is not None
    assert pool.problem.message == (
        "spec.deviceMode HostDevices assigns whole nodes, and these have 4 and 8 GPUs; narrow spec.nodeSelector"
    )


FABRIC = {"resources": {"rdma/hca": "1"}, "capabilities": ["IPC_LOCK"], "hostNetwork": True}


@pytest.mark.parametrize("level", ["baseline", "restricted", "Privileged", "odd"])
@pytest.mark.parametrize(
    ("pool", "asked", "gives"),
    [
        (hosted(), {"gpusPerNode": 8}, "privileged containers with the host's device files"),
        (gpupool("lab", {"rack": "a"}, fabric=FABRIC), {"nodes": 2}, "the host's network and the capability IPC_LOCK"),
    ],
)
def test_what_pod_security_forbids_is_told_with_the_label(level: str, pool: Object, asked: Object, gives: str) -> None:
    nodes = [bare("n"), bare("m")] if "gpusPerNode" in asked else [linked("n"), linked("m")]
    found = planned(*nodes, pool, space(level=level), **asked)
    strict = level if level == "baseline" else "restricted"
    sentence = (
        f"GPUPool lab gives its pods {gives}, which namespace default forbids (Pod Security level {strict}); "
        "label it pod-security.kubernetes.io/enforce=privileged"
    )
    assert said(found) == (Verdict.MISCONFIGURED, [sentence])
    assert found.candidates[0].reasons[0].reason is Reason.POD_SECURITY_BLOCKED


HOST_DEVICES = "privileged containers with the host's device files"


@pytest.mark.parametrize(
    ("pool", "asked", "gives", "value", "other"),
    [
        (hosted(), {"gpusPerNode": 8}, HOST_DEVICES, "hostDevices", HostAccess.NETWORK),
        (gpupool("lab", {"rack": "a"}, fabric=FABRIC), {"nodes": 2}, "the host's network", "hostNetwork",
         HostAccess.DEVICES),
    ],
)  # fmt: skip
def test_what_the_installation_forbids_is_told_with_the_value_of_the_chart(
    pool: Object, asked: Object, gives: str, value: str, other: HostAccess
) -> None:
    objects = [*([bare("n")] if "gpusPerNode" in asked else [linked("n"), linked("m")]), pool, space()]

    def decided(*allowed: HostAccess) -> Decision:
        catalog = replace(ANY_IMAGES, host_access=frozenset(allowed))
        (placing,) = place_all(
            [PendingJob("0", "", demand(**asked), namespace="default")], fleet(*objects, catalog=catalog), catalog
        )
        return placing.decision

    sentence = f"GPUPool lab gives its pods {gives}, which this installation forbids; set admission.{value} of the chart to true"
    for allowed in ((), (other,)):
        found = decided(*allowed)
        assert said(found) == (Verdict.MISCONFIGURED, [sentence])
        assert found.candidates[0].reasons[0].reason is Reason.HOST_ACCESS_DENIED
    assert decided(HostAccess(value)).verdict is Verdict.PLACED
    # Without an installation nothing forbids it.
    assert planned(*objects, **asked).verdict is Verdict.PLACED


def test_a_pool_that_gives_nothing_of_the_host_is_for_all_installations() -> None:
    catalog = replace(ANY_IMAGES, host_access=frozenset())
    network = gpupool("lab", {"rack": "a"}, fabric=FABRIC)
    locking = gpupool("lab", {"rack": "a"}, fabric={"capabilities": ["IPC_LOCK"]})
    for pool, asked in ((network, {}), (locking, {"nodes": 2})):
        world = fleet(linked("n"), linked("m"), pool, space(), catalog=catalog)
        (placing,) = place_all([PendingJob("0", "", demand(**asked), namespace="default")], world, catalog)
        assert placing.decision.verdict is Verdict.PLACED


def test_a_free_pool_takes_the_job_that_another_may_not_have() -> None:
    catalog = replace(ANY_IMAGES, host_access=frozenset())
    world = fleet(bare("n"), hosted(), space(), node("free", H100), catalog=catalog)
    (placing,) = place_all([PendingJob("0", "", demand(gpusPerNode=8), namespace="default")], world, catalog)
    assert placing.decision.choice is not None
    assert placing.decision.choice.nodes == ("free",)


def test_labels_of_a_namespace_that_are_not_known_never_fit() -> None:
    found = planned(bare("n"), hosted(), gpusPerNode=8)
    sentence = "the labels of namespace default decide here and are not known; a description of the cluster needs namespaces too"
    assert said(found) == (Verdict.MISCONFIGURED, [sentence])
    found = planned(bare("n"), hosted(), space("elsewhere"), gpusPerNode=8)
    assert found.verdict is Verdict.MISCONFIGURED


def test_root_is_told_before_the_namespace_refuses_its_pods() -> None:
    as_root = {"securityContext": {"runAsUser": 0}}
    found = planned(node("n", H100), space(level="restricted"), **as_root)
    assert said(found) == (
        Verdict.MISCONFIGURED,
        [
            "securityContext.runAsUser is 0, which namespace default forbids (Pod Security level restricted); "
            "set another, or label it pod-security.kubernetes.io/enforce=baseline"
        ],
    )
    assert planned(node("n", H100), space(level="baseline"), **as_root).verdict is Verdict.PLACED
    assert planned(node("n", H100), **as_root).verdict is Verdict.PLACED


def test_a_pool_is_for_the_namespaces_that_its_admin_names() -> None:
    pool = gpupool("lab", {"rack": "a"}, namespaceSelector={"matchLabels": {"team": "vision"}})
    nodes = node("n", H100, labels={"rack": "a"})
    found = planned(nodes, pool, space(team="speech"))
    sentence = "GPUPool lab is for namespaces with the label team=vision, which default does not have"
    assert said(found) == (Verdict.IMPOSSIBLE, [sentence])
    assert found.candidates[0].outcome is Outcome.REJECTED
    assert planned(nodes, pool, space(team="vision")).verdict is Verdict.PLACED


# --- Fabric


def linked(name: str, free: int = 8, rack: str = "r1") -> Object:
    """A node of a pool with a fabric."""
    return node(name, H100, labels={"rack": "a", "leaf": rack}, allocatable={"rdma/hca": str(free)})


def test_a_gang_waits_for_nodes_that_have_the_fabric_free() -> None:
    pool = gpupool("lab", {"rack": "a"}, fabric={"resources": {"rdma/hca": "2"}})
    found = planned(linked("n"), linked("m", 3), linked("o", 1), pool, space(), nodes=3)
    assert said(found) == (
        Verdict.WAITING,
        ["needs 2 rdma/hca on each of 3 nodes (spec.fabric), 2 of 3 nodes with free GPUs have that free"],
    )
    taking = pod("p", "m", {"rdma/hca": 2})
    assert planned(linked("n"), linked("m", 3), taking, pool, space(), nodes=2).verdict is Verdict.WAITING
    assert planned(linked("n"), linked("m", 4), taking, pool, space(), nodes=2).verdict is Verdict.PLACED
    # A job of one node takes nothing of it.
    assert planned(linked("o", 0), pool, space()).verdict is Verdict.PLACED


def test_gangs_of_one_round_share_the_fabric() -> None:
    pool = gpupool("lab", {"rack": "a"}, fabric={"resources": {"rdma/hca": "1"}})
    found = decisions([{"nodes": 2}, {"nodes": 2}, {}], linked("n", 1), linked("m", 1), pool, space())
    assert [decision.verdict for decision in found] == [Verdict.PLACED, Verdict.WAITING, Verdict.PLACED]


def test_a_gang_stays_within_one_value_of_the_topology_label() -> None:
    pool = gpupool("lab", {"rack": "a"}, fabric={"topologyKey": "leaf"})
    nodes = [linked("n1", rack="r1"), linked("n2", rack="r2"), linked("n3", rack="r2"), linked("n4", rack="r1")]
    busy = pod("p", "n1", {"nvidia.com/gpu": 8})
    found = planned(*nodes, busy, pool, space(), nodes=2, gpusPerNode=8)
    assert found.choice is not None
    assert found.choice.nodes == ("n2", "n3")
    found = planned(*nodes, busy, pod("q", "n3", {"nvidia.com/gpu": 1}), pool, space(), nodes=2, gpusPerNode=8)
    assert found.verdict is Verdict.WAITING
    found = planned(*nodes, pool, space(), nodes=3, gpusPerNode=8)
    assert said(found) == (
        Verdict.IMPOSSIBLE,
        ["needs 3 nodes with one value of the label leaf (spec.fabric.topologyKey), the most that share one are 2"],
    )
    lost = [node(f"x{index}", H100, labels={"rack": "a"}) for index in range(3)]
    assert planned(*lost, pool, space(), nodes=2).verdict is Verdict.IMPOSSIBLE
    assert planned(*lost, pool, space(), nodes=1).verdict is Verdict.PLACED


@pytest.mark.parametrize(
    ("allowed", "named", "refused"),
    [
        ((), None, ""),
        ((), "default", ""),
        (("reader",), "reader", ""),
        ((), "reader", "leave it out"),
        (("b", "a"), "reader", "use one of a, b"),
        (("reader",), "reader.b", "use one of reader"),
    ],
)
def test_a_job_names_a_service_account_that_the_admin_allows(
    allowed: tuple[str, ...], named: str | None, refused: str
) -> None:
    catalog = replace(ANY_IMAGES, service_accounts=frozenset(allowed))
    spec = {"serviceAccountName": named} if named else {}
    waiting = [PendingJob("0", "", demand(**spec), namespace="default")]
    (placing,) = place_all(waiting, fleet(node("n", H100), catalog=catalog), catalog)
    assert (placing.decision.verdict is Verdict.PLACED) is not bool(refused)
    if refused:
        assert placing.decision.verdict is Verdict.MISCONFIGURED
        assert [finding.message for finding in placing.decision.problems] == [
            f"serviceAccountName: {named} is not allowed here; {refused}, "
            "or ask the admin to add it to the chart's admission.allowedServiceAccounts"
        ]


def test_without_an_installation_the_service_account_is_a_warning() -> None:
    found = planned(node("n", H100), serviceAccountName="reader")
    assert found.verdict is Verdict.PLACED
    warnings = [each.message for each in found.candidates[0].warnings]
    assert "nothing is known of the ServiceAccounts that the admin allows here, reader is unchecked" in warnings


ENDING = (
    {"status": {"phase": "Terminating"}},
    {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Terminating"}},
)


def ending(name: str, written: Object) -> Object:
    found = space(name)
    return {**found, **written, "metadata": {**found["metadata"], **written.get("metadata", {})}}


@pytest.mark.parametrize("written", ENDING)
def test_nothing_is_placed_in_a_namespace_that_is_being_deleted(written: Object) -> None:
    found = planned(node("n", MI300X), ending("default", written))
    assert (found.verdict, summary.reason(found), found.fix) == (
        Verdict.MISCONFIGURED,
        Reason.NAMESPACE_TERMINATING,
        None,
    )
    assert summary.summary(found) == (
        "namespace default is being deleted, and the API server creates no pod there; use another, or a new one of that "
        "name"
    )


def test_jobs_of_other_namespaces_take_what_it_leaves() -> None:
    found = fleet(node("n", MI300X), space(), ending("leaving", ENDING[0]), catalog=ANY_IMAGES)
    queue = [
        PendingJob(f"{number}", "", demand(gpusPerNode=8), namespace=each)
        for number, each in enumerate(("leaving", "default"))
    ]
    answers = [placing.decision.verdict for placing in place_all(queue, found, ANY_IMAGES)]
    assert answers == [Verdict.MISCONFIGURED, Verdict.PLACED]


def test_a_namespace_that_is_active_or_not_known_ends_nothing() -> None:
    active = {**space(), "status": {"phase": "Active"}}
    assert planned(node("n", MI300X), active).verdict is Verdict.PLACED
    assert planned(node("n", MI300X), ending("other", ENDING[0])).verdict is Verdict.PLACED


@pytest.mark.parametrize(("shapes", "fix"), [
    ([{"gpusPerNode": 4}, {"gpusPerNode": 2}], "with spec.shapes[0].gpusPerNode 8 instead of 4 it would fit pool lab"),
    ([{"gpusPerNode": 2}, {"gpusPerNode": 4}, {"gpusPerNode": 1}],
     "with spec.shapes[1].gpusPerNode 8 instead of 4 it would fit pool lab"),
    ([{"nodes": 2, "gpusPerNode": 8}, {"gpusPerNode": 4}], "with spec.shapes[0].nodes 1 instead of 2 it would fit pool lab"),
])  # fmt: skip
def test_of_several_shapes_the_fix_alone_names_the_one_to_change(shapes: list[dict[str, int]], fix: str) -> None:
    objects = (bare("n"), hosted(), space())
    found = with_fix(planned(*objects, shapes=shapes), fleet(*objects, catalog=ANY_IMAGES), ANY_IMAGES)
    assert found.fix is not None
    assert found.fix.message == fix
    assert not any("; set " in reason.message for each in found.candidates for reason in each.reasons)
