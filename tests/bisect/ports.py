"""Tiny models of several families on disk, and their ports to plain NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from tests.architectures.tiny import enlivened
from tests.bisect.plain_decoder import Arrays, Port, Settings, planted

SIZES: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "tie_word_embeddings": False,
}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}  # fmt: skip


def saved(model: PreTrainedModel, folder: Path) -> str:
    """The model's folder, without a tokenizer: dumps bring their tokens."""
    model.save_pretrained(folder)
    return str(folder)


def llama(seed: int = 0, **more: Any) -> LlamaForCausalLM:
    """A tiny Llama with larger weights."""
    torch.manual_seed(seed)
    model = enlivened(LlamaForCausalLM(LlamaConfig(**(SIZES | more))).float().eval())
    assert isinstance(model, LlamaForCausalLM)
    return model


def llama_port(model: LlamaForCausalLM) -> tuple[Arrays, Settings]:
    """Its weights in the port's names, and its settings."""
    config = model.config
    state = {name: x.detach().numpy() for name, x in model.state_dict().items()}
    weights = {"embed": state["model.embed_tokens.weight"], "final.w": state["model.norm.weight"],
               "head.w": state["lm_head.weight"]}  # fmt: skip
    parts = {"norm1": "input_layernorm", "norm2": "post_attention_layernorm", "q": "self_attn.q_proj",
             "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj", "gate": "mlp.gate_proj",
             "up": "mlp.up_proj", "down": "mlp.down_proj"}  # fmt: skip
    for layer in range(config.num_hidden_layers):
        for own, theirs in parts.items():
            for suffix, tensor in (("w", "weight"), ("b", "bias")):
                if (x := state.get(f"model.layers.{layer}.{theirs}.{tensor}")) is not None:
                    weights[f"{layer}.{own}.{suffix}"] = x
    width = config.hidden_size // config.num_attention_heads
    frequencies = frequencies_of(dict(config.rope_parameters), width // 2)
    settings = Settings(config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads, width,
                        config.rms_norm_eps, frequencies)  # fmt: skip
    return weights, settings


def frequencies_of(rope: dict[str, Any], pairs: int) -> np.ndarray:
    """The angles of pairs at position 1, by the formulas of the papers: plain, and Llama 3's."""
    plain = rope["rope_theta"] ** (-np.arange(pairs) / pairs)
    if rope.get("rope_type", "default") == "default":
        return np.asarray(plain)
    assert rope["rope_type"] == "llama3"
    turns = rope["original_max_position_embeddings"] * plain / (2 * np.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    share = np.clip((turns - low) / (high - low), 0, 1)
    return np.asarray(share * plain + (1 - share) * plain / rope["factor"])


def dumped(file: Path, arrays: Arrays, ids: np.ndarray | None = None) -> str:
    """A dump as .npz."""
    tokens = {} if ids is None else {"tokens": ids}
    np.savez(file, **tokens, **arrays)
    return str(file)


__all__ = ["LLAMA3", "Port", "dumped", "llama", "llama_port", "planted", "saved"]
