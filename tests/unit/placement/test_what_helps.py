"""Sentences and fixes of jobs that ask for more than nodes have: the numbers add up, and the fix is accepted."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, ANY_IMAGES, H100, L4, MI210, MI300X, T4, Object, decision, demand, fleet, gpupool, node, pod

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.summary import summary
from gpujob.placement.scoring.candidate import Decision, Fix
from gpujob.placement.suggestions import search
from gpujob.placement.suggestions.search import with_fix
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.quantity import format_dollars, parse_dollars
from gpujob.values.vocabulary import Reason, Verdict


def machine(name: str, cpu: str = "96", memory: str = "1000Gi", disk: str = "1000Gi", **others: Any) -> Object:
    """A node with eight A100 at two dollars."""
    sizes = {"cpu": cpu, "memory": memory, "ephemeral-storage": disk}
    return node(name, A100, price="2", allocatable=sizes, capacity=sizes, **others)


def told(*objects: Object, **spec: Any) -> tuple[list[str], Fix | None]:
    """The reasons of the first candidate, and the fix of an impossible job."""
    found: Decision = decision(*objects, catalog=ANY_IMAGES, **spec)
    assert found.verdict is Verdict.IMPOSSIBLE
    return [f.message for f in found.candidates[0].reasons], with_fix(found, fleet(*objects), ANY_IMAGES).fix


@pytest.mark.parametrize(
    ("nodes", "spec", "sentences", "fix"),
    [
        ([machine("a", memory="100Gi"), machine("b", cpu="8")], {"resources": {"cpu": "50", "memory": "500Gi"}},
         ["needs 50 CPU and 500Gi memory on one node, 0 of 2 nodes have that together"],
         [("spec.resources.memory", "100Gi")]),
        ([machine("a"), machine("b", cpu="8")], {"nodes": 2, "resources": {"cpu": "50"}},
         ["needs 50 CPU on each of 2 nodes, 1 of 2 have that"], [("spec.nodes", 1)]),
        ([machine("a"), machine("b", memory="100Gi")], {"nodes": 2, "resources": {"memory": "500Gi"}},
         ["needs 500Gi memory on each of 2 nodes, 1 of 2 have that"], [("spec.nodes", 1)]),
        ([machine("a"), machine("b", disk="90Gi")], {"nodes": 2, "resources": {"ephemeralStorage": "100Gi"}},
         ["needs 100Gi ephemeral-storage on each of 2 nodes, 1 of 2 have that"], [("spec.resources.ephemeralStorage", "90Gi")]),
        ([machine("a")], {"resources": {"cpu": "97", "memory": "2000Gi"}},
         ["needs 97 CPU on one node, the largest node has 96", "needs 2000Gi memory on one node, the largest node has 1000Gi"],
         [("spec.resources.cpu", "96"), ("spec.resources.memory", "1000Gi")]),
        ([machine("a")], {"resources": {"cpu": "97", "memory": "64Gi"}},
         ["needs 97 CPU on one node, the largest node has 96"], [("spec.resources.cpu", "96")]),
        ([machine("a"), machine("b")], {"nodes": 3, "gpusPerNode": 9},
         ["needs 9 GPUs on one node, the largest node has 8, and 3 such nodes where the pool has 2 nodes"],
         [("spec.gpusPerNode", 8), ("spec.nodes", 2)]),
        ([machine("a")], {"resources": {"sharedMemory": "5000Gi"}},
         ["needs 5000Gi memory on one node, the largest node has 1000Gi"], [("spec.resources.sharedMemory", "1000Gi")]),
    ],
)  # fmt: skip
def test_what_is_short_and_what_helps(
    nodes: list[Object], spec: dict[str, Any], sentences: list[str], fix: list[tuple[str, object]]
) -> None:
    said, found = told(*nodes, **spec)
    assert said == sentences
    assert found is not None
    assert [(change.field, change.after) for change in found.changes] == fix


def test_shared_memory_raises_the_memory_that_nobody_asked_for() -> None:
    found = decision(machine("a"), catalog=ANY_IMAGES, resources={"sharedMemory": "400Gi"})
    assert found.choice is not None
    assert found.choice.needs.memory == found.choice.shared_memory == 400 * 2**30


def test_a_tainted_node_of_a_pool_leaves_a_smaller_gang() -> None:
    labels = {"team": "lab"}
    nodes = [machine(name, labels=labels) for name in ("a", "b")] + [
        machine("c", labels=labels, taints=["x=y:NoSchedule"])
    ]
    said, fix = told(gpupool("lab", labels), *nodes, nodes=3)
    assert said == ["1 of 3 nodes has taint x=y:NoSchedule; tolerate it in a GPUPool (spec.tolerations) or remove it"]
    assert fix is not None
    assert (fix.changes[0].field, fix.changes[0].after) == ("spec.nodes", 2)


@pytest.mark.parametrize(
    ("limit", "price", "says", "after"),
    [
        ("1.999999", "2", "costs $2.00 an hour, placement.maxPricePerHour is $1.999999", "2.00"),
        ("2.00", "2.006", "costs $2.01 an hour, placement.maxPricePerHour is $2.00", "2.01"),
        ("1.99", "2.004", "costs $2.00 an hour, placement.maxPricePerHour is $1.99", "2.00"),
        ("0.002", "0.0025", "costs $0.0025 an hour, placement.maxPricePerHour is $0.002", "0.0025"),
        ("100.00", "99999", "costs $799992.00 an hour, placement.maxPricePerHour is $100.00", None),
    ],
)
def test_prices_that_differ_look_different(limit: str, price: str, says: str, after: str | None) -> None:
    gpus = 8 if price == "99999" else 1
    said, fix = told(node("a", A100, price=price), gpusPerNode=gpus, placement={"maxPricePerHour": limit})
    assert said == [says]
    assert fix is not None
    assert (fix.changes[0].before, fix.changes[0].after) == (limit, after)


@pytest.mark.parametrize(
    ("price", "gpus", "shown"), [("2.004", 1, "2.00"), ("6.101", 1, "6.10"), ("3.657756", 8, "29.26")]
)
def test_a_limit_as_the_price_is_shown_is_enough(price: str, gpus: int, shown: str) -> None:
    objects = (node("a", H100, price=price), node("b", A100, price=str(float(price) + 1)))
    for asked in ({"gpusPerNode": gpus}, {"model": {"parameters": "3B", "method": "LoRA"}, "gpusPerNode": gpus}):
        free = decision(*objects, catalog=ANY_IMAGES, **asked)
        capped = decision(*objects, catalog=ANY_IMAGES, placement={"maxPricePerHour": shown}, **asked)
        assert capped.choice is not None
        assert f"at ${shown} an hour" in summary(free)
        assert f"at ${shown} an hour" in summary(capped)


def test_a_limit_as_the_price_is_shown_leaves_a_model_its_gpus() -> None:
    served = {"name": "llama-3.1-70b", "method": "Inference"}
    sized = decision(node("a", H100, price="3.6022"), catalog=ANY_IMAGES, model=served)
    first = sized.candidates[0]
    assert first.price_per_hour is not None
    shown = format_dollars(first.price_per_hour)
    capped = decision(
        node("a", H100, price="3.6022"), catalog=ANY_IMAGES, model=served, placement={"maxPricePerHour": shown}
    )
    assert capped.choice is not None
    assert capped.candidates[0].gang == first.gang
    assert first.price_per_hour > parse_dollars(shown)


def test_a_price_limit_is_raised_no_further_than_the_smaller_gang_needs() -> None:
    changes = [("spec.nodes", 2), ("spec.placement.maxPricePerHour", "32.00")]
    machines = [machine("a"), machine("b")]
    _, found = told(*machines, nodes=3, gpusPerNode=8, placement={"maxPricePerHour": "5"})
    assert found is not None
    assert sorted((change.field, change.after) for change in found.changes) == changes
    _, found = told(*machines, nodes=3, gpusPerNode=8, gpuMemory="100Gi", placement={"maxPricePerHour": "5"})
    assert found is not None
    assert [pair for pair in sorted((c.field, c.after) for c in found.changes) if pair in changes] == changes


def test_a_size_is_said_as_it_was_written() -> None:
    said, fix = told(node("a", A100, price="2"), gpuMemory="79.65Gi")
    assert said[0].startswith("needs 79.65Gi usable per GPU, A100-80GB has ")
    assert fix is not None
    assert (fix.changes[0].before, fix.changes[0].after) == ("79.65Gi", "79.09Gi")


def test_images_are_said_in_full() -> None:
    own = {"rocm": {"image": "me/x:1", "runtime": "rocm"}}
    objects = (node("a", A100, price="2"),)
    found = decision(*objects, catalog=ANY_IMAGES, images=own)
    fix = with_fix(found, fleet(*objects), ANY_IMAGES).fix
    assert fix is not None
    assert fix.message.startswith("without spec.images ({rocm: {image: me/x:1, runtime: rocm}}) it would fit")


def test_what_a_pod_asks_as_a_whole_counts() -> None:
    holder = pod("p", "a")
    holder["spec"]["resources"] = {"requests": {"cpu": "90", "memory": "900Gi"}}
    found = decision(machine("a"), machine("b"), holder, catalog=ANY_IMAGES, resources={"cpu": "8", "memory": "200Gi"})
    assert found.choice is not None
    assert found.choice.nodes == ("b",)


def quota(gpus: int) -> Object:
    """A ResourceQuota of the job's namespace for NVIDIA GPUs."""
    return limits({"requests.nvidia.com/gpu": str(gpus)})


