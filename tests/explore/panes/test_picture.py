"""The image beside the text: weights lie on their patches, and a click on a patch asks for it."""

import numpy as np
import pytest
from textual.pilot import Pilot

from attn_cli.explore.app import Explorer
from attn_cli.explore.frame import draw, pointed
from attn_cli.explore.panes.lines import width_of
from attn_cli.explore.session import Session
from attn_cli.recording import Recording
from tests.explore.test_app import play, shown
from tests.explore.test_session import session
from tests.views.webpage.test_picture import COLUMNS, ROWS, image, seen

SIZES = ((80, 24), (100, 40), (200, 60))


def looking(size: tuple[int, int], query: int, depth: str = "truecolor", of: Recording | None = None) -> Session:
    made = session(of or seen(image()), size=size, depth=depth)
    for key in (*"3/", *str(query), "\r"):
        made.press("enter" if key == "\r" else key, key)
    made.view = made.view.with_subject(query)
    return made


def pixels(made: Session) -> tuple[np.ndarray, int, int]:
    """The colours of the image's half blocks `[2 lines, columns, 3]`, and its first column and line."""
    rows = []
    left = top = -1
    first = made.scene.regions(made.view)["text"].y  # above are the half blocks of the matrix
    for y, line in enumerate(draw(made)[first:], first):
        x, colours = 0, []
        for part in line:
            if part.text and set(part.text) == {"▀"} and part.style is not None:
                left, top = (x if left < 0 else left), (y if top < 0 else top)
                ends = [part.style.color, part.style.bgcolor]
                colours += [[end.get_truecolor() for end in ends if end is not None]] * len(part.text)
            x += len(part.text)
        if colours:
            rows += [[above for above, _ in colours], [below for _, below in colours]]
    return np.array(rows), left, top


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("depth", ["truecolor", "256"])
def test_the_heaviest_patch_has_the_colour_of_most_weight(size: tuple[int, int], depth: str) -> None:
    for query in (14, 21, 27):
        made = looking(size, query, depth)
        weights = made.scene.row(made.view)[: ROWS * COLUMNS].reshape(ROWS, COLUMNS)
        drawn, _, _ = pixels(made)
        high, wide = drawn.shape[:2]
        middles = drawn[
            ((np.arange(ROWS) + 0.5) / ROWS * high).astype(int)[:, None],
            ((np.arange(COLUMNS) + 0.5) / COLUMNS * wide).astype(int),
        ].astype(int)
        yellow = middles[..., 1] - middles[..., 2]  # viridis ends in yellow, the image is grey
        assert np.unravel_index(yellow.argmax(), yellow.shape) == np.unravel_index(weights.argmax(), weights.shape)
        assert all(width_of(line) == size[0] for line in draw(made))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_click_on_a_patch_asks_for_it(size: tuple[int, int]) -> None:
    made = looking(size, 21)
    drawn, left, top = pixels(made)
    for row, column in ((0, 0), (2, 3), (1, 2)):
        x = left + int((column + 0.5) / COLUMNS * drawn.shape[1])
        y = top + int((row + 0.5) / ROWS * drawn.shape[0] / 2)
        view = pointed(made, x, y)
        assert view is not None and view.query == row * COLUMNS + column
    below = top + drawn.shape[0] // 2
    assert pointed(made, left + 1, below) is None or below >= size[1] - 2


@pytest.mark.parametrize("size", [(40, 24), (80, 24)], ids=str)
def test_without_colours_room_or_image_there_is_the_text_alone(size: tuple[int, int]) -> None:
    for made in (looking(size, 21, "none"), looking(size, 21, of=seen(None)), looking(size, 21, "16")):
        assert not len(pixels(made)[0])
    assert bool(len(pixels(looking(size, 21))[0])) == (size[0] >= 60)


def test_the_app_shows_the_image_and_follows_a_click() -> None:
    made = looking((100, 40), 21)
    drawn, left, top = pixels(made)
    before: list[str] = []

    async def script(app: Explorer, pilot: Pilot[int]) -> None:
        before.extend(shown(app))
        await pilot.click(offset=(left + drawn.shape[1] - 2, top + drawn.shape[0] // 2 - 1))
        await pilot.pause()

    app = play(made, (100, 40), script)
    assert sum("▀" in line for line in before[top:]) == drawn.shape[0] // 2
    assert app.session.view.query == ROWS * COLUMNS - 1
