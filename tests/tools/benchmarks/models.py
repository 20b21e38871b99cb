"""Models of well-known sizes with random weights: times and memory don't depend on what a model learned."""

import torch
from transformers import GPT2Config, GPT2Model, LlamaConfig, LlamaModel, PreTrainedModel


def model_of(size: str, positions: int) -> PreTrainedModel:
    """GPT-2 (12 layers x 12 heads) or SmolLM2-135M (30 layers x 9 heads over 3 key heads), on torch's SDPA."""
    torch.manual_seed(0)
    if size == "gpt2":
        return GPT2Model(GPT2Config(n_positions=positions, attn_implementation="sdpa")).eval()
    return LlamaModel(
        LlamaConfig(
            vocab_size=49152,
            hidden_size=576,
            intermediate_size=1536,
            num_hidden_layers=30,
            num_attention_heads=9,
            num_key_value_heads=3,
            max_position_embeddings=positions,
            attn_implementation="sdpa",
        )
    ).eval()


def tokens(n: int) -> torch.Tensor:
    return torch.randint(0, 1000, (1, n), generator=torch.Generator().manual_seed(0))