def limits(hard: dict[str, str]) -> Object:
    """A ResourceQuota of the job's namespace, of which nothing is used."""
    return {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "default"},
        "spec": {"hard": hard}, "status": {"hard": hard, "used": {}},
    }  # fmt: skip


def changes(*objects: Object, **spec: Any) -> list[tuple[str, object]]:
    """The changes of the nearest fix of a job in the namespace `default`, where there is one."""
    known = fleet(*objects)
    job = PendingJob("", "", demand(**spec), namespace="default")
    fix = next(place_all([job], known, ANY_IMAGES)).decision.fix
    return [(change.field, change.after) for change in fix.changes] if fix else []


def test_more_money_for_the_device_that_a_job_names_is_nearer_than_another_device() -> None:
    both = (machine("a"), node("m", MI300X, 8, price="5"))
    allow: dict[str, Any] = {"accelerators": {"allow": ["MI300X"]}}
    raised = [("spec.placement.maxPricePerHour", "40.00")]
    assert changes(*both, gpusPerNode=8, placement={**allow, "maxPricePerHour": "24"}) == raised
    assert changes(*both, gpusPerNode=8, placement={**allow, "maxPricePerHour": "20"}) == raised
    assert changes(*both, gpusPerNode=8, placement={**allow, "maxPricePerHour": "1"}) == raised
    other = [("spec.placement.accelerators.allow", ["MI300X", "A100-80GB"])]
    assert changes(machine("a"), gpusPerNode=8, placement={**allow, "maxPricePerHour": "19"}) == other, "no limit helps"
    named: dict[str, Any] = {"pools": {"allow": ["mi300x-ondemand"]}, "maxPricePerHour": "24"}
    assert changes(*both, gpusPerNode=8, placement=named) == raised


