"""Tokens on lines, maps side by side: all is there, in its order, and no line is wider than the screen."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.color import Color
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.views.drawing.console import console_for, printed
from attn_cli.views.drawing.heatmap import HeatMap, arranged
from attn_cli.views.drawing.palette import Ramp, background, color_at, ramp_for, shade
from attn_cli.views.drawing.screen import Screen, screen_of
from attn_cli.views.drawing.text_layout import layout_of
from tests.explore.recordings import prompt_of
from tests.program import attn


@given(st.integers(1, 60), st.integers(8, 90), st.booleans())
def test_every_token_stands_in_its_place(count: int, width: int, special: bool) -> None:
    prompt = prompt_of(count, special=special)
    layout = layout_of(prompt.tokens, prompt.text, width)
    pieces = [piece for line in layout.lines for piece in line]
    assert [piece.token for piece in pieces if piece.token >= 0] == list(range(count))
    for line in layout.lines:
        ends = [piece.column + piece.width for piece in line]
        assert [piece.column for piece in line] == [0, *ends[:-1]][: len(line)]
        assert not ends or ends[-1] <= width
    for piece in pieces:
        if piece.token >= 0:
            number = layout.line_of[piece.token]
            assert layout.token_at(number, piece.column) == piece.token
            assert layout.neighbour(piece.token, 0) in range(count)


def test_line_breaks_stay_and_blanks_are_seen() -> None:
    text = "a b\n\nc  d"
    tokens = [Token(0, "a", start=0, end=1), Token(1, "b", start=2, end=3), Token(2, "\n", start=3, end=4),
              Token(3, "\n", start=4, end=5), Token(4, "c", start=5, end=6), Token(5, "  ", start=6, end=8),
              Token(6, "d", start=8, end=9)]  # fmt: skip
    layout = layout_of(tokens, text, 40)
    assert ["".join(piece.text for piece in line) for line in layout.lines] == ["a b␊", "␊", "c␣␣d"]
    assert layout.neighbour(1, 1) == 3
    assert layout.neighbour(4, -1) == 3


def test_words_of_several_tokens_stay_on_a_line() -> None:
    text = "in Bracamonte, or so"
    places = ((0, 2), (3, 6), (6, 8), (8, 13), (13, 14), (15, 17), (18, 20))
    tokens = [Token(at, text[start:end], start=start, end=end) for at, (start, end) in enumerate(places)]

    def lines(width: int) -> list[str]:
        return ["".join(piece.text for piece in line).strip() for line in layout_of(tokens, text, width).lines]

    assert lines(12) == ["in", "Bracamonte,", "or so"]
    assert lines(8) == ["in Braca", "monte,", "or so"]  # a word that is longer than a line


@pytest.mark.parametrize(
    ("term", "depth"),
    [("vt100", "none"), ("vt220", "none"), ("dumb", "none"), ("xterm", "16"), ("xterm-256color", "256"),
     ("xterm-direct", "truecolor")],
)  # fmt: skip
def test_a_terminal_without_colours_gets_none(term: str, depth: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("COLORTERM", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert screen_of(None).depth == depth


def _drawn(sizes: list[tuple[int, int]], screen: Screen) -> list[str]:
    rng = np.random.default_rng(0)
    maps = [
        HeatMap(rng.random((n, m)), "weights", f"map {at} · weights", [f"r{i}" for i in range(n)],
                [f"c{j}" for j in range(m)], screen)
        for at, (n, m) in enumerate(sizes)
    ]  # fmt: skip
    return printed(arranged(maps, screen), screen).split("\n")


@pytest.mark.parametrize(("width", "size"), [(40, (3, 3)), (80, (5, 12)), (120, (1, 1)), (200, (16, 16))])
def test_maps_of_one_size_are_whole_and_within_the_screen(width: int, size: tuple[int, int]) -> None:
    on_terminal = _drawn([size] * 5, Screen(width, height=24))
    in_file = _drawn([size] * 5, Screen(width))
    assert max(map(len, on_terminal)) <= width
    assert len(on_terminal) <= len(in_file)
    titles = [title for line in on_terminal for title in line.split("map ")[1:]]
    assert [title[0] for title in titles] == list("01234")
    labels = [label for line in on_terminal for label in line.split() if label == "r0"]
    assert len(labels) == 5


WORDS = st.text(st.sampled_from("ab  \n\t中é[]\u200d█"), max_size=70)
TEXTS = st.builds(
    lambda words, style, end, justify, wrap: Text(words, style, end=end, justify=justify, no_wrap=wrap),
    WORDS,
    st.sampled_from(["", "bold", "dim", "red"]),
    st.sampled_from(["\n", "\n", "\n", "", " "]),
    st.sampled_from([None, None, None, "right", "center"]),
    st.sampled_from([None, None, True, False]),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(TEXTS, st.just("")), max_size=4), st.integers(20, 60), st.sampled_from(["none", "truecolor"]))
@example([Text("a\tb")], 20, "none")
@example([Text("a " * 15)], 20, "none")
@example([Text("中" * 10 + "b")], 20, "none")
@example([Text("a", end="")], 20, "none")
@example([Text("a", justify="right")], 20, "none")
def test_a_part_is_printed_as_rich_prints_it(parts: list[Text | str], width: int, depth: str) -> None:
    screen = Screen(width=width, depth=depth)
    rich = console_for(screen)
    for part in parts:
        rich.print(part, soft_wrap=False, crop=True)
    lines = rich.file.getvalue().split("\n")  # type: ignore[attr-defined]
    assert printed(parts, screen) == "\n".join(line.rstrip() if depth == "none" else line for line in lines)


DEPTHS = ["truecolor", "256", "16", "none"]
BEYOND = [-1e300, -1.05, -0.01, 1.01, 1.05, 9.0, 1e300, float("inf"), float("-inf")]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("diverging", [False, True])
@pytest.mark.parametrize("level", BEYOND)
def test_a_level_beyond_the_ramp_has_the_colour_of_its_end(level: float, diverging: bool, depth: str) -> None:
    ramp = Ramp(-1.0 if diverging else 0.0, 1.0, diverging)
    end = 1.0 if level > 0 else 0.0
    assert background(level, ramp, depth) == background(end, ramp, depth)
    assert shade(level, ramp) == shade(end, ramp)


@pytest.mark.parametrize("scale", ["linear", "sqrt", "log", "row"])
@pytest.mark.parametrize("kind", ["weights", "scores"])
def test_levels_of_any_numbers_are_between_0_and_1(kind: str, scale: str) -> None:
    top = np.finfo(np.float64).max
    values = np.array([[top, -top, 0.0, 1.0], [np.inf, -np.inf, np.nan, -top / 2]])
    levels = ramp_for(values, kind, scale).levels(values)
    assert np.isnan(levels).tolist() == [[False] * 4, [False, True, True, False]]
    assert levels[0, 0] == levels[1, 0] == 1
    assert levels[0, 1] == 0
    assert np.nanmin(levels) >= 0
    assert levels[0, 2] == (0.5 if kind == "scores" else 0)


def lightness(color: Color) -> float:
    """Luminance of a colour as a terminal or a page shows it, 0 to 1."""
    parts = [part / 255 for part in color.get_truecolor()]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("depth", ["truecolor", "256"])
@pytest.mark.parametrize("light", [False, True])
def test_0_is_told_from_a_masked_cell_and_sizes_by_lightness(light: bool, depth: str) -> None:
    """A masked cell is the screen's own black or white; what is farther from 0 is farther from that."""
    ramp = Ramp(-1.0, 1.0, diverging=True, light=light)
    colors = [color_at(index, ramp.colors, depth) for index in range(256)]
    screen = 1.0 if light else 0.0
    from_screen = [(max(lightness(c), screen) + 0.05) / (min(lightness(c), screen) + 0.05) for c in colors]
    assert min(from_screen) > 1.9  # of contrast
    for side in (from_screen[128:], from_screen[127::-1]):
        step = 8  # of 256 colours, some stand for several
        assert all(far >= near - 0.35 for near, far in zip(side[::step], side[step::step], strict=False))
        assert side[-1] > 2 * side[0]
    assert len({color.get_truecolor() for color in colors[::32]}) == 8


