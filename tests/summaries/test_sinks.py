"""Which keys are sinks: those to be expected before a run, and those of a head by what they receive."""

import numpy as np
import pytest

from attn_cli.call import AttentionCall, Place
from attn_cli.kernel.definition.masks import Causal, Open
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token
from attn_cli.summaries.sinks import expected_sinks, is_sink

TOKENS = (Token(0, "[CLS]", special=True), Token(1, "river"), Token(2, "bank"), Token(3, "[SEP]", special=True))


@pytest.mark.parametrize(
    ("mask", "stream", "sinks"),
    [(Causal(), "self", [0]), (Open(), "self", [0, 3]), (Causal(), "cross", [0, 3])],
    ids=["causal", "encoder", "cross"],
)
def test_the_first_key_is_expected_where_nobody_looks_ahead_and_special_tokens_elsewhere(mask, stream, sinks) -> None:
    x = np.ones((1, 4, 2))
    call = AttentionCall(x, x, x, Rule(1.0, mask=mask), Place(0, "m", (0,), (0,), stream), TOKENS, TOKENS)
    assert expected_sinks(call).tolist() == sinks


def test_a_sink_receives_much_and_more_than_chance() -> None:
    reception = np.array([[0.46, 0.31, 0.29], [0.46, 0.9, 0.0]])
    assert is_sink(reception, np.array([0.3, 0.1, 0.01])).tolist() == [[False, True, False], [False, True, False]]
