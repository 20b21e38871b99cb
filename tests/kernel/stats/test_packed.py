"""Texts packed as one call with intervals as its mask: each is answered as alone, by bands and by compiled code."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Output, Place
from attn_cli.kernel.cpu import walk as cpu
from attn_cli.kernel.cpu.c_library import is_built
from attn_cli.kernel.definition import dense
from attn_cli.kernel.definition.mask import Intervals, Mask
from attn_cli.kernel.definition.masks import Causal, Intersection, Open, Window
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.one_walk import NOTED_MOMENTS
from attn_cli.kernel.stats.wanted import TopK, Wanted
from attn_cli.packed_call import PackedCall

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
H, G, D, E = 4, 2, 8, 6
LENGTHS, OF_NONE = (9, 6, 4, 1), 3
TEXTS = tuple(slice(stop - length, stop) for stop, length in zip(np.cumsum(LENGTHS).tolist(), LENGTHS, strict=True))
ROWS = sum(LENGTHS) + OF_NONE
MASKS = [Open(), Causal(), Intersection((Causal(), Window(3)))]


@pytest.fixture(params=["bands", "compiled"])
def walked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "bands":
        monkeypatch.setattr(cpu, "suits", lambda *_: False)
    elif not is_built():
        pytest.skip("no C compiler was at hand when the package was installed")
    return str(request.param)


def packed(mask: Mask, rule: Rule, of_none: int = OF_NONE) -> PackedCall:
    """Texts under a mask, and behind them rows of none that see the first text."""
    random, rows_of_all = torch.Generator().manual_seed(1), sum(LENGTHS) + of_none
    q, k, v = (torch.randn(heads, rows_of_all, width, generator=random) for heads, width in ((H, D), (G, D), (G, E)))
    ends = [
        np.stack(mask.interval(np.arange(n), n)).clip(0, n) + rows.start for n, rows in zip(LENGTHS, TEXTS, strict=True)
    ]
    first, last = np.concatenate([*ends, np.repeat([[0], [LENGTHS[0]]], of_none, axis=1)], axis=1).astype(np.int32)
    place = Place(0, "packed", tuple(range(H)), (0, 0, 1, 1))
    output = torch.full((H, rows_of_all, E), 7.0)

    def call_of(text: int) -> AttentionCall:
        rows = TEXTS[text]
        own = Output(output[:, rows])
        return AttentionCall(q[:, rows], k[:, rows], v[:, rows], replace(rule, mask=mask), place, (), (), own)

    rule = replace(rule, mask=Intervals(first, last))
    return PackedCall(q, k, v, rule, place, (), (), Output(output), texts=TEXTS, call_of=call_of)


REQUEST = Wanted(moments=("masked", *NOTED_MOMENTS), tops=(TopK(3),))


@pytest.mark.parametrize("softcap", [None, 1.0])
@pytest.mark.parametrize("has_sink", [False, True])
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_each_text_is_as_dense_attention_of_it_alone(
    mask: Mask, has_sink: bool, softcap: float | None, walked: str
) -> None:
    sink = torch.randn(H, generator=torch.Generator().manual_seed(2)) if has_sink else None
    whole = packed(mask, Rule(0.5, softcap, sink=sink))
    stats = whole.stats_of_texts(REQUEST)
    assert whole.has_output_of_texts
    assert whole.output is not None
    assert whole.output.complete == (walked == "compiled")  # which fills the rows of none, too
    for call, rows in zip(whole.calls, TEXTS, strict=True):
        alone = replace(call, rule=replace(call.rule, sink=None if sink is None else sink.double().numpy()))
        exact = dense.attend(*(np.asarray(x, dtype=np.float64) for x in (call.q, call.k, call.v)), alone.rule)
        weights = exact.weights
        logarithms = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
        np.testing.assert_allclose(stats.entropy_nats[:, rows], -(weights * logarithms).sum(-1), **CLOSE)
        np.testing.assert_allclose(stats.weight_sum[:, rows], weights.sum(axis=-1), **CLOSE)
        heaviest = -np.sort(-weights, axis=-1)[..., :3]
        np.testing.assert_allclose(stats.tops[TopK(3)].weights[:, rows, : heaviest.shape[-1]], heaviest, **CLOSE)
        np.testing.assert_allclose(call.output.array, exact.output, **CLOSE)


def test_a_text_that_is_visited_by_itself_fills_its_part_of_the_output(walked: str) -> None:
    whole = packed(Causal(), Rule(0.5))
    for call in whole.calls:
        assert not whole.has_output_of_texts
        call.row_stats(REQUEST)
    assert whole.has_output_of_texts
    assert not whole.output.complete
