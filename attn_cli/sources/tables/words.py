"""Words of a text, as tables of word vectors hold them."""

import unicodedata

from attn_cli.sources.tables.table import WordTable

# Zero-width (non-)joiners are "format" characters, but they belong inside Persian and Indic words and emoji.
_JOINERS = "\u200c\u200d"


def split_words(text: str, table: WordTable | None = None) -> list[tuple[str, int, int]]:
    """The words of a text, in order, as (word, start, end) with `text[start:end] == word`.

    >>> split_words("Don't sit.")
    [('Don', 0, 3), ("'", 3, 4), ('t', 4, 5), ('sit', 6, 9), ('.', 9, 10)]
    """
    spans: list[list[int]] = []
    open_run = False
    for at, character in enumerate(text):
        category = unicodedata.category(character)
        continues = category[0] == "M" or character in _JOINERS
        touches_last = bool(spans) and spans[-1][1] == at
        if (continues and touches_last) or (category[0] in "LN" and open_run):
            spans[-1][1] = at + 1
        elif category[0] not in "ZC" or category in ("Co", "Cs"):
            spans.append([at, at + 1])
            open_run = category[0] in "LNM"
        else:
            open_run = False
    words = [(text[start:end], start, end) for start, end in spans]
    if table is None:
        return words
    return [word for word in words if not _is_punctuation(word[0]) or table.index(word[0]) is not None]


def _is_punctuation(word: str) -> bool:
    return unicodedata.category(word[0])[0] == "P"
