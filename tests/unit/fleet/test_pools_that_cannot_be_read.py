"""GPUPools that their schema refuses: their nodes are held back, never given to discovery without their restrictions."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, MI300X, T4, decision, demand, fleet, gpupool, node

from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.watched_kinds import PoolRecord
from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.gpupools.selection import AdminPool
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.sources.cluster_file import read_cluster
from gpujob.fleet.sources.incremental import FleetIndex
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.summary import summary
from gpujob.values.vocabulary import Reason, Verdict

X = {"pool": "x"}


@pytest.mark.parametrize(
    "spec",
    [
        {"namespaceSelector": {"matchLabel": {"team": "a"}}},
        {"taint": [{"key": "k"}]},
        {"price": {"perGPUHour": "cheap"}},
        {"memoryPerGPU": "-1Gi"},
        {"tolerations": {"key": "k"}},
        {"provision": {"maxNodes": 0}},
        {"accelerator": 5},
    ],
)
def test_the_nodes_of_a_pool_that_cannot_be_read_are_held(spec: dict[str, Any]) -> None:
    claimed, free = node("a", H100, labels=X), node("b", MI300X)
    pool = gpupool("mine", X, **spec)
    alone = decision(claimed, pool)
    assert alone.verdict is Verdict.MISCONFIGURED
    (reason,) = {finding.reason for finding in alone.candidates[0].reasons}
    assert reason is Reason.INVALID_SPEC
    assert (
        alone.candidates[0].reasons[0].message.startswith("GPUPool mine cannot be read, so nothing runs on its nodes: ")
    )
    both = decision(claimed, free, pool)
    assert both.choice is not None
    assert both.choice.nodes == ("b",)
    assert not both.choice.candidate.warnings or all(
        d.reason is not Reason.INVALID_SPEC for d in both.choice.candidate.warnings
    )


@pytest.mark.parametrize(
    ("spec", "of_node", "job"),
    [
        ({"tolerations": [{"key": "team", "value": "a"}]}, {"taints": ["team=a:NoSchedule"]}, {}),
        ({"price": {"perGPUHour": "abc"}}, {"price": "1"}, {"placement": {"maxPricePerHour": "0.50"}}),
        ({"provision": {"maxNodes": "x"}}, {}, {"nodes": 2}),
        ({"memoryPerGPU": "lots"}, {}, {"gpuMemory": "100G"}),
        ({"capacityType": "spot?"}, {}, {"placement": {"capacityTypes": ["Spot"]}}),
    ],
)
def test_a_reason_that_the_unread_fields_may_end_is_no_impossibility(
    spec: dict[str, Any], of_node: dict[str, Any], job: dict[str, Any]
) -> None:
    found = decision(node("a", H100, labels=X, **of_node), gpupool("mine", X, **spec), **job)
    assert found.verdict is Verdict.MISCONFIGURED
    assert "GPUPool mine cannot be read" in summary(found)
    amd = {**job, "placement": {**job.get("placement", {}), "vendors": ["AMD"]}}
    elsewhere = decision(node("a", H100, labels=X, **of_node), gpupool("mine", X, **spec), **amd)
    assert elsewhere.verdict is Verdict.IMPOSSIBLE, "no field of a GPUPool makes its GPUs another vendor's"


GROWS = {"maxNodes": 2, "gpusPerNode": 8, "cpu": "96", "memory": "1000Gi"}


@pytest.mark.parametrize(
    "broken", [{"provision": {**GROWS, "maxNodes": "x"}}, {"price": {"perGPUHour": "abc"}}, {"tolerations": "all"}]
)
@pytest.mark.parametrize("there", [[], [node("t", T4)]])
def test_nodes_that_only_a_pool_that_cannot_be_read_may_add_are_no_impossibility(
    broken: dict[str, Any], there: list[dict[str, Any]]
) -> None:
    pool = gpupool("mine", X, accelerator="H200", **{"provision": GROWS, **broken})
    found = decision(*there, pool, gpusPerNode=8, gpuMemory="60G")
    assert (found.verdict, "GPUPool mine cannot be read" in summary(found)) == (Verdict.MISCONFIGURED, True)
    without = gpupool("mine", X, accelerator="H200", price={"perGPUHour": "abc"})
    assert decision(*there, without, gpusPerNode=8, gpuMemory="60G").verdict is Verdict.IMPOSSIBLE, (
        "it has no node and adds none"
    )


@pytest.mark.parametrize("spec", [{"provisions": GROWS}, {"Provision": GROWS}, {"maxNodes": 2}, {}])
def test_a_provision_under_another_name_or_at_another_place_may_add_nodes(spec: dict[str, Any]) -> None:
    pool = gpupool("mine", X, accelerator="H200", **spec) | ({} if spec else {"provision": GROWS})
    found = decision(node("t", T4), pool, gpusPerNode=8, gpuMemory="60G")
    assert (found.verdict, "GPUPool mine cannot be read" in summary(found)) == (Verdict.MISCONFIGURED, True)


LARGE = {"name": "llama-3.1-70b", "method": "Full"}
UNLABELLED = {"devices": {"nvidia.com/gpu": 8}}


@pytest.mark.parametrize(("objects", "spec", "verdict"), [
    ([node("a", **UNLABELLED), node("b", **UNLABELLED)], {}, Verdict.MISCONFIGURED),
    ([node("a", **UNLABELLED), node("b", **UNLABELLED), node("t", T4)], {}, Verdict.MISCONFIGURED),
    ([node("a", devices={"nvidia.com/gpu": 1})], {}, Verdict.IMPOSSIBLE),
    ([node("a", **UNLABELLED), node("b", **UNLABELLED)], {"sharding": "None"}, Verdict.IMPOSSIBLE),
    ([gpupool("mine", X, provision=GROWS, accelerator=["H200"])], {}, Verdict.MISCONFIGURED),
    ([gpupool("mine", X, provision=GROWS, accelerator="H2OO")], {}, Verdict.MISCONFIGURED),
    ([gpupool("mine", X, provision=GROWS, price={"perGPUHour": "abc"})], {}, Verdict.MISCONFIGURED),
    ([gpupool("mine", X, provision=GROWS, price={"perGPUHour": "abc"})], {"sharding": "None"}, Verdict.IMPOSSIBLE),
])  # fmt: skip
def test_a_model_may_be_on_all_devices_that_nothing_identifies(
    objects: list[dict[str, Any]], spec: dict[str, Any], verdict: Verdict
) -> None:
    """A model that needs several of the largest devices, and says no number of them."""
    assert decision(*objects, model={**LARGE, **spec}).verdict is verdict


NUMBERS: list[dict[str, Any]] = [
    {"gpuMemory": "100G"},
    {"placement": {"maxPricePerHour": "0.5"}},
    {"placement": {"maxPricePerHour": "0.5", "objective": "Speed"}},
    {"placement": {"capacityTypes": ["Spot"]}},
    {"gpusPerNode": 9},
    {"model": LARGE},
    {"model": LARGE, "placement": {"maxPricePerHour": "0.5"}},
    {"model": {"name": "llama-3.1-8b", "method": "LoRA"}, "placement": {"maxPricePerHour": "0.5"}},
    {"model": {"name": "llama-3.1-70b", "method": "Inference"}, "gpusPerNode": 1},
]
"""Jobs for which a number of the pool's nodes is not enough, as far as it is known."""


