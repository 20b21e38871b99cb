"""A text in the colours of one row, or of one column, as a figure for a paper."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from rich.cells import cell_len

from attn_cli.errors import InputError
from attn_cli.prompt import Token, later_pieces
from attn_cli.views.drawing.figure import MOST_PANELS, color_bar, color_on_paper, document, ink_on_paper, written
from attn_cli.views.drawing.palette import Ramp, ramp_for
from attn_cli.views.drawing.text_layout import LATER_PIECE


@dataclass(frozen=True, eq=False)
class ColoredText:
    """The tokens of a text, coloured by a number each.

    values   a number for each token `[tokens]`, NaN or -inf where masked
    subject  the index of the token whose row or column the numbers are; None where it is none of these
    """

    title: str
    words: str
    tokens: Sequence[Token]
    text: str | None
    values: np.ndarray
    subject: int | None = None
    scale: str = "linear"
    kind: str = "weights"


_POINT = 72 / 25.4  # points in a millimetre
_SIZE, _TITLE, _NOTE = 7.5, 7.0, 5.5  # of letters, in points
_LINE = 11.0  # from line to line
_BAR = 34.0  # the bar of colours, its numbers, and a gap before it
# Widths of letters in DejaVu Sans, in their size; a piece's text is fitted to the sum.
_NARROW, _WIDE, _OTHER = 0.33, 0.85, 0.61
_OVER = 6.0  # that a token without a gap before it, such as a full stop, may stand over the edge
_HEAVIEST = 5  # named below the text
_LEAST = 0.0005  # of a weight that is named


def text_figure_svg(texts: Sequence[ColoredText], width: float) -> str:
    """All texts below each other, `width` millimetres wide; they share one scale of colours."""
    if not 0 < len(texts) <= MOST_PANELS:
        raise InputError(f"a figure of {len(texts)} texts: it holds 1 to {MOST_PANELS}", "choose heads with -l and -H")
    finite = np.concatenate([each.values[np.isfinite(each.values)] for each in texts])
    scale = "linear" if texts[0].scale == "row" else texts[0].scale
    ramp = ramp_for(finite, texts[0].kind, scale, light=True)
    total = width * _POINT
    body: list[str] = []
    top = 0.0
    for each in texts:
        parts = list(_lines(each, total - _BAR))
        body += _panel(each, parts, ramp, top, total - _BAR)
        top += _TITLE + 6 + len(parts) * _LINE + _NOTE + 8
    body += color_bar(ramp, total - _BAR + 10, _TITLE + 6, max(min(top - _TITLE - 20, 90.0), 3 * _LINE))
    return document(body, width, max(top - 4, _TITLE + 6 + 3 * _LINE + 4))


@dataclass(frozen=True)
class _Piece:
    token: int
    x: float
    width: float
    shown: str


def _lines(text: ColoredText, room: float) -> Iterator[list[_Piece]]:
    """The tokens in lines of so many points; line breaks of the text stay."""
    line: list[_Piece] = []
    x, end, later = 0.0, None, later_pieces(text.tokens)
    for place, token in enumerate(text.tokens):
        gap = "" if end is None else " "
        if text.text is not None and token.start is not None and end is not None:
            gap = text.text[end : token.start]
        end = token.end if token.end is not None else end
        shown = LATER_PIECE if later[place] else written(token.text)
        width, before = _width(shown), _width(" ") if gap else 0.0
        if line and (x + before + width > room + (0.0 if gap else _OVER) or "\n" in gap):
            yield line
            line, x, before = [], 0.0, 0.0
        x += before if line else 0.0
        line.append(_Piece(place, x, width, shown))
        x += width
        if "\n" in token.text and not later[place]:
            yield line
            line, x = [], 0.0
    if line:
        yield line


def _width(text: str) -> float:
    return _SIZE * math.fsum(
        _NARROW if letter in " !'(),-./:;I[]fijlrt|`" else _WIDE if letter in "%@MWmw" else _OTHER * cell_len(letter)
        for letter in text
    )


def _panel(text: ColoredText, lines: Sequence[Sequence[_Piece]], ramp: Ramp, top: float, room: float) -> Iterator[str]:
    yield _written(0, top + _TITLE, f"{text.title} · {text.words}", _TITLE)
    levels = ramp.levels(text.values[None])[0]
    y = top + _TITLE + 6
    for line in lines:
        for piece in line:
            yield from _drawn(piece, float(levels[piece.token]), ramp, y, is_subject=piece.token == text.subject)
        y += _LINE
    yield _written(0, y + _NOTE, _heaviest(text, room * _SIZE / _NOTE), _NOTE, color="#555")


def _drawn(piece: _Piece, level: float, ramp: Ramp, y: float, *, is_subject: bool) -> Iterator[str]:
    masked = level != level
    box = f'x="{piece.x:.2f}" y="{y:.2f}" width="{piece.width:.2f}" height="{_LINE - 1.5:.2f}" rx="1"'
    frame = ' stroke="#c2185b" stroke-width="0.9"' if is_subject else ""
    if not masked or is_subject:
        yield f'<rect {box} fill="{"none" if masked else color_on_paper(level, ramp)}"{frame}/>'
    color = "#999" if masked else ink_on_paper(level, ramp)
    length = f'textLength="{max(piece.width - 0.8, 0.5):.2f}" lengthAdjust="spacingAndGlyphs"'
    place = f'x="{piece.x + 0.4:.2f}" y="{y + _SIZE:.2f}" font-size="{_SIZE:g}" fill="{color}"'
    if piece.shown:
        yield f"<text {place} {length}>{escape(piece.shown)}</text>"


def _heaviest(text: ColoredText, room: float) -> str:
    values = np.where(np.isfinite(text.values), text.values, 0.0)
    order = np.argsort(-np.abs(values), kind="stable")[:_HEAVIEST]
    heaviest = [(text.tokens[at], float(values[at])) for at in order.tolist() if abs(values[at]) >= _LEAST]
    words = [f"{token.index} {written(token.text).strip()} {value:.3f}" for token, value in heaviest]
    while len(words) > 1 and _width(" · ".join(words)) > room:
        words.pop()
    return " · ".join(words)


def _written(x: float, y: float, text: str, size: float, color: str = "#000") -> str:
    return f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size:g}" fill="{color}">{escape(written(text))}</text>'
