"""Scores pooled to a screen: the number farthest from 0 of each block, with the true minimum and maximum of all."""

import re
from pathlib import Path

import numpy as np
import pytest

from attn_cli.attention_call import AttentionCall
from attn_cli.kernel.definition.mask import causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import MatrixOf
from tests.program import attn
from tests.views.test_golden import DEPTHS


def call_of(q: np.ndarray, rule: Rule) -> AttentionCall:
    from attn_cli.call import Place

    tokens = tuple(Token(at, str(at)) for at in range(q.shape[1]))
    return AttentionCall(q, q, q, rule, Place(0, "x", (0,), (0,), "self", 0, 0), tokens, tokens)


def blocks_of(scores: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    """By loops: of every block of finite scores the one farthest from 0, -inf without any."""
    rows, keys = block
    found = []
    for top in range(0, len(scores), rows):
        line = []
        for left in range(0, scores.shape[1], keys):
            cells = scores[top : top + rows, left : left + keys]
            cells = cells[np.isfinite(cells)]
            line.append(max(cells.tolist(), key=abs) if cells.size else -np.inf)
        found.append(line)
    return np.array(found)


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("is_causal", [True, False])
def test_blocks_of_signed_numbers_keep_what_is_farthest_from_0(is_causal: bool, softmax: bool) -> None:
    q = np.random.default_rng(0).normal(size=(1, 50, 4)) - 0.5
    mask = {"mask": causal()} if is_causal else {}
    scores = q[0] @ q[0].T * 0.5
    scores = np.where(np.tril(np.ones((50, 50), dtype=bool)), scores, -np.inf) if is_causal else scores
    call = call_of(q, Rule(0.5, softmax=softmax, **mask))
    pooled, weights = reduce(call, MatrixOf((9, 7), kinds=("scores",)), MatrixOf((9, 7))).parts
    assert pooled.block == (6, 8)
    np.testing.assert_allclose(pooled.scores[0], blocks_of(scores, (6, 8)), atol=1e-12)
    assert pooled.ends == pytest.approx((scores[np.isfinite(scores)].min(), scores.max()))
    if not softmax:
        used = np.where(np.isfinite(scores), scores, 0.0)
        np.testing.assert_allclose(weights.weights[0], blocks_of(used, (6, 8)), atol=1e-12)


def test_picked_rows_of_scores_are_pooled_so_too() -> None:
    q = np.random.default_rng(1).normal(size=(1, 12, 4)) - 0.5
    part = reduce(call_of(q, Rule(0.5)), MatrixOf((5, None), kinds=("weights", "scores"), rows=range(10))).parts[0]
    np.testing.assert_allclose(part.scores[0], blocks_of((q[0] @ q[0].T * 0.5)[:10], (2, 1)), atol=1e-12)


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_legend_says_the_true_ends(depth: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    q = np.random.default_rng(2).normal(size=(300, 4))
    np.save("q.npy", q)
    scores = np.where(np.tril(np.ones((300, 300), dtype=bool)), q @ q.T / 2, np.nan)
    run = attn("compute", "--q", "q.npy", "--mask", "causal", terminal=True,
               env={"COLUMNS": "80"} | DEPTHS[depth])  # fmt: skip
    text = " ".join(re.sub(r"\x1b\[[^m]*m", "", run.text).split())
    start = text.index("scaled (÷ √4 = 2, causal) · ")
    heading = text[start : text.index("queries, columns", start)]
    assert f"min {np.nanmin(scores):.3g} max {np.nanmax(scores):.3g}" in heading
    assert "farthest from 0 over" in heading
