"""A text in lines of a given width, each of its tokens where it stands."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from rich.cells import cell_len

from attn_cli.prompt import Token, later_pieces
from attn_cli.text import visible

LATER_PIECE = "∙"  # of a character that several tokens share
_LONGEST_WORD = 30  # letters; what is longer, such as a text without blanks, breaks between tokens
_MOST = 1000  # characters of a token that are looked at
_BLANK = "␣"
_LINE_END = "␊"


class TokenPiece(NamedTuple):
    """The piece of a line that shows a token; `token` is -1 between tokens."""

    token: int
    column: int
    text: str
    width: int


@dataclass(frozen=True, eq=False)
class TextLayout:
    """Lines of pieces; the text's own line breaks stay, words stay whole, and a token longer than a line is cut."""

    lines: tuple[tuple[TokenPiece, ...], ...]

    @cached_property
    def line_of(self) -> dict[int, int]:
        """The line on which each token stands, both by index from 0."""
        return {piece.token: number for number, line in enumerate(self.lines) for piece in line if piece.token >= 0}

    def neighbour(self, token: int, lines: int) -> int:
        """The token nearest to the column of `token`, so many lines below it (above if negative)."""
        number = self.line_of[token]
        middle = next(piece.column + piece.width / 2 for piece in self.lines[number] if piece.token == token)
        target = min(max(number + lines, 0), len(self.lines) - 1)
        step = 1 if lines > 0 else -1
        while 0 <= target < len(self.lines):
            pieces = [piece for piece in self.lines[target] if piece.token >= 0]
            if pieces:
                return min(pieces, key=lambda piece: abs(piece.column + piece.width / 2 - middle)).token
            target += step
        return token

    def token_at(self, line: int, column: int) -> int | None:
        """The index of the token at a column of a line, both from 0; None where there is none."""
        if not 0 <= line < len(self.lines):
            return None
        pieces = (piece for piece in self.lines[line] if piece.token >= 0)
        return next((piece.token for piece in pieces if 0 <= column - piece.column < piece.width), None)


def gaps(tokens: Sequence[Token], text: str | None) -> Iterator[str]:
    """The text that stands before every token and is part of none; a blank where that is unknown."""
    end = 0
    for number, token in enumerate(tokens):
        if text is None or token.start is None or token.end is None:
            yield " " if number else ""
            continue
        gap = text[end : token.start] if token.start >= end else ""
        yield gap or (" " if number and tokens[number - 1].start is None else "")
        end = max(end, token.end)


def layout_of(tokens: Sequence[Token], text: str, width: int, measure: Callable[[str], Any] = cell_len) -> TextLayout:
    """Lay out `tokens`, whose offsets are into `text`, in lines of `width` columns, or in the unit of `measure`."""
    later = later_pieces(tokens)
    shown = [LATER_PIECE if is_later else _shown(token) for token, is_later in zip(tokens, later, strict=True)]
    words = _word_widths(tokens, shown, measure)
    lines: list[list[TokenPiece]] = [[]]
    column = 0

    def break_line() -> None:
        nonlocal column
        lines.append([])
        column = 0

    def add(token: int, shown: str) -> None:
        nonlocal column
        shown = visible(shown)
        size = measure(shown)
        if size > width:
            shown = next(
                cut for end in range(min(len(shown), _MOST), -1, -1) if measure(cut := shown[:end] + "…") <= width
            )
            size = measure(shown)
        if column + size > width:
            break_line()
            if token < 0 and not shown.strip():
                return
        lines[-1].append(TokenPiece(token, column, shown, size))
        column += size

    for at, (token, gap) in enumerate(zip(tokens, gaps(tokens, text), strict=True)):
        for number, between in enumerate(gap.split("\n")):
            if number:
                break_line()
            if between and (column or between.strip()):
                add(-1, between)
        if column and column + words[at] > width >= words[at]:
            break_line()
        add(at, shown[at])
        if not later[at]:
            for _ in range(token.text.count("\n")):
                break_line()
    while len(lines) > 1 and not lines[-1]:
        lines.pop()
    return TextLayout(tuple(map(tuple, lines)))


def _word_widths(tokens: Sequence[Token], shown: Sequence[str], measure: Callable[[str], Any]) -> list[Any]:
    """The width of the word that begins with each token, 0 for tokens within one; of a very long one its first's."""
    widths = [0] * len(tokens)
    first = 0
    for at, token in enumerate(tokens):
        joined = at > 0 and _are_joined(tokens[at - 1], token)
        size = measure(visible(shown[at]))
        if not joined:
            first = at
        if joined and widths[first] + size > _LONGEST_WORD * measure("x"):
            continue
        widths[first] += size
    return widths


def _are_joined(before: Token, token: Token) -> bool:
    if token.start is None or before.end is None or token.start > before.end:
        return False
    return not (before.text[-1:].isspace() or token.text[:1].isspace())


def _shown(token: Token) -> str:
    if not token.text.strip(" "):
        return _BLANK * max(len(token.text), 1)
    return token.text.replace("\n", _LINE_END)
