"""Tokens that are pieces of one word: by the characters where they touch, not by the vocabulary.

Words end as in Unicode's rules (UAX 29). A space that is a token belongs to the word after it. In scripts without
spaces every token is a word, unless the user put spaces between words.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise

import regex

from attn_cli.prompt import Token, Word

_UNSPACED = (
    r"[\p{Han}\p{Hiragana}\p{Katakana}ーｰ\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}]"
)
_LONGEST = 12  # the mean letters of words, where a Chinese character counts as two; phrases between spaces are longer
_ACCENTS = r"[[\p{M}\p{Cf}\U0001f3fb-\U0001f3ff]--\u200b]*"
_LETTER, _TIED = rf"[\p{{L}}\p{{N}}\p{{Pc}}]{_ACCENTS}", rf"(?<=\u200d).{_ACCENTS}"  # by a joiner
_INSIDE = rf"(?<=\p{{L}}{_ACCENTS})['’](?=\p{{L}}) | (?<=\p{{Nd}}{_ACCENTS})[.,](?=\p{{Nd}})"
_FLAG, _OTHER = rf"\p{{RI}}{{2}}{_ACCENTS}", rf"\S{_ACCENTS} (?:{_TIED})*"
_WORD = regex.compile(f"(?V1xs) {_FLAG} | {_LETTER} (?:{_LETTER} | {_TIED} | {_INSIDE})* | {_OTHER}")
_AT_UNSPACED = regex.compile(rf"(?<={_UNSPACED})[\p{{L}}\p{{N}}_] | (?={_UNSPACED})[\p{{L}}\p{{N}}]", regex.VERBOSE)
_SPACE_BETWEEN = regex.compile(rf"{_UNSPACED}\s+\S*{_UNSPACED}")


def with_words(text: str, tokens: Sequence[Token], added: Collection[int]) -> tuple[Token, ...]:
    """The `tokens` of `text`, in order, each with the word that it is a piece of."""
    labelled, starts = list(tokens), _word_starts(text)
    pieces: list[Token] = []  # of one word
    for token in (*tokens, None):
        is_text = token and not (token.special or token.start is None or token.id in added or token.text.isspace())
        if pieces and not (is_text and token and _touch(pieces[-1], token, starts)):
            word = Word(text[pieces[0].start : max(piece.end or 0 for piece in pieces)])
            for piece in pieces:
                labelled[piece.index] = replace(piece, word=word)
            pieces = []
        if is_text and token:
            pieces.append(token)
    for space, following in pairwise(labelled):
        if space.text == " " and following.start == space.end and not space.special:
            labelled[space.index] = replace(space, word=following.word)
    return tuple(labelled)


def _touch(one: Token, other: Token, starts: Collection[int]) -> bool:
    assert one.end is not None and other.start is not None
    # bytes of one character share its place
    return other.start < one.end or (other.start == one.end and other.start not in starts)


def _word_starts(text: str) -> set[int]:
    starts = {match.start() for match in _WORD.finditer(text)}
    if text.isascii() or _has_spaces_between_words(text):
        return starts
    return starts | {match.start() for match in _AT_UNSPACED.finditer(text)}


def _has_spaces_between_words(text: str) -> bool:
    pieces = text.split()
    letters = [len(regex.findall(_UNSPACED, piece)) + len(regex.findall(r"\p{Han}", piece)) for piece in pieces]
    words = [count for count in letters if count]
    return bool(_SPACE_BETWEEN.search(text)) and sum(words) <= _LONGEST * len(words)
