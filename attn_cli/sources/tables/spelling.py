"""Words of a table that differ from a mistyped one by one slip of the finger."""

from collections.abc import Iterator, Sequence
from string import ascii_lowercase
from typing import Protocol


class WordIndex(Protocol):
    """A table of words that gives the row of each."""

    def look_up(self, words: Sequence[str]) -> None:
        """Find the rows of these words, all in one call, before `index` is asked for each."""

    def index(self, word: str) -> int | None:
        """The row of a word; None for one that isn't there."""


_LONGEST = 40  # letters of a word that is worth guessing at


def near_words(words: Sequence[str], table: WordIndex) -> dict[str, str]:
    """For each word the one that was probably meant, if the table has any: letters swapped, doubled, missing, wrong."""
    guesses = {word: [*dict.fromkeys(_one_edit_away(word.lower()))] for word in words if 2 < len(word) <= _LONGEST}
    table.look_up([guess for candidates in guesses.values() for guess in candidates])
    near = {}
    for word, candidates in guesses.items():
        rows = {guess: row for guess in candidates if (row := table.index(guess)) is not None}
        swapped = next((guess for guess in rows if sorted(guess) == sorted(word.lower())), None)
        if rows:
            near[word] = swapped or min(rows, key=lambda guess: rows[guess])
    return near


def with_suggestions(words: Sequence[str], table: WordIndex) -> list[str]:
    """The words, each with the one that was probably meant, if the table has any: "bnak (bank?)"."""
    near = near_words(words, table)
    return [f"{word} ({near[word]}?)" if word in near else word for word in words]


def _one_edit_away(word: str) -> Iterator[str]:
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    yield from (left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1)
    yield from (left + right[1:] for left, right in cuts if right and len(word) > 3)
    yield from (left + letter + right for left, right in cuts for letter in ascii_lowercase)
    yield from (left + letter + right[1:] for left, right in cuts if right for letter in ascii_lowercase)
