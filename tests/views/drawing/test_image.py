"""A query's attention over an image is drawn as the image is, on every screen."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.call import Place
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.calls.image_grid import ImageGrid, image_grids
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.image import image_map
from attn_cli.views.drawing.screen import Screen, largest_map
from attn_cli.views.screens import render
from attn_cli.views.writers.page import to_html, to_svg
from tests.views.test_golden import GoldenScreen

RULE = {"scale": 0.125, "mask": "no mask", "softcap": None, "bias": False, "sink": False, "softmax": True}
BRIGHT = (3, 9)


def tokens(rows: int, columns: int) -> tuple[Token, ...]:
    places = [(row, column) for row in range(rows) for column in range(columns)]
    patches = [Token(1 + at, f"r{row},c{column}", row=row, column=column) for at, (row, column) in enumerate(places)]
    return (Token(0, "[CLS]", special=True), *patches)


def weights_around(rows: int, columns: int, bright: tuple[int, int] = BRIGHT) -> np.ndarray:
    """A quarter of the weight on [CLS], the rest falling with the square of the distance from one patch."""
    down, across = np.mgrid[0:rows, 0:columns]
    fall = 1.0 / (1 + (down - bright[0]) ** 2 + (across - bright[1]) ** 2)
    weights = np.concatenate([[0.25], 0.75 * fall.ravel() / fall.sum()])
    return weights.round(9)  # whatever order this NumPy adds up in


def report(rows: int, columns: int, part: Part | None = None, command: str = "matrix") -> Report:
    """Attention of [CLS] to an image of so many patches."""
    labels = tokens(rows, columns)
    part = part or Matrix(weights_around(rows, columns)[None, None], None, rows=(0,))
    summary = Summary(Place(11, "vit.attention", (4,), (4,)), labels, labels, RULE, (part,))
    source = {"model": "./vit", "type": "vit", "revision": None, "dtype": "float32", "device": "cpu"}
    return Report(command, source, (Prompt("", labels, files={"image": "cat.png"}),), (summary,))


def test_an_image_of_14_by_14_patches(golden_screen: GoldenScreen) -> None:
    golden_screen("patches", lambda width: render(report(14, 14), Screen(width)))
    assert render(report(14, 14), Screen(80, ascii_only=True)).isascii()


def test_pages_show_the_same_image() -> None:
    grid = report(14, 14)
    for page in (to_html([grid]).decode(), to_svg([grid]).replace("&#160;", " ")):
        assert "rows and columns of patches" in page
        assert "on the image 0.750" in page


@given(st.integers(2, 90), st.integers(2, 90), st.sampled_from([20, 40, 80, 200]), st.booleans(), st.randoms())
def test_maps_fit_and_keep_the_brightest_patch_in_its_place(rows, columns, width, colour, random) -> None:
    screen = Screen(width, "truecolor" if colour else "none")
    values = np.zeros((rows, columns))
    place = random.randrange(rows), random.randrange(columns)
    values[place] = 1.0
    grid = ImageGrid(np.arange(rows * columns).reshape(rows, columns))
    drawn = image_map(values.ravel(), grid, "weights", "image", report(2, 2), screen)
    step = drawn.block[0]
    assert drawn.block == (step, step)
    assert drawn.values.shape == (-(-rows // step), -(-columns // step))
    assert all(size <= most for size, most in zip(drawn.values.shape, largest_map(screen), strict=True))
    assert [tuple(at) for at in np.argwhere(drawn.values == 1)] == [(place[0] // step, place[1] // step)]
    for line in drawn.lines():
        assert sum(len(segment.text) for segment in line) <= width


def cells(labels: Sequence[Token]) -> list[list[list[int]]]:
    return [grid.cells.tolist() for grid in image_grids(labels)]


def test_what_is_no_whole_image_has_no_grid() -> None:
    whole = tokens(3, 4)
    assert cells(whole) == [[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]]
    assert cells(whole[::-1])[0][0] == [11, 10, 9, 8]
    assert cells(whole[:-1]) == []
    assert cells((*whole, whole[1])) == []  # two images
    assert cells(whole[:1]) == []
