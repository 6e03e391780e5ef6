"""Which accelerator serves or trains best by its data sheet and the job's batch: pairs whose winner was decided beforehand."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, H100, H200, L40S, MI300X, Object, decision, node

from gpujob.placement.report.behind import behind
from gpujob.placement.scoring.candidate import Decision, best_per_pool
from tests.e2e.cluster.nodes import Nvidia

H20 = Nvidia("NVIDIA-H20", 97871, "hopper", (9, 0), mig=True)
V100_16 = Nvidia("Tesla-V100-SXM2-16GB", 16384, "volta", (7, 0), mig=False)
V100_32 = Nvidia("Tesla-V100-SXM2-32GB", 32768, "volta", (7, 0), mig=False)
RTX_4090 = Nvidia("NVIDIA-GeForce-RTX-4090", 24564, "ada-lovelace", (8, 9), mig=False)
RTX_5090 = Nvidia("NVIDIA-GeForce-RTX-5090", 32607, "blackwell", (12, 0), mig=False)
RTX_6000_ADA = Nvidia("NVIDIA-RTX-6000-Ada-Generation", 49140, "ada-lovelace", (8, 9), mig=False)


def decided(one: tuple[Nvidia, str], other: tuple[Any, str], **model: Any) -> Decision:
    nodes = [node(name, gpu, price=price) for name, (gpu, price) in {"a": one, "b": other}.items()]
    return decision(*nodes, model=model, placement={"objective": "Value"})


def served(name: str, concurrency: int | None) -> Object:
    load = {"inference": {"concurrency": concurrency}} if concurrency else {}
    return {"name": name, "method": "Inference", "sequenceLength": 2048, **load}


@pytest.mark.parametrize(
    ("one", "other", "model", "winner"),
    [
        # Twice the bandwidth at the same price, and half of the TFLOPS: at 16 sequences and at one.
        ((H20, "1.50"), (A100, "1.50"), served("llama-3.1-70b", 16), "H20"),
        ((H20, "1.50"), (A100, "1.50"), served("llama-3.1-8b", 1), "H20"),
        # An L40S has a fifth of its bandwidth at half of its price.
        ((H20, "2"), (L40S, "1"), served("llama-3.1-8b", 1), "H20"),
        # Full batches are bound by products too: 2.4 times the TFLOPS at half of the price.
        ((H20, "2"), (L40S, "1"), served("llama-3.1-8b", None), "L40S"),
        ((H20, "2"), (L40S, "1"), served("llama-3.1-8b", 256), "L40S"),
        # Training never goes by bandwidth alone.
        ((H20, "2"), (A100, "1.50"), {"name": "gpt2", "batchPerGPU": 1}, "A100-80GB"),
        # 1.43 times the bandwidth and no more TFLOPS for 1.16 times the price.
        ((H200, "3.48"), (H100, "3"), served("llama-3.1-8b", 1), "H100-SXM"),
        # 1.3 times the TFLOPS and 1.8 times the bandwidth at the same price.
        ((RTX_5090, "0.50"), (RTX_4090, "0.50"), {"name": "gpt2"}, "RTX-5090"),
        ((RTX_5090, "0.50"), (RTX_4090, "0.50"), served("gpt2", 1), "RTX-5090"),
        ((RTX_6000_ADA, "1"), (L40S, "1"), {"name": "gpt2"}, "RTX-6000-Ada"),
    ],
)
def test_the_batch_decides_between_bandwidth_and_products(
    one: tuple[Nvidia, str], other: tuple[Nvidia, str], model: Object, winner: str
) -> None:
    assert decided(one, other, **model).candidates[0].pool.accelerator_id == winner


@pytest.mark.parametrize("model", [{"name": "gpt2"}, {"name": "gpt2", "method": "LoRA"}, served("gpt2", 4)])
def test_the_same_chip_with_more_memory_costs_no_more_for_the_same_work(model: Object) -> None:
    found = decided((V100_16, "0.50"), (V100_32, "0.50"), **model)
    first, second = best_per_pool(found)
    assert {first.pool.accelerator_id, second.pool.accelerator_id} == {"V100-16GB", "V100-32GB"}
    assert first.price_of_work == second.price_of_work
    assert "times as much" not in behind(second, found)


def test_the_other_vendor_s_bandwidth_counts_as_much() -> None:
    """5.3 TB/s against 3.35: at one stream and a fifth more an hour either may be better, so the cheaper hour wins; not at half."""
    one = served("llama-3.1-8b", 1)
    assert decided((H100, "3"), (MI300X, "3.60"), **one).candidates[0].pool.accelerator_id == "H100-SXM"
    assert decided((H100, "6"), (MI300X, "3.60"), **one).candidates[0].pool.accelerator_id == "MI300X"
