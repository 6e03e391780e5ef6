"""A job that no pool can run gets a fix, and the fix helps: tried on small fleets of odd kinds."""

from __future__ import annotations

import copy
import re
from typing import Any

from builders import A100, ANY_IMAGES, H100, L4, MI300X, Object, gpupool, manifest, node, runtime_class
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_decisions import fleet_from
from worlds import mended, set_at

from gpujob.api.manifest import read_gpujob
from gpujob.catalog.files.load import load_catalog
from gpujob.placement.report import decision_json
from gpujob.placement.report.why_not import why_not
from gpujob.placement.request.from_manifest import demand_of
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.suggestions.search import NOT_FOUND
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.vocabulary import Outcome, Reason, Vendor, Verdict

IN_THE_CLUSTER = frozenset({Reason.TAINT_NOT_TOLERATED, Reason.ARCH_UNSUPPORTED})
"""What only an admin can fix."""


@st.composite
def fleets(draw: st.DrawFn) -> list[Object]:
    """A few pools, each of another kind, and sometimes a quota, a LimitRange, or a RuntimeClass whose pods take more."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4, unique_by=str))
    objects = [made for number, kind in enumerate(kinds) for made in pool_of(kind, f"p{number}", draw(prices))]
    if draw(st.integers(0, 2)) == 0:
        objects.append(quota(draw(st.sampled_from(HARD))))
    if draw(st.integers(0, 3)) == 0:
        objects.append(limit_range(draw(st.sampled_from(LIMITS))))
    if draw(st.integers(0, 3)) == 0:
        fixed = {"podFixed": {"cpu": "500m", "memory": "2Gi"}}
        objects.append(runtime_class("nvidia", "nvidia", overhead=fixed))
    return objects


KINDS = (
    "mi300x", "h100", "a100-spot", "l4", "cpx", "mig", "shared", "tainted", "provision", "small-nodes", "old-driver",
    "two-sizes", "node-pool", "node-pool-of-three",
)  # fmt: skip
HARD = (
    {"requests.nvidia.com/gpu": "4", "requests.amd.com/gpu": "4"}, {"requests.cpu": "16"},
    {"requests.memory": "64Gi", "pods": "3"}, {"requests.amd.com/gpu": "0", "requests.nvidia.com/gpu": "0"},
    {"requests.memory": "4Gi", "limits.memory": "20Gi"}, {"pods": "1"}, {"requests.nvidia.com/gpu": "2", "requests.cpu": "3"},
    {"requests.ephemeral-storage": "30Gi", "pods": "0"},
)  # fmt: skip
LIMITS = (
    {"type": "Container", "max": {"cpu": "16", "memory": "100Gi", "nvidia.com/gpu": "4"}},
    {"type": "Pod", "min": {"cpu": "4", "memory": "16Gi", "amd.com/gpu": "2"}},
    {"type": "Pod", "max": {"nvidia.com/gpu": "0", "amd.com/gpu": "0"}},
    {"type": "Container", "max": {"ephemeral-storage": "30Gi"}, "min": {"cpu": "250m"}},
)  # fmt: skip
prices = st.sampled_from(["1.5", "2.004", "30", None])


def pool_of(kind: str, name: str, price: str | None) -> list[Object]:
    """The nodes of a pool, or the GPUPool of one without nodes."""
    spot = {"karpenter.sh/capacity-type": "spot"}
    old = {"nvidia.com/cuda.driver-version.full": "450.80.02", "nvidia.com/cuda.driver.major": "450",
           "nvidia.com/cuda.driver-version.major": "450"}  # fmt: skip
    parts = {"nvidia.com/mig.strategy": "mixed"}
    if kind == "provision":
        spec: dict[str, Any] = {"price": {"perGPUHour": price}} if price else {}
        new = {"maxNodes": 2, "gpusPerNode": 8, "cpu": "64", "memory": "512Gi"}
        return [gpupool(name, {"new": name}, accelerator="MI300X", provision=new, **spec)]
    if kind.startswith("node-pool"):
        device, count = (H100, 3) if kind == "node-pool-of-three" else (MI300X, 1)
        label = {"karpenter.sh/nodepool": name}
        return [node(f"{name}-{number}", device, price=price, labels=label) for number in range(count)]
    if kind == "two-sizes":
        return [node(f"{name}-a", H100, 8, price=price), node(f"{name}-b", H100, 4, price=price)]
    made = {
        "mi300x": lambda: node(name, MI300X, price=price),
        "h100": lambda: node(name, H100, price=price),
        "a100-spot": lambda: node(name, A100, price=price, labels=spot),
        "l4": lambda: node(name, L4, 4, price=price),
        "cpx": lambda: node(name, MI300X, devices={"amd.com/cpx_nps4": "64"}, price=price),
        "mig": lambda: node(name, A100, devices={"nvidia.com/mig-1g.10gb": "56"}, labels=parts, price=price),
        "shared": lambda: node(name, H100, devices={"nvidia.com/gpu": "32"}, labels={"nvidia.com/gpu.replicas": "4"}),
        "tainted": lambda: node(name, H100, price=price, taints=["team=x:NoSchedule"]),
        "small-nodes": lambda: node(name, L4, 1, allocatable={"cpu": "7910m", "memory": "30Gi"}, price=price),
        "old-driver": lambda: node(name, H100, labels=old, price=price),
    }
    return [made[kind]()]


def quota(hard: Object) -> Object:
    """A ResourceQuota of the namespace `default`."""
    return {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "default"},
        "spec": {"hard": hard}, "status": {"hard": hard, "used": {}},
    }  # fmt: skip


def limit_range(limits: Object) -> Object:
    """A LimitRange of the namespace `default`."""
    metadata = {"name": "small", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [limits]}}


@st.composite
def wishes(draw: st.DrawFn) -> Object:
    """The spec of a job that asks for something, often too much of it."""
    placement = some(
        draw,
        vendors=st.sampled_from([["AMD"], ["NVIDIA"]]),
        accelerators=st.sampled_from([{"allow": ["MI300X"]}, {"deny": ["L4", "H100-SXM"]}, {"allow": ["H100_SMX"]}]),
        pools=st.sampled_from([{"allow": ["h100-sxm-ondemand"]}, {"deny": ["l4-ondemand", "p0"]}]),
        maxPricePerHour=st.sampled_from(["0", "1.999999", "12"]),
        devices=st.sampled_from([["Partition"], ["Whole", "Shared"]]),
        capacityTypes=st.sampled_from([["Spot"], ["Reserved"]]),
    )
    spec = some(
        draw,
        requires=st.sampled_from(
            [["BF16"], ["FP8OCP", "BF16"], ["FP8FNUZ"], ["FlashAtention"], ["BitsAndBytes", "XFormers"],
             ["FP8", "FlashAttention", "TransformerEngine"]]
        ),
        resources=st.sampled_from(
            [{"cpu": "97"}, {"cpu": "9500m", "memory": "500G"}, {"memory": "2Ti", "sharedMemory": "1500Gi"},
             {"ephemeralStorage": "2000G"}, {"sharedMemory": "1100Gi"},
             {"cpu": "0.5", "memory": "8Gi", "sharedMemory": "7Gi"}, {"cpu": 200, "memory": "3Ti", "ephemeralStorage": "5Ti"}]
        ),
        framework=st.sampled_from(
            [{"version": ">=9"}, {"version": "<1.5"}, {"python": ">=3.99"}, {"name": "pytroch", "version": ">=2"},
             {"version": ">=2.10,<2.12", "python": "==3.13"}]
        ),
        images=st.sampled_from(
            [{"cuda": {"image": "own:1"}}, {"rocm": {"image": "own:1"}}, {"rocm": {"image": "own:1", "runtime": "none"}}]
        ),
        priorityClassName=st.just("nowhere"),
    )  # fmt: skip
    size = draw(
        st.sampled_from(
            [{}, {"gpusPerNode": 9}, {"gpusPerNode": 16, "nodes": 3}, {"nodes": 5}, {"gpuMemory": "80Gi"},
             {"nodes": 2, "gpusPerNode": 8}, {"nodes": 4, "gpusPerNode": 8},
             {"gpuMemory": "300G", "gpusPerNode": 8}, {"gpuMemory": "79.65Gi"}, *MODELS, *SHAPES]
        )
        | models()
    )  # fmt: skip
    return {**spec, **size, **({"placement": placement} if placement else {})}


@st.composite
def models(draw: st.DrawFn) -> Object:
    """A job that says its model and some of what is done with it, and sometimes nodes or GPUs."""
    names = ("llama-3.1-70b", "llama-3.1-405b", "mixtral-8x7b", "t5-3b", "deepseek-v3", "bert-large", "falcon-40b")
    model: Object = {"name": draw(st.sampled_from(names))}
    if draw(st.booleans()):
        model = {"parameters": draw(st.sampled_from(["350M", "3B", "70B", "1.1T"]))}
    model |= some(
        draw,
        precision=st.sampled_from(["Mixed", "FP16", "FP32", "FP8"]),
        batchPerGPU=st.sampled_from([4, 32, 512]),
        sequenceLength=st.sampled_from([512, 4096, 131072]),
        sharding=st.sampled_from(["None", "ZeRO1", "ZeRO2", "ZeRO3", "FSDP"]),
        shape=st.sampled_from([{"layers": 2}, {"hidden": 16384}, {"vocabulary": 500_000, "layers": 200}]),
    )
    method = draw(st.sampled_from(["Full", "LoRA", "QLoRA", "Inference"]))
    if method == "Inference":
        load = some(draw, maxTokens=st.sampled_from([2048, 131072]), concurrency=st.sampled_from([1, 256]))
        model |= {"method": method, **({"inference": load} if load else {})}
    else:
        model |= {"method": method} | some(
            draw,
            optimizer=st.sampled_from(["AdamWForeach", "AdamW8Bit", "Adafactor", "SGD"]),
            gradientCheckpointing=st.sampled_from(["None", "Layers", "Selective"]),
        )
    sizes = some(draw, nodes=st.sampled_from([1, 2, 4]), gpusPerNode=st.sampled_from([1, 3, 8, 16]))
    return {"model": model, **sizes}


BIG = {"name": "llama-3.1-70b", "batchPerGPU": 8, "sequenceLength": 8192}
MODELS = (
    {"model": {"name": "llama-3.1-8b"}, "gpusPerNode": 1},
    {"model": {**BIG, "sharding": "None"}},
    {"model": BIG, "gpusPerNode": 4},
    {"model": {"name": "llama-3.1-405b"}},
    {"model": {"name": "llama-3.1-405b", "gradientCheckpointing": "Layers"}},
    {"model": {"name": "llama-3.1-70b", "gradientCheckpointing": "Layers"}, "nodes": 4},
    {"model": {"parameters": "8B", "method": "LoRA", "precision": "FP8", "batchPerGPU": 512}},
    {"model": {"name": "llama-3.1-70b", "method": "Inference", "inference": {"maxTokens": 131072, "concurrency": 64}}},
    {"model": {"name": "llama-3.1-9b"}},
)
SHAPES = (
    {"shapes": [{"accelerator": "H200", "gpusPerNode": 8}, {"accelerator": "MI355X", "gpusPerNode": 4}]},
    {"shapes": [{"accelerator": "H100-SXM", "gpusPerNode": 16}, {"accelerator": "MI300X", "nodes": 4}]},
)


def some(draw: st.DrawFn, **members: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Each member with a chance of a quarter."""
    return {name: draw(values) for name, values in members.items() if draw(st.integers(0, 3)) == 0}