@pytest.mark.parametrize(("placement", "limit"), [
    ({"vendors": ["AMD"]}, "3.00"),
    ({"vendors": ["NVIDIA"], "accelerators": {"allow": ["H100"]}}, "6.88"),
    ({"accelerators": {"allow": ["MI300X"]}}, "6.00"),
    ({"accelerators": {"deny": ["T4", "L4"]}}, "3.00"),
    ({"pools": {"allow": ["mi210"]}}, "3.00"),
    ({"pools": {"deny": ["t4-ondemand", "l4"]}}, "3.00"),
])  # fmt: skip
@pytest.mark.parametrize("cap", ["0.50", "0.10"])
def test_the_limit_is_raised_before_a_list_of_the_user_is_dropped(
    placement: dict[str, Any], limit: str, cap: str
) -> None:
    """There is a cheaper pool that the list leaves out, of the other vendor too."""
    prices = ((T4, "0.98"), (L4, "1.15"), (H100, "6.88"), (MI300X, "6.00"), (MI210, "3.00"))
    there = [node(f"n{number}", gpu, 8, price=price) for number, (gpu, price) in enumerate(prices)]
    assert changes(*there, placement={**placement, "maxPricePerHour": cap}) == [
        ("spec.placement.maxPricePerHour", limit)
    ]


