"""A job that names a model and no number of GPUs gets the fewest on each pool that hold it."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100_40, ANY_IMAGES, H100, H200, L4, MI300X, Object, decision, demand, fleet, node

from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.gang_sizing import estimated
from gpujob.placement.report.decision_json import plan, recipe
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.suggestions.search import with_fix
from gpujob.values.vocabulary import Outcome, Reason, Verdict
from tests.e2e.cluster.nodes import Nvidia

SEVENTY = {"name": "llama-3.3-70b", "method": "Inference", "inference": {"maxTokens": 4096, "concurrency": 8}}


def decided(*objects: Object, **spec: Any) -> Decision:
    return decision(*objects, catalog=ANY_IMAGES, **spec)


def shapes(found: Decision) -> dict[str, str]:
    """The shape of each accelerator's candidate."""
    return {candidate.pool.accelerator_id: candidate.gang.shape for candidate in found.candidates}


def test_larger_devices_hold_it_alone_and_smaller_ones_together() -> None:
    found = decided(node("a", MI300X), node("h", H200), node("n", H100), model=SEVENTY)
    assert shapes(found) == {"MI300X": "1x1", "H200": "1x2", "H100-SXM": "1x4"}
    assert all(candidate.outcome in (Outcome.CHOSEN, Outcome.FITS) for candidate in found.candidates)


def test_each_shape_has_its_own_price() -> None:
    dear = node("a", MI300X, price="9")
    found = decided(dear, node("n", H100, price="2"), model=SEVENTY, placement={"objective": "Cost"})
    assert found.choice is not None
    assert found.choice.candidate.gang.shape == "1x4"
    assert found.choice.candidate.price_per_hour == 8_000_000
    chosen = plan(found)["chosen"]
    assert (chosen["nodes"], chosen["gpusPerNode"]) == (1, 4)


def test_that_it_must_be_sharded_is_said() -> None:
    trains = {"name": "llama-3.1-8b", "method": "Full", "gradientCheckpointing": "Layers"}
    found = decided(node("n", H100), model=trains)
    assert found.choice is not None
    assert [d.message for d in found.choice.candidate.warnings if d.reason is Reason.SHARDING_ASSUMED] == [
        "the model is taken as sharded over 2 GPUs (FSDP, or tensor parallel), and these as no faster than one; set "
        "model.sharding"
    ]


def test_gpus_that_only_an_assumption_needs_bring_no_speed() -> None:
    pools = [node("h", H100, price="6.88"), node("m", MI300X, price="8")]
    model = {"name": "llama-3.1-8b", "precision": "FP8"}
    found = decided(*pools, command=["python3"], model=model)
    first, second = found.candidates[0], next(c for c in found.candidates if c.pool.accelerator_id == "H100-SXM")
    assert (first.pool.accelerator_id, first.gang.shape, second.gang.shape) == ("MI300X", "1x1", "1x3")
    assert (second.speed_of_job, second.scales) == (second.speed and second.speed.millionths, False)
    # Once the job says that it is sharded, its three GPUs count as three.
    said = decided(*pools, model={**model, "sharding": "FSDP"}).candidates[0]
    assert (said.pool.accelerator_id, said.gang.shape) == ("H100-SXM", "1x3")
    assert said.speed_of_job == 3 * (said.speed.millionths if said.speed else 0)


def test_gpus_that_the_job_asks_for_count_all() -> None:
    found = decided(node("n", H100), gpusPerNode=4, model=SEVENTY)
    assert found.choice is not None
    assert found.choice.candidate.scales


def test_a_model_that_is_not_sharded_does_not_get_more_devices() -> None:
    found = decided(node("n", H100), model={**SEVENTY, "sharding": "None"})
    assert found.verdict is Verdict.IMPOSSIBLE
    assert shapes(found) == {"H100-SXM": "1x1"}


def test_more_than_a_node_is_whole_nodes() -> None:
    found = decided(*(node(name, L4, 4) for name in "abcd"), model={"name": "llama-3.3-70b", "method": "Inference"})
    assert shapes(found) == {"L4": "2x4"}
    assert found.verdict is Verdict.PLACED


@pytest.mark.parametrize("spec", [{"gpusPerNode": 1}, {"shapes": [{"gpusPerNode": 1}]}])
def test_a_number_that_the_job_names_is_kept(spec: dict[str, Any]) -> None:
    found = decided(node("n", H100), model=SEVENTY, **spec)
    assert shapes(found) == {"H100-SXM": "1x1"}
    assert found.verdict is Verdict.IMPOSSIBLE


