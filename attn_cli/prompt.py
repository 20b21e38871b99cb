"""A text, image or audio as the model reads it: tokens that say what the user gave at each place."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Word:
    """A word of a text; all tokens that are part of it share the object, and another place of the word has another."""

    text: str


@dataclass(frozen=True)
class Token:
    """One row or column label: what the user wrote at this place, exactly.

    `start` and `end` are character offsets into the text, None where the token stands for no text of it; `row` and
    `column` are those of the patch of an image that it stands for, None where it stands for none or nobody knows which;
    `piece` is the part of an image that a tower sees by itself: a tile, then row and column are within it, or a window.
    `word` is what a text's token is a part of, None for what is no part of a word, and where nobody knows. `generated`
    is what the model wrote itself.
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
    """What a model wrote: its text, in how many tokens, and whether it ended there of its own accord.

    start  where it begins in the prompt's text; None where that is another text, which an encoder reads
    """

    text: str
    tokens: int
    ended: bool
    start: int | None = None


@dataclass(frozen=True)
class Prompt:
    """A text and what the source made of it; `warnings` are for the user, such as a word that the table lacks.

    tokens  those of the text; of the image or the sound in a model that reads no text
    others  the tokens of the streams that read something else, by stream: decoder, vision
    files   what was read beside the text, by kind: image, audio
    generated  what the model wrote first, which is among the tokens; None where it was not asked to
    """

    text: str
    tokens: tuple[Token, ...]
    warnings: tuple[str, ...] = ()
    others: Mapping[str, tuple[Token, ...]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    generated: Generated | None = None
