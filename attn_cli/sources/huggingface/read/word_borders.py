"""Tokens that are pieces of one word: by the characters where they touch, not by the vocabulary.

Words end as in Unicode's rules (UAX 29). A space that is a token belongs to the word after it. The tokenizer's own
words serve for scripts without spaces alone, where there are several within a text that the user put no spaces into.
"""

import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import regex

from attn_cli.prompt import Token, Word

Border = Literal["apart", "joined", "unspaced"]

# How the names of characters begin in scripts that put no spaces between words.
_UNSPACED = ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "BOPOMOFO", "THAI", "LAO", "KHMER",
             "MYANMAR", "TAI LE", "NEW TAI LUE", "TAI THAM", "TAI VIET")  # fmt: skip
_WEIGHTS = {"CJK": 2.0, "HIRAGANA": 1.0, "KATAKANA": 1.0}  # of a letter; others, such as Thai, have 1.5
_LONGEST = 12  # the mean weight of words; phrases between spaces are longer
_ACCENTS = r"[[\p{M}\p{Cf}\U0001f3fb-\U0001f3ff]--\u200b]*"
_LETTER, _TIED = rf"[\p{{L}}\p{{N}}\p{{Pc}}]{_ACCENTS}", rf"(?<=\u200d).{_ACCENTS}"  # by a joiner
_INSIDE = rf"(?<=\p{{L}}{_ACCENTS})['’](?=\p{{L}}) | (?<=\p{{Nd}}{_ACCENTS})[.,](?=\p{{Nd}})"
_FLAG, _OTHER = rf"\p{{RI}}{{2}}{_ACCENTS}", rf"\S{_ACCENTS} (?:{_TIED})*"
_WORD = regex.compile(f"(?V1xs) {_FLAG} | {_LETTER} (?:{_LETTER} | {_TIED} | {_INSIDE})* | {_OTHER}")


def with_words(
    text: str, tokens: Sequence[Token], word_ids: Sequence[int | None], added: Collection[int]
) -> tuple[Token, ...]:
    """The `tokens` of `text`, in order, each with the word that it is a piece of."""
    labelled = list(tokens)
    parted = not text.isascii() and _has_spaces_between_words(text)
    for run in _runs(text, tokens, added):
        several = len({word_ids[token.index] for token, _ in run}) > 1
        words: list[list[Token]] = []
        for token, border in run:
            same = parted or (several and word_ids[token.index] == word_ids[token.index - 1])
            if border == "joined" or (border == "unspaced" and same):
                words[-1].append(token)
            else:
                words.append([token])
        for pieces in words:
            word = Word(text[pieces[0].start : max(piece.end or 0 for piece in pieces)])
            for piece in pieces:
                labelled[piece.index] = replace(piece, word=word)
    for space, following in pairwise(labelled):
        if space.text == " " and following.start == space.end and not space.special:
            labelled[space.index] = replace(space, word=following.word)
    return tuple(labelled)


def _has_spaces_between_words(text: str) -> bool:
    pieces = [(piece, sum(map(_weight, piece))) for piece in text.split()]
    weights = [weight for _, weight in pieces if weight]
    beside = any(one and other and _is_unspaced(piece[-1]) for (piece, one), (_, other) in pairwise(pieces))
    return beside and sum(weights) <= _LONGEST * len(weights)


def _weight(character: str) -> float:
    script = unicodedata.name(character, "").partition(" ")[0] if _is_unspaced(character) else ""
    return _WEIGHTS.get(script, 1.5) if script else 0.0


def _runs(text: str, tokens: Sequence[Token], added: Collection[int]) -> Iterator[list[tuple[Token, Border]]]:
    starts = {match.start() for match in _WORD.finditer(text)}
    run: list[tuple[Token, Border]] = []
    for token in tokens:
        if token.special or token.start is None or token.id in added or token.text.isspace():
            if run:
                yield run
            run = []
            continue
        border: Border = _between(text, starts, run[-1][0], token) if run else "apart"
        if border == "apart" and run:
            yield run
            run = []
        run.append((token, border))
    if run:
        yield run


def _between(text: str, starts: Collection[int], one: Token, other: Token) -> Border:
    assert one.end is not None and other.start is not None
    if other.start != one.end:
        return "joined" if other.start < one.end else "apart"  # bytes of one character share its place
    before, after = text[other.start - 1], text[other.start]
    if other.start in starts or after.isspace():
        return "apart"
    is_letter = unicodedata.category(after)[0] in "LN" or after == "_"
    return "unspaced" if is_letter and (_is_unspaced(before) or _is_unspaced(after)) else "joined"


@lru_cache(4096)
def _is_unspaced(character: str) -> bool:
    return unicodedata.name(character, "").startswith(_UNSPACED)
