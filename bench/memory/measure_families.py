"""Measures peak memory of models of every family on this machine's GPU, as `measure.py` does for those of the Llama kind.

    PYTHONPATH=. python bench/memory/measure_families.py SECONDS [MODEL...] > rows.csv    # needs torch and transformers

Every setting runs in a process of its own (three steps), until the seconds are over.
"""

from __future__ import annotations

import csv
import itertools
import multiprocessing
import sys
import time
from typing import Any

from bench.memory import families

SETTINGS = (
    # precision or Inference, batch, sequence, checkpointing
    ("BF16", 2, 1024, False), ("BF16", 4, 512, True), ("Mixed", 2, 1024, False), ("Mixed", 8, 512, True), ("FP32", 1, 512, False),
    ("Inference", 2, 2048, False), ("Inference", 8, 512, False), ("BF16", 1, 4096, False), ("BF16", 1, 4096, True),
)  # fmt: skip
MODELS = (
    "gpt-neo-1.3b", "opt-1.3b", "pythia-1.4b", "phi-1.5", "gemma-2-2b", "gemma-3-1b", "starcoder2-3b", "olmo-2-1b",
    "bloom-560m", "bert-base", "bart-large", "t5-large", "flan-t5-large", "qwen3-1.7b", "smollm2-1.7b", "roberta-large",
    "bloom-1b7", "gpt2-medium", "qwen3-0.6b", "granite-3.1-2b", "gemma-3-270m", "mt5-base", "mpt-7b", "pythia-410m",
    "gpt-neo-125m", "xlm-roberta-base", "phi-3-mini", "gpt-j-6b", "falcon-7b", "smollm2-360m",
)  # fmt: skip
COLUMNS = ("model", "precision", "batch", "sequence", "checkpointing", "params", "status",
           "peak_allocated_bytes", "peak_reserved_bytes", "driver_used_bytes")  # fmt: skip
PATIENCE = 120
"""Seconds after which a setting is given up."""


def measure(shape: Any, precision: str, batch: int, sequence: int, checkpointing: bool, queue: Any) -> None:
    """Three steps of one setting; puts (parameters, status, allocated, reserved, used) into the queue."""
    import torch

    parameters, status = 0, "ok"
    dtype = torch.bfloat16 if precision in ("BF16", "Inference") else torch.float32
    try:
        with torch.device("cuda"):
            torch.set_default_dtype(dtype)
            model = families.build(shape, sequence).train()
        torch.set_default_dtype(torch.float32)
        parameters = sum(p.numel() for p in model.parameters())
        if checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        tokens = torch.randint(0, 20000, (batch, sequence), device="cuda")
        if precision == "Inference":
            model.eval()
            with torch.no_grad():
                model(tokens, use_cache=True, logits_to_keep=1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
        for _ in range(0 if precision == "Inference" else 3):
            with torch.autocast("cuda", torch.bfloat16, enabled=precision == "Mixed"):
                loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            del loss
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    except torch.cuda.OutOfMemoryError:
        status = "oom"
    except Exception as error:  # One family's own fault stops no other.
        status = repr(error)[:120]
    free, total = torch.cuda.mem_get_info()
    queue.put((parameters, status, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), total - free))


def main(seconds: float, names: list[str]) -> None:
    """Every setting of the models, as far as the seconds reach."""
    until, known = time.monotonic() + seconds, families.shapes()
    context = multiprocessing.get_context("fork")
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(COLUMNS)
    for name, setting in itertools.product(names, SETTINGS):
        if time.monotonic() > until:
            return
        queue = context.Queue()
        process = context.Process(target=measure, args=(known[name], *setting, queue))
        process.start()
        try:
            figures = queue.get(timeout=PATIENCE)
        except Exception:
            process.kill()
            figures = (0, "given up")
        process.join()
        rows.writerow((name, *setting, *figures))
        sys.stdout.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:] or list(MODELS))
