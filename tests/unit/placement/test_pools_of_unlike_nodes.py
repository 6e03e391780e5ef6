"""A node that joins an admin's pool and is worse than the others takes nothing from them: jobs get those that suit them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import A100, H100, L4, MI300X, T4, Amd, Nvidia, Object, decision, demand, fleet, gpupool, job, node, pod

from gpujob.api.kinds.gpupool import GPUPool
from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.assembly.levels import MOST_PARTS
from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.gpupools.selection import admin_pool
from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.sources.build import read_fleet
from gpujob.fleet.sources.cluster_file import read_cluster
from gpujob.fleet.sources.incremental import FleetIndex
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.decision_json import plan
from gpujob.placement.report.summary import summary
from gpujob.placement.report.why_not import best_losers
from gpujob.placement.scoring.candidate import Decision, best_per_pool
from gpujob.placement.scoring.equal_pools import without_repeated
from gpujob.render.children import render
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.status.records.read_objects import read_child
from gpujob.values.vocabulary import CapacityType, Verdict

CATALOG = load_catalog()
MIX = {"rack": "mix"}
SPOT = {"karpenter.sh/capacity-type": "spot"}
RESERVED = {"karpenter.sh/capacity-type": "reserved"}
NO_MAJOR = {"nvidia.com/cuda.driver.major": None, "nvidia.com/cuda.driver-version.major": None}
OLD = {"nvidia.com/cuda.driver-version.full": "470.10.1", **NO_MAJOR}
BIG = {"gpuMemory": "23G"}


def mine(name: str, gpu: Amd | Nvidia = L4, count: int = 4, price: str | None = "1.00", **more: Any) -> Object:
    labels = {**MIX, **more.pop("labels", {})}
    return node(name, gpu, count, labels=labels, price=price, **more)


def decided(*objects: Object, pool: dict[str, Any] | None = None, **spec: Any) -> Decision:
    return decision(gpupool("mix", MIX, **(pool or {})), *objects, catalog=CATALOG, **spec)


WORSE = [
    (mine("r2", labels=SPOT), {}, "mix/ondemand"),
    (mine("r2", labels=SPOT, cordoned=True), {}, "mix/ondemand"),
    (mine("r2", labels=SPOT), {"placement": {"capacityTypes": ["OnDemand"]}}, "mix/ondemand"),
    (mine("r2", labels=OLD), {}, "mix/driver-580.95.05"),
    (mine("r2", labels=OLD, ready=False), {}, "mix/driver-580.95.05"),
    (mine("r2", price="3.00"), {"placement": {"maxPricePerHour": "1.50"}}, "mix/price-1.00"),
    (mine("r2", price="3.00"), {}, "mix/price-1.00"),
    (mine("r2", price=None), {"placement": {"maxPricePerHour": "1.05"}}, "mix/price-1.00"),
    (mine("r2", labels={"nvidia.com/gpu.memory": "20000"}), BIG, "mix/memory-22.26Gi"),
    (mine("r2", labels={**SPOT, **OLD}, price="3.00"), {}, "mix/ondemand,driver-580.95.05,price-1.00"),
]  # fmt: skip


@pytest.mark.parametrize(("worse", "spec", "part"), WORSE)
def test_a_worse_node_that_joins_takes_nothing_from_the_others(worse: Object, spec: dict[str, Any], part: str) -> None:
    alone, both = decided(mine("r1"), **spec), decided(mine("r1"), worse, **spec)
    assert (alone.verdict, both.verdict) == (Verdict.PLACED, Verdict.PLACED)
    assert alone.choice is not None
    assert both.choice is not None
    assert both.choice.nodes == alone.choice.nodes == ("r1",)
    assert both.choice.candidate.price_per_hour == alone.choice.candidate.price_per_hour == 1_000_000
    assert both.choice.candidate.pool.name == part
    assert summary(both) == f"{part} is the only pool with room at $1.00 an hour"


def test_the_sentence_names_the_node_that_is_spot() -> None:
    found = plan(decided(mine("r1"), mine("r2", labels=SPOT)))
    whole = next(each for each in found["candidates"] if each["pool"] == "mix")
    assert whole["reasons"][0]["message"] == ("node r2 is Spot; placement.capacityTypes accepts OnDemand and Reserved")
    assert plan(decided(mine("r2", labels=SPOT)))["candidates"][0]["reasons"][0]["message"] == (
        "its nodes are Spot; placement.capacityTypes accepts OnDemand and Reserved"
    )


@pytest.mark.parametrize(
    ("gpu", "labels"),
    [(MI300X, {"amd.com/gpu.driver-version": "5.16.9"}), (T4, OLD), (MI300X, SPOT)],
)
def test_it_holds_for_other_devices(gpu: Amd | Nvidia, labels: dict[str, str | None]) -> None:
    found = decided(mine("r1", gpu), mine("r2", gpu, labels=labels))
    assert found.choice is not None
    assert found.choice.nodes == ("r1",)


def test_a_reserved_node_stays_one_beside_one_on_demand() -> None:
    both = (mine("r1", labels=RESERVED), mine("r2"))
    for wanted, on in (("Reserved", ("r1",)), ("OnDemand", ("r2",))):
        found = decided(*both, placement={"capacityTypes": [wanted]})
        assert found.choice is not None
        assert found.choice.nodes == on


THREE = (mine("r1", labels=RESERVED), mine("r2"), mine("r3", labels=SPOT), mine("r4", labels=SPOT))
"""Nodes of one pool, of all capacity types."""


@pytest.mark.parametrize(
    ("types", "count", "part", "on"),
    [
        (["Spot"], 1, "mix/spot", ("r3",)),
        (["Spot"], 2, "mix/spot", ("r3", "r4")),
        (["OnDemand"], 1, "mix/ondemand", ("r2",)),
        (["Reserved"], 1, "mix/reserved", ("r1",)),
        (["OnDemand", "Reserved"], 2, "mix/ondemand-reserved", ("r1", "r2")),
        (["OnDemand", "Spot"], 3, "mix/spot-ondemand", ("r2", "r3", "r4")),
        (["Reserved", "Spot"], 3, "mix/spot-reserved", ("r1", "r3", "r4")),
        (["OnDemand", "Reserved", "Spot"], 4, "mix", ("r1", "r2", "r3", "r4")),
    ],
)
def test_a_job_gets_nodes_of_no_capacity_type_but_those_that_it_accepts(
    types: list[str], count: int, part: str, on: tuple[str, ...]
) -> None:
    found = decided(*THREE, nodes=count, placement={"capacityTypes": types})
    assert found.choice is not None
    assert (found.choice.candidate.pool.name, found.choice.nodes) == (part, on)
    accepted = len(types) + ("Spot" in types)
    more = decided(*THREE, nodes=accepted + 1, placement={"capacityTypes": types})
    assert more.verdict is Verdict.IMPOSSIBLE


@pytest.mark.parametrize(
    ("types", "refused"),
    [
        (["Spot"], "node r2 is OnDemand; placement.capacityTypes accepts Spot"),
        (["Spot", "OnDemand"], "node r1 is Reserved; placement.capacityTypes accepts OnDemand and Spot"),
        (["OnDemand", "Reserved"], "node r3 is Spot; placement.capacityTypes accepts OnDemand and Reserved"),
    ],
)
def test_the_sentence_names_the_first_node_of_a_type_that_the_job_does_not_accept(
    types: list[str], refused: str
) -> None:
    found = plan(decided(*THREE, placement={"capacityTypes": types}))
    whole = next(each for each in found["candidates"] if each["pool"] == "mix")
    assert whole["reasons"][0]["message"] == refused


def test_cheaper_spot_nodes_count_at_their_price_and_by_their_type() -> None:
    found = decided(
        mine("r1"), mine("r2", labels=SPOT, price="0.40"), placement={"capacityTypes": ["OnDemand", "Spot"]}
    )
    assert found.choice is not None
    assert (found.choice.candidate.pool.name, found.choice.nodes) == ("mix/spot,price-0.40", ("r2",))


@pytest.mark.parametrize(
    ("types", "label", "operator"),
    [(["OnDemand"], "karpenter.sh/capacity-type", "NotIn"), (["Spot"], "karpenter.sh/capacity-type", "In")],
)
def test_pods_that_wait_for_a_new_node_take_none_of_a_type_that_the_job_does_not_accept(
    types: list[str], label: str, operator: str
) -> None:
    taken = [pod(name, name, {"nvidia.com/gpu": "4"}) for name in ("r1", "r2")]
    grows = {"provision": {"maxNodes": 3}}
    found = decided(mine("r1"), mine("r2", labels=SPOT), *taken, pool=grows, gpusPerNode=4,
                    placement={"capacityTypes": types})  # fmt: skip
    assert found.choice is not None
    assert found.choice.nodes == ("",)
    pods = render(job(), found.choice, 1).job["spec"]["template"]["spec"]
    (term,) = pods["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {"key": label, "operator": operator, "values": ["spot"]} in term["matchExpressions"]


def test_a_gang_takes_all_nodes_that_suit_it_and_pays_for_them() -> None:
    nodes = (mine("r1"), mine("r2", price="2.00"), mine("r3", price="3.00"), mine("r4", labels=SPOT))
    wanted = ((1, "mix/ondemand,price-1.00", 4), (2, "mix/ondemand,price-2.00", 12), (3, "mix/ondemand", 24))
    for count, part, dollars in wanted:
        found = decided(*nodes, nodes=count, gpusPerNode=4)
        assert found.choice is not None
        assert found.choice.candidate.pool.name == part
        assert found.choice.candidate.price_per_hour == dollars * 1_000_000
    spot = {"capacityTypes": ["OnDemand", "Reserved", "Spot"]}
    assert decided(*nodes, nodes=4, gpusPerNode=4, placement=spot).verdict is Verdict.PLACED
    assert decided(*nodes, nodes=4, gpusPerNode=4).verdict is Verdict.IMPOSSIBLE


def test_equal_nodes_have_no_parts_and_an_admin_s_word_makes_them_equal() -> None:
    def names(*nodes: Object, **spec: Any) -> list[str]:
        return [pool.name for pool in fleet(gpupool("mix", MIX, **spec), *nodes).pools]

    assert names(mine("r1"), mine("r2", cordoned=True)) == ["mix"]
    assert names(mine("r1"), mine("r2", labels=SPOT), capacityType="OnDemand") == ["mix"]
    assert names(mine("r1"), mine("r2", price="3"), price={"perGPUHour": "2"}) == ["mix"]
    assert names(mine("r1"), mine("r2", labels={"nvidia.com/gpu.memory": "20000"}), memoryPerGPU="19Gi") == ["mix"]
    assert names(mine("r1"), mine("r2", labels=SPOT)) == ["mix", "mix/ondemand", "mix/spot"]


def test_the_pool_itself_is_published_and_no_part() -> None:
    found = fleet(gpupool("mix", MIX), mine("r1"), mine("r2", labels=SPOT), mine("r3", price="9"))
    (whole,) = found.whole_pools
    assert (whole.name, whole.total, whole.capacity_type) == ("mix", 12, CapacityType.SPOT)
    assert whole.price is not None
    assert whole.price.per_gpu_hour == 9_000_000


def test_the_name_of_the_pool_means_its_parts_too() -> None:
    nodes = (mine("r1"), mine("r2", labels=SPOT))
    for word in ("mix", "mix/ondemand"):
        found = decided(*nodes, placement={"pools": {"allow": [word]}})
        assert found.choice is not None
        assert found.choice.nodes == ("r1",)
    assert decided(*nodes, placement={"pools": {"deny": ["mix"]}}).verdict is Verdict.IMPOSSIBLE


def test_the_status_and_the_pods_know_the_pool_by_its_own_name() -> None:
    found = decided(mine("r1"), mine("r2", labels=SPOT))
    assert found.choice is not None
    assert plan(found)["chosen"]["pool"] == "mix"
    children = render(job(), found.choice, 1)
    assert json.loads(children.job["metadata"]["annotations"]["gpujob.dev/placement"])["pool"] == "mix"


def test_a_device_is_promised_once_by_a_pool_and_its_parts() -> None:
    known = fleet(gpupool("mix", MIX), mine("r1"), mine("r2", labels=SPOT), catalog=CATALOG)
    either = {"capacityTypes": ["OnDemand", "Reserved", "Spot"]}
    wishes = [demand(gpusPerNode=4), demand(gpusPerNode=4), demand(gpusPerNode=4, placement=either),
              demand(gpusPerNode=1, placement=either)]  # fmt: skip
    placed = place_all([PendingJob(str(i), "", wish) for i, wish in enumerate(wishes)], known, CATALOG)
    assert [(each.verdict, each.choice.nodes if each.choice else ()) for each in placed] == [
        (Verdict.PLACED, ("r1",)),
        (Verdict.WAITING, ()),
        (Verdict.PLACED, ("r2",)),
        (Verdict.WAITING, ()),
    ]


ANY_TYPE = {"capacityTypes": ["OnDemand", "Reserved", "Spot"]}
UNLIKE = [
    (mine("r1", labels=SPOT), {"capacityTypes": ["Spot"]}),
    (mine("r1", labels=RESERVED), {"capacityTypes": ["Reserved"]}),
    (mine("r1", labels=OLD), None),
]


@pytest.mark.parametrize(("other", "accepts"), UNLIKE)
def test_a_job_that_waits_for_a_new_node_takes_no_node_that_its_pods_leave_out(
    other: Object, accepts: dict[str, Any] | None
) -> None:
    """The first job takes r2, the second one a node to be added; r1 stays free, in this round and while the pod waits."""
    grows = gpupool("mix", MIX, provision={"maxNodes": 3})
    known = fleet(grows, other, mine("r2"), catalog=CATALOG)
    wishes = [demand(gpusPerNode=4, placement={"capacityTypes": ["OnDemand"]}) for _ in range(2)]
    placed = list(place_all([PendingJob(str(i), "", wish) for i, wish in enumerate(wishes)], known, CATALOG))
    assert [each.choice and each.choice.nodes for each in placed] == [("r2",), ("",)]
    assert placed[1].choice is not None
    assert placed[1].choice.not_on == ("r1",)
    made = render(job(gpusPerNode=4), placed[1].choice, 1).job
    child = read_child(
        {**made, "metadata": {**made["metadata"], "uid": "c", "ownerReferences": [{"uid": "u", "controller": True}]}}
    )
    assert (child.nodes, child.not_on) == ((), ("r1",))
    taken = pod("p", "r2", {"nvidia.com/gpu": "4"})
    seen = read_cluster([grows, other, mine("r2"), taken])
    pools = [admin_pool(each) for each in seen.admin_pools]
    later = read_fleet(seen.nodes, seen.pods, CATALOG, pools, reservations=child.reservations())
    assert {node.name: node.free for pool in later.pools for node in pool.nodes} == {"r1": 4, "r2": 0}
    if accepts is not None:
        third = choose(demand(gpusPerNode=4, placement=accepts), later, CATALOG)
        assert third.choice is not None
        assert third.choice.nodes == ("r1",)


def test_a_busy_node_is_waited_for_though_a_worse_one_is_free() -> None:
    taken = pod("p", "r1", {"nvidia.com/gpu": "4"})
    found = decided(mine("r1"), mine("r2", labels=SPOT), taken)
    assert found.verdict is Verdict.WAITING
    assert summary(found).startswith(
        "fits pool mix/ondemand, which is busy: needs 1 free GPU on one node, 0 of 4 are free"
    )


def test_new_nodes_may_be_like_any_that_is_there_and_a_job_keeps_off_the_others() -> None:
    grows = {"provision": {"maxNodes": 3}}
    taken = pod("p", "r1", {"nvidia.com/gpu": "4"})
    found = decided(mine("r1"), mine("r2", labels=SPOT), taken, pool=grows, gpusPerNode=4)
    assert (found.verdict, found.choice and found.choice.nodes) == (Verdict.PLACED, ("",))
    assert found.choice is not None
    assert found.choice.not_on == ("r2",)


def test_a_node_whose_plugin_is_down_makes_no_part_of_its_own() -> None:
    down = mine("r2", allocatable={"nvidia.com/gpu": "0"}, capacity={"nvidia.com/gpu": "0"})
    assert [pool.name for pool in fleet(gpupool("mix", MIX), mine("r1"), down).pools] == ["mix"]


def test_what_comes_next_is_said_once_of_a_pool_and_its_parts() -> None:
    known = fleet(gpupool("mix", MIX), mine("r1"), mine("r2", labels=SPOT), node("z", L4, price="5"), catalog=CATALOG)
    found = decided(mine("r1"), mine("r2", labels=SPOT), node("z", L4, price="5"))
    assert summary(found) == "mix/ondemand is best value and cheapest of 2 pools with room at $1.00 an hour"
    told = [each.pool.name for each in best_losers(found, 3, known, CATALOG)]
    assert told == ["l4-ondemand"]


@pytest.mark.parametrize(
    ("nodes", "admin", "spec", "verdict"),
    [
        # What none of the nodes has can never run.
        ([mine("r1"), mine("r2", price="3.00")], {}, {"placement": {"maxPricePerHour": "0.99"}}, Verdict.IMPOSSIBLE),
        ([mine("r1"), mine("r2", labels={"nvidia.com/gpu.memory": "20000"})], {}, {"gpuMemory": "30G"}, Verdict.IMPOSSIBLE),
        ([mine("r1", labels=SPOT), mine("r2", labels=SPOT)], {}, {}, Verdict.IMPOSSIBLE),
        # What the admin says counts for every node.
        ([mine("r1"), mine("r2", labels=SPOT)], {"capacityType": "OnDemand"}, {}, Verdict.PLACED),
        ([mine("r1"), mine("r2", price="3.00")], {"price": {"perGPUHour": "1"}}, {"placement": {"maxPricePerHour": "1.50"}},
         Verdict.PLACED),
        # A job that accepts the worst is placed on any of them.
        ([mine("r1"), mine("r2", labels=SPOT)], {}, {"placement": {"capacityTypes": ["Spot"]}}, Verdict.PLACED),
    ],
)  # fmt: skip
def test_a_job_that_all_nodes_or_none_suit_is_decided_as_of_equal_nodes(
    nodes: list[Object], admin: dict[str, Any], spec: dict[str, Any], verdict: Verdict
) -> None:
    assert decided(*nodes, pool=admin, **spec).verdict is verdict


def test_a_driver_upgrade_that_rolls_through_a_pool_stops_no_job() -> None:
    old, new = ({"nvidia.com/cuda.driver-version.full": driver, **NO_MAJOR} for driver in ("550.54.15", "580.95.05"))
    for upgraded in range(4):
        nodes = [mine(f"r{number}", labels=new if number < upgraded else old) for number in range(3)]
        found = decided(*nodes, nodes=3, gpusPerNode=4)
        assert found.verdict is Verdict.PLACED, upgraded


def test_many_unlike_nodes_make_a_bounded_number_of_parts() -> None:
    nodes = [
        mine(f"r{i}", price=f"{1 + i % 7}", labels=SPOT if i % 2 else {"nvidia.com/gpu.memory": f"{23034 - i}"})
        for i in range(60)
    ]
    known = fleet(gpupool("mix", MIX), *nodes, catalog=CATALOG)
    names = [pool.name for pool in known.pools]
    assert len(names) == len(set(names)) <= 1 + MOST_PARTS
    assert known.pools[0].name == "mix"


@pytest.mark.parametrize(
    ("worse", "spec", "dollars", "warns"),
    [
        (mine("r1", labels=SPOT, price="1.00"), {}, 4_000_000, False),
        (mine("r1", price="2.00"), {}, 8_000_000, False),
        (mine("r1", labels=OLD), {}, 4_000_000, True),
        (mine("r1", labels=OLD, price="2.00"), {}, 8_000_000, True),
        (mine("r1", labels={"nvidia.com/gpu.memory": "20000"}), BIG, 4_000_000, True),
    ],
)
def test_a_node_to_be_added_may_be_as_the_worst(worse: Object, spec: dict[str, Any], dollars: int, warns: bool) -> None:
    known = fleet(gpupool("mix", MIX, provision={"maxNodes": 6}), worse, mine("r2"), catalog=CATALOG)
    found = decide(demand(gpusPerNode=4, nodes=3, **spec), known, CATALOG)
    assert found.choice is not None, summary(found)
    chosen = found.choice.candidate
    assert (found.choice.nodes, chosen.price_per_hour) == (("", "", ""), 3 * dollars)
    assert any("are like those of mix/" in warning.message for warning in chosen.warnings) is warns


SHARED = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}
SLICES = {"nvidia.com/mig-1g.10gb": "7"}


@pytest.mark.parametrize(
    ("other", "own", "spec", "sentence"),
    [
        (mine("r1", labels=SHARED, count=8), mine("r2", count=8), {"gpusPerNode": 8},
         "its nodes have L4, L4 shared; narrow spec.nodeSelector"),
        (mine("r1", labels=SHARED, count=8, cordoned=True), mine("r2"), {"gpusPerNode": 4},
         "its nodes have L4, L4 shared; narrow spec.nodeSelector"),
        (mine("r1", labels=SHARED, count=8), mine("r2"), {"gpuMemory": "20G"},
         "its nodes have L4, L4 shared; narrow spec.nodeSelector"),
        (mine("r1", A100, devices=SLICES), mine("r2", A100), {"gpusPerNode": 2, "gpuMemory": "60G"},
         "its nodes offer nvidia.com/gpu, nvidia.com/mig-1g.10gb; set spec.resourceName to one"),
        (mine("r1", MI300X), mine("r2", H100), {"placement": {"vendors": ["NVIDIA"]}},
         "its nodes offer amd.com/gpu, nvidia.com/gpu; set spec.resourceName to one"),
        (mine("r1", MI300X), mine("r2", H100), {"images": {"rocm": {"image": "r"}}},
         "its nodes offer amd.com/gpu, nvidia.com/gpu; set spec.resourceName to one"),
        (mine("r1", MI300X), mine("r2", H100), {"placement": {"accelerators": {"allow": ["H100"]}}},
         "its nodes offer amd.com/gpu, nvidia.com/gpu; set spec.resourceName to one"),
    ],
)  # fmt: skip
def test_a_node_of_other_devices_is_the_admin_s_to_fix_and_ends_no_job(
    other: Object, own: Object, spec: dict[str, Any], sentence: str
) -> None:
    assert decided(own, **spec).verdict is Verdict.PLACED or "images" in spec
    found = decided(other, own, **spec)
    assert found.verdict is Verdict.MISCONFIGURED
    assert summary(found).startswith(f"pool mix must be fixed first: {sentence}")


def test_a_table_has_one_part_for_each_set_of_reasons() -> None:
    nodes = [mine(f"r{i}", price=f"{1 + i % 3}", labels=(SPOT, OLD, RESERVED, {})[i % 4]) for i in range(12)]
    found = decided(*nodes, gpusPerNode=4, placement={"capacityTypes": ["Spot"]})
    every = best_per_pool(found)
    shown = without_repeated(every)
    kinds = [frozenset(finding.reason for finding in each.reasons) for each in shown]
    assert (shown[0], len(kinds)) == (every[0], len(set(kinds)))
    assert set(kinds) == {frozenset(finding.reason for finding in each.reasons) for each in every}
    assert len(shown) < len(every) / 3
    # Pools of other GPUPools, and discovered ones, have each its row.
    others = decided(*nodes, node("z", L4), node("y", T4), gpusPerNode=4, placement={"capacityTypes": ["Spot"]})
    discovered = [each.pool.name for each in without_repeated(best_per_pool(others)) if each.pool.discovered]
    assert discovered == [each.pool.name for each in best_per_pool(others) if each.pool.discovered]


SPOT_L4 = mine("r1", labels={**SPOT, **SHARED}, count=8)
DEVICES_DIFFER = "its nodes have A100-80GB, L4; narrow spec.nodeSelector"


@pytest.mark.parametrize(
    ("other", "own", "spec", "sentence"),
    [
        (mine("r1", A100, labels=OLD), mine("r2"), {}, DEVICES_DIFFER),
        (mine("r1", A100, labels=SPOT), mine("r2"), {}, DEVICES_DIFFER),
        (mine("r1", A100), mine("r2", labels=SPOT), {"placement": {"capacityTypes": ["Spot"]}}, DEVICES_DIFFER),
        (mine("r1", A100, price="12"), mine("r2"), {"placement": {"maxPricePerHour": "10"}}, DEVICES_DIFFER),
        (SPOT_L4, mine("r2"), {}, "its nodes have L4, L4 shared; narrow spec.nodeSelector"),
        (mine("r1", A100, devices={**SLICES, "nvidia.com/gpu": "1"}, labels=SPOT), mine("r2", A100), {},
         "its nodes offer nvidia.com/gpu, nvidia.com/mig-1g.10gb; set spec.resourceName to one"),
        (mine("r1", H100), mine("r2", MI300X), {"requires": ["OpenSourceStack"]},
         "its nodes offer amd.com/gpu, nvidia.com/gpu; set spec.resourceName to one"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("gang", [{}, {"nodes": 2, "gpusPerNode": 4}])
def test_no_fact_of_one_node_ends_a_job_where_the_pool_must_be_fixed(
    other: Object, own: Object, spec: dict[str, Any], gang: dict[str, Any], sentence: str
) -> None:
    third = json.loads(json.dumps(own).replace("r2", "r3"))
    found = decided(other, own, third, **spec, **gang)
    assert found.verdict is Verdict.MISCONFIGURED, summary(found)
    assert summary(found).startswith(f"pool mix must be fixed first: {sentence}")
    known = fleet(gpupool("mix", MIX), other, own, third, catalog=CATALOG)
    assert choose(demand(**spec, **gang), known, CATALOG).verdict is Verdict.MISCONFIGURED


def test_the_index_follows_a_pool_that_must_be_fixed() -> None:
    index, nodes = FleetIndex(CATALOG), dict[str, Node]()
    admins = [admin_pool(GPUPool.model_validate(gpupool("mix", MIX)))]
    index.put_admin_pools(admins)
    sliced = mine("r3", A100, devices={**SLICES, "nvidia.com/gpu": "1"})
    steps = (
        mine("r1", A100, labels=SPOT),
        mine("r2"),
        mine("r2", cordoned=True),
        sliced,
        mine("r1", labels=OLD),
        mine("r2"),
    )
    for raw in steps:
        parsed = read_node(raw)
        nodes[parsed.name] = parsed
        index.put_node(parsed, groups_of(parsed, CATALOG))
        assert index.fleet() == read_fleet(nodes.values(), (), CATALOG, admins)


@pytest.mark.parametrize(
    "spec",
    [
        {"gpusPerNode": 16},
        {"nodes": 3, "gpusPerNode": 4},
        {"gpuMemory": "100G"},
        {"placement": {"capacityTypes": ["Reserved"]}},
        {"placement": {"maxPricePerHour": "0.5"}},
    ],
)
def test_what_no_node_has_ends_a_job_all_the_same(spec: dict[str, Any]) -> None:
    found = decided(mine("r1", A100, labels=SPOT, price="9"), mine("r2"), **spec)
    assert found.verdict is Verdict.IMPOSSIBLE


def test_a_slip_of_the_pen_in_a_gpupool_ends_no_job() -> None:
    price = {"price": {"perGPUHour": "abc"}}
    found = decided(mine("r1", labels=SPOT), mine("r2"), pool=price)
    assert found.verdict is Verdict.MISCONFIGURED
    assert summary(found).startswith("pool mix must be fixed first: GPUPool mix cannot be read")
    assert decided(mine("r1", labels=SPOT), pool=price).verdict is Verdict.MISCONFIGURED, (
        "capacityType may be unread too"
    )
