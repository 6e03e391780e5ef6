"""A job that names its model: the estimate decides where it fits, where it warns, and what would help."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest
from builders import A100, H100, H200, L4, MI300X, decision, demand, fleet, gpupool, node

from gpujob.catalog.files.load import load_catalog
from gpujob.cli.output import cells
from gpujob.placement.report import decision_json, summary
from gpujob.placement.scoring.candidate import Candidate, Decision
from gpujob.placement.suggestions.search import with_fix
from gpujob.values.vocabulary import Outcome, Precision, Reason, Verdict, WorkKind
from tests.e2e.cluster.nodes import Amd, Nvidia

LORA: dict[str, Any] = {"name": "llama-3.1-8b", "method": "LoRA", "batchPerGPU": 4}
TOO_SMALL = (Reason.MEM_TOO_SMALL, Reason.MEM_TIGHT)
TIGHT = {**LORA, "sequenceLength": 2284}


def of(found: Decision, accelerator: str) -> Candidate:
    return next(c for c in found.candidates if c.pool.accelerator_id == accelerator)


def test_a_device_below_the_expected_peak_is_refused_with_the_numbers() -> None:
    found = decision(node("n", H100), gpusPerNode=1, model={**LORA, "batchPerGPU": 8})
    refused = of(found, "H100-SXM")
    assert refused.outcome is Outcome.REJECTED
    assert next((f.reason, f.message) for f in refused.reasons) == (
        Reason.MEM_TOO_SMALL,
        "the model needs 123.15Gi on each GPU, up to 129.67Gi with what the allocator reserves; "
        "H100-SXM has 79.09Gi (short by 44.06Gi)",
    )


def test_between_peak_and_high_end_is_a_warning_that_ranks_lower() -> None:
    found = decision(node("n", H100), gpusPerNode=1, model=TIGHT)
    assert found.verdict is Verdict.PLACED
    tight = next(warning for warning in found.candidates[0].warnings if warning.reason is Reason.MEM_TIGHT)
    assert tight.message == (
        "the model needs 75.35Gi on each GPU, and 79.34Gi with what the allocator may reserve; H100-SXM has 79.09Gi"
    )
    both = decision(
        node("n", H100, price="1.00"),
        node("a", MI300X, price="1.00"),
        gpusPerNode=1,
        model=TIGHT,
        placement={"objective": "Cost"},
    )
    assert both.candidates[0].pool.accelerator_id == "MI300X"
    assert Reason.MEM_TIGHT not in {warning.reason for warning in both.candidates[0].warnings}


def test_the_estimate_follows_the_gpus_of_each_shape() -> None:
    model = {"name": "llama-3.1-8b", "precision": "Mixed", "sharding": "FSDP"}
    found = decision(node("n", H100), model=model, shapes=[{"gpusPerNode": 2}, {"gpusPerNode": 8}])
    needs = {gang.shape: gang.memory for gang in found.demand.gangs}
    assert needs["1x2"] is not None
    assert needs["1x8"] is not None
    assert needs["1x8"].high < needs["1x2"].high


def test_the_json_has_the_components_in_bytes() -> None:
    document = decision_json.plan(decision(node("n", H100), model=LORA | {"gradientCheckpointing": "Layers"}))
    memory = document["memory"]
    assert list(memory) == ["expected", "high", "components", "low", "componentsLow", "componentsHigh"]
    words = ["weights", "gradients", "optimizer", "activations", "logits", "kvCache", "adapters", "overhead"]
    assert list(memory["components"]) == words
    assert sum(memory["components"].values()) == memory["expected"] < memory["high"]
    for total, parts in (("low", memory["componentsLow"]), ("high", memory["componentsHigh"])):
        assert list(parts) == [*words, "reserve"]
        assert sum(parts.values()) == memory[total]
    assert document["candidates"][0]["memory"] == memory
    assert decision_json.plan(decision(node("n", H100), gpuMemory="10G"))["memory"] is None


def test_an_unknown_model_has_its_nearest_and_is_misconfigured() -> None:
    found = decision(node("n", H100), model={"name": "lama-3.1-9b"})
    assert found.verdict is Verdict.MISCONFIGURED
    assert summary.summary(found) == (
        "model.name: lama-3.1-9b is no known model; the nearest are llama-3.1-8b, llama-3.1-70b and llama-3.1-405b; "
        "or give model.parameters in its place, for example 8B, or gpuMemory if it is no language model"
    )
    nothing_near = decision(node("n", H100), model={"name": "%%%"})
    assert summary.summary(nothing_near) == (
        "model.name: %%% is no known model; give model.parameters in its place, for example 8B, or gpuMemory if it is no language model"
    )


@pytest.mark.parametrize(
    ("model", "field", "after"),
    [
        ({**LORA, "batchPerGPU": 8}, "spec.model.gradientCheckpointing", "Layers"),
        ({"parameters": "8B", "batchPerGPU": 64, "method": "Inference", "sequenceLength": 32768},
         "spec.model.batchPerGPU", 27),
    ],
)  # fmt: skip
def test_the_fix_is_a_lighter_way_that_fits(model: dict[str, Any], field: str, after: object) -> None:
    found = decision(node("n", H100), model=model)
    fix = with_fix(found, fleet(node("n", H100)), load_catalog()).fix
    assert fix is not None
    assert (fix.changes[0].field, fix.changes[0].after) == (field, after)
    applied = decision(node("n", H100), model=model | {field.rpartition(".")[2]: after})
    assert applied.verdict is Verdict.PLACED


@pytest.mark.parametrize(
    ("gpu", "gpus", "model", "load", "after"),
    [
        (H100, 8, "llama-3.1-70b", {"maxTokens": 8192, "concurrency": 512}, 190),
        (H100, 4, "llama-3.1-70b", {"maxTokens": 8192, "concurrency": 512}, 70),
        (H200, 1, "qwen2.5-32b", {"maxTokens": 4096, "concurrency": 400}, 77),
        (MI300X, 1, "llama-3.1-8b", {"maxTokens": 2048, "concurrency": 60000}, 700),
        (L4, 1, "llama-3.1-8b", {"maxTokens": 8192, "concurrency": 16}, 6),
        (A100, 2, "mistral-7b", {"maxTokens": 32768, "concurrency": 64}, 35),
    ],
)
def test_a_server_serves_as_much_at_once_as_its_devices_hold(
    gpu: Amd | Nvidia, gpus: int, model: str, load: dict[str, Any], after: int
) -> None:
    """In two digits, as people write it: within a tenth of what the devices hold with contexts and the allocator's blocks, of
    which a server leaves another tenth free by default.
    """

    def served(**changes: Any) -> Decision:
        spec = {"name": model, "method": "Inference", "inference": load | changes}
        return decision(node("n", gpu), nodes=1, gpusPerNode=gpus, model=spec)

    fix = with_fix(served(), fleet(node("n", gpu)), load_catalog()).fix
    assert fix is not None
    assert [(change.field, change.after) for change in fix.changes] == [("spec.model.inference.concurrency", after)]
    assert served(concurrency=after).verdict is Verdict.PLACED
    assert served(concurrency=after + max(2, after // 5)).verdict is Verdict.IMPOSSIBLE


def test_a_fused_optimizer_is_the_nearest_fix_where_the_step_is_the_peak() -> None:
    model = {"name": "gemma-7b", "optimizer": "AdamWForeach", "sequenceLength": 512, "gradientCheckpointing": "Layers"}
    model |= {"precision": "BF16"}
    found = decision(node("n", H100), gpusPerNode=1, model=model)
    fix = with_fix(found, fleet(node("n", H100)), load_catalog()).fix
    assert fix is not None
    assert (fix.changes[0].field, fix.changes[0].after) == ("spec.model.optimizer", "AdamW")
    assert decision(node("n", H100), gpusPerNode=1, model=model | {"optimizer": "AdamW"}).verdict is Verdict.PLACED


def test_the_largest_sizes_that_the_schema_takes_print() -> None:
    most = {"layers": 4096, "hidden": 1_048_576, "heads": 4096, "kvHeads": 4096, "headDim": 4096, "ffn": 1_048_576,
            "vocabulary": 4_194_304, "experts": 4096, "activeExperts": 4096}  # fmt: skip
    model = {
        "parameters": "100T",
        "precision": "FP32",
        "batchPerGPU": 65536,
        "sequenceLength": 16_777_216,
        "shape": most,
    }
    document = decision_json.plan(decision(node("n", H100), model=model))
    assert document["verdict"] == "Impossible"
    assert orjson.dumps(document)


def test_overrides_change_the_shape_and_with_it_the_parameters() -> None:
    plain = decision(node("n", H100), model={"name": "llama-3.1-8b", "method": "Inference"})
    half = decision(node("n", H100), model={"name": "llama-3.1-8b", "method": "Inference", "shape": {"layers": 16}})
    before, after = plain.demand.gang.memory, half.demand.gang.memory
    assert before is not None
    assert after is not None
    assert before.components.kv_cache == 2 * after.components.kv_cache
    assert after.components.weights == pytest.approx(before.components.weights - 16 * 2 * 218_112_000, rel=0.001)


def test_a_model_says_what_the_job_does_with_its_gpus() -> None:
    work = demand(model={"name": "gpt2", "method": "QLoRA", "precision": "FP16"}).work
    assert (work.kind, work.precision) == (WorkKind.FINE_TUNING, Precision.FP16)


SIZES_OF_A_SENTENCE = re.compile(r"needs ([0-9.]+)Gi on each GPU, (?:and|up to) ([0-9.]+)Gi .*; (?:L4) has ([0-9.]+)Gi")


@pytest.mark.parametrize("sequence", [1153, 1197, 1001])
def test_around_the_limit_of_a_device_the_shown_numbers_say_what_is_decided(sequence: int) -> None:
    model = {"name": "qwen2.5-7b", "method": "LoRA", "sequenceLength": sequence}
    expected = next(iter(decision(node("l", L4), gpusPerNode=1, model=model).demand.gangs)).memory
    assert expected is not None
    decided = set()
    for mebibytes in range(-(-expected.expected // 2**20) - 14, expected.expected // 2**20 + 16):
        labels = {"pool": "l"}
        admin = gpupool("l", labels, accelerator="L4", memoryPerGPU=f"{mebibytes}Mi")
        found = decision(admin, node("l", L4, labels=labels), gpusPerNode=1, model=model)
        candidate = found.candidates[0]
        said = next(each.message for each in (*candidate.reasons, *candidate.warnings) if each.reason in TOO_SMALL)
        need, most, has = map(float, SIZES_OF_A_SENTENCE.search(said).groups())  # type: ignore[union-attr]
        placed = found.verdict is Verdict.PLACED
        assert (need <= has) == placed, said
        assert most > has
        line = cells.memory_line([candidate])
        assert not placed or line.startswith(f"{need:g}Gi expected"), line
        decided.add(placed)
    assert decided == {True, False}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"name": "mixtral-8x7b", "shape": {"activeExperts": 9}},
         "model.shape.activeExperts is 9, mixtral-8x7b has 8 experts; lower it, or set model.shape.experts too"),
        ({"name": "qwen3-30b-a3b", "shape": {"activeExperts": 129}},
         "model.shape.activeExperts is 129, qwen3-30b-a3b has 128 experts; lower it, or set model.shape.experts too"),
        ({"name": "llama-3.1-8b", "shape": {"activeExperts": 2}},
         "model.shape.activeExperts is 2, llama-3.1-8b has 1 expert; lower it, or set model.shape.experts too"),
        ({"parameters": "8B", "shape": {"activeExperts": 2}},
         "model.shape.activeExperts is 2, a model of this size has 1 expert; lower it, or set model.shape.experts too"),
        ({"name": "llama-3.1-8b", "shape": {"kvHeads": 33}},
         "model.shape.kvHeads is 33, llama-3.1-8b has 32 attention heads; lower it, or set model.shape.heads too"),
        ({"name": "mixtral-8x7b", "shape": {"activeExperts": 8}}, ""),
        ({"name": "mixtral-8x7b", "shape": {"activeExperts": 9, "experts": 9}}, ""),
        ({"name": "mixtral-8x7b", "shape": {"experts": 1}}, ""),
        ({"name": "llama-3.1-8b", "shape": {"kvHeads": 32}}, ""),
        ({"name": "llama-3.1-8b", "shape": {"kvHeads": 64, "heads": 64}}, ""),
    ],
)  # fmt: skip
def test_a_part_of_a_model_is_no_more_than_the_whole(model: dict[str, Any], said: str) -> None:
    found = decision(node("n", MI300X), model={"method": "Inference", **model})
    assert [problem.message for problem in found.problems] == [said] * bool(said)
    assert (found.verdict is Verdict.MISCONFIGURED) == bool(said)
