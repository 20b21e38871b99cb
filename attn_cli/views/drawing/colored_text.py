"""A text in the colours of one row, or of one column."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.prompt import Token


@dataclass(frozen=True, eq=False)
class ColoredText:
    """The tokens of a text with a number each, such as a row of weights, by which they are coloured.

    title    which head it is
    words    what the numbers are
    text     the text that the tokens' start and end are offsets into; None where they have none
    values   a number for each token `[tokens]`, NaN or -inf where masked
    subject  the index among the tokens of the one whose row, or column, the numbers are; None where it is none of them
    """

    title: str
    words: str
    tokens: Sequence[Token]
    text: str | None
    values: np.ndarray
    subject: int | None = None
    scale: str = "linear"
    kind: str = "weights"
