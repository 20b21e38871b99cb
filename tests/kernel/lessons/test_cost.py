"""Costs counted by formula equal costs counted one by one."""

from hypothesis import given
from hypothesis import strategies as st

from attn_cli.kernel.lessons.cost import LayerSizes

sizes = st.integers(1, 6)


@given(st.integers(1, 12), st.integers(0, 12), st.one_of(st.none(), st.integers(1, 14)))
def test_cells_are_those_that_a_mask_leaves_open(n: int, past: int, window: int | None) -> None:
    m = n + past

    def is_open(i: int, j: int) -> bool:
        at = i + m - n
        near = window is None or abs(at - j) < window
        return near and j <= at

    cells = sum(is_open(i, j) for i in range(n) for j in range(m))
    counted = LayerSizes(1, 1, 1, 1, window=window).cells(n, m)
    assert counted == cells


@given(sizes, sizes, sizes, sizes, sizes, st.one_of(st.none(), st.integers(1, 22)), st.integers(1, 20))
def test_the_steps_of_decoding_add_up_to_one_causal_pass(
    g: int, times: int, d: int, e: int, width: int, window: int | None, n: int
) -> None:
    layer = LayerSizes(g * times, g, d, e, width, window=window)
    assert sum(layer.step(tokens) for tokens in range(1, n + 1)) == layer.whole(n)
    assert layer.kept(n) == len([token for token in range(n) if window is None or token >= n - window]) * g * (d + e)


@given(sizes, sizes, sizes, sizes, sizes, sizes, st.integers(1, 20))
def test_a_step_with_latents_counts_every_product(h: int, r: int, p: int, d: int, e: int, width: int, t: int) -> None:
    layer = LayerSizes(h, h, d + p, e, width, rank=r, shared=p)
    made = width * h * (d + p) + width * (r + p)  # W_Q; W_DKV and W_KR
    read = h * d * r + h * t * (r + p) + h * t * r + h * r * e  # q U_Kᵀ, scores, mixing, U_V
    assert layer.step(t) == made + read + h * e * width
    assert layer.kept(t) == t * (r + p)
