"""Models of every kind of the catalog, built by their families' own code in Transformers with random weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import transformers as hf

CATALOG = Path(__file__).parents[2] / "operator/gpujob/catalog/data/catalog.json"
Sizes = Callable[[Any, int], dict[str, Any]]


def shapes() -> dict[str, Any]:
    """The catalog's rows by name and alias, read without the product: a machine with a GPU may lack what that needs."""
    found = {}
    for row in json.loads(CATALOG.read_text())["models"]["models"]:
        whole = {key: int(row.get(key, 0)) for key in ("layers", "hidden", "heads", "ffn", "vocabulary")}
        heads, hidden = whole["heads"], whole["hidden"]
        shape = SimpleNamespace(
            **whole, name=row["name"], kind=row.get("kind", "llama"), kv_heads=int(row.get("kvHeads", heads)),
            head_dim=int(row.get("headDim", hidden // heads)), tied=str(row.get("tied")).lower() == "true",
        )  # fmt: skip
        found |= dict.fromkeys((row["name"], *row.get("aliases", ())), shape)
    return found


def build(shape: Any, sequence: int) -> Any:
    """A model of a catalog's row, with its family's own code and defaults, for sequences of so many tokens."""
    model, config, own = FAMILIES[shape.kind]
    wide = {"hidden_size": shape.hidden, "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
            "intermediate_size": shape.ffn, "vocab_size": shape.vocabulary, "max_position_embeddings": sequence + 8,
            "tie_word_embeddings": shape.tied, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}  # fmt: skip
    sizes = wide | own(shape, sequence) | {"use_cache": False}
    # Where encoder and decoder have layers of their own, this would be another word for the encoder's.
    several = {"encoder_layers", "num_decoder_layers"} & sizes.keys()
    return model(config(**{key: value for key, value in sizes.items() if not (several and key == "num_hidden_layers")}))


def _grouped(shape: Any, sequence: int) -> dict[str, Any]:
    return {"num_key_value_heads": shape.kv_heads, "head_dim": shape.head_dim}


def _gpt2(shape: Any, sequence: int) -> dict[str, Any]:
    return {"n_embd": shape.hidden, "n_layer": shape.layers, "n_head": shape.heads, "n_positions": sequence + 8}


def _gpt_neo(shape: Any, sequence: int) -> dict[str, Any]:
    types = [[["global", "local"], shape.layers // 2]]
    return {"num_layers": shape.layers, "num_heads": shape.heads, "attention_types": types}


def _mpt(shape: Any, sequence: int) -> dict[str, Any]:
    sizes = {"d_model": shape.hidden, "n_layers": shape.layers, "n_heads": shape.heads}
    return sizes | {"max_seq_len": sequence + 8, "expansion_ratio": shape.ffn // shape.hidden}


def _two(shape: Any, sequence: int) -> dict[str, Any]:
    half = shape.layers // 2
    return {"d_model": shape.hidden, "encoder_layers": half, "decoder_layers": half,
            "encoder_ffn_dim": shape.ffn, "decoder_ffn_dim": shape.ffn,
            "encoder_attention_heads": shape.heads, "decoder_attention_heads": shape.heads}  # fmt: skip


def _t5(gated: bool) -> Sizes:
    def sizes(shape: Any, sequence: int) -> dict[str, Any]:
        half = shape.layers // 2
        return {"d_model": shape.hidden, "d_kv": shape.head_dim, "d_ff": shape.ffn, "num_layers": half,
                "num_decoder_layers": half, "num_heads": shape.heads, "decoder_start_token_id": 0,
                "feed_forward_proj": "gated-gelu" if gated else "relu"}  # fmt: skip

    return sizes


def _none(shape: Any, sequence: int) -> dict[str, Any]:
    return {}


FAMILIES: dict[str, tuple[Any, Any, Sizes]] = {
    "llama": (hf.LlamaForCausalLM, hf.LlamaConfig, _grouped),
    "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config, _grouped),
    "phi3": (hf.Phi3ForCausalLM, hf.Phi3Config, lambda s, _: {"num_key_value_heads": s.kv_heads}),
    "gemma": (hf.GemmaForCausalLM, hf.GemmaConfig, _grouped),
    "gemma2": (hf.Gemma2ForCausalLM, hf.Gemma2Config, _grouped),
    "gemma3": (hf.Gemma3ForCausalLM, hf.Gemma3TextConfig, _grouped),
    "olmo2": (hf.Olmo2ForCausalLM, hf.Olmo2Config, lambda s, _: {"num_key_value_heads": s.kv_heads}),
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config, _gpt2),
    "gpt-neo": (hf.GPTNeoForCausalLM, hf.GPTNeoConfig, _gpt_neo),
    "gpt-bigcode": (hf.GPTBigCodeForCausalLM, hf.GPTBigCodeConfig, _gpt2),
    "mpt": (hf.MptForCausalLM, hf.MptConfig, _mpt),
    "gptj": (hf.GPTJForCausalLM, hf.GPTJConfig, lambda s, n: _gpt2(s, n) | {"rotary_dim": 64}),
    "neox": (hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig, _none),
    "phi": (hf.PhiForCausalLM, hf.PhiConfig, lambda s, _: {"resid_pdrop": 0.1}),
    "falcon": (hf.FalconForCausalLM, hf.FalconConfig, lambda s, _: {"multi_query": True, "bias": False}),
    "bloom": (hf.BloomForCausalLM, hf.BloomConfig, lambda s, n: _gpt2(s, n) | {"hidden_dropout": 0.0}),
    "opt": (hf.OPTForCausalLM, hf.OPTConfig, lambda s, _: {"ffn_dim": s.ffn, "word_embed_proj_dim": s.hidden}),
    "starcoder2": (hf.Starcoder2ForCausalLM, hf.Starcoder2Config,
                   lambda s, _: {"num_key_value_heads": s.kv_heads, "residual_dropout": 0.1}),
    "bert": (hf.BertForMaskedLM, hf.BertConfig, _none),
    "bart": (hf.BartForConditionalGeneration, hf.BartConfig, _two),
    "t5": (hf.T5ForConditionalGeneration, hf.T5Config, _t5(gated=False)),
    "t5-gated": (hf.T5ForConditionalGeneration, hf.T5Config, _t5(gated=True)),
}  # fmt: skip
