"""Sinks of a text are told once: a word that one or two heads of few read is none."""

import numpy as np
import pytest

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.kernel.definition.mask import causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.keys import DecidingRows, DecidingRowsReducer
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer
from attn_cli.summaries.told.story import resting_keys

N = 24
ITSELF = list(range(N))


def _call(targets: dict[int, list[int]]) -> AttentionCall:
    """Heads whose queries look at one key each: by head the key of every query."""
    keys = np.eye(N, dtype=np.float32)[None].repeat(len(targets), 0)
    queries = np.stack([30 * np.eye(N, dtype=np.float32)[of_head] for of_head in targets.values()])
    tokens = tuple(Token(at, f"w{at}") for at in range(N))
    heads = tuple(targets)
    return AttentionCall(
        queries, keys, keys, Rule(scale=1.0, mask=causal()), Place(0, "x", heads, heads), tokens, tokens
    )


def _resting(call: AttentionCall) -> set[int]:
    summary = reduce(call, HeadKindsReducer(), DecidingRowsReducer())
    part = summary.part(DecidingRows)
    assert part is not None
    return resting_keys([(summary, part)])


def test_a_word_that_one_head_of_four_reads_in_the_last_row_is_no_sink() -> None:
    assert _resting(_call({0: ITSELF, 1: ITSELF, 2: ITSELF, 3: [*ITSELF[:-1], 7]})) == {0}


@pytest.mark.parametrize(("readers", "sinks"), [(1, {0}), (2, {0}), (3, {0, 7})])
def test_a_word_that_three_heads_read_in_all_rows_is_one(readers: int, sinks: set[int]) -> None:
    heads = {head: [min(at, 7) for at in ITSELF] if head < readers else ITSELF for head in range(8)}
    assert _resting(_call(heads)) == sinks
