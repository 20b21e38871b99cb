"""Tiny models with random weights, made in memory from their configuration classes."""

from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

SMALL = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "max_position_embeddings": 64}  # fmt: skip
GROUPED = SMALL | {"num_key_value_heads": 2, "head_dim": 8}

# kind: (model class, configuration class, what the configuration says)
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertModel", "BertConfig", SMALL),
    "gpt2": ("GPT2Model", "GPT2Config", {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "llama": ("LlamaModel", "LlamaConfig", GROUPED),
    "mistral": ("MistralModel", "MistralConfig", GROUPED | {"sliding_window": 4}),
    "gemma2": ("Gemma2Model", "Gemma2Config",
               GROUPED | {"attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 8, "sliding_window": 4}),
    "gemma3": ("Gemma3TextModel", "Gemma3TextConfig",
               GROUPED | {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}),
    "gpt_oss": ("GptOssModel", "GptOssConfig",
                GROUPED | {"sliding_window": 4, "num_local_experts": 2, "num_experts_per_tok": 1}),
    "modernbert": ("ModernBertModel", "ModernBertConfig",
                   SMALL | {"local_attention": 6, "global_attn_every_n_layers": 2, "pad_token_id": 0}),
    "gpt_neox": ("GPTNeoXModel", "GPTNeoXConfig", SMALL),
    "t5": ("T5Model", "T5Config",
           {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 2,
            "num_heads": 4, "decoder_start_token_id": 0}),
    "bart": ("BartModel", "BartConfig",
             {"vocab_size": 64, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
              "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
              "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
              "decoder_start_token_id": 2, "forced_eos_token_id": None}),
    "t5gemma": ("T5GemmaModel", "T5GemmaConfig", {}),
}  # fmt: skip


def tiny(kind: str, seed: int = 0, strength: float = 12.0) -> PreTrainedModel:
    """A model of that kind in evaluation mode, on eager attention; equal seeds give equal weights."""
    model_class, config_class, options = KINDS[kind]
    torch.manual_seed(seed)
    if kind == "t5gemma":
        part = transformers.T5GemmaModuleConfig(
            **GROUPED, sliding_window=4, attn_logit_softcapping=2.0, query_pre_attn_scalar=8
        )
        options = {"encoder": part.to_dict(), "decoder": part.to_dict(), "vocab_size": 64}
    config = getattr(transformers, config_class)(**options)
    config._attn_implementation = "eager"
    model: PreTrainedModel = getattr(transformers, model_class)(config).eval()
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if any(
                part in name for part in ("q_proj", "k_proj", "query", "key", "c_attn", "Wqkv", "qkv", ".q.", ".k.")
            ):
                weights.mul_(strength)
            if "q_norm" in name or "k_norm" in name:  # they undo the size of q and k, and are 1 + weight
                weights.add_(2)
            if "sinks" in name:
                weights.copy_(torch.tensor([2.0, 0.0, -1.0, 4.0]))
            if "relative_attention_bias" in name:
                weights.normal_(0, 2)
    return model


def sentence(model: PreTrainedModel, n: int = 11, texts: int = 1, seed: int = 1) -> dict[str, torch.Tensor]:
    """Token numbers `[texts, n]`, and shorter ones for the decoder of a model that has both."""
    generator = torch.Generator().manual_seed(seed)
    inputs = {"input_ids": torch.randint(3, 64, (texts, n), generator=generator)}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.randint(3, 64, (texts, n - 4), generator=generator)
    return inputs
