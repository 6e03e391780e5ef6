"""Measures peak memory of training and inference on this machine's GPU: rows for `measured/`, printed as CSV.

    python bench/memory/measure.py > rows.csv        # one GPU; needs torch and transformers

Models are built with random weights from their sizes, so nothing is downloaded. Every setting runs in a process of
its own (three steps), since memory that the allocator holds from an earlier one would be counted too.
"""

from __future__ import annotations

import csv
import itertools
import multiprocessing
import os
import sys
from typing import Any

LLAMA: dict[str, tuple[Any, ...]] = {
    # layers, hidden, heads, kv heads, ffn, vocabulary, tied
    "llama-3.2-1b": (16, 2048, 32, 8, 8192, 128256, True),
    "qwen2.5-1.5b": (28, 1536, 12, 2, 8960, 151936, True),
    "llama-2-7b": (32, 4096, 32, 32, 11008, 32000, False),
    "tinyllama-1.1b": (22, 2048, 32, 4, 5632, 32000, False),
    "qwen2.5-3b": (36, 2048, 16, 2, 11008, 151936, True),
    "mistral-7b": (32, 4096, 32, 8, 14336, 32000, False),
}
GPT = {"gpt2-large": (36, 1280, 20, 50257)}
METHODS = ("inference", "lora", "full-bf16", "full-mixed", "full-fp32")
SETTINGS = ((1, 2048), (4, 2048), (8, 1024), (2, 1024), (1, 512))
COLUMNS = ("model", "params", "method", "sharding", "gpus", "batch", "seq", "checkpointing", "status",
           "peak_allocated_bytes", "peak_reserved_bytes", "driver_used_bytes")  # fmt: skip


def build(name: str) -> Any:
    """A model with random weights."""
    import transformers as hf

    if name in GPT:
        layers, hidden, heads, vocabulary = GPT[name]
        sizes = {"n_layer": layers, "n_embd": hidden, "n_head": heads, "vocab_size": vocabulary, "n_positions": 8192}
        off = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        return hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, **off))
    layers, hidden, heads, keys, ffn, vocabulary, tied = LLAMA[name]
    return hf.LlamaForCausalLM(
        hf.LlamaConfig(
            num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=keys,
            intermediate_size=ffn, vocab_size=vocabulary, tie_word_embeddings=tied, max_position_embeddings=8192,
        )
    )  # fmt: skip


def add_adapters(model: Any, rank: int, targets: tuple[str, ...]) -> None:
    """Freezes a model and adds low-rank adapters in 32 bits, as PEFT does over 16-bit weights."""
    import torch

    class Adapter(torch.nn.Module):
        def __init__(self, base: Any) -> None:
            super().__init__()
            self.base = base
            self.down = torch.nn.Linear(base.in_features, rank, bias=False, dtype=torch.float32)
            self.up = torch.nn.Linear(rank, base.out_features, bias=False, dtype=torch.float32)

        def forward(self, x: Any) -> Any:
            return self.base(x) + self.up(self.down(x.float())).to(x.dtype)

    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in targets:
                setattr(module, name, Adapter(child).to(next(child.parameters()).device))


def measure(name: str, method: str, batch: int, sequence: int, checkpointing: bool, queue: Any) -> None:
    """Three steps of one setting; puts (parameters, status, allocated, reserved, used) into the queue."""
    import torch

    device = torch.device("cuda")
    dtype = torch.float32 if method in ("full-mixed", "full-fp32") else torch.bfloat16
    parameters = 0
    try:
        with torch.device(device):
            torch.set_default_dtype(dtype)
            model = build(name)
        parameters = sum(p.numel() for p in model.parameters())
        torch.set_default_dtype(torch.float32)
        tokens = torch.randint(0, 30000, (batch, sequence), device=device)
        if method == "inference":
            with torch.no_grad():
                for _ in range(3):
                    model(tokens, use_cache=True, logits_to_keep=1)
        else:
            train(model, method, tokens, checkpointing)
        status = "ok"
    except torch.cuda.OutOfMemoryError:
        status = "oom"
    free, total = torch.cuda.mem_get_info()
    peak = (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), total - free)
    queue.put((parameters, status, *(peak if status == "ok" else ("", "", ""))))


def train(model: Any, method: str, tokens: Any, checkpointing: bool) -> None:
    """Three steps with a fused AdamW."""
    import torch

    if method.startswith("lora"):
        every = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
        add_adapters(model, *((64, every) if method == "lora-all-64" else (16, ("q_proj", "v_proj"))))
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
    for _ in range(3):
        with torch.autocast("cuda", torch.bfloat16, enabled=method == "full-mixed"):
            loss = model(tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def main(only: list[str]) -> None:
    """Every setting, or those of the models that are named."""
    import transformers  # noqa: F401  # read once, before the processes part

    context = multiprocessing.get_context("fork")
    rows = csv.writer(sys.stdout)
    rows.writerow(COLUMNS)
    for (batch, sequence), name, method in itertools.product(SETTINGS, [*GPT, *LLAMA], (*METHODS, "lora-all-64")):
        choices = (False,) if method == "inference" else (True, False)
        for checkpointing in choices:
            if (only and name not in only) or (name in GPT and method.startswith("lora")):
                continue
            queue = context.Queue()
            process = context.Process(target=measure, args=(name, method, batch, sequence, checkpointing, queue))
            process.start()
            parameters, *figures = queue.get()
            process.join()
            rows.writerow((name, parameters, method, "none", 1, batch, sequence, checkpointing, *figures))
            sys.stdout.flush()


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main(sys.argv[1:])
