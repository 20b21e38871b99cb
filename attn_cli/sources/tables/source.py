"""A table of static word vectors as a source: self-attention with no learned part, on the user's own words."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from string import ascii_lowercase
from typing import TYPE_CHECKING

import numpy as np

from attn_cli.attention_call import AttentionCall, Ingredients
from attn_cli.call import Place, Visit
from attn_cli.errors import InputError, LimitError
from attn_cli.kernel.definition.heads import join_heads, split_heads
from attn_cli.kernel.definition.rule import Rule
from attn_cli.model.blocks import Arrive, Block, BlockVectors
from attn_cli.model.source import LONGEST_REPEAT, about_of, repeat_lengths
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import PlannedLayer, Selection
from attn_cli.sources.files.paths import expanded
from attn_cli.sources.numbers import require_finite_scores
from attn_cli.sources.tables import Vectors
from attn_cli.text import excerpt, listed

if TYPE_CHECKING:
    from attn_cli.sources.tables.files import WordTable

_MOST_WORDS = 200_000  # minutes of work; it grows with their square
_NAMED = 8  # of the words that a table lacks
_LETTERS = 20  # of a word, on average, at most
_SHORTER = "give a part of it, or --lines, which takes every line as a text"
_LONGEST = 40  # letters of a word that is worth guessing at
_EXAMPLE = 'for example: attn nearest "king - man + woman"'
_SIGNS = {"+": 1, "-": -1, "−": -1, "–": -1}
_TERM = re.compile(r"(?:(?<!\S)([-+−–])\s*)?(\S+)")  # a sign stands alone, or right before its word


# Zero-width (non-)joiners are "format" characters, but they belong inside Persian and Indic words and emoji.
_JOINERS = "\u200c\u200d"


def split_words(text: str, table: "WordTable | None" = None) -> list[tuple[str, int, int]]:
    """The words of a text, in order, as (word, start, end) with `text[start:end] == word`."""
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
    return [x for x in words if not table or unicodedata.category(x[0][0])[0] != "P" or table.index(x[0]) is not None]


def split_terms(text: str) -> tuple[list[int], list[Token]]:
    """The signs in an expression (1, -1, or 0 for none) and its words; InputError for a word or sign too many.

    A sign stands alone or right before its word; inside a word it is part of the word, as in "co-operate".

    >>> [(sign, word.text) for sign, word in zip(*split_terms("king - man +woman"))]
    [(1, 'king'), (-1, 'man'), (1, 'woman')]
    """
    signs: list[int] = []
    words: list[Token] = []
    for match in _TERM.finditer(text):
        sign, word = match.groups()
        if word in _SIGNS:
            missing = f"{excerpt(text)!r} ends with a sign" if words else "no word"
            raise InputError(f"two signs before a word in {excerpt(text)!r}" if sign else missing, _EXAMPLE)
        signs.append(_SIGNS[sign] if sign else int(not words))
        words.append(Token(len(words), word, None, match.start(2), match.end()))
    if not words:
        raise InputError("no word", _EXAMPLE)
    bare = [word.text for sign, word in zip(signs, words, strict=True) if not sign]
    if bare and (len(bare) < len(words) - 1 or signs[0] < 0):
        raise InputError(f"no + or - before {excerpt(bare[0])!r}", _EXAMPLE)
    return signs, words


def with_signs_apart(text: str) -> str:
    """The expression with blanks around signs that stand inside words, as they were probably meant."""
    return re.sub(r"(?<=\w)[+-](?=\w)", lambda sign: f" {sign[0]} ", text)


def with_suggestions(words: Sequence[str], table: "WordTable") -> list[str]:
    """The words, each with the one that was probably meant, if the table has any: "bnak (bank?)"."""
    guesses = {word: [*dict.fromkeys(_one_edit_away(word.lower()))] for word in words if 2 < len(word) <= _LONGEST}
    table.look_up([guess for candidates in guesses.values() for guess in candidates])
    shown = []
    for word in words:
        rows = {guess: row for guess in guesses.get(word, ()) if (row := table.index(guess)) is not None}
        swapped = (guess for guess in rows if sorted(guess) == sorted(word.lower()))
        meant = next(swapped, min(rows, key=lambda guess: rows[guess], default=""))
        shown.append(f"{word} ({meant}?)" if meant else word)
    return shown


def _one_edit_away(word: str) -> Iterator[str]:
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    yield from (left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1)
    yield from (left + right[1:] for left, right in cuts if right and len(word) > 3)
    yield from (left + letter + right for left, right in cuts for letter in ascii_lowercase)
    yield from (left + letter + right[1:] for left, right in cuts if right for letter in ascii_lowercase)


class TableSource:
    """One attention layer over a table of word vectors: q, k, v are x or its own; scale 1 / sqrt(d), no mask."""

    batch_size = 1  # batches make tables no faster
    unseen: Sequence[Block] = ()

    def __init__(
        self, table: "WordTable", model: str | None = None, learned: tuple[str, dict[str, Vectors]] | None = None
    ) -> None:
        """Of the table of a `--model` value; `learned` is the table's own, and what `attn learn` found for it."""
        self.table = table
        self.table_name = f"toy:{table.name}" if model is None else str(expanded(model).resolve())
        self._projections: dict[str, Vectors] = {}
        if learned is not None:
            self.table_name, self._projections = learned
        for name, w in self._projections.items():
            if w.shape != (table.width, table.width):
                numbers = f"the vectors of {table.name} have {table.width} numbers"
                raise InputError(f"{model}: w{name} has shape {w.shape}, and {numbers}", "learn again: attn learn -o")
        self.own_file = not self.table_name.startswith("toy:")
        dtype = np.promote_types(table.dtype, np.float32)
        self.about = about_of(model or f"toy:{table.name}", "table", str(dtype), "cpu")

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """The texts as words of the table; a word that it lacks is left out and named in a warning."""
        if pair is not None:
            raise InputError("--pair needs a model", "add -m MODEL: a table knows no sentence pairs")
        return [self._prompt(text) for text in texts]

    def _prompt(self, text: str) -> Prompt:
        if not text.strip():
            raise InputError("the text is empty", "give some words, or - to read them from standard input")
        if len(text) > _MOST_WORDS * _LETTERS:
            raise LimitError(f"the text has {len(text):,} letters, and a table reads {_MOST_WORDS:,} words", _SHORTER)
        self.table.look_up([word for word, _, _ in split_words(text)])
        words = split_words(text, self.table)
        if len(words) > _MOST_WORDS:
            raise LimitError(f"the text has {len(words):,} words, and a table reads {_MOST_WORDS:,}", _SHORTER)
        rows = [self.table.index(word) for word, _, _ in words]
        missing = [word for (word, _, _), at in zip(words, rows, strict=True) if at is None]
        known = (pair for pair in zip(words, rows, strict=True) if pair[1] is not None)
        tokens = [Token(number, word, at, start, end) for number, ((word, start, end), at) in enumerate(known)]
        if not tokens:
            named = listed(with_suggestions([*dict.fromkeys(missing)][: 2 * _NAMED], self.table), _NAMED)
            raise InputError(
                f"no word of the text is in the table {self.table.name}: {named}", f"it knows {self.table.extent}"
            )
        return Prompt(text, tuple(tokens), self._left_out(missing) + self._recased(tokens))

    def _left_out(self, missing: Sequence[str]) -> tuple[str, ...]:
        if not missing:
            return ()
        times = Counter(missing)
        first = list(times)[:_NAMED]
        first = first if self.own_file else with_suggestions(first, self.table)  # a file would be read once more
        named = [
            word + (f" {count} times" if count > 1 else "")
            for word, count in zip((*first, *list(times)[_NAMED:]), times.values(), strict=True)
        ]
        return (f"not in the table {self.table.name}, left out: {listed(named, _NAMED)}",)

    def _recased(self, tokens: Sequence[Token]) -> tuple[str, ...]:
        if not self.own_file:
            return ()
        spellings = {token.text: self.table.word(token.id) for token in tokens if token.id is not None}
        changes = [f"{word} as {spelling}" for word, spelling in spellings.items() if word != spelling]
        return (f"read in the case that {self.table.name} has: {', '.join(changes)}",) if changes else ()

    def repeated(self, seed: int) -> list[Prompt]:
        """Three prompts of random words of the table, each run of words written twice; InputError for too few words."""
        first, words, _ = next(self.table.blocks(), (0, (), None))
        lengths = repeat_lengths(min(LONGEST_REPEAT, len(words) // 2), f"the table {self.table.name} has too few words")
        prompts = []
        for more, length in enumerate(lengths):
            rows = np.random.default_rng(seed + more).permutation(len(words))[:length].tolist() * 2
            prompts.append(Prompt("", tuple(Token(at, words[row], first + row) for at, row in enumerate(rows))))
        return prompts

    def read_terms(self, text: str) -> tuple[Prompt, list[int]]:
        """The words of an expression such as king - man + woman, and their signs; InputError for an unknown word."""
        signs, terms = split_terms(text)
        self.table.look_up([term.text for term in terms])
        tokens = [replace(term, id=self.table.index(term.text)) for term in terms]
        missing = [token.text for token in tokens if token.id is None]
        if missing:
            apart = excerpt(with_signs_apart(text))
            hint = f" · signs stand apart: {apart}" if any(with_signs_apart(word) != word for word in missing) else ""
            words = listed(with_suggestions(missing[:20], self.table), 20)
            raise InputError(f"not in the table {self.table.name}: {words}", f"it knows {self.table.extent}{hint}")
        return Prompt(text, tuple(tokens), self._recased(tokens)), signs

    def vectors(self, prompt: Prompt) -> np.ndarray:
        """The words' own vectors in the table `[n, d]` in float64, before any projection."""
        return self.table.rows([token.id for token in prompt.tokens if token.id is not None]).astype(np.float64)

    def planned_layers(self, selection: Selection) -> list[PlannedLayer]:
        """The only layer, number 0, with how many of its heads are chosen; InputError for another."""
        selection.check_layers([("self", 0)])
        return [PlannedLayer(0, len(selection.pick_heads(self.table.heads)))]

    def each(self, prompts: Sequence[Prompt], selection: Selection, visit: Visit, *, projections: bool = False) -> None:
        """Call `visit` once per prompt, with the attention of layer 0."""
        selection.check_layers([("self", 0)])
        for text, prompt in enumerate(prompts):
            visit(self.call(prompt, selection, text))

    def follow(self, prompt: Prompt, rows: Sequence[int], selection: Selection, visit: Visit, arrive: Arrive) -> None:
        """Call `visit`, then `arrive` with two vectors of each of `rows`: the word's own, and its output."""
        selection.check_layers([("self", 0)])
        call = self.call(prompt, selection)
        visit(call)
        outputs = [band.output.copy() for row in rows for band in call.bands(rows=[row])]
        before = self.table.rows([prompt.tokens[row].id or 0 for row in rows])
        arrive(BlockVectors(0, "self", 0, before, join_heads(np.concatenate(outputs, axis=1))))

    def call(self, prompt: Prompt, selection: Selection, text: int = 0) -> AttentionCall:
        """The attention of a prompt's words in the chosen heads of the only layer."""
        table = self.table
        heads = selection.pick_heads(table.heads)
        rows = [token.id for token in prompt.tokens if token.id is not None]
        x = table.rows(rows)
        q, k, v = (split_heads(part, table.heads)[list(heads)] for part in self.parts(rows))
        place = Place(0, self.about["model"], heads, heads, "self", 0, text)
        rule, labels = Rule(scale=q.shape[-1] ** -0.5), prompt.tokens
        require_finite_scores(q, k, rule.scale, f"divide the vectors of {table.name} by a number")
        return AttentionCall(q, k, v, rule, place, labels, labels, None, Ingredients(x))

    def parts(self, rows: Sequence[int]) -> tuple[Vectors, Vectors, Vectors]:
        """q, k and v of rows, heads side by side `[n, d]` each: the table's own, or by what was learned."""
        if not self._projections:
            return self.table.rows(rows, "q"), self.table.rows(rows, "k"), self.table.rows(rows, "v")
        x = self.table.rows(rows)
        return x @ self._projections["q"], x @ self._projections["k"], x
