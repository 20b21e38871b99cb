"""Texts of a batch that are walked side by side give what each gives alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_cli.kernel.cpu.c_library import is_built
from attn_cli.kernel.definition.mask import Intervals, Mask
from attn_cli.kernel.definition.masks import Causal, Intersection, Open, Window
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.compiled import compiled_stats
from attn_cli.kernel.stats.packed import PackedTexts
from attn_cli.kernel.stats.wanted import MOMENTS, ColumnSums, Pool, TopK, Wanted

pytestmark = pytest.mark.skipif(not is_built(), reason="no C compiler was at hand when the package was installed")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
H, G, LONGEST, D, E = 4, 2, 9, 8, 6
TEXTS = (slice(0, 9), slice(3, 9), slice(0, 4), slice(5, 6))  # of each row of the batch, padded on either side


def packed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Mask, rule: Rule) -> PackedTexts:
    spans = []
    for index, text in enumerate(TEXTS):
        rows = np.zeros((2, LONGEST), np.int32) + index * LONGEST
        rows[1] += LONGEST
        count = text.stop - text.start
        rows[:, text] = np.stack(mask.interval(np.arange(count), count)).clip(0, count) + index * LONGEST + text.start
        spans.append(rows)
    first, last = np.concatenate(spans, axis=1)
    output = torch.zeros(H, q.shape[1], E)
    return PackedTexts(q, k, v, rule, Intervals(first, last), output)


@pytest.mark.parametrize("softcap", [None, 1.0])
@pytest.mark.parametrize("has_sink", [False, True])
@pytest.mark.parametrize("mask", [Open(), Causal(), Intersection((Causal(), Window(3)))], ids=str)
def test_each_text_is_as_alone(mask: Mask, has_sink: bool, softcap: float | None) -> None:
    random = torch.Generator().manual_seed(1)
    rows = len(TEXTS) * LONGEST
    q, k, v = (torch.randn(heads, rows, width, generator=random) for heads, width in ((H, D), (G, D), (G, E)))
    sink = torch.randn(H, generator=random) if has_sink else None
    rule = Rule(0.5, softcap, sink=sink)
    texts = packed(q, k, v, mask, rule)
    for index, text in enumerate(TEXTS):
        place = slice(index * LONGEST + text.start, index * LONGEST + text.stop)
        n = place.stop - place.start
        cells = -np.sort(-np.random.default_rng(index).integers(-1, n, size=(n, 3)))
        wanted = Wanted(moments=MOMENTS, key_sets=(cells, *cells.T[:, :, None]), tops=(TopK(3),))
        stats = texts.of_text(place.start, place.stop).row_stats(wanted)
        output = torch.zeros(H, n, E)
        alone = compiled_stats(q[:, place], k[:, place], v[:, place], replace(rule, mask=mask), wanted, output)
        assert stats is not None and alone is not None and texts.walked
        torch.testing.assert_close(texts.output[:, place], output, **CLOSE)
        for name in (*MOMENTS, "key_sums"):
            np.testing.assert_allclose(getattr(stats, name), getattr(alone, name), err_msg=name, **CLOSE)
        mine, other = stats.tops[TopK(3)], alone.tops[TopK(3)]
        np.testing.assert_allclose(mine.weights, other.weights, **CLOSE)
        np.testing.assert_allclose(mine.scores, other.scores, **CLOSE)
        np.testing.assert_array_equal(mine.keys, other.keys)
    assert texts.output.isfinite().all()  # of padding too


def test_column_sums_are_of_one_text_and_not_of_padding() -> None:
    random = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(heads, 12, 4, generator=random) for heads in (H, G, G))
    ends = np.repeat([5, 12], [5, 7]).astype(np.int32)
    texts = PackedTexts(q, k, v, Rule(0.5), Intervals(np.where(ends == 5, 0, 5).astype(np.int32), ends), None)
    wanted = Wanted(column_sums=(ColumnSums(),))
    stats = texts.of_text(5, 12).row_stats(wanted)
    alone = compiled_stats(q[:, 5:], k[:, 5:], v[:, 5:], Rule(0.5), wanted, None)
    np.testing.assert_allclose(stats.column_sums[ColumnSums()], alone.column_sums[ColumnSums()], **CLOSE)
    padded = PackedTexts(q, k, v, Rule(0.5), texts.span, None, padded=True)
    assert padded.of_text(5, 12).row_stats(wanted) is None


def test_a_text_that_asks_otherwise_is_walked_alone() -> None:
    q, k, v = (torch.ones(heads, len(TEXTS) * LONGEST, 4) for heads in (H, G, G))
    texts = packed(q, k, torch.ones(G, len(TEXTS) * LONGEST, E), Open(), Rule(0.5))
    assert texts.of_text(0, 9).row_stats(Wanted(pools=(Pool(2, 2),))) is None
    assert not texts.walked
    assert texts.of_text(0, 9).row_stats(Wanted(moments=MOMENTS)) is not None
    assert texts.of_text(12, 18).row_stats(Wanted(moments=MOMENTS, tops=(TopK(2),))) is None
    half = PackedTexts(q.double(), k.double(), v.double(), Rule(0.5), texts.span, None)
    assert half.of_text(0, 9).row_stats(Wanted(moments=MOMENTS)) is None


def test_all_texts_at_once_are_without_their_padding() -> None:
    random = torch.Generator().manual_seed(3)
    rows = len(TEXTS) * LONGEST
    q, k, v = (torch.randn(heads, rows, width, generator=random) for heads, width in ((H, D), (G, D), (G, E)))
    places = [slice(index * LONGEST + text.start, index * LONGEST + text.stop) for index, text in enumerate(TEXTS)]
    counts = [place.stop - place.start for place in places]
    cells = [np.random.default_rng(count).integers(-1, count, size=(count, 2)) for count in counts]
    texts = packed(q, k, v, Causal(), Rule(0.5))
    together = texts.of_texts(places, Wanted(moments=MOMENTS, key_sets=tuple(np.concatenate(cells).T[:, :, None])))
    assert together is not None and together.logsumexp.shape == (H, sum(counts))
    for at, (place, count) in enumerate(zip(places, counts, strict=True)):
        wanted = Wanted(moments=MOMENTS, key_sets=tuple(cells[at].T[:, :, None]))
        alone = compiled_stats(q[:, place], k[:, place], v[:, place], Rule(0.5, mask=Causal()), wanted, None)
        own = slice(sum(counts[:at]), sum(counts[:at]) + count)
        for name in (*MOMENTS, "key_sums"):
            np.testing.assert_allclose(getattr(together, name)[:, own], getattr(alone, name), err_msg=name, **CLOSE)
    assert texts.of_texts(places, Wanted(moments=MOMENTS, column_sums=(ColumnSums(),))) is None
