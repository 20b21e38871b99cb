"""The lines, paragraphs and sentences of a text, as ranges of characters."""

import re

_ENDS = {
    "lines": re.compile(r"\r\n?|\n"),
    "paragraphs": re.compile(r"(?:\r\n?|\n)(?:[ \t]*(?:\r\n?|\n))+"),
    # a mark that ends a sentence with what closes it and the space after, unless a small letter follows; a blank line
    "sentences": re.compile(
        r"""[.!?…]+["'”’)\]]*\s+(?![a-z])|[。！？]+[”’」』）]*\s*|(?:\r\n?|\n)(?:[ \t]*(?:\r\n?|\n))+"""
    ),
}
# words that end with a full stop and no sentence, before which nothing of a longer word stands
_ABBREVIATION = re.compile(r"(?:^|[\s(\[\"'“‘])(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Fig|Eq|vs|etc|cf|e\.g|i\.e|[A-Z])\.$")
_LONGEST = 8  # characters of an abbreviation with what stands before it
_LIST_NUMBER = re.compile(r"\s*\d{1,2}[.)]\s*")


def piece_starts(text: str, cut: str, start: int, end: int) -> list[int]:
    """Where the lines, paragraphs or sentences of text[start:end] begin in `text`, but for the first."""
    ends = [match.span() for match in _ENDS[cut].finditer(text, start, end)]
    if cut != "sentences":
        return [stop for _, stop in ends]
    return [stop for at, stop in ends if not _ABBREVIATION.search(text, max(0, at - _LONGEST), at + 1)]


def first_end(text: str) -> int | None:
    r"""One past the end of the first sentence or line with words, no list's number; None while it may go on.

    >>> first_end("\nThe code is 7402. It"), first_end("1. Take the ferry\n2."), first_end("The code is 7402.")
    (18, 17, None)
    """
    begins = len(text) - len(text.lstrip())
    starts = sorted(
        {*piece_starts(text, "sentences", begins, len(text)), *piece_starts(text, "lines", begins, len(text))}
    )
    for start in starts:
        piece = text[begins:start]
        if piece.strip() and not _LIST_NUMBER.fullmatch(piece):
            return begins + len(piece.rstrip())
    return None
