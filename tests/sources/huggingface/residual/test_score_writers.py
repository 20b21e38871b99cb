"""Scores as sums over writers, against dense matrices of float64 that are read from the modules by name."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from attn_cli.attention_call import AttentionCall
from attn_cli.prompt import Token
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.read.input_files import ArrayPrompt
from attn_cli.sources.huggingface.read.tokenize import labels
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.answers.writers import KeyPicks, WrittenCell, writers_of
from tests.loaded import load_once
from tests.sources.huggingface.intervene.oracle import prompt_of, speaking_source
from tests.sources.huggingface.residual.dense_writers import DenseWriters, Family
from tests.sources.huggingface.residual.writers_families import FAMILIES, T5, T5_DECODER

ROW, KEY, HEAD = 11, 4, 3


def doubled(kind: str) -> ModelSource:
    """A tiny model in float64."""
    source = speaking_source(kind)
    assert source.loaded.generating is not None
    source.loaded.generating.double()
    source.loaded.generating.config._experts_implementation = "eager"  # grouped products of experts take no float64
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


class Distances(NamedTuple):
    """The largest distances from the dense writers: of each pair, their sum from the score, weights without a pair."""

    of_pairs: float
    of_sum: float
    of_weights: float


def distances(kind: str) -> Distances:
    """Those of a tiny model in float64, against the mean key and against another."""
    source = doubled(kind)
    assert source.loaded.generating is not None
    dense = DenseWriters(source.loaded.generating, source.reader.arguments([prompt_of()]), FAMILIES[kind], 1)
    products, scale = weights_of(source, 1)
    return _largest([_distances(cell_of(source, against=at), dense, HEAD, scale * products[ROW], scale)
                     for at in (None, 7)])  # fmt: skip


def distances_of_smollm(source: ModelSource) -> Distances:
    """Those of two heads of SmolLM2 in float32, in a sentence of 14 tokens."""
    prompt = source.read(["When Mary and John went to the store, John gave a drink to"])[0]
    assert source.loaded.generating is not None
    found = []
    for layer, head in ((24, 4), (18, 6)):
        selection, scores = Selection(pairs=((layer, head),)), []

        def visit(call: AttentionCall, scores: list[np.ndarray] = scores) -> None:
            scores.append((call.q[0, -1].double() @ call.k[0].double().T).numpy() * call.rule.scale)

        source.each([prompt], selection, visit)  # type: ignore[arg-type]
        dense = DenseWriters(source.loaded.generating, source.reader.arguments([prompt]), FAMILIES["llama"], layer)
        (cell,) = writers_of(source, prompt, selection, lambda queries: [len(queries) - 1], KeyPicks(1)).cells
        found.append(_distances(cell, dense, head, scores[0], 64**-0.5))
    return _largest(found)


def _largest(found: Sequence[Distances]) -> Distances:
    return Distances(*(max(values) for values in zip(*found, strict=True)))


def _distances(cell: WrittenCell, dense: DenseWriters, head: int, row: np.ndarray, scale: float) -> Distances:
    """Those of a cell whose row has these scores before softcap."""
    assert cell.pairs is not None
    names = [writer.name for writer in cell.writers]
    visible = np.flatnonzero(cell.row.visible).tolist()
    base = visible if cell.against is None else [cell.against.index]
    expected = dense.pairs(head, cell.query.index, cell.at, base, scale)
    assert {(a, b) for a in names for b in names} == set(expected)
    pairs = max(abs(cell.pairs[i, j] - expected[a, b]) for i, a in enumerate(names) for j, b in enumerate(names))
    score = float(row[cell.at] - row[base].mean())
    weights = []
    for term in cell.terms[:8]:
        assert term.query is not None and term.key is not None
        changed = torch.from_numpy(row.copy())
        changed[cell.at] -= expected[term.query.name, term.key.name]
        cap = cell.row.softcap
        changed = changed if cap is None else cap * torch.tanh(changed / cap)
        weights.append(abs(term.without - float(changed[visible].softmax(0)[visible.index(cell.at)])))
    sums = max(abs(float(cell.pairs.sum()) - score), abs(sum(expected.values()) - score))
    return Distances(float(pairs), sums, max(weights))


@pytest.mark.parametrize("kind", FAMILIES)
def test_pairs_are_those_of_dense_matrices(kind: str) -> None:
    """Every pair, their sum, and the weight without each of the largest, against the mean key and against another."""
    found = distances(kind)
    times = (
        8**0.5 if kind == "granitemoe" else 1.0
    )  # its scores have scale 1, so that rounding in its norms is larger, too
    assert found.of_pairs < 1e-6 * times and found.of_sum < 1e-5 and found.of_weights < 1e-5


@pytest.mark.parametrize(("stream", "family", "key"), [("encoder", T5, 2), ("decoder", T5_DECODER, 1)])
def test_those_of_an_encoder_and_a_decoder_with_a_bias_of_positions(stream: str, family: Family, key: int) -> None:
    """T5: its scores have no scale, and their bias is no part of the pairs; heads that read the encoder write, too."""
    source, prompt = doubled("t5"), prompt_of(decoder=(0, 5, 9))
    assert source.loaded.generating is not None
    picks = KeyPicks(1, lambda keys: [key])
    cells = writers_of(source, prompt, Selection(pairs=((1, HEAD),)), lambda queries: [len(queries) - 1], picks).cells
    (cell,) = (cell for cell in cells if cell.place.stream == stream)
    dense = DenseWriters(source.loaded.generating, source.reader.arguments([prompt]), family, 1)
    expected = dense.pairs(HEAD, cell.query.index, cell.at, np.flatnonzero(cell.row.visible).tolist(), 1.0)
    names = [writer.name.removeprefix(f"{stream} ") for writer in cell.writers]
    assert cell.pairs is not None and {(a, b) for a in names for b in names} == set(expected)
    for (i, a), (j, b) in itertools.product(enumerate(names), repeat=2):
        assert cell.pairs[i, j] == pytest.approx(expected[a, b], abs=1e-6)


def test_sums_in_an_encoder_of_audio_in_its_decoder_and_between_them() -> None:
    """Whisper: pairs add up to the product of the query and the key less the mean key, as attention had them."""
    source = speaking_source("whisper")
    assert source.loaded.generating is not None
    config = source.loaded.generating.config
    frames, random = config.max_source_positions, torch.Generator().manual_seed(0)
    sound = torch.randn((1, config.num_mel_bins, 2 * frames), generator=random)
    decoder = torch.tensor([[1, 5, 9]])
    prompt = ArrayPrompt("", labels(None, torch.arange(frames)[None]), others={"decoder": labels(None, decoder)},
                         arrays={"input_features": sound, "decoder_input_ids": decoder})  # fmt: skip
    selection, expected = Selection(pairs=((1, HEAD),)), []

    def visit(call: AttentionCall) -> None:
        visible = call.m if call.place.stream != "decoder" else call.n
        q, k = call.q[0, -1].double() * call.rule.scale, call.k[0].double()
        expected.append(float(q @ (k[0] - k[:visible].mean(0))))

    source.each([prompt], selection, visit)  # type: ignore[arg-type]
    cells = writers_of(
        source, prompt, selection, lambda queries: [len(queries) - 1], KeyPicks(1, lambda keys: [0])
    ).cells
    assert [float(cell.pairs.sum()) for cell in cells if cell.pairs is not None] == pytest.approx(expected, abs=1e-5)
    assert len(cells) == 3 and max(map(abs, expected)) > 0.1


def test_those_of_a_real_model(smollm_file: Path) -> None:
    found = distances_of_smollm(
        ModelSource(load_once(find(str(smollm_file), OriginOptions(predicts=True)), generates=True))
    )
    assert found.of_pairs < 1e-4 and found.of_sum < 1e-4 and found.of_weights < 1e-5
