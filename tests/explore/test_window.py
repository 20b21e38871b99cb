"""Zooming goes from the whole to cells with numbers; windows lie on the grid of their cells, around the cursor."""

from hypothesis import given
from hypothesis import strategies as st

from attn_cli.explore.window import Space, forms, window_at

SPACES = st.builds(Space, st.integers(1, 60), st.integers(8, 200), st.booleans())
SIZES = st.integers(1, 3000)


@given(SIZES, SIZES, SPACES)
def test_the_first_step_shows_all_and_each_is_finer(n: int, m: int, space: Space) -> None:
    steps = forms(n, m, space)
    down, across = space.capacity(steps[0])
    assert n <= down * steps[0].rows
    assert m <= across * steps[0].keys
    assert len(set(steps)) == len(steps)
    assert steps[-1].number
    areas = [step.rows * step.keys for step in steps]
    assert areas == sorted(areas, reverse=True)


@given(st.data(), SIZES, SIZES, SPACES)
def test_a_window_holds_the_cursor_and_as_many_cells_as_fit(data: st.DataObject, n: int, m: int, space: Space) -> None:
    form = data.draw(st.sampled_from(forms(n, m, space)))
    corner = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, m - 1))
    cursor = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, m - 1))
    window = window_at(form, (n, m), space, corner, cursor)
    assert 0 <= window.top <= cursor[0] < window.bottom <= n
    assert 0 <= window.left <= cursor[1] < window.right <= m
    assert window.top % form.rows == window.left % form.keys == 0
    capacity = space.capacity(form)
    for shown, fits, total, block in zip(window.shape, capacity, (n, m), form[:2], strict=True):
        assert shown == min(fits, -(-total // block))
    row, column = window.cell_of(*cursor)
    assert 0 <= row < window.shape[0]
    assert 0 <= column < window.shape[1]
