"""From texts to shown reports: what all commands on a text have in common."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from typing import Any

from attn_cli.call import Call
from attn_cli.cli.kit.progress import Progress
from attn_cli.cli.kit.stderr import said, say, tell
from attn_cli.errors import AttnError, ExitCode, InputError
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import Selection
from attn_cli.sources import Source
from attn_cli.summaries.calls.in_words import InWords, has_words, prompt_in_words
from attn_cli.summaries.calls.memo import remembered
from attn_cli.summaries.calls.without_special import Hidden, WithoutSpecial, kept
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.report import Report
from attn_cli.text import cut
from attn_cli.views import View

# Which reducers look at the picked rows (None for all) of a call; none means that the call is not shown.
Choose = Callable[[Sequence[int] | None, Call], Sequence[Reducer]]

# What will be held of a text's picked rows (None for all), in words; LimitError if that is too much.
Check = Callable[[Prompt, Sequence[int] | None], str]


@dataclass(frozen=True)
class Question:
    """One text to be answered: its number, its tokens, and which query rows are asked for.

    read    the text as the source made it; `prompt` as it is shown, with words in place of tokens if that was asked for
    token   what picks rows, None for all; `rows` are those among the prompt's own tokens, for what is said beforehand
    """

    number: int
    read: Prompt
    prompt: Prompt
    token: str | None
    rows: Sequence[int] | None
    notes: tuple[str, ...]

    @property
    def options(self) -> dict[str, Any]:
        """What a view must say of words that tokens were merged into: of how many; nothing where none were."""
        return {} if self.prompt is self.read else {"merged": len(self.read.tokens)}

    def rows_of(self, queries: Sequence[Token], *, hide_special: bool) -> Sequence[int] | None:
        """The asked rows of a call, None for all, none where its queries don't have what was picked.

        Each stream is asked for itself: a word of the text is no row of the vision tower. With `hide_special` rows are
        numbered among the tokens that are not special.
        """
        if self.token is None:
            return None
        try:
            rows, _ = picked(replace(self.prompt, tokens=tuple(queries)), self.token)
        except InputError:
            return []
        if not hide_special:
            return rows
        left = kept(queries)
        return [left.index(row) for row in rows if row in left]


def answer(
    command: str,
    source: Source,
    texts: Iterator[str | InputError],
    view: View,
    choose: Choose,
    *,
    selection: Selection,
    token: str | None = None,
    lines: bool = False,
    pair: str | None = None,
    generate: int | None = None,
    options: dict[str, Any] | None = None,
    check: Check | None = None,
    hide_special: bool = False,
    words: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> ExitCode:
    """Run all texts through `source`, batch by batch, and show a report for each, in order.

    `generate` is how many tokens the source writes after each text at most, for a word while it does.
    `check` may refuse a text before the model runs, and says what will be held of it, for `verbose`.
    With `lines` a text that can't be used is told on stderr and the others go on; the worst exit code is returned.
    """
    worst = ExitCode.DONE
    number = 0
    while batch := list(islice(texts, source.batch_size if lines else 1)):
        questions: list[Question] = []
        for text in batch:
            try:
                with said(f"writing up to {generate} tokens ...", quiet=quiet or generate is None):
                    question = _question(number, text, source, token, pair, words=words)
                if hide_special:
                    _check_special(question)
                room = check(question.prompt, question.rows) if check else ""
                _announce(question, room, quiet=quiet or not verbose)
                questions.append(question)
            except AttnError as error:
                if not lines:
                    raise
                worst = max(worst, error.code)
                say(f"attn: line {number + 1}: {error.message}")
            number += 1
        if questions:
            planned = len(source.planned(selection))
            done = number - len(batch)
            with Progress(planned, len(questions), done, quiet=quiet, verbose=verbose) as progress:
                hidden = [Hidden() for _ in questions] if hide_special else None
                found = _summaries(source, questions, choose, selection, progress, hidden)
            for at, (question, summaries) in enumerate(zip(questions, found, strict=True)):
                if question.token is not None and not summaries:
                    raise InputError(f"no query {question.token!r} in the layers that were asked for",
                                     "choose other layers with --layer, or pick by number")  # fmt: skip
                warnings = question.prompt.warnings + question.notes
                warnings += _hidden_words(question.prompt, hidden[at]) if hidden else ()
                index = question.number if lines else None
                told = (options or {}) | question.options
                report = Report(command, source.about, question.prompt, summaries, warnings, told, index)
                for warning in report.warnings:
                    tell(warning, quiet=quiet)
                view.show(report)
    if number == 0:
        raise InputError("no text", "there was nothing to read")
    return worst


def _question(
    number: int, text: str | InputError, source: Source, token: str | None, pair: str | None, *, words: bool
) -> Question:
    if isinstance(text, InputError):
        raise text
    read = source.read([text], pair)[0]
    streams = (read.tokens, *read.others.values())
    prompt = prompt_in_words(read) if words and any(map(has_words, streams)) else read
    notes = _unmerged(read) if words and prompt is read else ()
    if token is None:
        return Question(number, read, prompt, None, None, notes)
    errors = []
    for tokens in filter(None, (prompt.tokens, *prompt.others.values())):
        try:
            rows, more = picked(replace(prompt, tokens=tokens), token)
        except InputError as error:
            errors.append(error)
        else:
            return Question(number, read, prompt, token, rows if tokens is prompt.tokens else (), notes + more)
    if errors:
        raise errors[0]
    return Question(number, read, prompt, token, (), notes)  # of an input whose tokens nobody can name


def _check_special(question: Question) -> None:
    """Refuse what --no-special would leave nothing of."""
    left = kept(question.prompt.tokens)
    if not left and question.prompt.tokens:
        raise InputError("the text has special tokens alone", "leave out --no-special")
    if question.rows and not any(row in left for row in question.rows):
        raise InputError("--token picks special tokens, which --no-special hides", "leave out one of them")


def _hidden_words(prompt: Prompt, hidden: Hidden) -> tuple[str, ...]:
    """What --no-special does to rows; nothing where there was nothing to hide."""
    count = sum(token.special for token in prompt.tokens)
    if not count:
        return ()
    tokens = f"{count} special token{'s' * (count > 1)}"
    return (f"{tokens} hidden, with {hidden.share:.0%} of the weight of the rows shown; these add to 1 with it",)


def _unmerged(prompt: Prompt) -> tuple[str, ...]:
    """Why --words changes nothing."""
    if any(token.start is not None and not token.special for token in prompt.tokens):  # white space alone
        return ()
    return ("--words changes nothing: nobody knows where in a text these tokens stand",)


def _announce(question: Question, room: str, *, quiet: bool) -> None:
    """With -v: how long a text is, and what will be held of it."""
    tell(f"{len(question.read.tokens):,} tokens" + (f" · {room}" if room else ""), quiet=quiet)


def _summaries(
    source: Source,
    questions: Sequence[Question],
    choose: Choose,
    selection: Selection,
    progress: Progress,
    hidden: Sequence[Hidden] | None,
) -> list[tuple[Summary, ...]]:
    """What the reducers found in every asked layer of every text; `hidden` gets what was hidden, if anything is."""
    found: list[list[Summary]] = [[] for _ in questions]
    rows_of = [remembered(partial(question.rows_of, hide_special=hidden is not None)) for question in questions]

    def visit(call: Call) -> None:
        question = questions[call.place.text]
        if question.prompt is not question.read and (has_words(call.queries) or has_words(call.keys)):
            call = InWords(call)
        rows = rows_of[call.place.text](call.queries)
        reducers = () if rows is not None and not rows else choose(rows, call)
        if reducers:
            shown = call if hidden is None else WithoutSpecial(call, hidden[call.place.text])
            found[call.place.text].append(reduce(shown, *reducers))
        progress.step()

    source.each([question.read for question in questions], selection, visit)
    return [tuple(summaries) for summaries in found]


def picked(prompt: Prompt, pick: str) -> tuple[list[int], tuple[str, ...]]:
    """The query rows that `--token` picks, and what to note about them.

    A number, a word (all its places), word#2, + for all that the model wrote, or +word for a word of that.
    """
    tokens = prompt.tokens
    written = [token.index for token in tokens if token.generated]
    if pick == "+" and written:  # as a screen marks them
        return written, ()
    if re.fullmatch(r"-?\d+", pick):
        row = int(pick)
        if not -len(tokens) <= row < len(tokens):
            raise InputError(f"there is no token {row}", f"tokens: {_listed(prompt)}")
        return [row % len(tokens)], ()
    word, place = pick, ""
    places = _places(prompt, word)
    if not places and (match := re.fullmatch(r"(.+)#(\d+)", pick, re.DOTALL)):
        word, place = match.groups()
        places = _places(prompt, word)
    if not places:
        raise InputError(f"no token {word!r} in the text", f"tokens: {_listed(prompt)}")
    if place:
        if not 1 <= int(place) <= len(places):
            times = f"{len(places)} time{'s' * (len(places) != 1)}"
            raise InputError(f"{word!r} occurs {times}, there is no {pick}", f"tokens: {_listed(prompt)}")
        return places[int(place) - 1], ()
    rows = sorted({row for rows in places for row in rows})
    where = ", ".join(str(rows[0]) for rows in places)
    note = f"{word!r} occurs {len(places)} times, at {where}; {word}#2 picks the second"
    return rows, (note,) if len(places) > 1 else ()


def place(prompt: Prompt, pick: str) -> tuple[list[int], tuple[str, ...]]:
    """The tokens of one place that `pick` names, the first where a word has several, and what to note about them."""
    rows, notes = picked(prompt, pick)
    if not notes:
        return rows, ()
    first, _ = picked(prompt, f"{pick}#1")
    return first, (f"{notes[0]}; the first is taken",)


def rows_of(prompt: Prompt, word: str) -> list[int]:
    """The tokens of all places where a word stands; none if it isn't there."""
    return sorted({row for rows in _places(prompt, word) for row in rows})


