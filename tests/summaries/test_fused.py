"""Reducers give the same results from compiled statistics as from bands, for any call."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call, Output, Place
from attn_cli.kernel.cpu.library import is_built
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.of_bands import stats_of_bands
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Part, Reducer, reduce
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.keys import OverallKeys, ReceivedShares, TopKeys
from tests.kernel.cpu.test_walk import masks
from tests.strategies import as_tensors

pytestmark = pytest.mark.skipif(not is_built(), reason="no C compiler was at hand when the package was installed")

REDUCERS = {
    "heads and received": lambda: [HeadStatistics(), ReceivedShares()],
    "overall": lambda: [OverallKeys(4)],
    "top of all keys": lambda: [TopKeys(60), TopKeys(2, scores=False)],
    "numbers of some rows and of all": lambda: [TopKeys(3, rows=[0]), HeadStatistics()],
    "sums of some rows": lambda: [OverallKeys(4, rows=[0]), HeadStatistics(rows=[0]), TopKeys(2, rows=[0])],
    "sums of some rows and of all": lambda: [OverallKeys(4, rows=[0]), OverallKeys(4)],
}


class FromBands:
    """A reducer whose statistics are read off bands, whatever else could say them."""

    def __init__(self, reducer: Reducer) -> None:
        self.reducer = reducer

    def wanted(self, call: Call) -> Wanted:
        return Wanted()

    def part(self, call: Call, stats: RowStats) -> Part:
        return self.reducer.part(call, stats_of_bands(call, self.reducer.wanted(call)))


def tokens(count: int, random: np.random.Generator) -> tuple[Token, ...]:
    return tuple(Token(i, f"t{random.integers(8)}") for i in range(count))


@st.composite
def calls(draw: st.DrawFn) -> AttentionCall:
    groups = draw(st.integers(1, 2))
    h = groups * draw(st.integers(1, 3))
    n, m = draw(st.integers(1, 60)), draw(st.integers(1, 60))
    n = draw(st.sampled_from([n, m]))
    d, e = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    solid = {name: mask for name, mask in masks(n, m).items() if name != "part of a batch"}
    mask = solid[draw(st.sampled_from(list(solid)))]
    sink = draw(st.sampled_from([None, torch.tensor(random.normal(size=h), dtype=torch.float32)]))
    q, k, v = (torch.tensor(random.normal(size=size), dtype=torch.float32)
               for size in ((h, n, d), (groups, m, d), (groups, m, e)))  # fmt: skip
    place = Place(0, "a", tuple(range(h)), tuple(i * groups // h for i in range(h)), "self" if n == m else "cross")
    keys = tokens(m, random)
    output = Output(torch.full((h, n, e), torch.nan))
    rule = as_tensors(Rule(d**-0.5, mask=mask, sink=sink), torch.as_tensor)  # bands want one library
    return AttentionCall(q, k, v, rule, place, keys[:n] if n == m else tokens(n, random), keys, output)


def parts(call: AttentionCall, reducers: Sequence[Reducer]) -> dict[str, np.ndarray]:
    return {f"{at} {name}": values for at, part in enumerate(reduce(call, *reducers).parts)
            for name, values in part.arrays().items()}  # fmt: skip


@pytest.mark.parametrize("name", REDUCERS)
@settings(max_examples=40, deadline=None)
@given(call=calls())
def test_reducers_say_the_same(name: str, call: AttentionCall) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AttentionCall, "bands", None)  # none are asked for
        compiled = parts(call, REDUCERS[name]())
    assert call.output.complete
    output, in_bands = call.output.array.clone(), Output(torch.full(call.output.array.shape, torch.nan))
    expected = parts(replace(call, output=in_bands), [FromBands(reducer) for reducer in REDUCERS[name]()])
    assert in_bands.complete or "some rows" in name
    torch.testing.assert_close(
        output[in_bands.array.isfinite()], in_bands.array[in_bands.array.isfinite()], rtol=2e-5, atol=2e-5
    )
    assert compiled.keys() == expected.keys()
    for field, values in expected.items():
        assert compiled[field].shape == values.shape
        if "keys" not in field:  # two weights that differ by less than rounding may change places
            np.testing.assert_allclose(compiled[field], values, rtol=5e-5, atol=5e-5, err_msg=field)