@pytest.mark.parametrize("job", NUMBERS)
@pytest.mark.parametrize("pool", [
    gpupool("mine", X, price={"perGPUHour": "abc"}),
    gpupool("mine", X, provision={"maxNodes": "x"}),
    gpupool("mine", X, accelerator=["H200"]),
])  # fmt: skip
def test_the_choice_knows_what_the_decision_knows(job: dict[str, Any], pool: dict[str, Any]) -> None:
    known, catalog = fleet(node("a", H100, labels=X), pool), load_catalog()
    assert decide(demand(**job), known, catalog).verdict is Verdict.MISCONFIGURED
    assert choose(demand(**job), known, catalog).verdict is Verdict.MISCONFIGURED
    only = choose(demand(**job), fleet(node("a", H100, labels=X), node("t", T4), pool), catalog, only="mine")
    assert only.verdict is Verdict.MISCONFIGURED


def test_a_pool_that_cannot_be_read_has_no_price() -> None:
    pool = gpupool("mine", X, accelerator="H100-SXM", price={"perGPUHour": "abc"})
    (found,) = fleet(node("a", H100, labels=X), pool).pools
    assert found.price is None
    assert Reason.PRICE_INDICATIVE not in {each.reason for each in found.warnings}


OTHERS: list[dict[str, Any]] = [
    {"placement": {"accelerators": {"allow": ["H200"]}}},
    {"placement": {"accelerators": {"deny": ["H100"]}}},
    {"shapes": [{"accelerator": "B200", "gpusPerNode": 8}]},
    {"gpuMemory": "100G"},
    {"requires": ["MXFP"]},
]
"""Jobs that do not run on an H100 of 80 GB, and run on another NVIDIA device."""


