"""A picture is there at once, or blank until it is whole; what nobody looks at any more is given up."""

import numpy as np
import pytest

from attn_cli.explore import pictures
from attn_cli.explore.grids import Grid
from attn_cli.explore.pictures import Asked, Pictures, computed
from attn_cli.explore.window import MatrixWindow, Space, forms, window_at
from tests.explore.recordings import recording


def whole_window() -> tuple[Grid, MatrixWindow]:
    grid = Grid(recording(n=300).layers[0], 1)
    space = Space(20, 64, True)
    return grid, window_at(forms(300, 300, space)[0], (300, 300), space, (0, 0), (0, 0))


def test_much_is_blank_until_it_is_computed_in_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "AT_ONCE", 5000)
    grid, window = whole_window()
    many, asked = Pictures(), Asked(grid, window, False)
    blank = many.picture(asked)
    expected = grid.pooled(slice(0, 300), slice(0, 300), window.form[:2])
    assert not blank.is_computed and blank.values.shape == expected.shape and many.wanted == asked
    seen = iter([True, False])
    assert computed(asked, lambda: next(seen)) is None
    picture = computed(asked, lambda: True)
    assert picture is not None
    many.keep(asked, picture)
    assert many.picture(asked) is picture and picture.is_computed
    np.testing.assert_allclose(picture.values, expected, rtol=1e-5)