def test_a_number_of_nodes_that_the_job_names_is_kept() -> None:
    found = decided(node("a", H100), node("b", H100), nodes=2, model=SEVENTY)
    assert shapes(found) == {"H100-SXM": "2x2"}


def test_a_model_that_nothing_holds_says_what_it_needs() -> None:
    full = {"name": "llama-3.3-70b", "method": "Full"}
    found = decided(node("n", L4), model=full)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert {f.reason for f in found.candidates[0].reasons} >= {Reason.MEM_TOO_SMALL}


def test_gpus_of_tensor_parallel_inference_count_whether_their_number_is_said_or_computed() -> None:
    """The same job gets the same choice and the same speed."""
    model = {"name": "llama-3.1-70b", "method": "Inference"}
    pools = [node("h", H100, price="2"), node("m", MI300X, price="9")]
    computed = decided(*pools, model=model)
    assert computed.choice is not None
    best = computed.choice.candidate
    assert best.gang.gpus > 1
    said = decided(*pools, model=model, nodes=best.gang.nodes, gpusPerNode=best.gang.gpus_per_node)
    assert said.choice is not None
    again = said.choice.candidate
    assert (again.pool.name, again.gang.shape, again.speed_of_job) == (
        best.pool.name,
        best.gang.shape,
        best.speed_of_job,
    )
    assert best.speed is not None
    assert best.speed_of_job == best.gang.gpus * best.speed.millionths


def test_tensor_parallel_said_is_what_is_taken_of_inference_on_several_gpus() -> None:
    """Said with or without a number of GPUs, or not at all: the same choice, memory and speed; only the warning is gone."""
    model = {"name": "llama-3.1-70b", "method": "Inference"}
    pools = [node("h", H100, price="2"), node("m", MI300X, price="9")]
    silent = decided(*pools, model=model)
    assert silent.choice is not None
    gang = silent.choice.candidate.gang
    number = {"nodes": gang.nodes, "gpusPerNode": gang.gpus_per_node}
    said = {**model, "sharding": "TensorParallel"}
    for spec in ({"model": said}, {"model": said, **number}):
        found = decided(*pools, **spec)
        assert found.choice is not None
        best, other = found.choice.candidate, silent.choice.candidate
        assert (best.pool.name, best.gang.shape, best.speed_of_job) == (
            other.pool.name,
            other.gang.shape,
            other.speed_of_job,
        )
        assert best.gang.memory == other.gang.memory
        assert not [each for each in best.warnings if each.reason is Reason.SHARDING_ASSUMED]
    assert [each for each in silent.choice.candidate.warnings if each.reason is Reason.SHARDING_ASSUMED]


def test_what_serves_whole_on_each_gpu_is_told_to_be_tensor_parallel() -> None:
    """A job that says that nothing is spread and does not fit gets what would spread it, which for serving is no FSDP."""
    model = {"name": "llama-3.1-70b", "method": "Inference", "sharding": "None"}
    found = decided(node("h", H100), model=model, gpusPerNode=4)
    fix = with_fix(found, fleet(node("h", H100), catalog=ANY_IMAGES), ANY_IMAGES).fix
    assert fix is not None
    assert (fix.changes[0].field, fix.changes[0].after) == ("spec.model.sharding", "TensorParallel")


@pytest.mark.parametrize(
    ("model", "gpu", "count", "shape"),
    [
        # 64 and 40 heads: two of the three GPUs of each node, rather than all of two nodes.
        ("llama-3.1-70b", A100_40, 3, "2x2"),
        ("qwen2.5-32b", L4, 3, "2x2"),
        ("llama-3.1-70b", A100_40, 5, "1x4"),
        ("llama-3.1-70b", H100, 7, "1x2"),
    ],
)
def test_serving_takes_numbers_of_gpus_that_divide_the_heads(model: str, gpu: Nvidia, count: int, shape: str) -> None:
    nodes = [node(f"n{number}", gpu, count) for number in range(4)]
    found = decided(*nodes, model={"name": model, "method": "Inference"})
    assert found.choice is not None
    assert found.choice.candidate.gang.shape == shape
    assert Reason.HEADS_NOT_DIVIDED not in {warning.reason for warning in found.choice.candidate.warnings}


