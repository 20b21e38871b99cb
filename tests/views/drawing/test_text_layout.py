"""Tokens on lines, maps side by side: all is there, in its order, and no line is wider than the screen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.prompt import Token
from attn_cli.views.drawing.console import printed
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.screen import Screen, screen_of
from attn_cli.views.drawing.side_by_side import arranged
from attn_cli.views.drawing.text_layout import layout_of
from tests.explore.recordings import prompt_of


@given(st.integers(1, 60), st.integers(8, 90), st.booleans(), st.booleans())
def test_every_token_stands_in_its_place(count: int, width: int, special: bool, shares: bool) -> None:
    prompt = prompt_of(count, special=special)
    layout = layout_of(prompt.tokens, prompt.text, width, ["·05"] * count if shares else [])
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
    layout = layout_of(tokens, text, 40, [])
    assert ["".join(piece.text for piece in line) for line in layout.lines] == ["a b␊", "␊", "c␣␣d"]
    assert layout.neighbour(1, 1) == 3
    assert layout.neighbour(4, -1) == 3


def test_words_of_several_tokens_stay_on_a_line() -> None:
    text = "in Bracamonte, or so"
    places = ((0, 2), (3, 6), (6, 8), (8, 13), (13, 14), (15, 17), (18, 20))
    tokens = [Token(at, text[start:end], start=start, end=end) for at, (start, end) in enumerate(places)]

    def lines(width: int) -> list[str]:
        return ["".join(piece.text for piece in line).strip() for line in layout_of(tokens, text, width, []).lines]

    assert lines(12) == ["in", "Bracamonte,", "or so"]
    assert lines(8) == ["in Braca", "monte,", "or so"]  # a word that is longer than a line


def test_pieces_of_one_character_and_hostile_text_do_no_harm() -> None:
    tokens = [Token(0, "你", start=0, end=1), Token(1, "你", start=0, end=1), Token(2, "\x1b[31m", start=1, end=6)]
    layout = layout_of(tokens, "你\x1b[31m", 40, [])
    assert ["".join(piece.text for piece in line) for line in layout.lines] == ["你∙␛[31m"]


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


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (5, 12), (16, 16), (30, 30)])
def test_maps_of_one_size_are_whole_and_within_the_screen(width: int, size: tuple[int, int]) -> None:
    on_terminal = _drawn([size] * 5, Screen(width, height=24))
    in_file = _drawn([size] * 5, Screen(width))
    assert max(map(len, on_terminal)) <= width
    assert len(on_terminal) <= len(in_file)
    titles = [title for line in on_terminal for title in line.split("map ")[1:]]
    assert [title[0] for title in titles] == list("01234")
    labels = [label for line in on_terminal for label in line.split() if label == "r0"]
    assert len(labels) == 5


def test_rows_of_maps_stand_at_one_height_and_files_have_one_below_the_other() -> None:
    side_by_side = _drawn([(2, 2)] * 2 + [(3, 3)], Screen(80, height=24))
    assert [line.count("0 r0") for line in side_by_side if "0 r0" in line] == [2, 1]
    below = _drawn([(2, 2)] * 2, Screen(80))
    assert [line.count("0 r0") for line in below if "0 r0" in line] == [1, 1]
    assert [line for line in below if "map" in line] == [
        "map 0 · weights · 2 x 2 · min 0.0165 max 0.637 · rows = queries, columns = keys",
        "map 1 · weights · 2 x 2 · min 0.607 max 0.913 · rows = queries, columns = keys",
    ]