def decided(document: Object, objects: list[Object], catalog: Any) -> Decision:
    """What the operator decides of a manifest."""
    job = PendingJob("", "", demand_of(read_gpujob(document)), namespace="default")
    return next(place_all([job], fleet_from(objects, catalog), catalog)).decision


def runs(decision: Decision) -> bool:
    """Whether the job is placed, or waits for what becomes free: not for nodes that may not come."""
    if decision.verdict is not Verdict.WAITING:
        return decision.verdict is Verdict.PLACED
    busy = (candidate for candidate in decision.candidates if candidate.outcome is Outcome.BUSY)
    return any(all(finding.reason is not Reason.MAY_GROW for finding in candidate.reasons) for candidate in busy)


catalogs = st.sampled_from([ANY_IMAGES, load_catalog()])


@settings(max_examples=60)
@given(objects=fleets(), spec=wishes(), catalog=catalogs)
def test_every_job_that_cannot_run_has_a_fix_that_helps_or_the_word_that_none_does(
    objects: list[Object], spec: Object, catalog: Any
) -> None:
    document = manifest(**spec)
    decision = decided(document, objects, catalog)
    told = decision_json.plan(decision)
    if decision.verdict in (Verdict.PLACED, Verdict.WAITING):
        assert decision.fix is None
        assert runs(decision) or ("needs" in told["message"] and "more node" in told["message"])
        return
    if decision.fix is None:
        assert bool(decision.hopeless) == (decision.verdict is Verdict.IMPOSSIBLE)
        assert decision.hopeless in told["message"]
        assert told["nearestFix"] is told["together"] is None
        return
    after = decided(mended(document, decision.fix), objects, catalog)
    assert runs(after)
    assert ("which is busy now" in decision.fix.message) == (after.verdict is Verdict.WAITING)
    assert bool(told["nearestFix"]) != bool(told["together"])
    assert decision.fix.message in told["message"]


