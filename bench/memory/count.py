"""Counts the peak of a training step without a GPU: PyTorch and Transformers run on fake tensors, which have a size and no memory.

    PYTHONPATH=.:operator python bench/memory/count.py [MODEL...] > counted.csv        # needs torch and transformers

Every tensor that an operation makes counts until it is freed, so what autograd keeps is what the models' own code keeps;
what PyTorch's allocator holds for them is played through in the same order (`allocator`).
Three things stand for the GPU's kernels, since the fake tensors are the CPU's: attention keeps what a fused kernel keeps,
dropout a mask of bytes, and autocast casts by CUDA's lists (docs of torch.amp). cuBLAS's workspaces are added. On rows
that an H100 measured this is exact within 1 % (README.md).
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import math
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import transformers as hf
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from transformers import masking_utils
from transformers.integrations import sdpa_attention

from bench.memory.allocator import Allocator, Block
from bench.memory.families import build, shapes
from gpujob.memory.phases import WORKSPACE

SETTINGS = (
    # precision, optimizer, batch, sequence, checkpointing
    ("BF16", "AdamW", 2, 1024, False),
    ("BF16", "AdamW", 8, 512, True),
    ("BF16", "AdamWForeach", 1, 512, True),
    ("Mixed", "AdamW", 4, 512, False),
    ("FP32", "AdamW", 1, 1024, False),
)
MODELS = (
    "opt-1.3b", "phi-2", "pythia-1.4b", "bloom-1b7", "gemma-2-2b", "gemma-3-1b", "phi-3-mini", "starcoder2-3b", "olmo-2-1b",
    "gpt2-large", "bert-large", "roberta-large", "bart-large",
    "qwen3-1.7b", "qwen2.5-7b", "mistral-7b", "llama-2-13b", "gemma-2b",
)  # fmt: skip
COLUMNS = (
    "model",
    "method",
    "precision",
    "optimizer",
    "batch",
    "sequence",
    "checkpointing",
    "peak",
    "held",
    "counted on",
)


class Allocated(TorchDispatchMode):
    """All tensors that live, in the blocks of an allocator. cuBLAS's two workspaces come first."""

    def __init__(self) -> None:
        super().__init__()
        self.allocator = Allocator()
        self._blocks: dict[int, Block] = {}
        for _ in range(2):
            self.allocator.make(WORKSPACE)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self._add(tensor.untyped_storage())
        return out

    def _add(self, storage: Any) -> None:
        key = storage._cdata
        if key not in self._blocks and storage.nbytes():
            self._blocks[key] = self.allocator.make(storage.nbytes())
            weakref.finalize(storage, self._drop, key)

    def _drop(self, key: int) -> None:
        self.allocator.drop(self._blocks.pop(key))


NARROW = {
    functional.linear, torch.matmul, torch.Tensor.matmul, torch.bmm, torch.addmm, torch.baddbmm, torch.Tensor.baddbmm,
}  # fmt: skip
WIDE = {
    functional.layer_norm, functional.softmax, torch.softmax, functional.log_softmax, functional.cross_entropy,
    functional.nll_loss, torch.pow, torch.Tensor.pow, torch.rsqrt, torch.exp, torch.sum, torch.Tensor.sum,
}  # fmt: skip


