"""The syntax of --token and --word: the tokens that a word, a number, `4-6`, `bank#2` or `+` picks."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import groupby

from attn_cli.errors import InputError
from attn_cli.prompt import Prompt, Token
from attn_cli.selection_syntax import numbers
from attn_cli.text import cut


def picked_tokens(pick: str, tokens: Sequence[Token], text: str) -> tuple[list[int], tuple[str, ...]]:
    """The indices of the tokens that `pick`, as --token takes it, names, and notes for the user."""
    generated = [token.index for token in tokens if token.generated]
    if pick == "+" and generated:  # screens mark generated tokens with +
        return generated, ()
    indices: Sequence[int] = (int(pick),) if re.fullmatch(r"-?\d{1,18}", pick) else ()
    word, number = pick, ""
    places = [] if indices else _places(word, tokens, text)
    if not places and re.fullmatch(r"\d+(-\d+)?(,-?\d+(-\d+)?)*", pick):
        indices = indices or numbers(pick, "token") or ()
    for index in indices:
        if not -len(tokens) <= index < len(tokens):
            raise InputError(f"there is no token {index}", f"tokens: {_token_list(tokens)}")
    if indices:
        return sorted({index % len(tokens) for index in indices}), ()
    if not places and (match := re.fullmatch(r"(.+)#(\d{1,18})", pick, re.DOTALL)):
        word, number = match.groups()
        places = _places(word, tokens, text)
    if not places:
        words = {token.text.lower(): token.text for token in tokens} | {w.lower(): w for w in re.findall(r"\w+", text)}
        near = get_close_matches(word.lower()[:100], words, 1)
        meant = f", did you mean {cut(words[near[0]], 40)!r}?" if near else ""
        raise InputError(f"no token {cut(word, 60)!r} in the text{meant}", f"tokens: {_token_list(tokens)}")
    if number:
        if not 1 <= int(number) <= len(places):
            times = f"{len(places)} time{'s' * (len(places) != 1)}"
            raise InputError(f"{cut(word, 60)!r} occurs {times}, there is no {pick}", f"tokens: {_token_list(tokens)}")
        return places[int(number) - 1], ()
    starts = ", ".join(str(place[0]) for place in places)
    note = f"{word!r} occurs {len(places)} times, at {starts}; {word}#2 picks the second"
    return _together(places), (note,) if len(places) > 1 else ()


def picked_rows(pick: str | None, prompt: Prompt) -> tuple[list[int] | None, tuple[str, ...]]:
    """The query rows of a text that `pick`, as --token takes it, names, and notes for the user; None for all."""
    if pick is None:
        return None, ()
    errors = []
    for tokens in filter(None, (prompt.tokens, *prompt.others.values())):
        try:
            rows, notes = picked_tokens(pick, tokens, prompt.text)
        except InputError as error:
            errors.append(error)
        else:
            return rows if tokens is prompt.tokens else [], notes
    if errors:
        raise errors[0]
    return [], ()


def rows_of_stream(pick: str | None, queries: Sequence[Token], text: str) -> list[int] | None:
    """The rows that `pick`, as --token takes it, names among one layer's queries; None for all, [] for none."""
    if pick is None:
        return None
    try:
        return picked_tokens(pick, queries, text)[0]
    except InputError:
        return []


def first_place(pick: str, prompt: Prompt) -> tuple[list[int], tuple[str, ...]]:
    """The indices of the tokens of the first place that `pick` names; a note if there are more."""
    indices, notes = picked_tokens(pick, prompt.tokens, prompt.text)
    if not notes:
        return indices, ()
    first, _ = picked_tokens(f"{pick}#1", prompt.tokens, prompt.text)
    return first, (f"{notes[0]}: the first is taken",)


def all_places(word: str, prompt: Prompt) -> list[int]:
    """The indices of the tokens of every occurrence of a word in a text; an empty list without any."""
    return _together(_places(word, prompt.tokens, prompt.text))


def _together(places: Sequence[Sequence[int]]) -> list[int]:
    return sorted({index for place in places for index in place})


def _places(word: str, tokens: Sequence[Token], text: str) -> list[list[int]]:
    if not word:  # the empty text occurs everywhere
        return []
    exact = [[token.index] for token in tokens if token.text == word]
    same = exact or [[token.index] for token in tokens if token.text.lower() == word.lower()]
    if same:
        return same
    spans = [match.span() for match in re.finditer(re.escape(word), text, re.IGNORECASE)]
    pieces = [
        [t.index for t in tokens if t.start is not None and t.end is not None and t.start < last and t.end > first]
        for first, last in spans
    ]
    return [place for place in pieces if place] or _whole_words(word, tokens) or _generated_places(word, tokens, text)


def _generated_places(word: str, tokens: Sequence[Token], text: str) -> list[list[int]]:
    if not word.startswith("+") or not any(token.generated for token in tokens):
        return []
    return [place for place in _places(word[1:], tokens, text) if all(tokens[index].generated for index in place)]


def _whole_words(word: str, tokens: Sequence[Token]) -> list[list[int]]:
    groups = ((whole, list(pieces)) for whole, pieces in groupby(tokens, lambda token: token.word))
    return [[t.index for t in pieces] for whole, pieces in groups if whole and whole.text.lower() == word.lower()]


def _token_list(tokens: Sequence[Token]) -> str:
    words = " ".join(f"{token.index} {cut(token.text, 40)}" for token in tokens[:40])
    return words + (" ..." if len(tokens) > 40 else "")
