"""What people read of a decision, word for word."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from builders import ANY_IMAGES, H100, L4, MI210, MI300X, Object, decision, demand, fleet, gpupool, images, node

from gpujob.cli.output.offers import offers
from gpujob.placement.engine.decide import decide
from gpujob.placement.report import decision_json, summary
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.suggestions.search import with_fix
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.finding import listed
from gpujob.values.vocabulary import Reason, Verdict

H = node("h", H100, price="2")
A = node("a", MI300X, price="1")
OLD = {"nvidia.com/cuda.driver-version.full": "550.54.15"}
CU130 = images({"name": "cu130", "backend": "CUDA", "architectures": ["9.0"], "minDriver": "580.65"})
ROOT = images({"name": "r", "backend": "CUDA", "architectures": ["9.0"], "runsAsNonRoot": "False"})


def decided(*objects: Object, **spec: Any) -> Decision:
    """The decision with its nearest fix, as the queue makes it."""
    found = fleet(*objects, catalog=ANY_IMAGES)
    return next(place_all([PendingJob("u", "", demand(**spec))], found, ANY_IMAGES)).decision


@pytest.mark.parametrize(
    ("objects", "spec", "reason", "sentence"),
    [
        ([A], {}, Reason.PLACED, "mi300x-ondemand is the only pool with room at $1.00 an hour"),
        (
            [A, H],
            {"gpusPerNode": 8},
            Reason.PLACED,
            "mi300x-ondemand is best value and cheapest of 2 pools with room at $8.00 an hour",
        ),
        (
            [node("m", labels={"amd.com/gpu.device-id": "738c"}, devices={"amd.com/gpu": "1"})],
            {},
            Reason.PLACED,
            "mi100-ondemand is the only pool with room (price unknown)",
        ),
        (
            [node("h", H100, cordoned=True)],
            {},
            Reason.CORDONED,
            "fits pool h100-sxm-ondemand, which has no usable node now: node h is cordoned",
        ),
        (
            [node("u", devices={"amd.com/gpu": "8"})],
            {},
            Reason.DEVICE_UNKNOWN,
            "pool unknown-amd-ondemand must be fixed first: no label or catalog row identifies the devices of "
            "amd.com/gpu; set spec.accelerator in a GPUPool for them",
        ),
        (
            [node("n", labels={"nvidia.com/gpu.present": "true"})],
            {},
            Reason.NO_DEVICE_PLUGIN,
            "pool unknown-nvidia-ondemand must be fixed first: labels of node n show NVIDIA devices but no device "
            "plugin offers nvidia.com/gpu; install or restart the plugin",
        ),
        (
            [H],
            {"gpuMemory": "80Gi"},
            Reason.IMPOSSIBLE,
            "the only pool, h100-sxm-ondemand, can never run it: needs 80Gi usable per GPU, H100-SXM has "
            "79.09Gi (short by 0.91Gi); 80G fits; with spec.gpuMemory 80G instead of 80Gi it would fit pool "
            "h100-sxm-ondemand",
        ),
        (
            [H],
            {"requires": ["FlashAtention"]},
            Reason.FEATURE_UNKNOWN,
            "requires: FlashAtention is no known feature; the nearest is FlashAttention",
        ),
        (
            [H],
            {"requires": ["fp8"]},
            Reason.FEATURE_UNKNOWN,
            "requires: fp8 is no known feature; the nearest are FP8FNUZ and FP8OCP",
        ),
        ([H], {"requires": ["Zzz"]}, Reason.FEATURE_UNKNOWN, "requires: Zzz is no known feature"),
        *(
            (
                [H],
                {"requires": [word]},
                Reason.FEATURE_UNKNOWN,
                f"requires: {word} is an experimental layer that runs CUDA programs on AMD GPUs, and is not offered; "
                "require CustomCUDAKernels to stay on CUDA, or port the code with hipify",
            )
            for word in ("ZLUDA", "zluda", "Zluda")
        ),
        *(
            ([H], {"requires": [word]}, Reason.FEATURE_UNKNOWN, f"requires: {word} {sentence}")
            for word, sentence in (
                ("CUDA", "is a vendor's stack and no feature; write placement.vendors: [NVIDIA] in its place"),
                ("ROCm", "is a vendor's stack and no feature; write placement.vendors: [AMD] in its place"),
                ("HIP", "is a vendor's stack and no feature; write placement.vendors: [AMD] in its place"),
                ("NCCL", "is in every CUDA image; write placement.vendors: [NVIDIA] in its place"),
                ("cuDNN", "is in every CUDA image; write placement.vendors: [NVIDIA] in its place"),
                ("MIOpen", "is in every ROCm image; write placement.vendors: [AMD] in its place"),
                ("TensorRT", "is a library that only some images have; name an image with it in spec.images.cuda"),
                ("MIGraphX", "is a library that only some images have; name an image with it in spec.images.rocm"),
                (
                    "InfiniBand",
                    "is a property of a pool (spec.fabric of its GPUPool), which a gang uses by itself; name the pool in "
                    "placement.pools",
                ),
                ("NVLink", "is a property of a device; name the accelerators that have it in placement.accelerators"),
                ("rccl", "is in every ROCm image; write placement.vendors: [AMD] in its place"),
            )
        ),
        *(
            (
                [H],
                {"framework": {"name": word}},
                Reason.FRAMEWORK_UNKNOWN,
                f"framework.name: {word.lower()} is no known framework; the nearest is pytorch",
            )
            for word in ("Torch", "pytroch", "transformers", "DeepSpeed")
        ),
        (
            [H],
            {"framework": {"name": "jax"}},
            Reason.FRAMEWORK_UNKNOWN,
            "framework.name: jax is no known framework; images have pytorch",
        ),
        (
            [H],
            {"placement": {"accelerators": {"deny": ["mi30"]}}},
            Reason.ACCELERATOR_UNKNOWN,
            "placement.accelerators: mi30 is no known accelerator; the nearest are MI300A, MI300X and MI308X",
        ),
        (
            [H, A],
            {"placement": {"pools": {"allow": ["there"]}}},
            Reason.POOL_UNKNOWN,
            "placement.pools: there is no pool there; known pools are h100-sxm and mi300x",
        ),
        (
            [H],
            {"images": {"cuda": {"image": "own:1", "runtime": "mine"}}},
            Reason.RUNTIME_UNKNOWN,
            "images.cuda.runtime: there is no GPURuntime mine; create it or leave the field out",
        ),
        (
            [H],
            {"images": {"cuda": {"image": "own:1", "runtime": "rocm"}}},
            Reason.RUNTIME_UNKNOWN,
            "images.cuda.runtime: GPURuntime rocm is of an image for ROCm; name one for CUDA or leave the field out",
        ),
        (
            [node("n")],
            {},
            Reason.NO_POOL,
            "no node of this cluster offers GPUs that are known; kubectl gpujob doctor says what its nodes lack",
        ),
    ],
)
def test_the_sentence_of_a_decision(objects: list[Object], spec: Object, reason: Reason, sentence: str) -> None:
    found = decided(*objects, **spec)
    fix = f"; {found.fix.message}" if found.problems and found.fix else ""
    assert (summary.summary(found), summary.reason(found)) == (sentence + fix, reason)


@pytest.mark.parametrize(
    ("objects", "spec", "sentences"),
    [
        ([A], {"placement": {"vendors": ["NVIDIA"]}}, ["placement.vendors names only NVIDIA"]),
        ([A], {"images": {"cuda": {"image": "own:1"}}}, ["images has only cuda"]),
        ([A], {"placement": {"accelerators": {"allow": ["L4"]}}}, ["placement.accelerators.allow names only L4"]),
        ([A], {"placement": {"accelerators": {"deny": ["MI300X"]}}}, ["placement.accelerators.deny names MI300X"]),
        (
            [A],
            {"placement": {"capacityTypes": ["Spot"]}},
            ["its nodes are OnDemand; placement.capacityTypes accepts Spot"],
        ),
        ([A], {"placement": {"maxPricePerHour": "0.5"}}, ["costs $1.00 an hour, placement.maxPricePerHour is $0.50"]),
        (
            [node("m", labels={"amd.com/gpu.device-id": "738c"}, devices={"amd.com/gpu": "1"})],
            {"placement": {"maxPricePerHour": "5"}},
            ["no price is known and placement.maxPricePerHour is set; give the pool a price in a GPUPool"],
        ),
        (
            [node("m", labels={"amd.com/gpu.device-id": "74a2"}, devices={"amd.com/gpu": "1"})],
            {"gpuMemory": "16G"},
            ["neither labels nor catalog have the memory of MI308X; set spec.memoryPerGPU in a GPUPool for it"],
        ),
        ([A], {"requires": ["FP8OCP"]}, ["requires FP8OCP, which MI300X does not have"]),
        ([A], {"requires": ["Apex"]}, ["requires Apex, which image reg.example/rocm:1 does not have"]),
        ([A], {"framework": {"version": ">=3"}}, ["needs pytorch >=3, image has pytorch 2.10.0"]),
        (
            [A],
            {"framework": {"name": "jax"}},
            [
                "framework.name: jax is no known framework; images have pytorch",
                "needs jax, image has pytorch 2.10.0",
            ],
        ),
        ([A], {"framework": {"python": ">=3.11"}}, ["needs Python >=3.11, image has an unknown Python"]),
        ([node("h", H100, labels={"kubernetes.io/arch": "arm64"})], {}, ["hosts are arm64, image is for amd64"]),
        (
            [node("h", H100, labels={"pool": "x"}), gpupool("mine", {"pool": "x"}, runtimeClassName="nvidia-cdi")],
            {},
            ["RuntimeClass nvidia-cdi of GPUPool mine does not exist; create it or remove spec.runtimeClassName"],
        ),
        (
            [node("p", H100, devices={"nvidia.com/gpu.shared": "8"})],
            {},
            [
                "its devices are shared by several pods each, with no isolation of memory; "
                "add Shared to placement.devices to use them"
            ],
        ),
        (
            [node("p", H100, devices={"nvidia.com/mig-1g.10gb": "8"})],
            {},
            ["its devices are parts (1g.10gb) of H100-SXM; add Partition to placement.devices to use them"],
        ),
        (
            [node("p", MI300X, devices={"amd.com/cpx_nps4": "64"})],
            {},
            ["its devices are parts (cpx_nps4) of MI300X; add Partition to placement.devices to use them"],
        ),
        (
            [node("p", MI300X, labels={"beta.amd.com/gpu.device-id.740f": "1"})],
            {},
            ["the node holds MI210 and MI300X and its device plugin assigns either; give each model nodes of its own"],
        ),
    ],
)
def test_why_a_pool_is_refused(objects: list[Object], spec: Object, sentences: list[str]) -> None:
    assert [reason.message for reason in decision(*objects, **spec).candidates[0].reasons] == sentences


@pytest.mark.parametrize(
    ("objects", "catalog", "sentence"),
    [
        ([node("h", H100, labels=OLD)], CU130, "has driver 550.54.15, needs 580.65"),
        ([node("l", L4, 4)], CU130, "L4 needs compute capability 8.9, image has 9.0"),
        ([H], ROOT, "image works as root only; set securityContext.runAsUser to 0"),
    ],
)
def test_why_an_image_is_refused(objects: list[Object], catalog: Any, sentence: str) -> None:
    assert [reason.message for reason in decision(*objects, catalog=catalog).candidates[0].reasons] == [sentence]


def test_as_root_an_image_for_root_only_is_taken_and_said() -> None:
    found = decision(H, catalog=ROOT, command=["python"], securityContext={"runAsUser": 0})
    assert found.choice is not None
    assert [warning.message for warning in found.choice.candidate.warnings] == [
        'runs as root, which the "restricted" Pod Security level refuses'
    ]


@pytest.mark.parametrize(
    ("objects", "spec", "field", "before", "after"),
    [
        ([H], {"gpuMemory": "100G"}, "spec.gpuMemory", "100G", "84G"),
        ([H], {"placement": {"vendors": ["AMD"]}}, "spec.placement.vendors", ["AMD"], ["AMD", "NVIDIA"]),
        ([H], {"placement": {"capacityTypes": ["Spot"]}}, "spec.placement.capacityTypes", ["Spot"], ["OnDemand", "Spot"]),
        ([H], {"placement": {"maxPricePerHour": "1"}}, "spec.placement.maxPricePerHour", "1", "2.00"),
        (
            [H],
            {"placement": {"accelerators": {"allow": ["L4"]}}},
            "spec.placement.accelerators.allow",
            ["L4"],
            ["L4", "H100-SXM"],
        ),
        ([H], {"placement": {"accelerators": {"deny": ["H100-SXM"]}}}, "spec.placement.accelerators.deny", ["H100-SXM"], None),
        ([H, A], {"placement": {"pools": {"deny": ["h100-sxm-ondemand", "mi300x-ondemand"]}}},
         "spec.placement.pools.deny", ["h100-sxm-ondemand", "mi300x-ondemand"], ["h100-sxm-ondemand"]),
        ([H], {"nodes": 2}, "spec.nodes", 2, 1),
        ([H], {"gpusPerNode": 16}, "spec.gpusPerNode", 16, 8),
        ([H], {"resources": {"cpu": "200"}}, "spec.resources.cpu", "200", "128"),
        ([H], {"resources": {"memory": "2Ti"}}, "spec.resources.memory", "2Ti", "1024Gi"),
        ([A], {"requires": ["FP8OCP", "BF16"]}, "spec.requires", ["BF16", "FP8OCP"], ["BF16"]),
        ([A], {"framework": {"version": ">=3"}}, "spec.framework.version", ">=3", "==2.10.0"),
        ([A], {"images": {"cuda": {"image": "own:1"}}}, "spec.images", {"cuda": {"image": "own:1"}}, None),
    ],
)  # fmt: skip
def test_the_nearest_fix(objects: list[Object], spec: Object, field: str, before: Any, after: Any) -> None:
    found = fleet(*objects, catalog=ANY_IMAGES)
    fix = with_fix(decide(demand(**spec), found, ANY_IMAGES), found, ANY_IMAGES).fix
    assert fix is not None
    told = orjson.loads(orjson.dumps([fix.changes[0].field, fix.changes[0].before, fix.changes[0].after]))
    assert told == [field, before, after]


@pytest.mark.parametrize(
    "spec",
    [
        {"placement": {"pools": {"allow": ["p\n\x1b[2Jq"]}}},
        {"requires": ["BF16\nState: Complete"]},
        {"framework": {"name": "pytorch\nINJECT"}},
        {"model": {"name": "llama-3.1-8b\nx: y"}},
    ],
)
def test_what_a_job_names_puts_no_line_into_a_status(spec: Object) -> None:
    """`kubectl describe` showed a line "State: Complete" that a job had written into its own refusal, and its event."""
    refused = decided(H, **spec)
    said = [summary.summary(refused), *(each.reasons[0].message for each in refused.candidates if each.reasons)]
    assert "\\n" in "".join(said)
    assert all(text.isprintable() for text in said)


def test_changes_that_help_only_together_are_told_together() -> None:
    told = decision_json.plan(decided(H, gpuMemory="100G", nodes=2))
    assert told["nearestFix"] is None
    assert told["together"] == {
        "message": "with spec.gpuMemory 84G instead of 100G and spec.nodes 1 instead of 2 it would fit pool "
        "h100-sxm-ondemand",
        "changes": [
            {"field": "spec.gpuMemory", "from": "100G", "to": "84G"},
            {"field": "spec.nodes", "from": 2, "to": 1},
        ],
    }


def test_where_the_cluster_is_at_fault_no_change_of_the_job_helps() -> None:
    tainted = decided(node("h", H100, taints=["team=x:NoSchedule"]))
    assert tainted.fix is None
    assert summary.summary(tainted).endswith("or remove it; no change of the job makes it fit")
    assert decided(A, H).fix is None


def test_of_several_changes_the_nearest_is_told() -> None:
    fix = decided(node("h", H100), node("m", MI210, 4), gpuMemory="85G").fix
    assert fix is not None
    assert (fix.changes[0].field, fix.changes[0].after, fix.pool) == ("spec.gpuMemory", "84G", "h100-sxm-ondemand")
    assert fix.message == "with spec.gpuMemory 84G instead of 85G it would fit pool h100-sxm-ondemand"


def test_the_plan_in_json_has_every_candidate_and_the_warning() -> None:
    told = orjson.loads(
        orjson.dumps(
            decision_json.plan(decided(H, node("t", L4, 4, price="3"), gpusPerNode=2, placement={"objective": "Value"}))
        )
    )
    assert told["verdict"] == "Placed"
    assert told["chosen"] == {
        "pool": "h100-sxm-ondemand",
        "vendor": "NVIDIA",
        "accelerator": "H100-SXM",
        "nodes": 1,
        "gpusPerNode": 2,
        "nodeNames": ["h"],
        "provision": False,
        "image": "reg.example/cuda:1",
        "runtime": "cuda",
        "pricePerHour": "4.00",
        "priceSource": "node annotation gpujob.dev/price-per-gpu-hour",
        "memoryPerGPU": "79.09Gi",
        "marginalPricePerHour": "4.00",
        "speed": {
            "comparedWith": "H100-SXM",
            "perGPU": "1.0",
            "job": "2.0",
            "estimate": False,
            "errorPercent": 0,
            "roofline": "roofline 1.0 of an H100-SXM's: 989 dense TFLOPS, 3350 GB/s",
            "source": "efficiency 1.0 of an H100-SXM's, ± 0 %, from 10 runs (BERT-large on SQuAD; Transformer-XL large and 8 more: "
            "Lambda's PyTorch benchmark)",
        },
        "pricePerWork": "2.00",
    }
    assert (told["objective"], told["work"]) == ("Value", {"kind": "Training", "precision": "Mixed"})
    assert [(c["pool"], c["outcome"], c["pricePerHour"]) for c in told["candidates"]] == [
        ("h100-sxm-ondemand", "Chosen", "4.00"),
        ("l4-ondemand", "Fits", "6.00"),
    ]
    assert told["nearestFix"] is None


def test_an_image_of_the_users_own_may_have_any_framework() -> None:
    found = decided(H, images={"cuda": {"image": "me/jax:1"}}, framework={"name": "jax"})
    assert found.problems == ()
    assert found.verdict is Verdict.PLACED


def test_the_images_of_a_pool_are_counted_or_grouped_by_why_they_are_not_its_best() -> None:
    rows = [
        {"name": "best", "backend": "CUDA", "architectures": ["9.0"], "preference": 9},
        {"name": "second", "backend": "CUDA", "architectures": ["9.0"]},
        {"name": "old1", "backend": "CUDA", "architectures": ["7.0"]},
        {"name": "old2", "backend": "CUDA", "architectures": ["7.5"], "runsAsNonRoot": "False"},
        {"name": "root", "backend": "CUDA", "architectures": ["9.0"], "runsAsNonRoot": "False"},
    ]
    catalog = images(*rows)
    (offer,) = offers(decide(demand(), fleet(H, catalog=catalog), catalog))
    assert (offer.best.runtime.name, [each.runtime.name for each in offer.alike]) == ("best", ["second"])
    grouped = {finding.message: [each.runtime.name for each in tried] for finding, tried in offer.refused}
    # What one image has is never said of another.
    assert grouped == {
        "image works as root only; set securityContext.runAsUser to 0": ["root"],
        "H100-SXM needs compute capability 9.0, image has 7.0": ["old1"],
        "H100-SXM needs compute capability 9.0, image has 7.5": ["old2"],
    }
    assert offer.images == len(rows)


def test_a_few_unknown_pools_are_named_and_the_known_ones_are_said_once() -> None:
    allowed = [f"lab-{number}" for number in range(40)]
    assert [finding.message for finding in decided(H, placement={"pools": {"allow": allowed}}).problems] == [
        "placement.pools: there is no pool lab-0; known pools are h100-sxm",
        "placement.pools: there is no pool lab-1",
        "placement.pools: there is no pool lab-2",
        "placement.pools: 37 more names are unknown",
    ]


def test_a_few_unknown_accelerators_are_named() -> None:
    problems = decided(H, placement={"accelerators": {"deny": [f"xyzzy-{number}" for number in range(5)]}}).problems
    assert [finding.message for finding in problems] == [
        "placement.accelerators: xyzzy-0 is no known accelerator; the cluster has H100-SXM; `kubectl gpujob catalog accelerators` "
        "lists all",
        "placement.accelerators: xyzzy-1 is no known accelerator",
        "placement.accelerators: xyzzy-2 is no known accelerator", "placement.accelerators: 2 more names are unknown",
    ]  # fmt: skip


@pytest.mark.parametrize("denied", [["lab"], [f"lab-{number}" for number in range(40)]])
def test_an_excluded_pool_may_have_no_node_now(denied: list[str]) -> None:
    found = decided(H, A, placement={"pools": {"deny": [*denied, "h100-sxm"]}})
    assert found.choice is not None
    assert found.choice.candidate.pool.accelerator_id == "MI300X"
    said = [each.message for each in found.choice.candidate.warnings if each.reason is Reason.POOL_UNKNOWN]
    assert said == [f"placement.pools.deny: there is no pool {listed(denied)} now"]


@pytest.mark.parametrize("namespace", ["vision", "default", "speech-eu"])
def test_the_namespace_whose_ids_reject_a_job_is_named(namespace: str) -> None:
    space: Object = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": namespace, "annotations": {"openshift.io/sa.scc.uid-range": "1000660000/10000"}},
    }
    known = fleet(H, space, catalog=ANY_IMAGES)
    asked = PendingJob("u", "", demand(command=["x"], securityContext={"runAsUser": 1000}), namespace=namespace)
    decided = next(place_all([asked], known, ANY_IMAGES)).decision
    assert (
        "securityContext.runAsUser is 1000, and OpenShift's restricted-v2 admits 1000660000 to 1000669999 in namespace "
        f"{namespace}; leave it out"
    ) in [warning.message for warning in decided.candidates[0].warnings]


def test_a_wait_says_all_that_it_waits_for() -> None:
    three = [node("h1", H100, cordoned=True), node("h2", H100, ready=False)]
    found = decision(*three, nodes=2)
    assert (
        summary.summary(found)
        == "fits pool h100-sxm-ondemand, which has no usable node now: node h1 is cordoned; node h2 is not Ready"
    )
    assert (
        summary.reasons_text(found.candidates[0], found.candidates[0].reasons)
        == "node h1 is cordoned; node h2 is not Ready"
    )
    # What the first reason names already is not said again.
    one = decision(node("h1", H100), node("h2", H100, ready=False), nodes=2)
    assert summary.summary(one).endswith(
        "of 2 nodes: 8 are free over 1 node, at most 8 on one, 8 cannot be used (node h2 is not Ready); 1 node has room"
    )
    many = decision(*(node(f"n{number}", H100, cordoned=True) for number in range(40)))
    assert summary.summary(many).endswith(
        "node n0 is cordoned; node n1 is cordoned; 38 more nodes cannot be used either"
    )


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"cordoned": True}, "node n is cordoned"),
        ({"ready": False}, "node n is not Ready"),
        ({"labels": {"nvidia.com/mig.config.state": "failed"}}, "node n: nvidia.com/mig.config.state is failed"),
    ],
)
def test_a_pool_without_a_usable_node_is_not_called_busy(state: dict[str, Any], message: str) -> None:
    found = decision(node("n", H100, **state))
    assert summary.summary(found) == f"fits pool h100-sxm-ondemand, which has no usable node now: {message}"


def test_what_an_admin_can_fix_is_no_reason_that_a_job_never_runs() -> None:
    """The namespace is unknown, and the job asks for a part of a node that is assigned whole."""
    admin = gpupool("hd", {"pool": "x"}, deviceMode="HostDevices", accelerator="MI300X")
    found = decision(node("n", MI300X, labels={"pool": "x"}), admin)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert len(found.candidates[0].reasons) > 1
    assert "can never run it: assigns whole nodes" in summary.summary(found)
