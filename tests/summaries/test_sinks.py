"""Which keys are sinks: those to be expected before a run, and those of a head by what they receive."""

import numpy as np
import pytest

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.kernel.definition.mask import Ends, Mask, causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds, HeadKindsReducer
from attn_cli.summaries.sight import Sight
from attn_cli.summaries.sinks import SinkRows, expected_sinks

TOKENS = (Token(0, "[CLS]", special=True), Token(1, "river"), Token(2, "bank"), Token(3, "[SEP]", special=True))


@pytest.mark.parametrize(
    ("mask", "stream", "sinks"),
    [(causal(), "self", [0]), (Mask(), "self", [0, 3]), (causal(), "cross", [0, 3])],
    ids=["causal", "encoder", "cross"],
)
def test_the_first_key_is_expected_where_nobody_looks_ahead_and_special_tokens_elsewhere(mask, stream, sinks) -> None:
    x = np.ones((1, 4, 2))
    call = AttentionCall(x, x, x, Rule(1.0, mask=mask), Place(0, "m", (0,), (0,), stream), TOKENS, TOKENS)
    assert expected_sinks(call).tolist() == sinks


def test_a_sink_receives_much_and_more_than_uniform_attention_gives() -> None:
    reception = np.array([[0.46, 0.31, 0.29], [0.46, 0.9, 0.0]])
    rows = SinkRows(Sight(Ends(np.zeros(10, int), np.full(10, 3)), 3))
    rows.uniform = 10 * np.array([0.3, 0.1, 0.01])
    mean, is_sink = rows.reception(10 * reception, np.zeros((2, 3)))
    np.testing.assert_allclose(mean, reception)
    assert is_sink.tolist() == [[False, True, False], [False, True, False]]


def shares_of_own(n: int, own: float) -> AttentionCall:
    """A causal head of which every row gives the share `own` to itself, and the rest to its other keys alike."""
    before = np.arange(n)[:, None]
    alike = (1 - own) / np.maximum(before, 1)
    weights = np.where(np.eye(n, dtype=bool), own, alike) * np.tri(n)
    q, k = np.log(np.maximum(weights, 1e-30))[None], np.eye(n)[None]
    tokens = tuple(Token(at, f"t{at}") for at in range(n))
    return AttentionCall(q, k, k, Rule(1.0, mask=causal()), Place(0, "m", (0,), (0,)), tokens, tokens)


@pytest.mark.parametrize("own", [0.4, 0.9])
def test_a_key_that_few_rows_see_is_no_sink(own: float) -> None:
    """Every key of this head is seen by itself mostly; the last ones are no more of a sink than the others."""
    part = reduce(shares_of_own(32, own), HeadKindsReducer()).part(HeadKinds)
    assert part is not None and not part.is_sink.any()