def test_four_faults_at_once_are_told_together() -> None:
    wrong: dict[str, Any] = {"accelerators": {"allow": ["MI300X"]}, "capacityTypes": ["Reserved"]}
    found = changes(machine("a"), gpusPerNode=9, images={"rocm": {"image": "own:1"}}, placement=wrong)
    assert sorted(field for field, _ in found) == [
        "spec.gpusPerNode", "spec.images", "spec.placement.accelerators.allow", "spec.placement.capacityTypes",
    ]  # fmt: skip


def test_a_number_that_is_still_too_large_becomes_smaller_again() -> None:
    assert changes(machine("a"), quota(1), gpusPerNode=9) == [("spec.gpusPerNode", 1)]


def test_a_small_amount_is_nearer_than_none() -> None:
    assert changes(machine("a", cpu="191750m"), resources={"cpu": "1e4"}) == [("spec.resources.cpu", "191")]


def test_a_sequence_is_cut_to_the_longest_that_surely_fits() -> None:
    model = {"parameters": "7B", "method": "QLoRA", "batchPerGPU": 32}
    card = node("a", MI300X, price="2")
    [(field, most)] = changes(card, model={**model, "sequenceLength": 128_000}, gpusPerNode=1)
    assert (field, isinstance(most, int)) == ("spec.model.sequenceLength", True)
    tight = []
    for length in (most, most + 1):  # type: ignore[operator]
        found = decision(card, catalog=ANY_IMAGES, model={**model, "sequenceLength": length}, gpusPerNode=1)
        assert found.choice is not None
        tight.append(Reason.MEM_TIGHT in {warning.reason for warning in found.choice.candidate.warnings})
    assert tight == [False, True]


def test_the_nearest_model_is_of_the_nearest_size() -> None:
    assert changes(machine("a"), model={"name": "llama-3.1-7b", "method": "QLoRA"}) == [
        ("spec.model.name", "llama-3.1-8b")
    ]
    found = decision(machine("a"), catalog=ANY_IMAGES, model={"name": "llama-3.1-7b"})
    assert found.problems[0].message.startswith(
        "model.name: llama-3.1-7b is no known model; the nearest are llama-3.1-8b, llama-3.1-70b and "
    )


def test_what_must_be_mended_is_said_with_its_fix() -> None:
    known = fleet(machine("a"))
    found = with_fix(decide(demand(requires=["BF61"]), known, ANY_IMAGES), known, ANY_IMAGES)
    assert summary(found) == (
        "requires: BF61 is no known feature; the nearest is BF16; with spec.requires [BF16] instead of [BF61] it would fit "
        "pool a100-80gb-ondemand"
    )


@pytest.mark.parametrize(("wanted", "says"), [
    ("37.26Gi", "needs 37.26Gi usable per GPU, L4 has 22.26Gi (short by 15Gi)"),
    ("30G", "needs 27.94Gi usable per GPU, L4 has 22.26Gi (short by 5.68Gi)"),
])  # fmt: skip
def test_what_is_short_is_the_difference_of_what_is_shown(wanted: str, says: str) -> None:
    assert told(node("a", L4, price="1"), gpuMemory=wanted)[0] == [says]