@settings(max_examples=60)
@given(objects=fleets(), spec=wishes())
def test_only_what_lies_in_the_cluster_is_hopeless(objects: list[Object], spec: Object) -> None:
    decision = decided(manifest(**spec), objects, ANY_IMAGES)
    if not decision.hopeless or "add an entry for" in decision.hopeless:
        return
    for candidate in decision.candidates:
        assert candidate.outcome in (Outcome.REJECTED, Outcome.MISCONFIGURED)
        if NOT_FOUND in decision.hopeless:
            continue
        # A quota is reported for the shape that the pool's nodes can hold; for another shape of the pool it would be said twice.
        reasons = reasons_of(candidate.pool.name, decision)
        no_gpus_allowed = not reasons.isdisjoint({Reason.QUOTA_EXCEEDED, Reason.LIMIT_RANGE})
        assert reasons & IN_THE_CLUSTER or no_gpus_allowed, (
            decision.hopeless,
            [finding.message for finding in candidate.reasons],
        )


def reasons_of(pool: str, decision: Decision) -> set[Reason]:
    """Why a pool is rejected, by any of the job's shapes."""
    of_pool = (candidate for candidate in decision.candidates if candidate.pool.name == pool)
    return {finding.reason for candidate in of_pool for finding in candidate.reasons}


