"""Ports to plain NumPy of tiny models of six families: their weights in the port's names, and the port's settings."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import transformers
from transformers import PreTrainedModel

from tests.architectures.tiny import enlivened
from tests.bisect.plain_decoder import Arrays, Settings
from tests.bisect.ports import LLAMA3, SIZES, frequencies_of, llama_port

_NO_GROUPS = {name: size for name, size in SIZES.items() if name != "num_key_value_heads"}
_GPT2 = {"vocab_size": 64, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64, "bos_token_id": 0,
         "eos_token_id": 0}  # fmt: skip
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {**SIZES, "rope_parameters": LLAMA3}),
    "gpt2": ("GPT2", {**_GPT2, "tie_word_embeddings": True}),
    "gemma2": ("Gemma2", {**SIZES, "head_dim": 8, "query_pre_attn_scalar": 24, "sliding_window": 6,
                          "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {**SIZES, "head_dim": 8}),
    "gpt_neox": ("GPTNeoX", {**_NO_GROUPS, "rotary_pct": 0.5, "use_parallel_residual": True}),
    "mixtral": ("Mixtral", {**SIZES, "num_local_experts": 4, "num_experts_per_tok": 2}),
}  # fmt: skip
_MODELS = {"GPT2": "GPT2LMHeadModel"}
"""The class of every family, and the settings of the tiny model."""


def tiny(family: str, seed: int = 0) -> PreTrainedModel:
    """A tiny model with larger weights."""
    cls, settings = FAMILIES[family]
    torch.manual_seed(seed)
    config = getattr(transformers, f"{cls}Config")(**settings)
    config._attn_implementation = "eager"
    made = getattr(transformers, _MODELS.get(cls, f"{cls}ForCausalLM"))(config)
    model: PreTrainedModel = enlivened(made.float().eval())
    return model


def port_of(family: str, model: Any) -> tuple[Arrays, Settings]:
    """The weights in the port's names, and the port's settings."""
    made: tuple[Arrays, Settings] = {"gpt2": _gpt2, "gpt_neox": _gpt_neox}.get(family, _like_llama)(model)
    return made


def _like_llama(model: Any) -> tuple[Arrays, Settings]:
    """Of Llama and the families that add to it."""
    config, parts = model.config, {}
    weights, settings = llama_port(model)
    state = {name: x.detach().numpy() for name, x in model.state_dict().items()}
    more: dict[str, Any] = {}
    if config.model_type == "gemma2":
        parts = {"norm2": "pre_feedforward_layernorm", "after1": "post_attention_layernorm",
                 "after2": "post_feedforward_layernorm"}  # fmt: skip
        windows = tuple(6 if kind == "sliding_attention" else 0 for kind in config.layer_types)
        more = {"plus_one": True, "after_norms": True, "softcap": config.attn_logit_softcapping, "windows": windows,
                "logit_softcap": config.final_logit_softcapping, "scale": config.query_pre_attn_scalar**-0.5,
                "embedding_scale": config.hidden_size**0.5, "activation": "gelu_tanh"}  # fmt: skip
    if config.model_type == "qwen3":
        parts, more = {"q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm"}, {"qk_norm": True}
    if config.model_type == "mixtral":
        parts, more = {"router": "mlp.gate"}, {"experts": config.num_experts_per_tok}
    for layer in range(config.num_hidden_layers):
        for own, theirs in parts.items():
            weights[f"{layer}.{own}.w"] = state[f"model.layers.{layer}.{theirs}.weight"]
        if config.model_type == "mixtral":
            weights[f"{layer}.experts.in"] = state[f"model.layers.{layer}.mlp.experts.gate_up_proj"]
            weights[f"{layer}.experts.out"] = state[f"model.layers.{layer}.mlp.experts.down_proj"]
    return weights, _with(settings, more)


def _with(settings: Settings, more: Mapping[str, Any]) -> Settings:
    return Settings(**{**vars(settings), **more})


def _gpt2(model: Any) -> tuple[Arrays, Settings]:
    config = model.config
    state = {name: x.detach().numpy() for name, x in model.state_dict().items()}
    weights = {"embed": state["transformer.wte.weight"], "positions": state["transformer.wpe.weight"],
               "final.w": state["transformer.ln_f.weight"], "final.b": state["transformer.ln_f.bias"]}  # fmt: skip
    for layer in range(config.n_layer):
        at = f"transformer.h.{layer}"
        for own, theirs in (("norm1", "ln_1"), ("norm2", "ln_2")):
            weights[f"{layer}.{own}.w"], weights[f"{layer}.{own}.b"] = (
                state[f"{at}.{theirs}.{name}"] for name in ("weight", "bias")
            )
        for own, theirs in (("o", "attn.c_proj"), ("up", "mlp.c_fc"), ("down", "mlp.c_proj")):
            weights[f"{layer}.{own}.w"] = state[f"{at}.{theirs}.weight"].T
            weights[f"{layer}.{own}.b"] = state[f"{at}.{theirs}.bias"]
        joint, bias = state[f"{at}.attn.c_attn.weight"].T, state[f"{at}.attn.c_attn.bias"]
        for own, w, b in zip("qkv", np.split(joint, 3), np.split(bias, 3), strict=True):
            weights[f"{layer}.{own}.w"], weights[f"{layer}.{own}.b"] = w, b
    width = config.n_embd // config.n_head
    settings = Settings(config.n_layer, config.n_head, config.n_head, width, config.layer_norm_epsilon,
                        norm="layer", activation="gelu_tanh")  # fmt: skip
    return weights, settings


def _gpt_neox(model: Any) -> tuple[Arrays, Settings]:
    config = model.config
    state = {name: x.detach().numpy() for name, x in model.state_dict().items()}
    weights = {"embed": state["gpt_neox.embed_in.weight"], "head.w": state["lm_head.weight"],
               "final.w": state["gpt_neox.final_layer_norm.weight"],
               "final.b": state["gpt_neox.final_layer_norm.bias"]}  # fmt: skip
    heads, width = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    parts = {"norm1": "input_layernorm", "norm2": "post_attention_layernorm", "o": "attention.dense",
             "up": "mlp.dense_h_to_4h", "down": "mlp.dense_4h_to_h"}  # fmt: skip
    for layer in range(config.num_hidden_layers):
        at = f"gpt_neox.layers.{layer}"
        for own, theirs in parts.items():
            weights[f"{layer}.{own}.w"] = state[f"{at}.{theirs}.weight"]
            weights[f"{layer}.{own}.b"] = state[f"{at}.{theirs}.bias"]
        joint = state[f"{at}.attention.query_key_value.weight"].reshape(heads, 3, width, -1)  # head by head
        bias = state[f"{at}.attention.query_key_value.bias"].reshape(heads, 3, width)
        for number, own in enumerate("qkv"):
            weights[f"{layer}.{own}.w"] = joint[:, number].reshape(heads * width, -1)
            weights[f"{layer}.{own}.b"] = bias[:, number].reshape(-1)
    rope = dict(config.rope_parameters)
    pairs = int(width * config.rope_parameters["partial_rotary_factor"]) // 2
    settings = Settings(config.num_hidden_layers, heads, heads, width, config.layer_norm_eps,
                        frequencies_of(rope, pairs), norm="layer", activation="gelu", parallel=True)  # fmt: skip
    return weights, settings


Plan = Callable[[Settings], bool]
MISTAKES: dict[str, Plan] = {
    "scale-missing": lambda s: True,
    "scale-twice": lambda s: True,
    "scale-of-width": lambda s: True,
    "groups-tiled": lambda s: 1 < s.groups < s.heads,
    "heads-joined-by-reshape": lambda s: True,
    "mask-missing": lambda s: not any(s.windows),
    "rotary-missing": lambda s: s.frequencies is not None,
    "rotary-base": lambda s: s.frequencies is not None,
    "rotary-positions+1": lambda s: s.frequencies is not None,
    "rotary-backwards": lambda s: s.frequencies is not None,
    "rotary-pairs": lambda s: s.frequencies is not None,
    "softcap-missing": lambda s: s.softcap > 0,
    "softcap-uninvited": lambda s: s.softcap == 0,
    "window-wide": lambda s: any(s.windows),
    "window-narrow": lambda s: any(s.windows),
    "window-of-other-layers": lambda s: any(s.windows) and not all(s.windows),
    "qk-norm-missing": lambda s: s.qk_norm,
    "qk-norm-after-rotary": lambda s: s.qk_norm,
    "qkv-order": lambda s: True,
    "biases-missing": lambda s: s.norm == "layer",
    "norm-eps": lambda s: True,
    "norm-kind": lambda s: True,
    "norm-plus-one-missing": lambda s: s.plus_one,
    "norms-behind": lambda s: not s.parallel and not s.after_norms,
    "after-norm-missing": lambda s: s.after_norms,
    "activation": lambda s: s.activation != "gelu_tanh",
    "gate-up-swapped": lambda s: s.activation == "silu",
    "experts-not-normalised": lambda s: s.experts > 0,
    "experts-next": lambda s: s.experts > 0,
    "embedding-scale-missing": lambda s: s.embedding_scale != 1,
    "positions+1": lambda s: s.frequencies is None,
    "tokens+1": lambda s: True,
    "final-norm-missing": lambda s: True,
    "logit-softcap-missing": lambda s: s.logit_softcap > 0,
    "logits-centred": lambda s: True,
}
"""The mistakes of the port that the register has, and the settings in which each is one."""

NAMES = {"norm-eps": ("norm-epsilon", "final-norm-epsilon"), "after-norm-missing": ("norm-missing",),
         "biases-missing": ("biases-missing", "bias-missing")}  # fmt: skip
"""What these are called in the register, where not the same."""

OUTSIDE = ("outside: residual shrinks", "outside: a head of v is doubled", "outside: a query head is negated",
           "outside: every third key is not seen", "outside: activations are clipped")  # fmt: skip
"""Mistakes that no register has."""
