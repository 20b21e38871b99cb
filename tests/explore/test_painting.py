"""What is written to a terminal turns what it showed into the next screen: pyte, a terminal, is the judge."""

import pyte
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from attn_cli.explore.painting import Painting
from attn_cli.explore.panes.lines import Line, padded

WIDTH, HEIGHT = 12, 3
_COLOURS = (None, Color.from_rgb(1, 2, 3), Color.from_rgb(200, 100, 0), Color.from_ansi(4), Color.from_ansi(200))
styles = st.builds(
    Style,
    color=st.sampled_from(_COLOURS),
    bgcolor=st.sampled_from(_COLOURS),
    bold=st.booleans(),
    underline=st.booleans(),
    reverse=st.booleans(),
)
texts = st.sampled_from(("", "a", "ab", "▀", "▄", "▀▀", " ", "     ", "字", "e\u0301", "─│"))
lines = st.lists(st.builds(Segment, texts, styles, st.none()), max_size=8).map(lambda line: padded(line, WIDTH))
screens = st.lists(st.lists(lines, min_size=HEIGHT, max_size=HEIGHT), min_size=1, max_size=4)


def looks(screen: pyte.Screen) -> list[tuple[object, ...]]:
    """What is seen in every cell: for halves the colours of both, for blanks the one behind."""
    seen: list[tuple[object, ...]] = []
    for y in range(HEIGHT):
        for x in range(WIDTH):
            cell = screen.buffer[y][x]
            marks = (cell.bold, cell.underscore, cell.reverse)
            if cell.data in "▀▄" and cell.data and not any(marks):
                upper, lower = (cell.fg, cell.bg) if cell.data == "▀" else (cell.bg, cell.fg)
                seen.append(("halves", upper, lower))
            else:
                front = cell.fg if cell.data.strip() or any(marks) else None
                seen.append((cell.data, front, cell.bg, *marks))
    return seen


def plain(screen: list[Line]) -> str:
    """The same screen from nothing, each segment with all of its style: what a terminal makes of it is the truth."""
    text = ""
    for y, line in enumerate(screen):
        text += f"\x1b[{y + 1};1H"
        for part in line:
            assert part.style is not None
            text += part.style.render(part.text) if part.text else ""
    return text


@given(screens)
def test_every_screen_after_another_looks_as_if_written_whole(after_another: list[list[Line]]) -> None:
    painting, terminal = Painting(), pyte.Screen(WIDTH, HEIGHT)
    terminal.reset_mode(pyte.modes.DECAWM)  # as Textual leaves it: the last column takes no new line
    stream = pyte.Stream(terminal)
    for screen in after_another:
        stream.feed(painting.codes(screen))
        whole = pyte.Screen(WIDTH, HEIGHT)
        whole.reset_mode(pyte.modes.DECAWM)
        pyte.Stream(whole).feed(plain(screen))
        assert looks(terminal) == looks(whole)
        assert painting.codes(screen) == ""


def test_a_change_of_one_cell_is_a_few_bytes() -> None:
    painting = Painting()
    before = [[Segment("x" * 80, Style(bold=True))] for _ in range(24)]
    after = [*before[:5], [Segment("x" * 40 + "y" + "x" * 39, Style(bold=True))], *before[6:]]
    painting.codes(before)
    assert painting.codes(after) == "\x1b[6;41H\x1b[1my\x1b[0m"
    assert painting.codes(after[:20]).count("x") == 20 * 80 - 1
    painting.forget()
    assert painting.codes(after[:20]).count("x") == 20 * 80 - 1