def test_a_number_that_divides_no_heads_is_a_warning() -> None:
    model = {"name": "llama-3.1-70b", "method": "Inference", "sharding": "TensorParallel"}
    found = decided(node("n", H200), gpusPerNode=6, model=model)
    assert found.choice is not None
    (warning,) = (each for each in found.choice.candidate.warnings if each.reason is Reason.HEADS_NOT_DIVIDED)
    assert warning.message == (
        "6 GPUs on a node do not divide the model's 64 attention heads (8 KV heads), and tensor parallel engines reject that; "
        "gpusPerNode 4 does"
    )
    even = decided(node("n", H200), gpusPerNode=4, model=model)
    assert even.choice is not None
    assert not {warning.reason for warning in even.choice.candidate.warnings} & {Reason.HEADS_NOT_DIVIDED}


@pytest.mark.parametrize(
    ("model", "gpus", "which"),
    [
        ("qwen2.5-32b", 5, "divide the model's 40 attention heads and not its 8 KV heads"),
        ("qwen2.5-0.5b", 7, "divide the model's 14 attention heads and not its 2 KV heads"),
        ("qwen2.5-1.5b", 3, "divide the model's 12 attention heads and not its 2 KV heads"),
        ("qwen2.5-32b", 6, "do not divide the model's 40 attention heads (8 KV heads)"),
        ("qwen2.5-0.5b", 3, "do not divide the model's 14 attention heads (2 KV heads)"),
    ],
)
def test_the_heads_that_are_not_divided_are_named(model: str, gpus: int, which: str) -> None:
    found = decided(node("n", H200), gpusPerNode=gpus, model={"name": model, "method": "Inference"})
    (warning,) = (each for each in found.candidates[0].warnings if each.reason is Reason.HEADS_NOT_DIVIDED)
    assert warning.message.startswith(f"{gpus} GPUs on a node {which}, and tensor parallel engines reject that; ")


LONG = {"name": "qwen2.5-72b", "method": "Inference", "inference": {"maxTokens": 32768}}


def serving(concurrency: int) -> dict[str, Any]:
    return {**LONG, "inference": {"maxTokens": 32768, "concurrency": concurrency}}


@pytest.mark.parametrize(
    ("concurrency", "shape", "warnings"),
    [
        (40, "2x4", set()),
        # 2x6 would hold them without MemTight, and engines reject 6 GPUs for 64 heads.
        (43, "2x4", {Reason.MEM_TIGHT}),
        (48, "2x4", {Reason.MEM_TIGHT}),
        (50, "2x6", {Reason.MEM_TIGHT, Reason.HEADS_NOT_DIVIDED}),
    ],
)
def test_a_number_that_divides_the_heads_is_taken_while_it_holds_the_requests(
    concurrency: int, shape: str, warnings: set[Reason]
) -> None:
    found = decided(node("a", H100, 6), node("b", H100, 6), model=serving(concurrency))
    chosen = found.candidates[0]
    assert (chosen.outcome, chosen.gang.shape) == (Outcome.CHOSEN, shape)
    told = {warning.reason for warning in chosen.warnings}
    assert told & {Reason.MEM_TIGHT, Reason.HEADS_NOT_DIVIDED} == warnings


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("count", [3, 5, 6, 7])
@pytest.mark.parametrize(("model", "gpu"), [("qwen2.5-14b", L4), ("llama-3.1-70b", A100_40), ("qwen2.5-72b", H100)])
def test_no_number_is_taken_that_engines_reject_while_another_holds_the_model(
    model: str, gpu: Nvidia, count: int, nodes: int
) -> None:
    """Also with the fix for too many requests: the same job that states the numbers fits nowhere with others."""
    there = [node(f"n{number}", gpu, count) for number in range(nodes)]
    for concurrency in (4, 16, 64, 10_000):
        load = {"inference": {"maxTokens": 8192, "concurrency": concurrency}}
        asked = {"name": model, "method": "Inference", **load}
        found = decided(*there, model=asked)
        if found.verdict is Verdict.IMPOSSIBLE:
            fix = with_fix(found, fleet(*there, catalog=ANY_IMAGES), ANY_IMAGES).fix
            field = "spec.model.inference.concurrency"
            if fix is None or [change.field for change in fix.changes] != [field]:
                continue
            asked["inference"] = {**load["inference"], "concurrency": fix.changes[0].after}
            found = decided(*there, model=asked)
        assert found.verdict is Verdict.PLACED
        if Reason.HEADS_NOT_DIVIDED not in {warning.reason for warning in found.candidates[0].warnings}:
            continue
        for some in range(1, nodes + 1):
            for gpus in range(1, count + 1):
                said = decided(*there, model={**asked, "sharding": "TensorParallel"}, nodes=some, gpusPerNode=gpus)
                warned = {warning.reason for warning in said.candidates[0].warnings}
                assert said.verdict is Verdict.IMPOSSIBLE or Reason.HEADS_NOT_DIVIDED in warned, (some, gpus)


