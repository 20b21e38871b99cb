"""Texts of a batch, walked together in library calls, give what compiled code gives, and dense attention's output."""

import numpy as np
import pytest
import torch

from attn_cli.kernel.cpu.c_library import is_built
from attn_cli.kernel.definition.mask import Intervals
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats import padded
from attn_cli.kernel.stats.packed import PackedTexts
from attn_cli.kernel.stats.padded import padded_stats
from attn_cli.kernel.stats.wanted import ColumnSums, TopK, Wanted

H, G, N, D, LENGTHS = 4, 2, 11, 8, (11, 4, 1, 7, 11)
ROWS = N * len(LENGTHS)


@pytest.mark.skipif(not is_built(), reason="no C compiler was at hand when the package was installed")
@pytest.mark.parametrize("in_parts", [False, True], ids=["at once", "in parts"])
@pytest.mark.parametrize("causal", [False, True], ids=["both sides", "causal"])
def test_numbers_are_those_of_the_compiled_walk(
    *, causal: bool, in_parts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_parts:
        monkeypatch.setattr(padded, "_ROWS", 4)
        monkeypatch.setattr(padded, "_CELLS", 300)
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    q, k, v = (torch.randn(heads, ROWS, D) for heads in (H, G, G))
    first, place = np.repeat(np.arange(len(LENGTHS)) * N, N), np.tile(np.arange(N), len(LENGTHS))
    length = np.repeat(LENGTHS, N)
    last = first + np.where(place < length, place + 1 if causal else length, 0)
    texts = PackedTexts(
        q, k, v, Rule(0.4), Intervals(*(x.astype(np.int32) for x in (first, last))), torch.zeros(H, ROWS, D)
    )
    keys = np.where(random.random((ROWS, 5)) < 0.8, first[:, None] + random.integers(0, N, (ROWS, 5)), -1)
    lists = tuple(-np.sort(-keys[:, columns], axis=1) for columns in (slice(2, 4), slice(4, 5)))
    steps = np.array([-(2**30), -4, -1, 0, 1, 3, 2**30], np.int32)
    marks = random.random((2, ROWS)).astype(np.float32)
    largest = TopK(1, scores=False)
    wanted = Wanted(
        moments=("weight_sum", "entropy_nats", "distance"), key_sets=(keys[:, :1], keys[:, 1:2], *lists),
        vectors=tuple(marks), column_sums=(ColumnSums(),), tops=(largest,), distance_edges=(steps,),
    )  # fmt: skip
    expected = texts.all_stats(wanted)
    output = texts.output.clone()
    texts.output.fill_(7)
    stats = padded_stats(texts, len(LENGTHS), wanted)
    assert expected is not None and stats is not None
    torch.testing.assert_close(texts.output, output)
    for name in (*wanted.moments, "key_sums", "vector_sums"):
        np.testing.assert_allclose(getattr(stats, name), getattr(expected, name), rtol=1e-5, atol=2e-6, err_msg=name)
    for mine, other in (
        (stats.distance_sums[0], expected.distance_sums[0]),
        (stats.column_sums[ColumnSums()], expected.column_sums[ColumnSums()]),
        (stats.tops[largest].weights, expected.tops[largest].weights),
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=2e-6)
    np.testing.assert_array_equal(stats.tops[largest].keys, expected.tops[largest].keys)
