"""A GPT-2 of one layer whose three heads look 11 places back, and write what they were made to write."""

import torch
import transformers

from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.model_classes import stack_of
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.source import ModelSource

WORDS, PERIOD, PLACES = 24, 12, 48  # of the vocabulary, of the text until it repeats, and of it all
IDS = tuple(range(3, 3 + PERIOD)) * (PLACES // PERIOD)
COPIES, SUPPRESSES, CONSTANT = range(3)
_E, _SHARP, _WRITES = 64, 300.0, 20.0


def copying_source() -> ModelSource:
    model = copying_model()
    stack, origin = stack_of(model, model.config), Origin("copying", "copying", OriginOptions())
    return ModelSource(LoadedModel(stack, None, {"model": "copying", "type": "gpt2"}, origin, model))


@torch.no_grad()
def copying_model() -> transformers.GPT2LMHeadModel:
    """The model, whose vectors are one-hot: 24 dimensions of tokens, 48 of places."""
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_embd=3 * _E, n_layer=1, n_head=3, n_positions=PLACES, n_inner=4
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    for weights in model.parameters():
        weights.zero_()
    stack = model.transformer
    for norm in (stack.h[0].ln_1, stack.h[0].ln_2, stack.ln_f):
        norm.weight.fill_(1.0)
    stack.wte.weight[:, :WORDS] = torch.eye(WORDS)
    stack.wpe.weight[:, WORDS : WORDS + PLACES] = torch.eye(PLACES)
    attention, d = stack.h[0].attn, 3 * _E
    for head in range(3):
        for place in range(PLACES):
            back = place - (PERIOD - 1)
            if back >= 0:
                attention.c_attn.weight[WORDS + place, head * _E + back] = _SHARP / 100
            attention.c_attn.weight[WORDS + place, d + head * _E + place] = 1.0
        for word in range(WORDS):
            attention.c_attn.weight[word, 2 * d + head * _E + word] = 1.0
            to = 1 if head == CONSTANT else word
            attention.c_proj.weight[head * _E + word, to] = -_WRITES if head == SUPPRESSES else _WRITES
    return model
