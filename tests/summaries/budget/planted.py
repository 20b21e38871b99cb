"""Models of which it is known what each head needs: one planted by hand, two small ones that are trained."""

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attn_cli.prompt import Prompt, Token

WORDS, HEADS, HEAD_SIZE = 48, 11, 64
COPIES, BACK, NEAR = 4, 500, 8
"""The head that copies from 500 back; the ten others look 8 back."""
_SHARP = 60.0


def planted_model() -> LlamaForCausalLM:
    """A layer of 11 heads: head 4 reads the token 500 before the next one and writes it, the others read 8 back.

    A vector is a token as one of 48, a constant, and 48 numbers that are written. Queries and keys are made of the
    constant alone, so that rotary positions alone decide how far a head looks.
    """
    width = 9 * HEADS  # of which 2 * WORDS + 1 are used
    written = slice(WORDS + 1, 2 * WORDS + 1)
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=width, intermediate_size=4, num_hidden_layers=1, num_attention_heads=HEADS,
        num_key_value_heads=HEADS, head_dim=HEAD_SIZE, max_position_embeddings=4096, tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    half = HEAD_SIZE // 2
    turns = model.model.rotary_emb.inv_freq
    with torch.no_grad():
        for weights in model.parameters():
            weights.zero_()
        model.model.embed_tokens.weight[:, :WORDS] = torch.eye(WORDS)
        model.model.embed_tokens.weight[:, WORDS] = 1
        for norm in (model.model.layers[0].input_layernorm, model.model.layers[0].post_attention_layernorm,
                     model.model.norm):  # fmt: skip
            norm.weight.fill_(1)
        attention = model.model.layers[0].self_attn
        for head in range(HEADS):
            at, angle = head * HEAD_SIZE, turns * (BACK - 1 if head == COPIES else NEAR)
            # the key is turned by its place, the query by its own less the distance
            attention.k_proj.weight[at : at + half, WORDS] = 1
            attention.q_proj.weight[at : at + half, WORDS] = _SHARP * angle.cos() / 8
            attention.q_proj.weight[at + half : at + HEAD_SIZE, WORDS] = -_SHARP * angle.sin() / 8
            attention.v_proj.weight[at : at + WORDS, :WORDS] = torch.eye(WORDS)
            strength = 3.0 if head == COPIES else 0.03
            attention.o_proj.weight[written, at : at + WORDS] = strength * torch.eye(WORDS)
        model.lm_head.weight[:, written] = 2 * torch.eye(WORDS)
    return model


def repeated_words(tokens: int, period: int = BACK, words: int = WORDS, seed: int = 0) -> list[int]:
    """Random words that come again after `period`."""
    once = np.random.default_rng(seed).integers(0, words, period)
    return np.resize(once, tokens).tolist()


def prompt_of_ids(ids: list[int]) -> Prompt:
    """Tokens without a text."""
    return Prompt("", tuple(Token(at, str(number), number) for at, number in enumerate(ids)))


def trained_to_repeat(steps: int = 600) -> tuple[LlamaForCausalLM, list[int]]:
    """A model of 2 layers of 4 heads trained on 64 words that come again after 8 to 32, and a text of such."""

    def batch(draw: np.random.Generator) -> torch.Tensor:
        return torch.tensor(np.stack([np.resize(draw.integers(0, 32, draw.integers(8, 33)), 64) for _ in range(32)]))

    return _trained(32, steps, batch), np.resize(np.random.default_rng(9).integers(0, 32, 24), 64).tolist()


def trained_on_letters(text: str, steps: int = 250) -> tuple[LlamaForCausalLM, list[int]]:
    """A model of 2 layers of 4 heads trained on 192 letters of a text at a time, and 192 letters of its end."""
    ids = np.frombuffer(text.encode("ascii", "ignore"), dtype=np.uint8).astype(np.int64)

    def batch(draw: np.random.Generator) -> torch.Tensor:
        starts = draw.integers(0, len(ids) - 400, 8)
        return torch.tensor(np.stack([ids[start : start + 192] for start in starts]))

    return _trained(128, steps, batch), ids[-192:].tolist()


def _trained(words: int, steps: int, batch) -> LlamaForCausalLM:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=words, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=2048,
    )  # fmt: skip
    model, draw = LlamaForCausalLM(config), np.random.default_rng(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 50)
        ids = batch(draw)
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()
