"""The picture of the explorer is a real screen, once for light and once for dark pages, and it is current.

`python -m tests.explore.test_image` draws both anew.
"""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.segment import Segments

from attn_cli.explore.frame import draw
from attn_cli.explore.panes.lines import Line
from attn_cli.explore.scene import Scene
from attn_cli.explore.session import Session
from attn_cli.recording import Recording
from attn_cli.sources import open_source
from attn_cli.summaries.answers.record import record
from attn_cli.summaries.head_words import sentence
from attn_cli.views.drawing.screen import Screen
from tests.conftest import GOLDEN
from tests.explore.panes.test_screens import text_of
from tests.explore.test_session import session, typed
from tests.real_models import SMOL
from tests.test_front_image import COLUMN, FRAME, ROW, THEMES, colours_of, lines_of
from tests.test_guide import PAGES, compare

TEXT = (
    "Mary gave John the book in the garden behind the house.\n"
    "Then he sat on the river bank and read it, and when he had read it Mary gave John the other book."
)
SIZE = (140, 40)
WALK = ("3", ":head 17.5", "/John#2", "z")  # what he attends to in an induction head, its sink left out


def recorded() -> Recording:
    return record(open_source(str(SMOL)), TEXT)


def screen(of: Recording) -> list[Line]:
    """The explorer's lines after the walk."""
    about = {**of.about, "model": "smollm2.gguf"}
    made = session(Recording(about, of.prompt, of.layers), size=SIZE)
    for step in WALK:
        typed(made, step) if len(step) > 1 else made.press(step, step)
    return draw(made)


def drawn(lines: list[Line], theme: str) -> str:
    """The lines as an image that brings no font and asks no network."""
    console = Console(
        file=io.StringIO(),
        record=True,
        width=SIZE[0],
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    for line in lines:
        console.print(Segments(line), end="")
        console.print()
    fill, stroke = {"light": ("#ffffff", "#d1d9e0"), "dark": ("#0d1117", "#3d444d")}[theme]
    width, height = 28 + SIZE[0] * COLUMN, 24 + len(lines) * ROW
    frame = FRAME.format(
        title="attn explore: all heads, one head's matrix, and the text", fill=fill, stroke=stroke,
        width=width, height=height, inner_width=width - 2, inner_height=height - 2,
    )  # fmt: skip
    return console.export_svg(theme=THEMES[theme], code_format=frame, unique_id="attn")


def file_of(theme: str) -> Path:
    return GOLDEN / f"explore-{theme}.svg"


@pytest.fixture(scope="module")
def recording() -> Recording:
    return recorded()


@pytest.fixture(scope="module")
def lines(recording: Recording) -> list[Line]:
    return screen(recording)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50), (40, 16)], ids=str)
def test_the_first_view_says_what_heads_do(
    size: tuple[int, int], recording: Recording, golden: Callable[[str, str], None]
) -> None:
    scene = Scene(
        replace(recording, about={**recording.about, "model": "smollm2.gguf"}), Screen(size[0], height=size[1])
    )
    made = Session(scene, session(recording).outside, scene.opening)
    text = text_of(draw(made))
    out = scene.judge().outs[0]
    view = made.view
    assert (view.at, view.head, view.query, view.key) == (out.call, out.at, *out.strongest[:2])
    words = f"{out.name} {sentence(out)}"
    assert (words if size[0] >= 80 else words.partition(":")[0]) in " ".join(text.split())
    golden(f"explore-first-{size[0]}.txt", text)


@pytest.mark.parametrize("theme", THEMES)
def test_the_picture_is_what_the_explorer_shows(theme: str, lines: list[Line]) -> None:
    kept, current = file_of(theme).read_text("utf-8"), drawn(lines, theme)
    problem = compare(lines_of(kept), lines_of(current))
    assert not problem, f"python -m tests.explore.test_image draws it anew\n{problem}"
    before, after = colours_of(kept), colours_of(current)
    same = [cell for cell in before if cell in after and abs(before[cell] - after[cell]).max() <= 8]
    assert len(same) > 0.98 * max(len(before), len(after))  # a number may fall into the step beside


@pytest.mark.parametrize("page", ["README", "explore"])
def test_the_pages_show_it_in_both_themes(page: str) -> None:
    picture = re.search(r"<picture>\s*<source[^>]*explore-dark.*?</picture>", PAGES[page].read_text("utf-8"), re.DOTALL)
    assert picture
    for theme in THEMES:
        assert f"tests/golden/explore-{theme}.svg" in picture[0]


def main() -> None:
    """Draw both images."""
    lines = screen(recorded())
    for theme in THEMES:
        file_of(theme).write_text(drawn(lines, theme), "utf-8")


if __name__ == "__main__":
    main()