class Autocast(TorchFunctionMode):
    """torch.autocast("cuda", torch.bfloat16): casts by the operation, and keeps a copy of each weight until it ends."""

    active: Autocast | None = None

    def __init__(self) -> None:
        super().__init__()
        self._copies: dict[int, Any] = {}

    def __enter__(self) -> Any:
        self._outer, Autocast.active = Autocast.active, self
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        Autocast.active = self._outer
        self._copies.clear()
        super().__exit__(*exc)

    def narrow(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
            return value
        if not (value.is_leaf and value.requires_grad):
            return value.bfloat16()
        if id(value) not in self._copies:
            self._copies[id(value)] = value.bfloat16()
        return self._copies[id(value)]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in NARROW:
            args, kwargs = tree_map(self.narrow, args), tree_map(self.narrow, kwargs)
        elif func in WIDE:
            args = tree_map(
                lambda x: x.float() if isinstance(x, torch.Tensor) and x.dtype == torch.bfloat16 else x, args
            )
        return func(*args, **kwargs)


class Fused(torch.autograd.Function):
    """What a fused attention kernel keeps: queries, keys, values, output and 32 bits for each head and token."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any) -> Any:
        out = _like(query, value.shape[3])
        ctx.save_for_backward(query, key, value, out, torch.empty(query.shape[:3], dtype=torch.float32))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return tuple(_like(each, each.shape[3]) for each in ctx.saved_tensors[:3])


def _like(tensor: Any, width: int) -> Any:
    batch, heads, tokens, _ = tensor.shape
    return torch.empty(batch, tokens, heads, width, dtype=tensor.dtype).transpose(1, 2)


def attention(query: Any, key: Any, value: Any, enable_gqa: bool = False, **_: Any) -> Any:
    """scaled_dot_product_attention; for grouped queries in 32 bits, and for one head of keys that is broadcast, there is no
    fused kernel: PyTorch's own steps compute in 32 bits."""
    if Autocast.active:
        query, key, value = (Autocast.active.narrow(each) for each in (query, key, value))
    if key.shape[1] == query.shape[1] or (enable_gqa and query.dtype != torch.float32):
        return Fused.apply(query, key, value)
    if enable_gqa:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    dtype, root = query.dtype, math.sqrt(query.shape[-1] ** -0.5)
    query, key, value = query.float(), key.float(), value.float()
    return (torch.softmax((query * root) @ (key * root).transpose(-1, -2), -1) @ value).to(dtype)


class Masked(torch.autograd.Function):
    """Dropout, which keeps a mask of bytes."""

    @staticmethod
    def forward(ctx: Any, given: Any) -> Any:
        ctx.save_for_backward(torch.empty(given.shape, dtype=torch.bool))
        return torch.empty_like(given)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return torch.empty_like(grads[0])


def as_on_a_gpu() -> None:
    """Puts the stand-ins in the place of the CPU's kernels."""
    functional.scaled_dot_product_attention = attention  # type: ignore[assignment]
    functional.dropout = lambda given, p=0.5, training=True, inplace=False: (  # type: ignore[assignment]
        Masked.apply(given) if training and p else given
    )
    sdpa_attention.use_gqa_in_sdpa = lambda mask, key, *_: mask is None and key.shape[-1] <= 256
    masking_utils.find_packed_sequence_indices = lambda *_, **__: None


def peak(shape: Any, precision: str, optimizer: str, batch: int, sequence: int, checkpointing: bool) -> tuple[int, int]:
    """The most bytes that tensors take in three steps, and the most that the allocator holds for them."""
    dtype = torch.bfloat16 if precision == "BF16" else torch.float32
    region: Callable[[], Any] = Autocast if precision == "Mixed" else contextlib.nullcontext
    with FakeTensorMode(allow_non_fake_inputs=True), Allocated() as allocated:
        torch.set_default_dtype(dtype)
        model = build(shape, sequence).train()
        torch.set_default_dtype(torch.float32)
        for parameter in model.parameters():
            parameter.data = parameter.data.to(dtype)
        if checkpointing:
            again = {"use_reentrant": False, "context_fn": lambda: (contextlib.nullcontext(), region())}
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=again)
        fused = optimizer == "AdamW"
        stepper = torch.optim.AdamW(model.parameters(), fused=fused, foreach=not fused)
        tokens = torch.zeros((batch, sequence), dtype=torch.long)
        for _ in range(3):
            with region():
                loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            del loss
            stepper.step()
            stepper.zero_grad(set_to_none=True)
    return allocated.allocator.most_used, allocated.allocator.most_held


def counted(names: list[str]) -> Iterator[tuple[Any, ...]]:
    """Every setting of the models."""
    version = f"PyTorch {torch.__version__.partition('+')[0]}, Transformers {hf.__version__}"
    known = shapes()
    for name, setting in itertools.product(names, SETTINGS):
        precision, optimizer, batch, sequence, checkpointing = setting
        used, held = peak(known[name], *setting)
        kept = "Layers" if checkpointing else "None"
        yield name, "Full", precision, optimizer, batch, sequence, kept, used, held, version


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    hf.logging.set_verbosity_error()
    as_on_a_gpu()
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(COLUMNS)
    for row in counted(sys.argv[1:] or list(MODELS)):
        rows.writerow(row)
        sys.stdout.flush()