def test_of_a_pool_that_a_shape_is_for_that_shape_is_told() -> None:
    shapes = [{"accelerator": "MI300X", "gpusPerNode": 1}, {"accelerator": "L4", "nodes": 9, "gpusPerNode": 8}]
    found = decision(node("a", L4, 4, price="1"), catalog=ANY_IMAGES, shapes=shapes)
    first = found.candidates[0]
    assert (first.gang.shape, first.reasons[0].reason) == ("9x8", Reason.POOL_TOO_SMALL)


def test_an_amount_is_said_as_it_was_written() -> None:
    found = decision(machine("a"), catalog=ANY_IMAGES, resources={"memory": "10Ti"})
    fix = with_fix(found, fleet(machine("a")), ANY_IMAGES).fix
    assert fix is not None
    assert [(change.before, change.after) for change in fix.changes] == [("10Ti", "1000Gi")]


def test_a_framework_that_no_image_has_is_left_out() -> None:
    assert changes(machine("a"), framework={"name": "tensorflow"}) == [("spec.framework.name", None)]


@pytest.mark.parametrize(("spec", "warned"), [
    ({}, True), ({"command": []}, True), ({"command": ["python"]}, False), ({"args": ["serve"]}, False),
    ({"images": {"cuda": {"image": "own:1"}}}, False),
])  # fmt: skip
def test_a_job_without_a_command_gets_a_warning(spec: dict[str, Any], warned: bool) -> None:
    found = decision(machine("a"), catalog=ANY_IMAGES, **spec)
    assert found.choice is not None
    assert (Reason.NO_COMMAND in {warning.reason for warning in found.choice.candidate.warnings}) is warned


SERVED = {"parameters": "8B", "method": "Inference"}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"stall": {"action": "Restart"}},
         "stall acts on steps, and inference reports none by itself; call gpujob_report.step() after each batch, or remove it"),
        ({"stall": {}}, "stall acts on steps, "),
        ({"placement": {"probe": {"steps": 5}}}, "placement.probe acts on steps, "),
        ({"profile": "p", "placement": {"exploration": "5"}}, "placement.exploration acts on steps, "),
        ({"stall": {}, "placement": {"probe": {"steps": 5}}},
         "stall and placement.probe act on steps, and inference reports none by itself; call gpujob_report.step() after each batch, "
         "or remove them"),
    ],
)  # fmt: skip
def test_what_acts_on_steps_has_a_warning_for_inference(spec: dict[str, Any], says: str) -> None:
    found = decision(machine("a"), catalog=ANY_IMAGES, model=SERVED, **spec)
    (warning,) = (each for each in found.candidates[0].warnings if each.reason is Reason.NO_STEPS)
    assert warning.message.startswith(says)
    trained = decision(machine("a"), catalog=ANY_IMAGES, model={**SERVED, "method": "LoRA"}, **spec)
    unsaid = decision(machine("a"), catalog=ANY_IMAGES, **spec)
    for other in (trained, unsaid):
        assert Reason.NO_STEPS not in {each.reason for each in other.candidates[0].warnings}
    assert Reason.NO_STEPS not in {
        each.reason for each in decision(machine("a"), catalog=ANY_IMAGES, model=SERVED).candidates[0].warnings
    }


