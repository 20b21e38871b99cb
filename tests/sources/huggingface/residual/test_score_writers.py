"""Scores as sums over writers, against dense matrices of float64 that are read from the modules by name."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from attn_cli.call import AttentionCall
from attn_cli.prompt import Token
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.answers.writers import KeyPicks, WrittenCell, writers_of
from tests.sources.huggingface.intervene.oracle import prompt_of, speaking_source
from tests.sources.huggingface.residual.dense_writers import DenseWriters
from tests.sources.huggingface.residual.writers_families import FAMILIES

ROW, KEY, HEAD = 11, 4, 3


def doubled(kind: str) -> ModelSource:
    """A tiny model in float64."""
    source = speaking_source(kind)
    assert source.loaded.generating is not None
    source.loaded.generating.double()
    if kind == "granite":  # its multipliers are 1 in a new model
        stack = source.loaded.model
        stack.embedding_multiplier = FAMILIES[kind].embedding_scale
        for block in stack.layers:
            block.residual_multiplier = FAMILIES[kind].scale
    return source


def cell_of(source: ModelSource, *, against: int | None = None, layer: int = 1) -> WrittenCell:
    """One key of one query."""

    def row(queries: Sequence[Token]) -> Sequence[int]:
        return [ROW]

    picks = KeyPicks(1, lambda keys: [KEY], None if against is None else lambda keys: against)
    answer = writers_of(source, prompt_of(), Selection(pairs=((layer, HEAD),)), row, picks)
    (cell,) = answer.cells
    return cell


def weights_of(source: ModelSource, layer: int) -> tuple[np.ndarray, float]:
    """The weights of the row by torch's own softmax of scores in float64, and the scale."""
    found = []

    def visit(call: AttentionCall) -> None:
        q, k = call.q[0].double(), call.k[0].double()
        found.append(((q @ k.T).numpy(), float(call.rule.scale)))

    source.each([prompt_of()], Selection(pairs=((layer, HEAD),)), visit)  # type: ignore[arg-type]
    return found[0]


@pytest.mark.parametrize("kind", FAMILIES)
def test_pairs_are_those_of_dense_matrices(kind: str) -> None:
    """Every pair, their sum, and the weight without each of the largest, against the mean key and against another."""
    source = doubled(kind)
    assert source.loaded.generating is not None
    dense = DenseWriters(source.loaded.generating, source.reader.arguments([prompt_of()]), FAMILIES[kind], 1)
    products, scale = weights_of(source, 1)
    for against in (None, 7):
        cell = cell_of(source, against=against)
        assert cell.pairs is not None
        names = [writer.name for writer in cell.writers]
        visible = np.flatnonzero(cell.row.visible).tolist()
        base = visible if against is None else [against]
        expected = dense.pairs(HEAD, ROW, KEY, base, scale)
        assert {(a, b) for a in names for b in names} == set(expected)
        found = {(a, b): cell.pairs[i, j] for i, a in enumerate(names) for j, b in enumerate(names)}
        assert found == pytest.approx(expected, abs=1e-6)
        score = scale * (products[ROW, KEY] - products[ROW, base].mean())
        assert sum(expected.values()) == pytest.approx(score, abs=1e-5)
        assert cell.pairs.sum() == pytest.approx(score, abs=1e-5)
        for term in cell.terms[:5]:
            assert term.query is not None and term.key is not None
            row = torch.from_numpy(scale * products[ROW])
            row[KEY] -= expected[term.query.name, term.key.name]
            cap = cell.row.softcap
            row = row if cap is None else cap * torch.tanh(row / cap)
            assert term.without == pytest.approx(float(row[visible].softmax(0)[visible.index(KEY)]), abs=1e-5)
