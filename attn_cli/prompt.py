"""A text, image or audio as the model reads it: tokens that say which part of the input each one stands for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Word:
    """One occurrence of a word; its tokens share this object, other occurrences have their own."""

    text: str


@dataclass(frozen=True)
class Token:
    """The label of one row or column: `text` is the part of the user's input that it stands for, exactly.

    start, end   character offsets into the text; None where the token stands for no text
    row, column  of the image patch that it stands for; None where it stands for no patch or an unknown one
    piece        the part of an image that a vision tower reads by itself: a tile, within which rows and columns count
                 from 0, or a window; None where there is one image
    word         the word that the token is part of; None where it is part of none, or its word is unknown
    generated    whether the model generated it
    """

    index: int
    text: str
    id: int | None = None
    start: int | None = None
    end: int | None = None
    special: bool = False
    row: int | None = None
    column: int | None = None
    piece: int | None = None
    word: Word | None = field(default=None, compare=False)  # follows from the text and the place in it
    generated: bool = False


@dataclass(frozen=True)
class Generated:
    """The text that a model generated, its number of tokens, and whether the model ended it itself.

    start  its first character in the prompt's text; None where it is not part of that text, which an encoder reads
    """

    text: str
    tokens: int
    ended: bool
    start: int | None = None


@dataclass(frozen=True)
class Prompt:
    """A text and its tokens; `warnings` are for the user, such as a word that the table lacks.

    tokens     of the text, or of the image or audio in a model that reads no text
    others     the tokens of streams that read something else, by stream: decoder, vision
    files      file names of an image or audio read with the text, by kind: image, audio
    generated  what the model generated after the text, which is among the tokens; None where it generated nothing
    """

    text: str
    tokens: tuple[Token, ...]
    warnings: tuple[str, ...] = ()
    others: Mapping[str, tuple[Token, ...]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    generated: Generated | None = None


def later_pieces(tokens: Sequence[Token]) -> list[bool]:
    """Whether each token is another piece of a character that the tokens before it have shown whole.

    >>> later_pieces([Token(0, "日", start=0, end=1), Token(1, "日", start=0, end=1), Token(2, "本", start=1, end=2)])
    [False, True, False]
    """
    later, end = [], 0
    for token in tokens:
        if token.start is None or token.end is None:
            later.append(False)
            continue
        later.append(token.end <= end and token.start < end and token.text != "")
        end = max(end, token.end)
    return later