def _places(prompt: Prompt, word: str) -> list[list[int]]:
    """The token rows of every place where `word` stands: whole tokens first, else the pieces that make it up."""
    if not word:  # which would be found everywhere
        return []
    exact = [[token.index] for token in prompt.tokens if token.text == word]
    alike = exact or [[token.index] for token in prompt.tokens if token.text.lower() == word.lower()]
    if alike:
        return alike
    spans = [match.span() for match in re.finditer(re.escape(word), prompt.text, re.IGNORECASE)]
    pieces = [
        [t.index for t in prompt.tokens if t.start is not None and t.end is not None and t.start < b and t.end > a]
        for a, b in spans
    ]
    return [rows for rows in pieces if rows] or _words(prompt.tokens, word) or _written(prompt, word)


def _written(prompt: Prompt, word: str) -> list[list[int]]:
    """The places of `+word` among what the model wrote, which screens mark so."""
    if not word.startswith("+") or not any(token.generated for token in prompt.tokens):
        return []
    return [rows for rows in _places(prompt, word[1:]) if all(prompt.tokens[row].generated for row in rows)]


def _words(tokens: Sequence[Token], word: str) -> list[list[int]]:
    """The pieces of every such word among tokens whose place in a text nobody knows, as in what a decoder reads."""
    groups = ((whole, list(pieces)) for whole, pieces in groupby(tokens, lambda token: token.word))
    return [[t.index for t in pieces] for whole, pieces in groups if whole and whole.text.lower() == word.lower()]


def _listed(prompt: Prompt) -> str:
    shown = " ".join(f"{token.index} {cut(token.text, 40)}" for token in prompt.tokens[:40])
    return shown + (" ..." if len(prompt.tokens) > 40 else "")