def test_what_is_looked_at_does_not_grow_with_what_a_job_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    real = search.distinct
    monkeypatch.setattr(search, "distinct", lambda steps, seen: (looked_at.append(len(steps)), real(steps, seen))[1])
    kinds = (H100, A100, L4, MI300X)
    nodes = [node(f"n{number}-{index}", kind, 8) for number, kind in enumerate(kinds) for index in range(2)]
    asks = {
        "shapes": [{"nodes": count, "gpusPerNode": 64} for count in range(20, 36)],
        "model": {"name": "llama-3.1-405b", "precision": "FP8", "batchPerGPU": 4096, "sequenceLength": 16777216},
        "resources": {"cpu": 1000, "memory": "50000Gi", "ephemeralStorage": "50000Gi"},
        "placement": {"maxPricePerHour": "0.01", "capacityTypes": ["Spot"]},
        "framework": {"version": ">=9"},
    }
    waiting = PendingJob("0", "", demand(**asks), namespace="default")
    (placing,) = place_all([waiting], fleet(*nodes, catalog=ANY_IMAGES), ANY_IMAGES)
    assert search.NOT_FOUND in placing.decision.hopeless
    assert max(looked_at) == search.PROPOSED


@pytest.mark.parametrize(
    ("nodes", "spec", "hard", "fix"),
    [
        # The number of GPUs follows from the model, that of the nodes does not.
        ([node("a", H100), node("b", H100, 4)], {"model": {"name": "t5-3b"}, "nodes": 4}, {}, [("spec.nodes", 2)]),
        ([node("a", H100)], {"model": {"name": "bert-large", "sharding": "FSDP"}, "nodes": 2}, {}, [("spec.nodes", 1)]),
        ([node("a", H100), node("b", H100)], {"model": {"name": "bert-large", "sharding": "FSDP"}, "nodes": 2},
         {"pods": "1"}, [("spec.nodes", 1)]),
        # Shared memory counts in memory, so less memory alone would be refused.
        ([machine("a")], {"resources": {"cpu": "1", "memory": "8Gi", "sharedMemory": "7Gi"}}, {"requests.memory": "4Gi"},
         [("spec.resources.memory", "4Gi"), ("spec.resources.sharedMemory", "4Gi")]),
        # A T4 has none of them.
        ([node("a", T4)], {"requires": ["FP8OCP", "BF16"]}, {}, [("spec.requires", None)]),
    ],
)  # fmt: skip
def test_what_helps_is_one_more_thing_than_what_is_in_the_way(
    nodes: list[Object], spec: dict[str, Any], hard: dict[str, str], fix: list[tuple[str, object]]
) -> None:
    objects = [*nodes, *([limits(hard)] if hard else [])]
    placed = place_all([PendingJob("", "", demand(**spec), namespace="default")], fleet(*objects), ANY_IMAGES)
    found = next(placed).decision
    assert found.verdict is Verdict.IMPOSSIBLE
    assert found.fix is not None
    assert sorted((change.field, change.after) for change in found.fix.changes) == fix


@pytest.mark.parametrize(
    ("wanted", "there", "nearest"),
    [
        ("H100-PCIe", {"a": A100, "h": H100, "m": MI300X}, "H100-SXM"),
        ("h200", {"a": A100, "h": H100, "m": MI300X}, "H100-SXM"),
        ("MI325X", {"a": A100, "h": H100, "m": MI300X}, "MI300X"),
        ("MI210", {"a": A100, "m": MI300X}, "MI300X"),
        ("A100-40GB", {"h": H100, "a": A100}, "A100-80GB"),
        ("B200", {"h": H100, "m": MI300X}, "H100-SXM"),
    ],
)
def test_the_nearest_device_for_one_that_is_not_there_is_of_its_model_then_architecture_then_vendor(
    wanted: str, there: dict[str, Any], nearest: str
) -> None:
    nodes = [node(name, gpu, price="2") for name, gpu in there.items()]
    for spec, field, after in (
        ({"placement": {"accelerators": {"allow": [wanted]}}}, "spec.placement.accelerators.allow", [wanted, nearest]),
        ({"shapes": [{"accelerator": wanted}]}, "spec.shapes[0].accelerator", nearest),
    ):
        fix = with_fix(decision(*nodes, **spec), fleet(*nodes), load_catalog()).fix
        assert fix is not None
        assert [(change.field, change.after) for change in fix.changes] == [(field, after)]
