"""The explorer in a terminal that shows pictures: the image beside the text is one, and follows the cursor."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.views.graphics.answering import (
    CELL_SIZE,
    AnsweringTerminal,
    iterm_pictures,
    kitty_pictures,
    sixel_pictures,
)
from tests.views.graphics.recordings import recorded_image

ROWS, COLUMNS = 6, 8
PLACED = re.compile(rb"\x1b7(?:\x1b\[(\d+)A)?\x1b\[(\d+)G(?:\x1b_G|\x1bP|\x1b\]1337)")
GONE = b"\x1b_Ga=d,d=I,"
FOUND = {"kitty": kitty_pictures, "iterm": iterm_pictures, "sixel": sixel_pictures}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded_image(tmp_path_factory.mktemp("seen") / "a.attn", ROWS, COLUMNS)


def pictures(kind: str, log: bytes) -> list[np.ndarray]:
    """The pixels of all pictures that were drawn."""
    return [pixels for _, pixels in FOUND[kind](log.replace(GONE, b"\x1b"))]  # type: ignore[operator]


@pytest.mark.parametrize("kind", ["kitty", "iterm", "sixel"])
def test_the_image_is_a_picture_that_follows_the_cursor(kind: str, recording: Path) -> None:
    with AnsweringTerminal(kind, "explore", recording, columns=100, lines=30) as terminal:
        terminal.wait("? keys")
        terminal.press("3")
        terminal.wait("attends to", until=lambda _: bool(pictures(kind, terminal.log)))
        terminal.settle()
        first = pictures(kind, terminal.log)[-1]
        (up, column) = PLACED.findall(terminal.log)[-1]
        lines, columns = int(up) + 1, 100 - int(column) + 1
        assert first.shape == (lines * CELL_SIZE[1], columns * CELL_SIZE[0], 3)
        assert "▀" not in terminal.text
        for line in terminal.text.splitlines()[1 : lines + 1]:
            assert len(line) < int(column)  # nothing is written over it
        for token in ROWS * COLUMNS + 3, ROWS * COLUMNS + 8:
            count = len(pictures(kind, terminal.log))
            terminal.press(f"/{token}\r")
            terminal.wait(f"query {token}", until=lambda _, seen=count: len(pictures(kind, terminal.log)) > seen)  # type: ignore[misc]
            terminal.settle()
        assert GONE not in terminal.log
        terminal.press("?")
        terminal.settle()
        assert (GONE in terminal.log) == (kind == "kitty")
        count = len(pictures(kind, terminal.log))
        terminal.press("q")
        terminal.wait("attends to", until=lambda _: len(pictures(kind, terminal.log)) > count)
        terminal.settle()
        terminal.press("q")
        assert terminal.end() == 0 and terminal.echoes


def test_without_pictures_it_is_in_half_blocks(recording: Path) -> None:
    with AnsweringTerminal("xterm", "explore", recording, columns=100, lines=30) as terminal:
        terminal.wait("? keys")
        terminal.press("3")
        terminal.wait("attends to", "▀▀")
        terminal.press("q")
        assert terminal.end() == 0