def test_the_fix_for_too_many_requests_is_for_numbers_that_divide_the_heads() -> None:
    there = [node("a", H100, 6), node("b", H100, 6)]
    found = decided(*there, model=serving(2000))
    fix = with_fix(found, fleet(*there, catalog=ANY_IMAGES), ANY_IMAGES).fix
    assert fix is not None
    assert [(change.field, change.after) for change in fix.changes] == [("spec.model.inference.concurrency", 48)]


def test_heads_that_are_only_usual_for_a_size_rule_no_number_out() -> None:
    served = {"method": "Inference", "inference": {"maxTokens": 8192, "concurrency": 64}}
    for size in ("6B", "8B", "20B", "33B"):
        for count in (2, 5, 8):
            found = decided(node("n", H100, 8), model={"parameters": size, **served}, gpusPerNode=count)
            assert Reason.HEADS_NOT_DIVIDED not in {warning.reason for warning in found.candidates[0].warnings}
    stated = {"parameters": "8B", **served, "shape": {"heads": 32, "kvHeads": 8}}
    found = decided(node("n", H100, 8), model=stated, gpusPerNode=5)
    assert Reason.HEADS_NOT_DIVIDED in {warning.reason for warning in found.candidates[0].warnings}


@pytest.mark.parametrize(
    ("model", "gpu", "count", "shape"),
    [
        ({"parameters": "8B", "method": "Full"}, L4, 32, "1x21"),
        ({"parameters": "8B", "method": "Full"}, L4, 21, "1x21"),
        ({"parameters": "70B", "method": "LoRA"}, H100, 20, "1x19"),
        # 64 heads: 32 GPUs divide them, 17 to 31 do not.
        ({"name": "llama-3.1-70b", "method": "Inference", "inference": {"maxTokens": 8192, "concurrency": 40}}, L4, 48, "1x32"),
        # What a device plugin may count: parts of devices, as many as a node can have.
        ({"parameters": "8B", "method": "Full"}, L4, 16384, "1x21"),
    ],
)  # fmt: skip
def test_every_number_of_gpus_of_a_large_node_counts(model: Object, gpu: Nvidia, count: int, shape: str) -> None:
    assert set(shapes(decided(node("n", gpu, count), model=model)).values()) == {shape}


KIMI = {"name": "kimi-k2", "method": "Inference"}
L405 = {"name": "llama-3.1-405b", "method": "Inference"}


@pytest.mark.parametrize(("model", "gpu", "counts", "shape"), [
    (KIMI, H100, (8, 8), "2x8"),
    (KIMI, H100, (8,) * 7, "2x8"),
    ({**L405, "precision": "FP8"}, H100, (5, 5, 5), "2x4"),
    (L405, H100, (8, 6, 6), "3x4"),
    (L405, H100, (8, 8, 6), "2x8"),
    ({"name": "llama-3.3-70b", "method": "Inference"}, L4, (4,) * 8, "2x4"),
    ({"name": "llama-3.3-70b", "method": "Inference"}, L4, (2,) * 8, "4x2"),
])  # fmt: skip
def test_a_served_model_takes_the_fewest_nodes(
    model: dict[str, Any], gpu: Nvidia, counts: tuple[int, ...], shape: str
) -> None:
    found = decided(*(node(f"n{number}", gpu, count) for number, count in enumerate(counts)), model=model)
    chosen = found.candidates[0]
    assert (chosen.outcome, chosen.gang.shape) == (Outcome.CHOSEN, shape)
    nodes, gpus = chosen.gang.nodes, chosen.gang.gpus_per_node
    assert recipe(found).endswith(f"; tensor parallel over {gpus} GPUs of each of {nodes} nodes")
    larger = (node(f"n{number}", gpu, count) for number, count in enumerate((*counts, 1, 1, 1)))
    more = decided(*larger, model=model)
    assert more.candidates[0].gang.shape == shape, "more nodes change nothing"


def test_what_is_missing_is_a_whole_node() -> None:
    found = decided(node("n", H100), model={**KIMI, "inference": {"maxTokens": 8192}})
    assert found.verdict is Verdict.IMPOSSIBLE
    assert "needs 2 nodes with 8 GPUs each, the pool has 1 node" in found.candidates[0].reasons[0].message


def of_slices(name: str, slices: str = "3g.40gb", count: int = 16) -> Object:
    return node(name, H100, devices={f"nvidia.com/mig-{slices}": str(count)}, price="1")