@settings(max_examples=60)
@given(objects=fleets(), spec=wishes())
def test_what_is_said_to_make_a_pool_win_makes_it_win(objects: list[Object], spec: Object) -> None:
    document, fleet = manifest(**spec), fleet_from(objects, ANY_IMAGES)
    decision = decided(document, objects, ANY_IMAGES)
    for pool in fleet.whole_pools:
        said = why_not(decision, pool.name, fleet, ANY_IMAGES)
        changed = copy.deepcopy(document)
        if said.fix is not None:
            changed = mended(document, said.fix)
        elif found := re.search(r"with placement.objective (\w+) it would be chosen", said.change):
            set_at(changed, "spec.placement.objective", found[1])
        elif (
            "would win over" in said.change
            and "GPU-hour" not in said.change
            and "(placement.waitSeconds)" in said.change
        ):
            set_at(changed, "spec.placement.waitSeconds", 1)
        else:
            continue
        after = decided(changed, objects, ANY_IMAGES)
        wins = after.choice is not None and after.choice.candidate.pool.name == pool.name
        other = re.search(r", and \S+ would (still )?be chosen|is busy now$", said.change)
        assert wins != bool(other), said.change
        if other and after.choice and decision.choice:
            stays = after.choice.candidate.pool.name == decision.choice.candidate.pool.name
            assert stays == bool(other[1]), said.change
        assert runs(after), said.change


