"""The attention call of scores that somebody computed, without queries and keys."""

import numpy as np

from attn_cli.call import Place
from attn_cli.errors import InputError
from attn_cli.kernel.definition.masks import Causal, Open
from attn_cli.kernel.definition.rule import UnknownRule
from attn_cli.kernel.definition.softmax import softmax
from attn_cli.prompt import Token
from attn_cli.weights_call import WeightsCall


def call_of_scores(layer: int, scores: np.ndarray, tokens: tuple[Token, ...]) -> WeightsCall:
    """The attention of a layer whose scores `[h, n, n]` alone are known, -inf where masked.

    Its mask is causal if all scores of later keys are -inf, else none. InputError for NaN and +inf among the scores.
    """
    if np.isnan(scores).any() or np.isposinf(scores).any():
        raise InputError(f"the scores of layer {layer} hold NaN or Inf", "does the dump hold what its engine computed?")
    heads = tuple(range(len(scores)))
    ahead = scores[:, *np.triu_indices(len(tokens), 1)]
    mask = Causal() if len(tokens) > 1 and bool(np.isneginf(ahead).all()) else Open()
    place = Place(layer, f"layer {layer}", heads, heads)
    return WeightsCall(softmax(scores), scores, place, tokens, tokens, UnknownRule(mask=mask))
