"""A gang runs on equal GPUs of nodes that differ in price, driver or another fact for which they are several pools."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, H100, L4, MI300X, Amd, Nvidia, Object, decision, demand, fleet, gpupool, node, pod

from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.assembly import joined_pools
from gpujob.fleet.sources.incremental import FleetIndex
from gpujob.placement.engine.choose import choose
from gpujob.placement.report.decision_json import plan
from gpujob.placement.report.summary import summary
from gpujob.placement.report.why_not import why_not
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.suggestions.search import with_fix
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.vocabulary import CapacityType, Outcome, Reason, Verdict

CATALOG = load_catalog()
SPOT = {"karpenter.sh/capacity-type": "spot"}
RESERVED = {"karpenter.sh/capacity-type": "reserved"}
ANY_TYPE = {"capacityTypes": ["OnDemand", "Reserved", "Spot"]}
PAIR = {"nodes": 2, "gpusPerNode": 8}


def decided(*objects: Object, **spec: Any) -> Decision:
    return decision(*objects, catalog=CATALOG, **spec)


def nodes_of(found: Decision) -> tuple[str, ...]:
    assert found.choice is not None, summary(found)
    return found.choice.nodes


def driver(version: str) -> dict[str, str | None]:
    return {
        "nvidia.com/cuda.driver-version.full": version,
        "nvidia.com/cuda.driver.major": None,
        "nvidia.com/cuda.driver-version.major": None,
    }


@pytest.mark.parametrize(
    ("gpu", "one", "other", "dollars", "differ"),
    [
        (A100, {}, {"price": "1.0"}, None, "price; the most expensive nodes count"),
        (A100, {"price": "1.0"}, {"price": "1.2"}, "17.60", "price; the most expensive nodes count"),
        (MI300X, {"price": "2.5"}, {"price": "9"}, "92.00", "price; the most expensive nodes count"),
        (H100, {"price": "2"}, {"price": "free"}, None, "price; the most expensive nodes count"),
        (H100, {"price": "2", "labels": driver("580.95.05")}, {"price": "2", "labels": driver("580.105.08")}, "32.00",
         "driver; the worst counts for all"),
        (MI300X, {"price": "2"}, {"price": "2", "labels": {"amd.com/gpu.driver-version": "6.10.5"}}, "32.00",
         "driver; the worst counts for all"),
        (H100, {"price": "2", "labels": {"nvidia.com/gpu.memory": "81559"}},
         {"price": "2", "labels": {"nvidia.com/gpu.memory": "80000"}}, "32.00", "memory; the worst counts for all"),
        (H100, {"price": "2"}, {"price": "2", "labels": {"node.kubernetes.io/instance-type": "p5.48xlarge"}}, "32.00",
         "instance type"),
        (H100, {"price": "2"}, {"price": "2", "taints": ["nvidia.com/gpu=present:NoSchedule"]}, "32.00", "taints"),
        (H100, {"price": "2"}, {"price": "3", "labels": RESERVED}, "40.00",
         "capacity type and price; the worst counts for all but the price"),
        # Whether a label says that the devices are whole is no difference between them.
        (MI300X, {"price": "2"}, {"price": "3", "labels": {"amd.com/gpu.compute-memory-partition": "spx_nps1"}}, "40.00",
         "price; the most expensive nodes count"),
    ],
)  # fmt: skip
def test_two_equal_nodes_of_two_pools_run_a_gang(
    gpu: Amd | Nvidia, one: dict[str, Any], other: dict[str, Any], dollars: str | None, differ: str
) -> None:
    found = decided(node("a", gpu, **one), node("b", gpu, **other), **PAIR)
    assert nodes_of(found) == ("a", "b")
    told = plan(found)
    first, second = (each.name for each in fleet(node("a", gpu, **one), node("b", gpu, **other)).whole_pools)
    assert dollars is None or told["chosen"]["pricePerHour"] == dollars
    warnings = [warning.message for warning in found.candidates[0].warnings if warning.reason is Reason.NODES_DIFFER]
    assert warnings == [f"its nodes are those of {first} and {second}, which differ in {differ}"]


@pytest.mark.parametrize(("gpu", "machine"), [
    (MI300X, {"node.kubernetes.io/instance-type": "BM.GPU.MI300X.8"}),
    (H100, {"gpu.nvidia.com/class": "H100", "node.kubernetes.io/instance-type": "gd-8xh100ib-i128"}),
])  # fmt: skip
def test_equal_machines_run_a_gang_before_the_labels_of_all_are_there(
    gpu: Amd | Nvidia, machine: dict[str, str]
) -> None:
    unlabelled = node("b", devices={gpu.resource: "8"}, labels=machine, price="2")
    assert nodes_of(decided(node("a", gpu, labels=machine, price="2"), unlabelled, **PAIR)) == ("a", "b")


@pytest.mark.parametrize("spelled", ["2.0", "2", " 2.00", "2.000"])
def test_one_price_in_two_spellings_is_one_price(spelled: str) -> None:
    found = decided(node("a", H100, price="2.00"), node("b", H100, price=spelled), **PAIR)
    assert summary(found) == "h100-sxm-ondemand is the only pool with room at $32.00 an hour"
    assert not found.candidates[0].pool.joins


@pytest.mark.parametrize("annotated", [{}, {0}, {1, 2}, {0, 1, 2, 3}])
def test_a_price_on_some_nodes_changes_no_verdict(annotated: set[int]) -> None:
    nodes = [node(f"n{i}", MI300X, price="2.5" if i in annotated else None) for i in range(4)]
    for count, verdict in ((1, "Placed"), (2, "Placed"), (4, "Placed"), (5, "Impossible")):
        assert decided(*nodes, nodes=count, gpusPerNode=8).verdict == verdict
    busy = [pod(f"p{i}", f"n{i}", {"amd.com/gpu": 8}) for i in (0, 2)]
    assert nodes_of(decided(*nodes, *busy, **PAIR)) == ("n1", "n3")
    assert decided(*nodes, *busy, nodes=3, gpusPerNode=8).verdict is Verdict.WAITING


def test_a_driver_upgrade_that_rolls_through_discovered_nodes_stops_no_gang() -> None:
    old, new = driver("550.54.15"), driver("580.95.05")
    for upgraded in range(4):
        nodes = [node(f"n{i}", H100, price="2", labels=new if i < upgraded else old) for i in range(3)]
        assert decided(*nodes, nodes=3, gpusPerNode=8).verdict is Verdict.PLACED, upgraded


def test_a_worse_node_takes_nothing_from_a_gang_that_the_others_hold() -> None:
    cap = {"placement": {"maxPricePerHour": "20"}}
    two = [node("a", A100, price="1.0"), node("b", A100, price="1.2")]
    worse = [
        node("c", A100, price="9"),
        node("d", A100, price=None),
        node("e", A100, price="1.0", labels=SPOT),
        node("f", A100, price="1.0", labels=driver("470.10.1")),
        node("g", A100, price="1.0", taints=["team=x:NoSchedule"]),
    ]
    for one in worse:
        found = decided(*two, one, **PAIR, **cap)
        assert nodes_of(found) == ("a", "b"), one["metadata"]["name"]
        assert found.candidates[0].price_per_hour == 17_600_000
    assert nodes_of(decided(*two, *worse, **PAIR, **cap)) == ("a", "b")


def test_a_gang_costs_what_the_cheapest_nodes_that_hold_it_cost() -> None:
    nodes = [node(f"n{i}", A100, price=f"{price}") for i, price in enumerate((1, 2, 3, 4))]
    for count in (2, 3, 4):
        found = decided(*nodes, nodes=count, gpusPerNode=8)
        assert found.candidates[0].price_per_hour == 8 * sum(range(count + 1)) * 1_000_000
    for count, limit, verdict in ((3, 48, "Placed"), (3, 47, "Impossible"), (4, 80, "Placed"), (4, 79, "Impossible")):
        spec = {"placement": {"maxPricePerHour": f"{limit}"}}
        assert decided(*nodes, nodes=count, gpusPerNode=8, **spec).verdict == verdict


@pytest.mark.parametrize(
    ("types", "on"),
    [
        (["OnDemand"], None),
        (["Spot"], None),
        (["OnDemand", "Spot"], ("a", "b")),
        (["Reserved", "Spot"], ("b", "c")),
        (["OnDemand", "Reserved"], ("a", "c")),
    ],
)
def test_a_gang_is_on_no_node_of_a_capacity_type_that_the_job_excludes(
    types: list[str], on: tuple[str, ...] | None
) -> None:
    nodes = [
        node("a", H100, price="3"),
        node("b", H100, price="1", labels=SPOT),
        node("c", H100, price="2", labels=RESERVED),
    ]
    found = decided(*nodes, **PAIR, placement={"capacityTypes": types})
    assert (found.choice and found.choice.nodes) == on
    if on is None:
        assert found.verdict is Verdict.IMPOSSIBLE


def test_a_pool_that_holds_the_gang_is_all_that_is_told() -> None:
    nodes = [node("a", H100, price="3"), node("b", H100, price="3"), node("c", H100, price="1", labels=SPOT)]
    for spec in ({}, PAIR, {"gpusPerNode": 8}, {"model": {"name": "llama-3.1-8b", "method": "LoRA"}}):
        found = decided(*nodes, placement=ANY_TYPE, **spec)
        assert not any(each.pool.joins for each in found.candidates)
    busy = pod("p", "b", {"nvidia.com/gpu": 8})
    found = decided(*nodes, busy, placement=ANY_TYPE, **PAIR)
    assert (found.candidates[0].pool.name, nodes_of(found)) == ("h100-sxm", ("a", "c"))
    assert decided(*nodes, busy, **PAIR).verdict is Verdict.WAITING


def test_of_a_gang_that_is_too_large_the_most_nodes_are_told_and_the_fix_has_them() -> None:
    nodes = [node(f"n{i}", H100, price=f"{1 + i}") for i in range(3)]
    found = decided(*nodes, nodes=4, gpusPerNode=8)
    assert found.verdict is Verdict.IMPOSSIBLE
    joined = [each for each in found.candidates if each.pool.joins]
    assert {each.pool.name for each in joined} == {"h100-sxm-ondemand"}
    assert joined[0].reasons[0].message == "needs 4 nodes with 8 GPUs each, the pool has 3 nodes"
    fix = with_fix(found, fleet(*nodes, catalog=CATALOG), CATALOG).fix
    assert fix is not None
    assert fix.message.startswith("with spec.nodes 3 instead of 4 it would fit pool h100-sxm-ondemand")
    assert "none of 3 pools, alone or together, can ever run it" in summary(found)


@pytest.mark.parametrize(
    ("pools", "verdict"),
    [
        ({"allow": ["h100-sxm-ondemand"]}, "Impossible"),
        ({"allow": ["h100-sxm-ondemand", "h100-sxm-spot"]}, "Placed"),
        ({"allow": ["h100-sxm"]}, "Placed"),
        ({"deny": ["h100-sxm-spot"]}, "Impossible"),
        ({"deny": ["h100-sxm"]}, "Impossible"),
        ({"deny": ["l4-ondemand"]}, "Placed"),
    ],
)
def test_the_names_of_its_parts_decide_whether_a_job_may_use_all_of_its_nodes(pools: Any, verdict: str) -> None:
    nodes = [node("a", H100), node("b", H100, labels=SPOT), node("c", L4, 1)]
    assert decided(*nodes, **PAIR, placement={**ANY_TYPE, "pools": pools}).verdict == verdict


@pytest.mark.parametrize(
    ("nodes", "placement", "sentence"),
    [
        # The smallest limit that fits is what the two cheapest nodes cost.
        ([node("a", H100, price="2"), node("b", H100, price="3")], {"maxPricePerHour": "39"},
         "with spec.placement.maxPricePerHour 40.00 instead of 39"),
        ([node(f"n{i}", H100, price=price) for i, price in enumerate(("2", "3", "9", "9"))], {"maxPricePerHour": "39"},
         "with spec.placement.maxPricePerHour 40.00 instead of 39"),
        ([node("a", MI300X, price="1"), node("b", MI300X, price="1.50"), node("c", MI300X, price="4")],
         {"maxPricePerHour": "19"}, "with spec.placement.maxPricePerHour 20.00 instead of 19"),
        # Neither type alone has two nodes.
        ([node("a", H100, price="2"), node("b", H100, price="1", labels=SPOT)], {},
         "with spec.placement.capacityTypes [OnDemand, Reserved, Spot] instead of [OnDemand, Reserved]"),
        ([node("a", A100, price="2"), node("b", A100, price="1", labels=SPOT)], {"capacityTypes": ["Spot"]},
         "with spec.placement.capacityTypes [OnDemand, Spot] instead of [Spot]"),
        ([node("a", L4, 8, price="2"), node("b", L4, 8, price="3", labels=RESERVED)], {"capacityTypes": ["OnDemand"]},
         "with spec.placement.capacityTypes [OnDemand, Reserved] instead of [OnDemand]"),
        # What the job denies is a pool of the two.
        ([node("a", H100), node("b", H100, labels=SPOT)], {**ANY_TYPE, "pools": {"deny": ["h100-sxm-spot"]}},
         "without spec.placement.pools.deny ([h100-sxm-spot])"),
    ],
)  # fmt: skip
def test_the_fix_of_a_gang_that_several_pools_hold_together_keeps_its_nodes(
    nodes: list[Object], placement: dict[str, Any], sentence: str
) -> None:
    found, known = decided(*nodes, **PAIR, placement=placement), fleet(*nodes, catalog=CATALOG)
    assert found.verdict is Verdict.IMPOSSIBLE
    fix = with_fix(found, known, CATALOG).fix
    assert fix is not None
    assert fix.message == f"{sentence} it would fit pool {fix.pool}"
    assert choose(fix.demand, known, CATALOG).verdict is Verdict.PLACED
    # The plan shows the pool that the fix means.
    assert fix.pool in {each.pool.name for each in found.candidates if each.pool.joins}


def test_a_joined_pool_that_is_rejected_for_what_rejects_a_part_is_not_told() -> None:
    nodes = [node("a", H100, price="2"), node("b", H100, price="2"), node("c", H100, price="3")]
    for spec in ({"gpuMemory": "900G"}, {"placement": {"vendors": ["AMD"]}}, {"placement": {"maxPricePerHour": "1"}}):
        found = decided(*nodes, **PAIR, **spec)
        assert found.verdict is Verdict.IMPOSSIBLE
        assert not any(each.pool.joins for each in found.candidates)


def test_equal_devices_alone_are_joined() -> None:
    other = [
        node("b", H100, labels={"kubernetes.io/arch": "arm64"}),
        node("b", H100, labels={"topology.kubernetes.io/region": "far"}),
        node("b", A100),
        node("b", H100, devices={"nvidia.com/gpu": "32"}, labels={"nvidia.com/gpu.replicas": "4"}),
        node("b", H100, devices={"nvidia.com/mig-3g.40gb": "16"}, labels={"nvidia.com/mig.strategy": "mixed"}),
    ]
    for one in other:
        assert not fleet(node("a", H100), one).joins
    mine = gpupool("mine", {"rack": "x"})
    assert not fleet(node("a", H100), node("b", H100, labels={"rack": "x"}, price="1"), mine).joins


def test_status_metrics_and_published_pools_have_the_pools_of_today() -> None:
    found = fleet(node("a", H100, price="1"), node("b", H100, price="2"))
    assert len(found.whole_pools) == 2
    assert found.joins == {"h100-sxm-ondemand"}
    assert sum(pool.total for pool in found.whole_pools) == 16
    spot = fleet(node("a", H100), node("b", H100, labels=SPOT))
    assert [pool.name for pool in spot.whole_pools] == ["h100-sxm-ondemand", "h100-sxm-spot"]
    (joined,) = (pool for pool in spot.pools if pool.joins)
    assert (joined.name, joined.capacity_type, joined.free) == ("h100-sxm", CapacityType.SPOT, 16)


def test_a_name_that_an_admin_took_is_not_taken_again() -> None:
    nodes = [node("a", H100, price="1"), node("b", H100, price="2"), node("c", L4, 1, labels={"rack": "x"})]
    found = fleet(*nodes, gpupool("h100-sxm-ondemand", {"rack": "x"}))
    assert len({pool.name for pool in found.pools}) == len(found.pools) == 4
    wish = demand(**PAIR)
    assert choose(wish, found, CATALOG).verdict is Verdict.PLACED


def test_a_device_is_promised_once_by_a_pool_and_those_that_it_joins() -> None:
    nodes = [node(f"n{i}", H100, price=f"{1 + i}") for i in range(3)]
    wishes = [demand(**PAIR), demand(gpusPerNode=8), demand(**PAIR), demand(gpusPerNode=8)]
    placed = place_all([PendingJob(str(i), "", wish) for i, wish in enumerate(wishes)], fleet(*nodes), CATALOG)
    assert [(each.verdict, each.choice.nodes if each.choice else ()) for each in placed] == [
        (Verdict.PLACED, ("n0", "n1")),
        (Verdict.PLACED, ("n2",)),
        (Verdict.WAITING, ()),
        (Verdict.WAITING, ()),
    ]


def test_a_model_is_divided_over_nodes_of_two_pools() -> None:
    model = {"name": "llama-3.1-8b", "method": "Full", "sharding": "FSDP"}
    same, split = ([node("a", H100, 2, price="2"), node("b", H100, 2, price=price)] for price in ("2", "2.10"))
    one, other = (decided(*nodes, model=model) for nodes in (same, split))
    assert one.candidates[0].gang.shape == other.candidates[0].gang.shape == "2x2"
    assert nodes_of(one) == nodes_of(other) == ("a", "b")


def test_why_not_means_the_pool_that_was_tried() -> None:
    nodes = [node("a", H100, price="2"), node("b", H100, price="3"), node("c", A100, price="1")]
    known, found = fleet(*nodes, catalog=CATALOG), decided(*nodes)
    told = why_not(found, "h100-sxm-ondemand", known, CATALOG)
    assert (told.outcome, told.pool.joins) == (Outcome.FITS, ())


def test_an_index_keeps_its_pools_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpujob.fleet.devices.group import groups_of
    from gpujob.fleet.kubernetes.parse import read_node, read_pod

    index = FleetIndex(CATALOG)

    def put(each: Object) -> None:
        read = read_node(each)
        index.put_node(read, groups_of(read, CATALOG))

    for each in (node("a", H100, price="1"), node("b", H100, price="2"), node("c", L4, 1)):
        put(each)
    before = index.fleet()
    joined = next(pool for pool in before.pools if pool.joins)
    index.put_pod(("", "p"), read_pod(pod("p", "b", {"nvidia.com/gpu": 8})))
    with monkeypatch.context() as of_facts:
        # Which pools join others follows from facts alone, so a pod does not ask for it again.
        of_facts.delattr(joined_pools, "sets_of")
        after = next(pool for pool in index.fleet().pools if pool.joins)
    assert (joined.free, after.free) == (16, 8)
    # What placement computes from the facts stays.
    assert after.answers is joined.answers
    index.put_pod(("", "q"), read_pod(pod("q", "c", {"nvidia.com/gpu": 1})))
    assert next(pool for pool in index.fleet().pools if pool.joins) is after
    put(node("b", H100, price="1"))
    assert not index.fleet().joins
    put(node("b", H100, price="3"))
    assert index.fleet().joins == {"h100-sxm-ondemand"}
    index.drop_node("b")
    assert not index.fleet().joins


@pytest.mark.parametrize("admin", [False, True])
def test_a_job_that_fits_on_one_node_does_not_wait_for_more_nodes_of_another_price(admin: bool) -> None:
    """Of nodes of one price it would not either."""
    pool = [gpupool("mix", {"rack": "x"})] * admin
    model = {"name": "deepseek-ai/DeepSeek-V3", "method": "Inference", "sequenceLength": 2048}
    for price in ("3", "40"):
        nodes = [node(name, H100, price=each, labels={"rack": "x"}) for name, each in (("a", "3"), ("b", price))]
        known = [*pool, *nodes, pod("p", "b", {"nvidia.com/gpu": 8})]
        wish = demand(model=model, placement={"waitSeconds": 60})
        found = decided(*known, model=model, placement={"waitSeconds": 60})
        assert (nodes_of(found), found.candidates[0].price_per_hour) == (("a",), 24_000_000)
        assert choose(wish, fleet(*known, catalog=CATALOG), CATALOG).choice == found.choice


def test_a_driver_that_is_not_known_of_some_nodes_is_not_hidden_by_that_of_others() -> None:
    labels = node("b", H100)["metadata"]["labels"]
    unlabelled = node("b", H100, labels={key: None for key in labels if key.startswith("nvidia.com/cuda.")})
    found = decided(node("a", H100), unlabelled, **PAIR)
    assert found.choice is not None
    unknown = [each.message for each in found.choice.candidate.warnings if each.reason is Reason.DRIVER_UNKNOWN]
    known = fleet(node("a", H100), unlabelled, catalog=CATALOG)
    assert unknown == [f"no label has the driver of {next(pool.name for pool in known.whole_pools if not pool.driver)}"]


KARPENTER = {"karpenter.sh/nodepool": "gpu"}


@pytest.mark.parametrize(("prices", "count", "more", "joined"), [
    (("2", "3"), 3, "1 more node (3 with 8 GPUs each, the pool has 2)", True),
    (("2", "3", "4"), 5, "2 more nodes (5 with 8 GPUs each, the pool has 3)", True),
    (("2", "2"), 3, "1 more node (3 with 8 GPUs each, the pool has 2)", False),
    (("2",), 3, "2 more nodes (3 with 8 GPUs each, the pool has 1)", False),
])  # fmt: skip
def test_a_node_pool_that_may_grow_lacks_what_all_its_nodes_together_lack(
    prices: tuple[str, ...], count: int, more: str, joined: bool
) -> None:
    nodes = [node(f"n{index}", H100, price=price, labels=KARPENTER) for index, price in enumerate(prices)]
    found = decided(*nodes, nodes=count, gpusPerNode=8)
    assert found.verdict is Verdict.WAITING
    assert f"has too few nodes: needs {more}; Karpenter node pool gpu may grow" in summary(found)
    assert len({each.pool.name for each in found.candidates}) == 1
    assert bool(found.candidates[0].pool.joins) is joined
    assert choose(demand(nodes=count, gpusPerNode=8), fleet(*nodes), CATALOG).verdict is Verdict.WAITING


OF_ONE_POOL = [node(name, H100, price=price, labels={"p": "x"}) for name, price in (("a", "1"), ("b", "3"))]
APART = [node("a", H100, price="1"), node("b", H100, price="3")]


@pytest.mark.parametrize("nodes", [[*OF_ONE_POOL, gpupool("x", {"p": "x"})], APART])
def test_a_gang_over_nodes_of_unlike_prices_costs_their_sum(nodes: list[Object]) -> None:
    for limit, verdict in (("31.99", Verdict.IMPOSSIBLE), ("32", Verdict.PLACED), ("40", Verdict.PLACED)):
        spec = {**PAIR, "placement": {"maxPricePerHour": limit}}
        found = decided(*nodes, **spec)
        assert found.verdict is choose(demand(**spec), fleet(*nodes, catalog=CATALOG), CATALOG).verdict is verdict
    dearer = [node(name, A100, price="2.50") for name in "cd"]
    assert nodes_of(decided(*nodes, *dearer, **PAIR, placement={"objective": "Cost"})) == ("a", "b")
    cheaper = [node(name, A100, price="1.90") for name in "cd"]
    found = decided(*nodes, *cheaper, **PAIR, placement={"objective": "Cost"})
    assert nodes_of(found) == ("c", "d")
    told = plan(found)
    joined = next(each for each in told["candidates"] if (each["accelerator"], each["outcome"]) == ("H100-SXM", "Fits"))
    assert (joined["pricePerHour"], joined["marginalPricePerHour"]) == ("32.00", "32.00")
    # One node costs its own price.
    assert decided(*nodes, gpusPerNode=8).candidates[0].price_per_hour == 8_000_000
