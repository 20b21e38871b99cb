"""A model that looks facts up by hand-set weights, and traces of which it is known what each sentence rests on."""

from typing import NamedTuple

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attn_cli.prompt import Generated, Prompt, Token
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.parts.text_parts import TextPart

FACTS, VALUES, FILLERS = 24, 8, 40
_ASKS = FACTS * VALUES  # the first token that asks for a fact; before it those that tell one
_ANSWERS = _ASKS + FACTS
_FILLERS = _ANSWERS + VALUES
_START = _FILLERS + FILLERS  # the first token, which all rest on that ask nothing
_WORDS = _START + 1
_HALF, _STILL = 64, 32  # columns of half a head; those from `_STILL` on turn by less than 0.01 in 10,000 tokens


class PlantedTrace(NamedTuple):
    """A trace, its sentences, and the pairs (later sentence, the one it rests on)."""

    prompt: Prompt
    parts: list[TextPart]
    rests: set[tuple[int, int]]


def planted_trace(sentences: int, length: int, seed: int = 0) -> PlantedTrace:
    """Sentences of fillers; in the first half some tell a fact, later ones ask for one that was told, and answer it."""
    random = np.random.default_rng(seed)
    ids = random.integers(_FILLERS, _START, (sentences, length))
    ids[0, 0] = _START
    tellers = sorted(
        random.choice(np.arange(1, sentences // 2 + 1), min(FACTS, sentences // 4), replace=False).tolist()
    )
    values = random.integers(0, VALUES, len(tellers))
    for fact, teller in enumerate(tellers):
        ids[teller, random.integers(0, length)] = fact * VALUES + values[fact]
    rests = set()
    for later in range(sentences // 2 + 2, sentences):
        if later % 3 == 0 or later == sentences - 1:
            fact = int(random.integers(len(tellers)))
            place = int(random.integers(0, length - 1))
            ids[later, place : place + 2] = _ASKS + fact, _ANSWERS + values[fact]
            rests.add((later, tellers[fact]))
    tokens = tuple(Token(at, str(id), id, generated=at >= length) for at, id in enumerate(ids.ravel().tolist()))
    prompt = Prompt("", tokens, generated=Generated("", len(tokens) - length, False, 0, given=True))
    parts = [
        TextPart(f"sentence {at + 1}", (), tuple(range(at * length, (at + 1) * length))) for at in range(sentences)
    ]
    return PlantedTrace(prompt, parts, rests)


def planted_source(tokens: int) -> ModelSource:
    """A layer of 2 heads: the first gives a token that asks the value told; all else rests on the first token."""
    width, heads = 2 * FACTS + 2 * VALUES + 8, 2  # the last columns: of the first token, and of all
    asked, value, written = (
        FACTS,
        2 * FACTS,
        2 * FACTS + VALUES,
    )  # columns: told fact, asked fact, its value, what is read
    config = LlamaConfig(
        vocab_size=_WORDS, hidden_size=width, intermediate_size=4, num_hidden_layers=1, num_attention_heads=heads,
        num_key_value_heads=heads, head_dim=2 * _HALF, max_position_embeddings=tokens, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 1e12},
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, weights in model.named_parameters():
            weights.fill_(1.0 if "norm" in name else 0.0)
        vectors, attention = model.model.embed_tokens.weight, model.model.layers[0].self_attn
        vectors[_START, -2] = vectors[:, -1] = 1
        for fact in range(FACTS):
            vectors[fact * VALUES : (fact + 1) * VALUES, fact] = 1
            vectors[fact * VALUES : (fact + 1) * VALUES, value : value + VALUES] = torch.eye(VALUES)
            vectors[_ASKS + fact, asked + fact] = 1
        attention.q_proj.weight[_HALF - 1, -1] = attention.k_proj.weight[_HALF - 1, -2] = 8
        still = slice(_STILL, _STILL + FACTS)
        attention.q_proj.weight[still, asked : asked + FACTS] = 20 * torch.eye(FACTS)
        attention.k_proj.weight[still, :FACTS] = 20 * torch.eye(FACTS)
        for head in range(heads):
            columns = slice(head * 2 * _HALF, head * 2 * _HALF + VALUES)
            attention.v_proj.weight[columns, value : value + VALUES] = torch.eye(VALUES)
        attention.o_proj.weight[written : written + VALUES, :VALUES] = 3 * torch.eye(VALUES)
        model.lm_head.weight[_ANSWERS : _ANSWERS + VALUES, written : written + VALUES] = 4 * torch.eye(VALUES)
    origin = Origin("planted", "planted", OriginOptions())
    return ModelSource(LoadedModel(model.model, None, {"model": "planted", "type": "llama"}, origin, model))
