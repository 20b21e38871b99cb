"""Texts side by side without padding: what is noted of them is what is noted of the same with padding."""

import numpy as np
import pytest
import torch

from attn_cli.kernel.cpu.c_library import is_built
from attn_cli.kernel.definition.mask import Intervals
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.packed import PackedTexts
from attn_cli.kernel.stats.padded import padded_stats
from attn_cli.kernel.stats.unpadded import Unpadded
from attn_cli.kernel.stats.wanted import ColumnSums, TopK, Wanted

H, G, N, D, E, LENGTHS, NO_TEXT = 4, 2, 11, 8, 6, (11, 4, 1, 7, 11), 3
ROWS = N * len(LENGTHS)
REAL = np.concatenate([np.arange(length) + index * N for index, length in enumerate(LENGTHS)])
LARGEST = TopK(1, scores=False)
CLOSE = {"rtol": 1e-5, "atol": 2e-6}


def both(*, causal: bool) -> tuple[PackedTexts, PackedTexts]:
    """The same texts with padding and without, whose rows of no text are not finite nowhere but large."""
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(heads, ROWS, width, generator=random) for heads, width in ((H, D), (G, D), (G, E)))
    first, place = np.repeat(np.arange(len(LENGTHS)) * N, N), np.tile(np.arange(N), len(LENGTHS))
    length = np.repeat(LENGTHS, N)
    last = first + np.where(place < length, place + 1 if causal else length, 0)
    span = Intervals(first.astype(np.int32), last.astype(np.int32))
    unpadded = Unpadded(np.concatenate([REAL, np.full(NO_TEXT, -1)]), ROWS)
    narrow = [torch.cat([x[:, REAL], torch.full((len(x), NO_TEXT, x.shape[2]), 1e3)], dim=1) for x in (q, k, v)]
    padded = PackedTexts(q, k, v, Rule(0.4), span, torch.zeros(H, ROWS, E), padded=True)
    output = torch.full((H, len(REAL) + NO_TEXT, E), 7.0)
    return padded, PackedTexts(*narrow, Rule(0.4), span, output, padded=True, unpadded=unpadded)


def asked() -> Wanted:
    random = np.random.default_rng(0)
    first = np.repeat(np.arange(len(LENGTHS)) * N, N)
    length = np.repeat(LENGTHS, N)[:, None]
    keys = np.where(random.random((ROWS, 5)) < 0.8, first[:, None] + random.integers(0, N, (ROWS, 5)) % length, -1)
    lists = tuple(-np.sort(-keys[:, columns], axis=1) for columns in (slice(2, 4), slice(4, 5)))
    steps = np.array([-(2**30), -4, -1, 0, 1, 3, 2**30], np.int32)
    marks = random.random((2, ROWS)).astype(np.float32)
    return Wanted(
        moments=("weight_sum", "entropy_nats", "distance"), key_sets=(keys[:, :1], keys[:, 1:2], *lists),
        vectors=tuple(marks), column_sums=(ColumnSums(),), tops=(LARGEST,), distance_edges=(steps,),
    )  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True], ids=["library calls", "compiled"])
@pytest.mark.parametrize("causal", [False, True], ids=["both sides", "causal"])
def test_numbers_and_output_are_those_with_padding(*, causal: bool, compiled: bool) -> None:
    if compiled and not is_built():
        pytest.skip("no C compiler was at hand when the package was installed")
    padded, narrow = both(causal=causal)
    wanted = asked()
    if compiled:
        expected, stats = padded.all_stats(wanted), narrow.all_stats(wanted)
    else:
        expected, stats = (padded_stats(texts, len(LENGTHS), wanted) for texts in (padded, narrow))
    assert expected is not None and stats is not None
    of_rows = [[getattr(x, name) for name in (*wanted.moments, "key_sums", "vector_sums")] for x in (stats, expected)]
    for each, x in zip(of_rows, (stats, expected), strict=True):
        each += [x.distance_sums[0], x.tops[LARGEST].weights]
    for mine, other in zip(*of_rows, strict=True):
        assert mine.shape == other.shape
        np.testing.assert_allclose(mine[:, REAL], other[:, REAL], **CLOSE)
        if compiled:
            assert not np.delete(mine, REAL, axis=1).any()
    np.testing.assert_allclose(stats.column_sums[ColumnSums()], expected.column_sums[ColumnSums()], **CLOSE)
    np.testing.assert_array_equal(stats.tops[LARGEST].keys[:, REAL], expected.tops[LARGEST].keys[:, REAL])
    assert narrow.output is not None and padded.output is not None
    np.testing.assert_allclose(narrow.output[:, : len(REAL)], padded.output[:, REAL], **CLOSE)
    np.testing.assert_array_equal(narrow.output[:, len(REAL) :], 0)


def test_what_is_asked_is_translated_once_for_all_layers() -> None:
    _, narrow = both(causal=True)
    assert narrow.unpadded is not None
    wanted = asked()
    assert narrow.unpadded.wanted(wanted) is narrow.unpadded.wanted(wanted)
    assert narrow.unpadded.wanted(asked()) is not narrow.unpadded.wanted(wanted)
    assert narrow.unpadded.span(narrow.span) is narrow.unpadded.span(narrow.span)


def test_padding_there_and_back() -> None:
    _, narrow = both(causal=True)
    assert narrow.unpadded is not None
    wide = narrow.unpadded.with_padding(narrow.k)
    np.testing.assert_array_equal(wide[:, REAL], narrow.k[:, : len(REAL)])
    np.testing.assert_array_equal(np.delete(wide.numpy(), REAL, axis=1), 0)
    back = torch.full_like(narrow.k, 7)
    narrow.unpadded.without_padding(wide, back)
    np.testing.assert_array_equal(back[:, : len(REAL)], narrow.k[:, : len(REAL)])
    np.testing.assert_array_equal(back[:, len(REAL) :], 0)
