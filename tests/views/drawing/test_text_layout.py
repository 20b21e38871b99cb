"""Every token is on a line, in its order, and no line is wider than the screen."""

from hypothesis import given
from hypothesis import strategies as st

from attn_cli.prompt import Token
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
