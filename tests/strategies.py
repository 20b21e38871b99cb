"""Generated attention problems for the laws: any sizes, heads, groups and rules, in either array library."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from attn_cli.kernel.masks import All, Asked, Causal, Given, Keys, Mask, Open, Window
from attn_cli.kernel.rule import Rule


@dataclass
class Problem:
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    rule: Rule


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    groups = draw(st.integers(1, 3))
    heads = groups * draw(st.integers(1, 3))
    n, m = draw(st.integers(1, 24)), draw(st.integers(1, 24))
    d, e = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    offset = m - n
    mask: Mask = draw(
        st.sampled_from(
            [
                Open(),
                Causal(),
                Causal(offset),
                All((Causal(offset), Window(3, offset))),
                Window(2, offset, both_sides=True),
                Keys(rng.random(m) < 0.7),
                All((Causal(), Keys(np.arange(m) > m // 3))),
                Given(rng.random((n, m)) < 0.6),
                Given(rng.random((heads, n, m)) < 0.6),
                Asked(lambda i, j: (i + j) % 3 != 0),
            ]
        )
    )
    bias = draw(st.sampled_from([None, rng.normal(size=(heads, n, m)), rng.normal(size=(1, 1, m))]))
    rule = Rule(
        scale=float(draw(st.sampled_from([1.0, d**-0.5, 3.0]))),
        softcap=draw(st.sampled_from([None, 2.0])),
        bias=bias,
        mask=mask,
        sink=draw(st.sampled_from([None, rng.normal(size=heads)])),
    )
    return Problem(
        rng.normal(size=(heads, n, d)), rng.normal(size=(groups, m, d)), rng.normal(size=(groups, m, e)), rule
    )
