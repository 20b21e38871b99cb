"""A text in the colours of one row, or of one column."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.prompt import Token


@dataclass(frozen=True, eq=False)
class ColoredText:
    """The tokens of a text with a number each, such as a row of weights, by which they are coloured.

    title    which head it is; `subject` is the token whose row, or column, the numbers are, by its place among them or
             None where it is none of them; `words` say what the numbers are
    text     that the tokens' start and end are offsets into; None where they have none
    values   `[tokens]`, NaN or -inf where masked
    """

    title: str
    words: str
    tokens: Sequence[Token]
    text: str | None
    values: np.ndarray
    subject: int | None = None
    scale: str = "linear"
    kind: str = "weights"
