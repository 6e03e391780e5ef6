"""The bytes of a model's weights and states for each parameter, in one line: the recipe behind an estimate's components."""

from __future__ import annotations

from gpujob.memory import model_states
from gpujob.memory.serving import cached_bytes
from gpujob.memory.workload import Workload
from gpujob.values.finding import counted
from gpujob.values.vocabulary import Checkpointing, Method, Precision, Sharding, WeightFormat


def recipe(work: Workload, nodes: int = 1, *, bf16: bool = True) -> str:
    """The method, the number format and the bytes of each parameter, in one line without the activations' figures. `nodes`: the
    number of nodes with the work's GPUs; `bf16`: whether these compute in BF16.
    """
    name = f"{work.method}, {work.precision}{' (FP16)' if work.precision is Precision.MIXED and not bf16 else ''}"
    if work.method is Method.INFERENCE:
        return (
            f"{name}: {_frozen(work)} + KV cache in {8 * cached_bytes(work)} bits of {_load(work)}{_over(work, nodes)}"
        )
    if work.adapts:
        count = f"{work.adapter_parameters:,}"
        adapters = f"{_total(_of_adapters(work))} bytes for each of {count} parameters of adapters ({_listed(_of_adapters(work))})"
        return f"{name}: {_frozen(work)}, frozen, + {adapters} + {_activations(work)}{_over(work, nodes)}"
    parts = _trained(work)
    return f"{name}: {_total(parts)} bytes a parameter ({_listed(parts)}) + {_activations(work)}{_over(work, nodes)}"


def _trained(work: Workload) -> dict[str, int]:
    """Bytes of a trained parameter by their use."""
    stored = model_states.stored_bytes(work)
    return {
        "weight": stored,
        "gradient": model_states.gradient_bytes(work),
        "32-bit weight": model_states.STORED[work.precision] if work.masters else 0,
        str(work.optimizer): model_states.state_bytes(work.optimizer, model_states.STORED[work.precision]),
    }


def _of_adapters(work: Workload) -> dict[str, int]:
    """Bytes of an adapter's parameter by their use."""
    wide = model_states.ADAPTER_BYTES
    narrow = work.compute_bytes if work.deepspeed else wide
    return {
        "weight": narrow,
        "gradient": narrow,
        "32-bit weight": wide if work.deepspeed else 0,
        str(work.optimizer): model_states.state_bytes(work.optimizer, wide),
    }


def _frozen(work: Workload) -> str:
    if work.stored:
        part, of = model_states.BYTES_OF_STORED[WeightFormat(work.stored)]
        what = (
            "a parameter of experts" if work.stored == WeightFormat.MXFP4 and work.shape.experts > 1 else "a parameter"
        )
        rest = "of all others" if what.endswith("experts") else "of embedding and head"
        return f"weights as published ({work.stored}): {_bytes(part / of)} {what}, 2 {rest}"
    if work.quantised:
        part, of = model_states.nf4(work)
        return f"{_bytes(part / of)} a parameter in 4 bits, 2 of embedding and head"
    if work.precision is Precision.FP8:
        return f"{_bytes(1)} a parameter, 2 of embedding and head"
    return f"{_bytes(model_states.stored_bytes(work))} a parameter"


def _bytes(number: float) -> str:
    """Bytes in three digits: "0.531 bytes", "1 byte"."""
    return f"{number:.3g} byte" if number == 1 else f"{number:.3g} bytes"


def _load(work: Workload) -> str:
    sequences = counted(work.concurrency or work.batch, "sequence")
    return f"{sequences} of {counted(work.cached_tokens or work.sequence, 'token')}"


def _activations(work: Workload) -> str:
    tokens = counted(work.tokens, "token")
    again = {
        Checkpointing.NONE: "",
        Checkpointing.LAYERS: ", layers computed again",
        Checkpointing.SELECTIVE: ", attention computed again",
    }
    return f"activations of {tokens}{again[work.checkpointing]}"


def _over(work: Workload, nodes: int) -> str:
    """The number of GPUs over which they are sharded."""
    if work.gpus == 1:
        return ""
    if work.parts > 1:
        return f"; tensor parallel over {counted(work.gpus // nodes, 'GPU')}{_of_nodes(nodes)}"
    return f"; {work.sharding} over {work.gpus} GPUs" if work.sharding is not Sharding.NONE else "; whole on each GPU"


def _of_nodes(nodes: int) -> str:
    return f" of each of {nodes} nodes" if nodes > 1 else ""


def _total(parts: dict[str, int]) -> int:
    return sum(parts.values())


def _listed(parts: dict[str, int]) -> str:
    return ", ".join(f"{what} {amount}" for what, amount in parts.items() if amount)