@pytest.mark.parametrize("depth", ["none", "16", "256", "truecolor"])
@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("n", [8, 30, 60])
def test_a_cell_of_0_and_a_masked_one(n: int, ascii_only: bool, depth: str) -> None:
    values = np.eye(n) + np.triu(np.full((n, n), -np.inf), 1)
    labels = [f"w{at}" for at in range(n)]
    screen = Screen(90, depth, ascii_only)
    lines = HeatMap(values, "weights", "weights", labels, labels, screen).lines()
    row = next(line for line in lines if line[-1].text.strip() == f"{n // 2} w{n // 2}")
    cells = [(segment.text, segment.style) for segment in row]
    zero, masked = cells[n // 4], cells[n - 1]
    assert zero != masked
    assert masked[0].strip() == ""


def test_of_a_block_the_number_farthest_from_0_is_drawn(tmp_path: object) -> None:
    values = np.zeros((100, 200))
    values[:2], values[50, 7], values[50, 8] = [[0.25], [-4.5]], 3.5, -4.0
    np.save(f"{tmp_path}/v.npy", values)
    np.save(f"{tmp_path}/q.npy", np.eye(100) * 1000)  # every query takes its own value
    run = attn("compute", "--q", f"{tmp_path}/q.npy", "--v", f"{tmp_path}/v.npy", env={"COLUMNS": "80"})
    output = run.text[run.text.index("output") :].split("\n\n")[0].splitlines()
    assert output[0] == "output · 100 x 200 · cells -4.5 to 3.5 · farthest from 0 over 3 x 4"
    body = [line for line in output[3:] if "-4.5" not in line]
    assert len(body) == 34
    assert all(len(set(line[:50])) == 1 for line in body[:2])  # one level in the whole line
    spike = next(line for line in body if line.endswith(" 48-50"))
    assert spike[:4].strip() == "▓%"  # 3.5 in the cell of columns 4 to 7, -4 in the next
    assert not spike[4:50].strip()