NAMED = {
    "CUDA": Vendor.NVIDIA, "NCCL": Vendor.NVIDIA, "cuDNN": Vendor.NVIDIA, "TensorRT": Vendor.NVIDIA, "ZLUDA": Vendor.NVIDIA,
    "ROCm": Vendor.AMD, "HIP": Vendor.AMD, "RCCL": Vendor.AMD, "MIGraphX": Vendor.AMD,
}  # fmt: skip
"""Words that users require and that are no features, with the vendor that a job with them stays on."""
DEVICES = {
    "Hopper": Vendor.NVIDIA,
    "nvidia": Vendor.NVIDIA,
    "amd": Vendor.AMD,
    "gfx942": Vendor.AMD,
    "MI999": Vendor.AMD,
}


def _other(vendor: Vendor) -> Vendor:
    return Vendor.AMD if vendor is Vendor.NVIDIA else Vendor.NVIDIA


@settings(max_examples=60)
@given(objects=fleets(), spec=wishes(), word=st.sampled_from([*NAMED, *DEVICES]), shaped=st.booleans())
def test_a_fix_stays_with_the_vendor_that_a_word_names(
    objects: list[Object], spec: Object, word: str, shaped: bool
) -> None:
    if word in NAMED:
        spec = spec | {"requires": [*spec.get("requires", []), word]}
    elif shaped:
        spec = {key: spec[key] for key in spec.keys() - {"nodes", "gpusPerNode", "model"}}
        spec |= {"shapes": [{"accelerator": word, "gpusPerNode": 2}]}
    else:
        spec = spec | {"placement": spec.get("placement", {}) | {"accelerators": {"allow": [word]}}}
    named = (NAMED | DEVICES)[word]
    # A job that lists the other vendor alone contradicts its word: the list stays, and the fix is to drop the word.
    assume(spec.get("placement", {}).get("vendors") != [_other(named)])
    document = manifest(**spec)
    decision = decided(document, objects, load_catalog())
    if decision.fix is None:
        return
    after = decided(mended(document, decision.fix), objects, load_catalog())
    assert runs(after)
    assert after.candidates[0].pool.vendor is named, decision.fix.message


@settings(max_examples=60)
@given(objects=fleets(), spec=models(), gpus=st.sampled_from([3, 4, 6, 8, 16]))
def test_a_number_of_gpus_in_a_fix_divides_the_heads(objects: list[Object], spec: Object, gpus: int) -> None:
    document = manifest(**spec, **({} if "gpusPerNode" in spec else {"gpusPerNode": gpus}))
    decision = decided(document, objects, ANY_IMAGES)
    counts = [change for change in decision.fix.changes if change.field == "spec.gpusPerNode"] if decision.fix else []
    if decision.fix is None or not counts or counts[0].after is None:
        return
    after = decided(mended(document, decision.fix), objects, ANY_IMAGES)
    assert Reason.HEADS_NOT_DIVIDED not in {warning.reason for warning in after.candidates[0].warnings}, (
        decision.fix.message
    )