SLICES = {"devices": ["Partition"]}


@pytest.mark.parametrize(
    ("nodes", "slices", "model", "shape"),
    [
        ("ab", "3g.40gb", {"name": "qwen2.5-32b", "method": "Inference"}, "2x1"),
        ("abcd", "3g.40gb", {"name": "llama-3.1-70b", "method": "Inference"}, "4x1"),
        ("ab", "7g.80gb", {"name": "llama-3.1-70b", "method": "Inference"}, "2x1"),
        ("ab", "4g.40gb", {"parameters": "30B", "method": "Inference"}, "2x1"),
        ("abcdefgh", "7g.80gb", {"name": "llama-3.1-8b", "precision": "Mixed", "method": "Full"}, "3x1"),
        ("ab", "3g.40gb", {"name": "llama-3.1-8b", "method": "Inference"}, "1x1"),
    ],
)
def test_a_model_takes_one_slice_of_each_node(nodes: str, slices: str, model: Object, shape: str) -> None:
    of_cards = [of_slices(name, slices) for name in nodes]
    found = decided(*of_cards, model=model, placement=SLICES)
    assert found.choice is not None
    assert found.choice.candidate.gang.shape == shape
    count, each = map(int, shape.split("x"))
    said = decided(*of_cards, model=model, placement=SLICES, nodes=count, gpusPerNode=each)
    assert said.choice is not None


def test_slices_of_too_few_nodes_lack_nodes() -> None:
    found = decided(of_slices("a"), model={"name": "qwen2.5-32b", "method": "Inference"}, placement=SLICES)
    assert [reason.message for reason in found.candidates[0].reasons] == [
        "needs 2 nodes with 1 GPU each, the pool has 1 node"
    ]


def test_partitions_of_amd_on_one_node_form_a_group() -> None:
    of_cards = [node(name, MI300X, devices={"amd.com/cpx_nps4": "64"}) for name in "ab"]
    model = {"name": "qwen2.5-14b", "method": "Inference"}
    found = decided(*of_cards, model=model, placement=SLICES)
    assert {candidate.gang.nodes for candidate in found.candidates} == {1}


@pytest.mark.parametrize(
    ("placement", "sized"),
    [
        ({}, {"1x1": ["MI300X"], "1x2": ["H200"], "1x4": ["H100-SXM"]}),
        ({"vendors": ["NVIDIA"]}, {"1x2": ["H200"], "1x4": ["H100-SXM"]}),
        ({"accelerators": {"deny": ["H200"]}}, {"1x1": ["MI300X"], "1x4": ["H100-SXM"]}),
        # One MI300X costs 9, two H200 cost 8, and two H100, which nearly hold the model, cost 6.
        ({"maxPricePerHour": "8"}, {"1x2": ["H200"], "1x4": ["H100-SXM"]}),
        ({"maxPricePerHour": "5"}, {}),
    ],
)
def test_a_choice_sizes_no_gang_that_its_pool_cannot_run(
    placement: dict[str, Any], sized: dict[str, list[str]]
) -> None:
    nodes = [node("a", MI300X, price="9"), node("h", H200, price="4"), node("n", H100, price="3")]
    there, wish = fleet(*nodes, catalog=ANY_IMAGES), demand(model=SEVENTY, placement=placement)
    devices = {pool.name: pool.accelerator_id for pool in there.pools}
    found = estimated(wish, there, ANY_IMAGES, choosing=True).gangs
    assert {gang.shape: sorted(map(devices.__getitem__, gang.pools or ())) for gang in found} == sized
    whole = {each.shape for each in estimated(wish, there, ANY_IMAGES).gangs}
    assert whole == {"1x1", "1x2", "1x4"}
    assert (choose(wish, there, ANY_IMAGES).verdict is Verdict.PLACED) is bool(sized)


def test_pools_that_no_gang_may_run_on_get_one_gang_also_where_all_are_tried() -> None:
    pools = fleet(
        *(node(f"{name}{each}", device) for name, device in (("h", H100), ("m", MI300X)) for each in range(4))
    )
    asked = demand(model=SEVENTY, placement={"accelerators": {"deny": ["MI300X"]}})
    gangs = estimated(asked, pools, ANY_IMAGES, tight=True).gangs
    of_pool = {pool.accelerator_id: [gang.shape for gang in gangs if gang.is_for(pool.name)] for pool in pools.pools}
    denied, allowed = of_pool["MI300X"], of_pool["H100-SXM"]
    assert denied == ["1x1"]
    assert len(allowed) > 2, "on each number of nodes"