@pytest.mark.parametrize("job", OTHERS)
@pytest.mark.parametrize("accelerator", [["H100"], {"name": "H100"}, 100, True, "H100" * 16, [["H200"]]])
def test_an_accelerator_that_cannot_be_read_may_be_the_one_that_a_job_names(
    accelerator: Any, job: dict[str, Any]
) -> None:
    found = decision(node("a", H100, labels=X), gpupool("mine", X, accelerator=accelerator), **job)
    assert (found.verdict, "GPUPool mine cannot be read" in summary(found)) == (Verdict.MISCONFIGURED, True)
    amd = decision(
        node("a", H100, labels=X), gpupool("mine", X, accelerator=accelerator), placement={"vendors": ["AMD"]}
    )
    assert amd.verdict is Verdict.IMPOSSIBLE


@pytest.mark.parametrize(("accelerator", "allowed", "verdict"), [
    ("H200", "H200", Verdict.MISCONFIGURED),
    ("h200", "H200", Verdict.MISCONFIGURED),
    ("H200", "H100", Verdict.IMPOSSIBLE),
    (None, "H100", Verdict.MISCONFIGURED),
    (None, "H200", Verdict.IMPOSSIBLE),
    ("H1OOO", "H200", Verdict.MISCONFIGURED),
])  # fmt: skip
@pytest.mark.parametrize("broken", [{"price": {"perGPUHour": "abc"}}, {"onlyForTeams": {}}])
def test_an_accelerator_that_can_be_read_counts_although_another_field_cannot(
    broken: dict[str, Any], accelerator: str | None, allowed: str, verdict: Verdict
) -> None:
    said = {"accelerator": accelerator} if accelerator else {}
    pool = gpupool("mine", X, **said, **broken)
    assert (
        decision(node("a", H100, labels=X), pool, placement={"accelerators": {"allow": [allowed]}}).verdict is verdict
    )


@pytest.mark.parametrize(
    "selector", [None, 7, {}, {"matchLabels": 3}, {"matchLabel": X}, {"matchExpressions": [{"key": "a"}]}]
)
def test_where_not_even_its_selector_can_be_read_every_other_pool_has_a_warning(selector: Any) -> None:
    pool = {**gpupool("mine", X), "spec": {"nodeSelector": selector, "onlyForTeams": {}}}
    found = decision(node("a", H100, labels=X), pool)
    assert found.verdict is Verdict.PLACED
    warnings = [warning.message for warning in found.candidates[0].warnings if warning.reason is Reason.INVALID_SPEC]
    assert len(warnings) == 1
    assert warnings[0].startswith("GPUPool mine cannot be read, nor which nodes it claims; they may be these: ")


def test_an_older_pool_keeps_its_nodes_from_one_that_cannot_be_read() -> None:
    older = gpupool("older", X, created="2025-01-01T00:00:00Z")
    found = decision(node("a", H100, labels=X), older, gpupool("mine", X, onlyForTeams={}))
    assert found.choice is not None
    assert found.choice.candidate.pool.name == "older"


def test_the_file_says_it_once() -> None:
    objects = read_cluster([node("a", H100, labels=X), gpupool("mine", X, onlyForTeams={})])
    assert [line.partition(":")[0] for line in objects.unread] == [
        "GPUPool mine cannot be read, so nothing runs on its nodes"
    ]


def test_a_published_pool_that_cannot_be_read_holds_nothing() -> None:
    published = gpupool("mine", X, onlyForTeams={})
    published["metadata"]["labels"] = {"gpujob.dev/discovered": "true"}
    objects = read_cluster([node("a", H100, labels=X), published])
    assert objects.unreadable_pools == ()
    assert "left out" in objects.unread[0]


def _live(raw: dict[str, Any]) -> AdminPool:
    admin = PoolRecord(raw).admin
    assert admin is not None
    return admin


@pytest.mark.parametrize("selector", [{"matchLabels": X}, 7])
def test_the_operator_holds_them_too(selector: Any) -> None:
    raw, catalog = node("a", H100, labels=X), load_catalog()
    broken = {**gpupool("mine", X), "spec": {"nodeSelector": selector, "onlyForTeams": {}}}
    index = FleetIndex(catalog)
    index.put_node(read_node(raw), groups_of(read_node(raw), catalog))
    before = index.fleet()
    assert before == fleet(raw)
    index.put_admin_pools([_live(broken)])
    assert index.fleet() == fleet(raw, broken)
    index.put_admin_pools([])
    assert index.fleet() == before


def test_a_pool_that_came_and_went_between_two_looks_is_none() -> None:
    raw, catalog = node("a", H100, labels=X), load_catalog()
    index = FleetIndex(catalog)
    index.put_node(read_node(raw), groups_of(read_node(raw), catalog))
    before = index.fleet()
    index.put_admin_pools([_live(gpupool("mine", X))])
    index.put_admin_pools([])
    assert index.fleet() == before
