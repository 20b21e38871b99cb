"""The tokens of a dump against those of a text: the first that differs, and what that looks like."""

from collections.abc import Sequence
from typing import NamedTuple


class DifferingTokens(NamedTuple):
    """The first token at which a dump and a text differ.

    position    from 0
    dump, text  the id in each; None behind its last
    words       what is different, such as a missing BOS token
    """

    position: int
    dump: int | None
    text: int | None
    words: str


def differing_tokens(dump: Sequence[int], text: Sequence[int]) -> DifferingTokens | None:
    """The first token at which a dump's ids are not those of the text; None if all are.

    >>> differing_tokens([5, 6], [1, 5, 6]).words
    'the first token of the text is missing from the dump: a BOS token?'
    """
    if list(dump) == list(text):
        return None
    at = next((i for i, (a, b) in enumerate(zip(dump, text, strict=False)) if a != b), min(len(dump), len(text)))
    words = "the dump was made of other tokens"
    if list(dump) == list(text[1:]):
        words = "the first token of the text is missing from the dump: a BOS token?"
    elif list(dump[1:]) == list(text):
        words = "the dump has one token more at its beginning: a BOS token?"
    elif list(dump) == list(text[:-1]):
        words = "the last token of the text is missing from the dump: an EOS token?"
    elif list(dump[:-1]) == list(text):
        words = "the dump has one token more at its end: an EOS token?"
    return DifferingTokens(at, dump[at] if at < len(dump) else None, text[at] if at < len(text) else None, words)
